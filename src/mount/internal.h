/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_INTERNAL_H
#define LARDER_MOUNT_INTERNAL_H

#include "mount/mount.h"

struct buf;

/* Longest read of the kernel: read.c says why. A whole number of pages. */
#define MOUNT_READ_BYTES (512u << 10)

/* Between the files of this directory; nobody else includes it. */

/* The whole text, NUL-terminated, malloc. */
int mountinfo_read(char **ret_text, struct err *err);
/* The user a mount of ours belongs to; (uid_t)-1: not told. */
uid_t mountinfo_owner(const char *mountpoint);

#define OWNER_NAME_MAX 64u /* longer names are cut: they are only shown */

/* "alice", or "user 1000" where nobody is known by that number. */
void mountpoint_owner_name(uid_t owner, char ret[OWNER_NAME_MAX]);
/* A mount below this one, malloc, or NULL. */
char *mountinfo_below(const char *mountpoint);
bool mount_entry_is_ours(const struct mount_entry *entry);
/* 1 if something is mounted at exactly this path, 0, or a negative errno. */
int mountinfo_find(const char *mountpoint, bool *ret_ours, struct err *err);
/* A mount's root tells who serves it: the process id in decimal. */
#define MOUNT_PID_XATTR "user.larder.pid"
/* And whether files are passed through, and how many: for people. */
#define MOUNT_PASSTHROUGH_XATTR "user.larder.passthrough"
/* -1 when it cannot be told within limit_ms. */
pid_t mount_pid(const char *path, uint32_t limit_ms);
/* A dataset's directory tells how it is, and why. */
#define MOUNT_STATE_XATTR "user.larder.state"
#define MOUNT_ERROR_XATTR "user.larder.error"
/* A view of datasets that are found elsewhere, too. */
#define MOUNT_VIEW_XATTR "user.larder.view"
/* The root tells of the cache and the process, a dataset's directory how much
 * of it is cached. */
#define MOUNT_FIGURES_XATTR "user.larder.figures"
struct fs;
struct tree_dir;
int figures_text(struct fs *fs, bool is_root, const struct tree_dir *dir,
		 struct buf *ret);
/* A dataset's directory tells the mount's user how to open it. */
#define MOUNT_OPTIONS_XATTR "user.larder.options"
int reopen_describe(const struct mount_options *options,
		    const struct dataset_options *dataset, struct buf *ret);
/* No mirror, key or cache may lie inside the mount point. -EDEADLK. */
int mountpoint_check_guards(const struct mount_options *options,
			    const char *mountpoint, struct err *err);
/* Within MOUNT_LOOK_MS: the path resolved, a NUL, and the attribute of the
 * dataset it is in, whose directory is the first *ret_root bytes. malloc,
 * ends with a NUL. */
int reopen_ask(const char *path, char **ret, size_t *ret_len, size_t *ret_root,
	       struct err *err);
/* Absolute, symlinks resolved, except that the last part is not touched
 * (it may be a dead mount). malloc. */
int mountpoint_resolve(const char *path, char **ret, struct err *err);
/* Run fusermount3 for an unprivileged unmount; 0 or -EBUSY, -ENOENT where it is
 * not installed, -EPERM and what it said. */
int fusermount_unmount(const char *path, bool is_lazy, struct err *err);

#endif
