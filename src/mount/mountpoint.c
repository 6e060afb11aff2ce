/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a place can be mounted on, and the way back. The mount point itself
 * is looked at only after the kernel's list said what is there, since a stat of
 * a dead mount may hang. "Inside the mount point" is decided by walking up
 * from the guarded directory and comparing device and inode, so symlinks and
 * bind mounts do not hide it.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "mount/internal.h"

#define SYMLINKS_MAX 40 /* as the kernel */
#define STACKED_MAX 16	/* dead mounts on top of each other */
#define DEPTH_MAX 4096	/* PATH_MAX / 1: no real path is deeper */
#define LOCK_STEP_MS 50
#define DAEMON_END_MS 3000u /* how long umount waits for the process to end */
#define PASSERS_BY_MS 1000u /* who is in use for longer, stays */

int mountpoint_fd(const char *mountpoint)
{
	uint64_t fd;

	if (!starts_with(mountpoint, "/dev/fd/") ||
	    parse_u64(mountpoint + strlen("/dev/fd/"), &fd) < 0 || fd > INT_MAX)
		return -1;
	return (int)fd;
}

/* The parent resolved, the last part as it is. */
static int resolve_parent(const char *path, char **ret)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;

	if (!*last || !strcmp(last, ".") || !strcmp(last, "..")) {
		*ret = realpath(path, NULL);
		return *ret ? 0 : -errno;
	}
	_cleanup_free_ char *parent =
		slash == path ? strdup("/") :
		slash	      ? strndup(path, (size_t)(slash - path)) :
				strdup(".");
	if (!parent)
		return -ENOMEM;
	_cleanup_free_ char *real = realpath(parent, NULL);
	if (!real)
		return -errno;
	return asprintf(ret, "%s/%s", strcmp(real, "/") ? real : "", last) < 0 ?
		       -ENOMEM :
		       0;
}

int mountpoint_resolve(const char *path, char **ret, struct err *err)
{
	_cleanup_free_ char *now = strdup(path);
	char target[PATH_MAX];

	for (int i = 0; now && i < SYMLINKS_MAX; i++) {
		_cleanup_free_ char *resolved = NULL;
		size_t len = strlen(now);

		while (len > 1 && now[len - 1] == '/')
			now[--len] = '\0';
		int r = resolve_parent(now, &resolved);
		if (r < 0)
			return err_set(err, -r, "cannot use '%s': %s", path,
				       strerror(-r));
		ssize_t n = readlink(resolved, target, sizeof(target) - 1);
		if (n < 0) {
			*ret = steal_ptr(resolved);
			return 0;
		}
		target[n] = '\0';
		*strrchr(resolved, '/') = '\0';
		free(steal_ptr(now));
		if (target[0] == '/')
			now = strdup(target);
		else if (asprintf(&now, "%s/%s", resolved, target) < 0)
			now = NULL;
	}
	return now ? err_set(err, ELOOP, "cannot use '%s': %s", path,
			     strerror(ELOOP)) :
		     err_set(err, ENOMEM, "out of memory");
}

/* Opens the directory a path is in or would be made in. */
static int open_nearest_directory(const char *path)
{
	_cleanup_free_ char *now = strdup(path);

	while (now) {
		int fd = open(*now ? now : "/",
			      O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
			return fd;
		char *slash = strrchr(now, '/');
		if (!slash)
			return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		*slash = '\0';
	}
	return -1;
}

static bool same_directory(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool lies_inside(const char *path, const struct stat *mountpoint)
{
	_cleanup_close_ int fd = open_nearest_directory(path);
	struct stat here, above;

	if (fd < 0 || fstat(fd, &here) < 0)
		return false;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		if (same_directory(&here, mountpoint))
			return true;
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0)
			return false;
		close(fd);
		fd = up;
		if (fstat(fd, &above) < 0 || same_directory(&here, &above))
			return false;
		here = above;
	}
	return false;
}

/* Of what the kernel knows: with the reload of a configuration it is our own
 * mount, and a process that is killed while it waits for itself never ends. */
static int stat_unasked(const char *path, struct stat *ret)
{
	struct statx known;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO,
		  &known) < 0)
		return -errno;
	*ret = (struct stat){
		.st_dev = makedev(known.stx_dev_major, known.stx_dev_minor),
		.st_ino = known.stx_ino,
		.st_mode = known.stx_mode,
	};
	return 0;
}

