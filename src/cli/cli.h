/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_CLI_H
#define LARDER_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/options.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "dataset/dataset.h"
#include "source/source.h"

/* Exit codes of every command. */
#define CLI_DONE 0
#define CLI_FAILED 1
#define CLI_USAGE 2

/* One file per command. argv[0] is the command's name. */
int cmd_cat(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_du(int argc, char **argv);
int cmd_evict(int argc, char **argv);
int cmd_gc(int argc, char **argv);
int cmd_keygen(int argc, char **argv);
int cmd_log(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_mount(int argc, char **argv);
int cmd_mount_helper(int argc, char **argv); /* mount.larder(8) */
int cmd_pin(int argc, char **argv);
int cmd_prefetch(int argc, char **argv);
int cmd_publish(int argc, char **argv);
int cmd_refresh(int argc, char **argv);
int cmd_rollback(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_tag(int argc, char **argv);
int cmd_umount(int argc, char **argv);
int cmd_unpin(int argc, char **argv);
int cmd_verify(int argc, char **argv);

/* ---- messages: "larder COMMAND: text" on stderr */
int cli_fail(const char *command, int result,
	     const struct err *err);			    /* CLI_FAILED */
int cli_usage(const char *command, const char *format, ...) /* CLI_USAGE */
	__attribute__((format(printf, 2, 3)));

/* ---- what the commands that touch a cache or a source have in common */
#define CLI_CONFIG "/etc/larder/larder.conf"

/* How servers are reached. */
struct cli_network {
	char *proxy, *ca, *cert, *cert_key;
};
extern const struct option_def cli_network_options[];

/* What s3:// URLs leave open. */
struct cli_s3 {
	char *endpoint, *region, *credentials, *profile;
	int path_style; /* enum s3_path_style */
};
extern const struct option_def cli_s3_options[];

struct settings {
	/* command line only */
	char *config;
	char *debug;
	bool want_help;
	/* [larder] */
	char *cache;
	struct option_space size, min_free;
	struct option_list keys;
	bool insecure;
	int expired; /* 0 serve, 1 refuse */
	uint64_t timeout_ms, refresh_ms, buffer_bytes;
	uint64_t connections, total_connections;
	char *token_file;
	struct option_list allow, deny;
	struct cli_network network;
	struct cli_s3 s3;
	/* of mounts */
	bool allow_other, allow_root, noexec, nopassthrough, default_permissions, remount;
	int gated; /* enum mount_for */
	uint64_t uid, gid, read_ahead_bytes, max_read, ignored;
	char *context, *fsname, *subtype;
};

/* A section of the configuration, or what SOURCE named. */
struct cli_dataset {
	char *name; /* the section's: the directory under the mount point */
	const char *where; /* FILE:LINE of the section, or NULL */
	struct options options;
	struct option_list mirrors, keys;
	char *remote_name, *tag;
	char *source, *token_file; /* hf://... instead of mirrors */
	struct option_list allow, deny;
	bool insecure;
	int expired;
	struct cli_s3 s3;
	struct origin_options origin; /* of cli_dataset_options */
};

struct cli {
	const char *command;
	char *directory; /* of cli_begin: relative paths start there */
	struct options options;
	struct settings settings;
	struct option_def
		*hidden; /* mount's options, for files of other commands */
	VEC(struct cli_dataset *) datasets;
	VEC(char *) strings; /* made here, freed at the end */
	bool is_unread;	     /* the configuration, of a command that goes on */
};

struct cli_command {
	const char *name, *usage, *summary;
	const struct option_def *options; /* its own, or NULL */
	void *target;
	bool is_mount;	/* shows mount's options */
	bool is_helper; /* arguments as mount(8) passes them */
	bool goes_on;	/* where the configuration cannot be read, too */
	size_t operands_min, operands_max;
};

/*
 * Parse the arguments and read the configuration. 0, or an exit code + 1
 * when the command is over (--help, a fault, already reported).
 */
int cli_begin(struct cli *cli, const struct cli_command *command, int argc,
	      char **argv);
void cli_end(struct cli *cli);
/*
 * Parse the same arguments and read the configuration as it is now, also from
 * another working directory. Paths and lists are ret's own; ret is for cli_end
 * only on success.
 */
int cli_read_again(const struct cli *cli, const struct cli_command *command,
		   int argc, char **argv, struct cli *ret, struct err *err);
/* Whether cli_begin's or another result means "leave with that - 1". */
#define CLI_EXIT(code) ((code) + 1)
/*
 * cli_begin, run, cli_end. run returns the exit code, or a negative errno whose
 * err is then reported. Returns the exit code.
 */
int cli_run(const struct cli_command *command, int argc, char **argv,
	    int (*run)(struct cli *cli, void *arg, struct err *err), void *arg);

/* A path as the serving process needs it: absolute, owned by cli. URLs stay. */
const char *cli_absolute(struct cli *cli, const char *path);
char *cli_keep(struct cli *cli, char *string); /* cli frees it; NULL passes */

/* An empty section of this name; NULL with err set. */
struct cli_dataset *cli_dataset_new(struct cli *cli, const char *name,
				    struct err *err);
/* The node's options from the settings. */
int cli_node_options(struct cli *cli, struct node_options *ret,
		     struct err *err);
/* The cache that the settings name. */
int cli_cache_open(struct cli *cli, struct cache **ret, struct err *err);
/* The options of a configured or named dataset; strings live as long as cli. */
int cli_dataset_options(struct cli *cli, struct cli_dataset *dataset,
			struct dataset_options *ret, struct err *err);
/* MIRROR#NAME[@TAG], hf://..., or a configured dataset's name. */
int cli_dataset_find(struct cli *cli, const char *source,
		     struct cli_dataset **ret, struct err *err);
/* hf://... and a dataset that has it as source (hub.c). */
int cli_hub_options(struct cli *cli, const struct cli_dataset *dataset,
		    const struct hub_options **ret, struct err *err);
int cli_hub_named(struct cli *cli, const char *source,
		  struct cli_dataset **ret, struct err *err);
/* Text fit to show: no user, password or query of a URL. malloc */
char *cli_redact(const char *source);

/* ---- looking into a source without a mount */
struct cli_source {
	struct node *node;
	struct blocking_waiter *waiter;
	struct dataset *dataset;
	struct snapshot *snapshot;
	char *path; /* below the root, "" for it */
	char *name; /* MIRROR#NAME[@TAG], fit to show, whatever was typed */
	struct entry_attr attr;
};
/* SOURCE[:PATH] */
int cli_source_open(struct cli *cli, const char *text, struct cli_source *ret,
		    struct err *err);
/* SOURCE[:PATH], or a path on a mount of the asking user's: the dataset it is
 * in is opened again with the mount's options. (select.c) */
int cli_source_or_place_open(struct cli *cli, const char *text,
			     struct cli_source *ret, struct err *err);
int cli_source_open_dataset(struct cli *cli, struct cli_dataset *dataset,
			    const char *path, struct cli_source *ret,
			    struct err *err);
void cli_source_close(struct cli_source *source);
/* Opens the source that was named, looks with a buffer for paths in it, and
 * closes it. */
struct buf;
int cli_look(struct cli *cli,
	     int (*look)(struct cli_source *source, void *arg, struct buf *path,
			 struct err *err),
	     void *arg, struct err *err);
/* Make a call that may park until it has its result. */
#define CLI_WAIT(source, call)                                                 \
	({                                                                     \
		int wait_result_;                                              \
		while ((wait_result_ = (call)) == DATASET_PARKED)              \
			waiter_block((source)->waiter);                        \
		wait_result_;                                                  \
	})
#define CLI_WAITER(source) blocking_waiter_get((source)->waiter)

/* ---- printing */
/* A name: as it is when stdout is not a terminal, else printable. */
void cli_print_name(const char *name, size_t len);
/* "text" with escapes; bytes that are no UTF-8 as \ufffd. */
void cli_print_json(const char *text, size_t len);

#endif
