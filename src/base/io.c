/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes in full, and files that appear whole or not at all.
 * Every path is relative to a directory descriptor so that callers can hold
 * a directory open and never build absolute names.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "base/io.h"

/* How often a temporary name or a directory removed meanwhile is tried. */
#define NAME_TRIES 16
#define FIRST_READ 4096

ssize_t read_full(int fd, void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (uint8_t *)data + done, len - done);

		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

ssize_t pread_full(int fd, void *data, size_t len, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX || len > INT64_MAX - offset)
		return -EINVAL;
	while (done < len) {
		ssize_t n = pread(fd, (uint8_t *)data + done, len - done,
				  (off_t)(offset + done));

		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

int write_full(int fd, const void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, (const uint8_t *)data + done, len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			return -EIO; /* not defined for files: do not spin */
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int pwrite_full(int fd, const void *data, size_t len, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX || len > INT64_MAX - offset)
		return -EFBIG;
	while (done < len) {
		ssize_t n = pwrite(fd, (const uint8_t *)data + done, len - done,
				   (off_t)(offset + done));

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			return -EIO;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Append up to the end of the file; sizes of /proc files are not known. */
static int read_to_end(int fd, uint64_t size_hint, struct buf *buf)
{
	int r = 0;

	if (size_hint > buf->limit - buf->len)
		return -EFBIG;
	if (size_hint > 0)
		r = buf_reserve(buf, buf->len + (size_t)size_hint);
	while (r == 0) {
		size_t room = buf->capacity - buf->len;
		uint8_t extra[FIRST_READ];
		ssize_t n;

		if (room > 0) {
			n = read_full(fd, buf->data + buf->len, room);
			if (n < 0)
				return (int)n;
			buf->len += (size_t)n;
			if ((size_t)n < room)
				return 0;
		}
		n = read_full(fd, extra, sizeof(extra));
		if (n <= 0)
			return (int)n;
		r = buf_append(buf, extra, (size_t)n);
	}
	return r;
}

int file_read(int dirfd, const char *path, struct buf *buf)
{
	_cleanup_close_ int fd = -1;
	size_t len = buf->len;
	struct stat st;
	int r;

	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r = read_to_end(fd, (uint64_t)st.st_size, buf);
	if (r < 0)
		buf->len = len;
	return r;
}

int mkdir_parents(int dirfd, const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);
	struct stat st;

	if (!copy)
		return -ENOMEM;
	for (char *p = copy; *p; p++) {
		char *slash = strchrnul(p, '/');
		char kept = *slash;

		*slash = '\0';
		if (*copy && mkdirat(dirfd, copy, mode) < 0 && errno != EEXIST)
			return -errno;
		*slash = kept;
		if (!kept)
			break;
		p = slash;
	}
	if (fstatat(dirfd, *path ? path : ".", &st, 0) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int sync_directory(int dirfd, const char *path)
{
	_cleanup_close_ int fd = openat(dirfd, path,
					O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

/* New directories are durable only when each parent was synced. */
static int sync_parents(int dirfd, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	int r = 0;

	if (!copy)
		return -ENOMEM;
	while (r == 0) {
		char *slash = strrchr(copy, '/');

		if (!slash)
			return sync_directory(dirfd, ".");
		*slash = '\0';
		r = sync_directory(dirfd, *copy ? copy : "/");
		if (!*copy)
			break;
	}
	return r;
}

/* ret_parent is "." for a bare name; the name part must not be empty. */
static int split_path(const char *path, char **ret_parent,
		      const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return -EINVAL;
	if (!slash)
		*ret_parent = strdup(".");
	else if (slash == path)
		*ret_parent = strdup("/");
	else
		*ret_parent = strndup(path, (size_t)(slash - path));
	if (!*ret_parent)
		return -ENOMEM;
	*ret_name = name;
	return 0;
}

static int open_parent(int dirfd, const char *parent, int flags)
{
	int fd, r;

	for (int try = 0; ; try++) {
		fd = openat(dirfd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT || !(flags & FILE_WRITE_MKDIR) ||
		    try == NAME_TRIES)
			return -errno;
		r = mkdir_parents(dirfd, parent, 0777);
		if (r == 0 && (flags & FILE_WRITE_SYNC))
			r = sync_parents(dirfd, parent);
		if (r < 0 && r != -ENOENT)
			return r;
	}
}

#define TEMPORARY_MAX 64

static int create_temporary(int dirfd, mode_t mode,
			    char ret_name[TEMPORARY_MAX])
{
	static _Atomic unsigned int counter;

	for (int try = 0; try < NAME_TRIES; try++) {
		uint64_t random = 0;
		int fd;

		/* Without entropy the pid and the counter still differ. */
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
			random = now_ns();
		snprintf(ret_name, TEMPORARY_MAX, ".tmp-%016" PRIx64 "-%ld-%u",
			 random, (long)getpid(), atomic_fetch_add(&counter, 1));
		fd = openat(dirfd, ret_name,
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int rename_exclusive(int dirfd, const char *from, const char *to)
{
	if (renameat2(dirfd, from, dirfd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* Filesystems without RENAME_NOREPLACE (NFS): link refuses too. */
	if (linkat(dirfd, from, dirfd, to, 0) < 0)
		return -errno;
	unlinkat(dirfd, from, 0);
	return 0;
}

static int publish_temporary(int dirfd, const char *temporary,
			     const char *name, int flags)
{
	int r = 0;

	if (flags & FILE_WRITE_EXCLUSIVE)
		r = rename_exclusive(dirfd, temporary, name);
	else if (renameat(dirfd, temporary, dirfd, name) < 0)
		r = -errno;
	if (r == 0 && (flags & FILE_WRITE_SYNC) && fsync(dirfd) < 0)
		r = -errno;
	return r;
}

int file_write(int dirfd, const char *path, const void *data, size_t len,
	       mode_t mode, enum file_write_flags flags)
{
	_cleanup_free_ char *parent = NULL;
	_cleanup_close_ int parent_fd = -1;
	char temporary[TEMPORARY_MAX];
	const char *name;
	int fd, r;

	r = split_path(path, &parent, &name);
	if (r < 0)
		return r;
	parent_fd = open_parent(dirfd, parent, (int)flags);
	if (parent_fd < 0)
		return parent_fd;
	fd = create_temporary(parent_fd, mode, temporary);
	if (fd < 0)
		return fd;
	r = write_full(fd, data, len);
	if (r == 0 && (flags & FILE_WRITE_SYNC) && fsync(fd) < 0)
		r = -errno;
	/* Network filesystems report a failed write only here. */
	if (close(fd) < 0 && r == 0 && errno != EINTR)
		r = -errno;
	crash_point("file-written");
	if (r == 0)
		r = publish_temporary(parent_fd, temporary, name, (int)flags);
	if (r < 0)
		unlinkat(parent_fd, temporary, 0);
	crash_point("file-published");
	return r;
}

static int remove_entries(int dirfd)
{
	_cleanup_closedir_ DIR *dir = fdopendir(dirfd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		close(dirfd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = remove_tree(dirfd, entry->d_name);
	return r == 0 ? -errno : r;
}

int remove_tree(int dirfd, const char *path)
{
	int fd, r;

	fd = openat(dirfd, path,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno != ENOTDIR && errno != ELOOP)
		return -errno;
	if (fd < 0)
		return unlinkat(dirfd, path, 0) < 0 && errno != ENOENT ?
			       -errno : 0;
	r = remove_entries(fd);
	if (r < 0)
		return r;
	if (unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

int64_t wall_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec;
}

int directory_open(int dir_fd, const char *path, int flags, DIR **ret)
{
	int fd = openat(dir_fd, path,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	int r;

	if (fd < 0)
		return -errno;
	*ret = fdopendir(fd);
	if (*ret)
		return 0;
	r = -errno;
	close(fd);
	return r;
}