int mountpoint_check_guards(const struct mount_options *options,
			    const char *mountpoint, struct err *err)
{
	struct stat st = {0};
	int r = stat_unasked(mountpoint, &st);

	if (r == -ENOENT)
		return err_set(
			err, ENOENT,
			"mount point '%s' does not exist (make it with mkdir)",
			mountpoint);
	if (r < 0)
		return err_set(err, -r, "cannot use mount point '%s': %s",
			       mountpoint, strerror(-r));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR,
			       "mount point '%s' is not a directory",
			       mountpoint);
	for (size_t i = 0; i < options->guard_count; i++) {
		const struct mount_guard *guard = &options->guards[i];

		if (guard->path && lies_inside(guard->path, &st))
			return err_set(
				err, EDEADLK,
				"%s '%s' lies inside the mount point '%s'; choose another place",
				guard->what, guard->path, mountpoint);
	}
	return 0;
}

static int unmount_at(const char *path, bool is_lazy, struct err *err)
{
	if (umount2(path, UMOUNT_NOFOLLOW | (is_lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno != EPERM)
		return err_set(err, errno, "%s", strerror(errno));
	return fusermount_unmount(path, is_lazy, err);
}

/* *ret is -1 for what cannot be read or locked: done without. -EBUSY. */
static int lock_directory(const char *path, uint64_t limit_ms, int *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t end = now_ms() + limit_ms;

	*ret = -1;
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return 0;
		if (now_ms() >= end)
			return -EBUSY;
		poll(NULL, 0, LOCK_STEP_MS);
	}
	*ret = steal_fd(&fd);
	return 0;
}

/* Two that find the same dead mount must not take away what the first of them
 * mounts next. What is below a dead mount cannot be opened: its parent can. */
static int lock_parent(const char *path)
{
	_cleanup_free_ char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	int fd = -1;

	if (!slash)
		return -1;
	slash[slash == parent] = '\0';
	(void)lock_directory(parent, MOUNT_LOOK_MS, &fd);
	return fd;
}

int mount_check(const struct mount_options *options, struct err *err)
{
	_cleanup_close_ int parent = -1;
	_cleanup_free_ char *path = NULL;
	struct err why = {0};
	bool is_ours = false;

	if (mountpoint_fd(options->mountpoint) >= 0)
		return 0;
	int r = mountpoint_resolve(options->mountpoint, &path, err);
	if (r < 0)
		return r == -ENOENT ?
			       err_set(err, ENOENT,
				       "mount point '%s' does not exist (make it with mkdir)",
				       options->mountpoint) :
			       r;
	for (int i = 0; i < STACKED_MAX; i++) {
		is_ours = false;
		r = mountinfo_find(path, &is_ours, err);
		if (r < 0)
			return r;
		if (!is_ours)
			return mountpoint_check_guards(options, path, err);
		switch (mount_probe(path, MOUNT_LOOK_MS)) {
		case MOUNT_ANSWERS:
			return err_set(
				err, EBUSY,
				"larder is already mounted at '%s' (take it away with: larder umount '%s')",
				path, path);
		case MOUNT_SILENT:
			return err_set(
				err, EBUSY,
				"the larder mount at '%s' does not answer (take it away with: larder umount -l '%s')",
				path, path);
		case MOUNT_DEAD:
			break;
		}
		/* with the lock, it is looked at again */
		if (parent < 0 && (parent = lock_parent(path)) >= 0)
			continue;
		r = unmount_at(path, true, &why);
		if (r < 0 && r != -EINVAL) /* gone meanwhile */
			return err_set(
				err, -r,
				"cannot take away the dead mount at '%s': %s",
				path, err_text(&why, r));
	}
	return err_set(err, EBUSY, "too many dead mounts at '%s'", path);
}

/* The lock is on the directory that will be mounted over: whoever waits for it
 * has it open already and sees the mount once it is there. */
int mount_lock(const struct mount_options *options, uint64_t limit_ms, int *ret,
	       struct err *err)
{
	*ret = -1;
	if (mountpoint_fd(options->mountpoint) >= 0)
		return 0;
	return lock_directory(options->mountpoint, limit_ms, ret) < 0 ?
		       err_set(err, EBUSY, "another mount at '%s' is under way",
			       options->mountpoint) :
		       0;
}

/* The serving process closes its index after the unmount; a caller that removes
 * the cache next must not race with it. */
static void wait_for_end(pid_t pid)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	if (fd >= 0)
		poll(&wait, 1, DAEMON_END_MS);
}

