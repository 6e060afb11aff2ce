/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_MOUNT_H
#define LARDER_MOUNT_MOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "dataset/dataset.h"

/*
 * Datasets as a filesystem. A mount shows one dataset as its root, or several
 * as directories named by their sections ("a/b" is nested).
 */
struct mount_dataset {
	const char *path; /* below the mount point; ignored for a single one */
	struct dataset_options options;
	const char *where; /* FILE:LINE of its section, or NULL */
};

/* A path that must not lie inside the mount point, and what it is. */
struct mount_guard {
	const char *what; /* "cache directory", "key file" */
	const char *path;
};

/* Who reads what the Hub does not give to everyone. */
enum mount_for { MOUNT_FOR_OWNER, MOUNT_FOR_GROUP, MOUNT_FOR_EVERYONE };

struct mount_options {
	const char *source;	/* shown as the device: fsname */
	const char *mountpoint; /* absolute, or /dev/fd/N: a ready session */
	struct node_options node;
	const struct mount_dataset *datasets;
	size_t dataset_count;
	bool is_single;
	bool allow_other, allow_root, noexec, nopassthrough;
	enum mount_for restricted;
	bool has_uid, has_gid; /* instead of the stored owners */
	uid_t uid;
	gid_t gid;
	uint64_t read_ahead_bytes; /* 0: mount decides */
	const char *context; /* SELinux "context=..." for the kernel, or NULL */
	const struct mount_guard *guards;
	size_t guard_count;
};

/*
 * What can be known before anything is opened: the mount point exists, is a
 * directory, is not ours already (-EBUSY), lies not above a guarded path
 * (-EDEADLK). A dead larder mount is taken away first. Every look at a
 * mount is bounded at 2 s.
 */
int mount_check(const struct mount_options *options, struct err *err);

/*
 * One mount at a time at one place: held from before a second mount_check until
 * the mount answers. *ret is a descriptor to close then, or -1 where there is
 * nothing to hold. -EBUSY after limit_ms.
 */
int mount_lock(const struct mount_options *options, uint64_t limit_ms, int *ret,
	       struct err *err);

struct mount_status {
	/* the mount answers: `line` is for people, and lives on */
	void (*ready)(void *arg, const char *line);
	/* called about once a second from the waiting thread */
	void (*tick)(void *arg, const char *line);
	/* SIGHUP: the options as the configuration has them now; they live as
	 * long as the mount, which takes new datasets from them. Or NULL. */
	int (*reload)(void *arg, const struct mount_options **ret,
		      struct err *err);
	void *arg;
};

/*
 * Opens the node, mounts and serves until SIGTERM, SIGINT or unmount. Call in
 * the process that is to serve, with no other thread. 0 after a clean end.
 */
int mount_run(const struct mount_options *options,
	      const struct mount_status *status, struct err *err);

/*
 * Runs `serve` in a child that has left the terminal and keeps no descriptor
 * of the caller's but kept_fd (-1: none); returns in the parent when the child
 * called daemon_ready or failed, with the child's reason in err. Longer than
 * limit_ms: -ETIMEDOUT, and the child is killed. In the foreground serve runs
 * in this process. daemon_ready prints the line on stdout (where the parent
 * is), and tells systemd when NOTIFY_SOCKET is set.
 */
struct daemon;
int daemon_run(bool is_foreground, int kept_fd, uint64_t limit_ms,
	       int (*serve)(void *arg, struct daemon *daemon, struct err *err),
	       void *arg, struct err *err);
void daemon_ready(struct daemon *daemon, const char *line);
/* STATUS= text and the watchdog's ping, at most once a second. */
void daemon_tick(struct daemon *daemon, const char *line);

/* N of "/dev/fd/N", or -1. */
int mountpoint_fd(const char *mountpoint);

