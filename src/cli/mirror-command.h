/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_MIRROR_COMMAND_H
#define LARDER_CLI_MIRROR_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "cli/cli.h"
#include "format/head.h"
#include "publish/publish.h"

/*
 * What the commands on a mirror have in common: they need no cache and no
 * configuration.
 */
struct mirror_reach {
	struct cli_network network;
	struct cli_s3 s3;
	struct origin_options origin;
	struct mirror_access access; /* made of those when they are parsed */
};

struct mirror_command {
	const char *name, *usage, *summary;
	struct mirror_reach *reach; /* NULL: it works on no mirror */
	const struct option_def *options; /* its own, or NULL */
	void *target;
	size_t operands_min, operands_max;
};

/* 0, or an exit code + 1 when the command is over (--help, a fault, already
 * reported). options is for options_release in every case. */
int mirror_command_begin(struct options *options,
			 const struct mirror_command *command, int argc,
			 char **argv);

/* All of a command on a mirror: begin, run, release. run and the result are exit
 * codes. */
int mirror_command_run(const struct mirror_command *command, int argc,
		       char **argv,
		       int (*run)(const struct mirror_command *command,
				  const struct options *options));

/* Read a secret key. path NULL: *ret_key is NULL, else ret. */
int load_secret_key(const char *path, struct secret_key *ret,
		    const struct secret_key **ret_key, struct err *err);

/*
 * A command that signs a head: make does it with the key in key_file (NULL:
 * none), and what it made is printed, after "tagged" or the like. An exit code.
 */
typedef int head_fn(const struct mirror_command *command,
		    const char *const *operands, const struct secret_key *key,
		    struct head *ret, struct err *err);
int mirror_command_sign(const struct mirror_command *command,
			const char *const *operands, const char *key_file,
			head_fn *make, const char *done);

/* Set by SIGINT and SIGTERM once stop_on_signals was called. A second signal
 * ends the process. */
extern volatile sig_atomic_t stop_signal;
void stop_on_signals(void);

/* stderr is a terminal that can redraw a line. */
bool can_redraw(void);
/* Redraw the line of progress, cut to the terminal; "" clears it. */
void redraw(const char *line);

/* One progress bar's memory. */
struct progress_rate {
	uint64_t last_ms, last_bytes;
	double bytes_per_ms; /* smoothed; 0: not known yet */
};
void progress_rate_add(struct progress_rate *rate, uint64_t ms, uint64_t bytes);

/* A head as the members of a JSON object, without braces. */
void print_json_head(const struct head *head);
/* "name": "text" */
void print_json_member(const char *name, const char *text);
/* "unsigned" or "signed by KEYID": for people. */
const char *describe_signature(const struct head *head, char *ret_text,
			       size_t size);

#endif