/* A number from a filesystem is not trusted blindly: the process must be a
 * larder. */
static bool is_larder_process(pid_t pid)
{
	char path[40], name[20] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read_full(fd, name, sizeof(name) - 1) <= 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return strstr(name, "larder") != NULL;
}

static int find_ours(const char *path, char **ret, struct err *err)
{
	bool is_ours = false;
	int r = mountpoint_resolve(path, ret, err);

	if (r < 0)
		return r;
	r = mountinfo_find(*ret, &is_ours, err);
	if (r >= 0 && !is_ours)
		r = err_set(err, EINVAL, "no larder mount at '%s'", *ret);
	return r < 0 ? r : 0;
}

void mountpoint_owner_name(uid_t owner, char ret[OWNER_NAME_MAX])
{
	const struct passwd *user = getpwuid(owner);

	if (user)
		snprintf(ret, OWNER_NAME_MAX, "%s", user->pw_name);
	else
		snprintf(ret, OWNER_NAME_MAX, "user %u", (unsigned)owner);
}

/* Why it is not the caller's to unmount: -EPERM; 0: it may be. */
static int check_owner(const char *path, struct err *err)
{
	uid_t owner = mountinfo_owner(path);
	char name[OWNER_NAME_MAX];

	if (geteuid() == 0 || owner == (uid_t)-1 || owner == geteuid())
		return 0;
	mountpoint_owner_name(owner, name);
	return err_set(err, EPERM,
		       "'%s' was mounted by %s; only %s%s can unmount it", path,
		       name, name, owner ? " or root" : "");
}

static int busy(const char *path, struct err *err)
{
	_cleanup_free_ char *below = mountinfo_below(path);

	if (below)
		return err_set(
			err, EBUSY,
			"'%s' is mounted below '%s' (unmount that first, or detach both: larder umount -l '%s')",
			below, path, path);
	return err_set(
		err, EBUSY,
		"'%s' is in use (see by whom: fuser -vm '%s'; detach it anyway: larder umount -l '%s')",
		path, path, path);
}

/* A look that only passes by (df, an indexer, a probe that was given up) holds
 * a mount for moments: whoever stays is in use. */
static int unmount_patiently(const char *path, bool is_lazy, struct err *err)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t until = now_ms() + PASSERS_BY_MS;
	struct err why;
	int r;

	while ((r = unmount_at(path, is_lazy, &why)) == -EBUSY &&
	       now_ms() < until)
		nanosleep(&pause, NULL);
	return r < 0 ? err_set(err, -r, "%s", why.text) : 0;
}

int mount_unmount(const char *path, bool is_lazy, struct err *err)
{
	_cleanup_free_ char *real = NULL;
	int r = find_ours(path, &real, err);

	if (r == 0)
		r = check_owner(real, err);
	if (r < 0)
		return r;
	enum mount_health health = mount_probe(real, MOUNT_LOOK_MS);
	pid_t pid =
		health == MOUNT_ANSWERS ? mount_pid(real, MOUNT_LOOK_MS) : -1;
	r = unmount_patiently(real, is_lazy || health == MOUNT_DEAD, err);
	if (r == -EBUSY)
		return busy(real, err);
	if (r < 0)
		return err_prefix(err, r, "cannot unmount '%s'", real);
	if (pid > 0 && !is_lazy)
		wait_for_end(pid);
	return 0;
}

int mount_reload(const char *path, struct err *err)
{
	_cleanup_free_ char *real = NULL;
	int r = find_ours(path, &real, err);

	if (r < 0)
		return r;
	pid_t pid = mount_pid(real, MOUNT_LOOK_MS);
	if (pid <= 0 || !is_larder_process(pid))
		return err_set(err, ESRCH,
			       "cannot tell which process serves '%s'", real);
	return kill(pid, SIGHUP) < 0 ?
		       err_set(err, errno, "cannot signal process %d: %s",
			       (int)pid, strerror(errno)) :
		       0;
}