/* ---- mounts of this machine */
struct mount_entry {
	char *source, *mountpoint, *type;
	unsigned major_number, minor_number;
	uid_t user_id; /* whose mount it is; (uid_t)-1: not told */
};
/* The next entry of a mountinfo text; *cursor starts as the text (it is
 * modified). False at the end. Lines that make no sense are skipped. The
 * strings point into the text, unescaped. */
bool mountinfo_next(char **cursor, struct mount_entry *ret);
/* Calls each(arg, entry) for every fuse.larder mount. */
int mount_list(void (*each)(void *arg, const struct mount_entry *entry),
	       void *arg, struct err *err);

/* How long any look at a mount may take. */
#define MOUNT_LOOK_MS 2000u
enum mount_health { MOUNT_ANSWERS, MOUNT_DEAD, MOUNT_SILENT };
/* Whether the filesystem at this path answers, within limit_ms. */
enum mount_health mount_probe(const char *path, uint32_t limit_ms);

/* How a dataset of a mount is, as the mount says. */
struct mount_dataset_state {
	char state[32];	  /* "cold", "ok", "stale", "failed" */
	char reason[256]; /* or empty */
	char figures[1024]; /* "KEY VALUE" lines, or empty: not known in time */
};
/* The value of a key of figures, or NULL; its end in *ret_len. */
const char *mount_figure(const char *figures, const char *key,
			 size_t *ret_len);
/* Calls each(arg, name, state) for every dataset of the mount; the name is ""
 * where the mount is the dataset. 0, or -ETIMEDOUT after MOUNT_LOOK_MS. */
#define MOUNT_FIGURES_BYTES 4096u
int mount_datasets(const char *mountpoint, char ret_figures[MOUNT_FIGURES_BYTES],
		   void (*each)(void *arg, const char *name,
				const struct mount_dataset_state *state),
		   void *arg);

/*
 * What lies at a path of a mount: the options to open the same dataset on the
 * same cache, "NAME=VALUE" with a NUL behind each ("dataset" is its name, the
 * others are as in a configuration), and the path below the dataset's root.
 * -ENOENT: no such path; -ENOTSUP: on no mount of ours; -EPERM: on somebody
 * else's; -EINVAL: above the datasets; -ETIMEDOUT after MOUNT_LOOK_MS.
 */
struct mount_place {
	const char *path, *options;
	size_t options_len;
	char *memory; /* private */
};
int mount_place(const char *path, struct mount_place *ret, struct err *err);
void mount_place_release(struct mount_place *place);

/*
 * A prefetch in the process that serves the mount `path` is on, whoever's it is
 * (larder-ioctl.h): for those who may read there but not write the cache. It
 * goes on without us unless it is stopped. -ENOTTY: no mount of ours. The
 * names in what look returns live until the next call.
 */
struct mount_prefetch;
int mount_prefetch_start(const char *path, const char *const *globs,
			 size_t glob_count, uint64_t limit_rate,
			 bool is_dry_run, struct mount_prefetch **ret,
			 struct err *err);
int mount_prefetch_look(struct mount_prefetch *prefetch,
			struct prefetch_info *ret, struct err *err);
void mount_prefetch_stop(struct mount_prefetch *prefetch);
void mount_prefetch_free(struct mount_prefetch *prefetch);

/*
 * The process that serves the mount `path` is on looks for new snapshots: of
 * the dataset that the path is in, or of all open ones below it. Returns when
 * names lead to them. -EPERM: somebody else's mount; -ENOTTY: none of ours.
 */
struct mount_refreshed {
	uint32_t count, changed, failed;
	char error[256]; /* of the last one that failed */
};
int mount_refresh(const char *path, struct mount_refreshed *ret,
		  struct err *err);

/*
 * Unmount the larder mount at `path` (as typed). -EINVAL: nothing of ours is
 * mounted there; -EBUSY with the next step. A dead mount is always taken away.
 */
int mount_unmount(const char *path, bool is_lazy, struct err *err);
/* SIGHUP to the process that serves `path`; -ESRCH when it cannot be told. */
int mount_reload(const char *path, struct err *err);

#endif
