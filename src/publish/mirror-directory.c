/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mirror in a directory. Files appear whole, by rename; temporary names start
 * with ".tmp-", and gc removes what a killed run left of them.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "format/limits.h"
#include "publish/lease.h"
#include "publish/mirror-store.h"
#include "publish/pack-writer.h"
#include "source/source.h"

#define CREATE_TRIES 16

/* "file:///a%20b" is "/a b"; a host other than localhost is refused. */
static int path_of_url(const char *url, char **ret_path, struct err *err)
{
	const char *from = url + strlen("file://");
	_cleanup_free_ char *path = NULL;
	char *to;

	if (starts_with(from, "localhost/"))
		from += strlen("localhost");
	if (*from != '/')
		return err_set(err, EINVAL,
			       "'%s' names another host; use file:///PATH",
			       url);
	path = to = malloc(strlen(from) + 1);
	if (!path)
		return -ENOMEM;
	while (*from) {
		char digits[3] = {0};

		if (*from != '%') {
			*to++ = *from++;
			continue;
		}
		memccpy(digits, from + 1, '\0', 2);
		if (hex_decode(digits, to, 1) < 0 || *to == '\0')
			return err_set(err, EINVAL,
				       "'%s' has a malformed %%-escape", url);
		to++;
		from += 3;
	}
	*to = '\0';
	*ret_path = steal_ptr(path);
	return 0;
}

static int local_path(const char *where, char **ret_path, struct err *err)
{
	if (starts_with(where, "file://"))
		return path_of_url(where, ret_path, err);
	if (strstr(where, "://"))
		return err_set(
			err, ENOTSUP,
			"'%s' is for readers; this command takes the mirror's directory, file:// or s3://",
			where);
	*ret_path = strdup(where);
	return *ret_path ? 0 : -ENOMEM;
}

static bool is_empty_directory(int fd)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (copy < 0)
		return false;
	dir = fdopendir(copy);
	if (!dir) {
		close(copy);
		return false;
	}
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    strcmp(entry->d_name, "lost+found") &&
		    /* the marker of a first publish that was killed */
		    !starts_with(entry->d_name, ".tmp-"))
			return false;
	return true;
}

static int open_directory(struct mirror *mirror, enum mirror_open_flags flags,
			  struct err *err)
{
	if (flags & MIRROR_OPEN_CREATE) {
		int r = mkdir_parents(AT_FDCWD, mirror->path, 0777);

		if (r < 0)
			return err_set(err, -r, "cannot create mirror '%s': %s",
				       mirror->path, strerror(-r));
	}
	mirror->fd = open(mirror->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mirror->fd < 0 &&
	    !(errno == ENOENT && (flags & MIRROR_OPEN_ABSENT_OK)))
		return err_set(err, errno, "cannot open mirror '%s': %s",
			       mirror->path, strerror(errno));
	mirror->is_absent = mirror->fd < 0;
	return 0;
}

static void directory_close(struct mirror *mirror)
{
	if (mirror->fd >= 0)
		close(steal_fd(&mirror->fd));
}

static int directory_is_empty(const struct mirror *mirror, bool *ret,
			      struct err *why)
{
	(void)why;
	*ret = is_empty_directory(mirror->fd);
	return 0;
}

static int directory_read(const struct mirror *mirror, const char *path,
			  struct buf *ret, struct err *why)
{
	(void)why;
	return file_read(mirror->fd, path, ret);
}

static int directory_write(const struct mirror *mirror, const char *path,
			   const void *data, size_t len,
			   enum mirror_write_flags flags, struct err *why)
{
	enum file_write_flags file_flags = FILE_WRITE_MKDIR;

	(void)why;
	if (flags & MIRROR_WRITE_SYNC)
		file_flags |= FILE_WRITE_SYNC;
	if (flags & MIRROR_WRITE_NEW)
		file_flags |= FILE_WRITE_EXCLUSIVE;
	return file_write(mirror->fd, path, data, len, 0666, file_flags);
}

static int directory_remove(const struct mirror *mirror, const char *path,
			    struct err *why)
{
	(void)why;
	return unlinkat(mirror->fd, path, 0) < 0 ? -errno : 0;
}

static int directory_stat(const struct mirror *mirror, const char *path,
			  uint64_t *ret_size, int64_t *ret_mtime,
			  struct err *why)
{
	struct stat st;

	(void)why;
	if (fstatat(mirror->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_size = (uint64_t)st.st_size;
	*ret_mtime = st.st_mtim.tv_sec;
	return 0;
}

static int directory_open_reader(struct mirror_reader *reader, struct err *why)
{
	(void)why;
	/* not blocking: a FIFO may have the name */
	reader->fd = openat(reader->mirror->fd, reader->path,
			    O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return reader->fd < 0 ? -errno : 0;
}

static ssize_t directory_read_at(struct mirror_reader *reader, void *data,
				 size_t len, uint64_t offset, struct err *why)
{
	(void)why;
	return pread_full(reader->fd, data, len, offset);
}

static int directory_now(const struct mirror *mirror, int64_t *ret_seconds,
			 struct err *why)
{
	static const char name[] = ".tmp-clock";
	_cleanup_close_ int fd = -1;
	struct stat st;

	(void)why;
	fd = openat(mirror->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	if (futimens(fd, NULL) < 0 || fstat(fd, &st) < 0)
		return -errno;
	unlinkat(mirror->fd, name, 0);
	*ret_seconds = st.st_mtim.tv_sec;
	return 0;
}

/* ---- listing */

static int list_name(int dir_fd, const char *top, const char *fan,
		     const char *name, struct stored_files *files)
{
	char below[SOURCE_PATH_MAX];
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	snprintf(below, sizeof(below), "%s/%s", fan, name);
	return stored_files_add(files, top, below, S_ISREG(st.st_mode),
				(uint64_t)st.st_size, st.st_mtim.tv_sec);
}

static bool is_fan(const char *name)
{
	static const char digits[] = "0123456789abcdef";

	return strlen(name) == 2 && strchr(digits, name[0]) &&
	       strchr(digits, name[1]);
}

static int list_fan(int top_fd, const char *top, const char *fan,
		    struct stored_files *files)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int r = directory_open(top_fd, fan, O_NOFOLLOW, &dir);

	if (r < 0)
		return r;
	while ((errno = 0, entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		r = list_name(dirfd(dir), top, fan, entry->d_name, files);
		if (r < 0)
			return r;
	}
	return -errno;
}

static int list_top(DIR *dir, const char *top, struct stored_files *files)
{
	struct dirent *entry;

	while ((errno = 0, entry = readdir(dir))) {
		const char *name = entry->d_name;
		int r;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		r = is_fan(name) ?
			    list_fan(dirfd(dir), top, name, files) :
			    stored_files_add(files, top, name, false, 0, 0);
		if (r < 0)
			return r;
	}
	return -errno;
}

static int directory_list(const struct mirror *mirror, const char *top,
			  struct stored_files *files, struct err *why)
{
	_cleanup_closedir_ DIR *dir = NULL;
	int r = directory_open(mirror->fd, top, 0, &dir);

	(void)why;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return list_top(dir, top, files);
}

static int name_entries(const struct mirror *mirror, const char *path,
			unsigned int depth, mirror_name_fn each, void *arg)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int r = directory_open(mirror->fd, path, O_NOFOLLOW, &dir);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while ((errno = 0, entry = readdir(dir))) {
		char below[SOURCE_PATH_MAX];
		struct stat st;

		r = 0;
		if (entry->d_name[0] == '.') /* and temporary files */
			continue;
		if ((size_t)snprintf(below, sizeof(below), "%s/%s", path,
				     entry->d_name) >= sizeof(below))
			continue;
		if (fstatat(mirror->fd, below, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			/* gc must not take it for a head that is gone */
			return -errno;
		}
		/* A symlink may well lead to a head, and readers follow it;
		 * anything else is a bad one. */
		if (!S_ISDIR(st.st_mode))
			r = each(arg, below);
		else if (depth < LIMIT_DATASET_NAME_BYTES / 2)
			r = name_entries(mirror, below, depth + 1, each, arg);
		if (r < 0)
			return r;
	}
	return -errno;
}

static int directory_names(const struct mirror *mirror, const char *top,
			   mirror_name_fn each, void *arg, struct err *why)
{
	(void)why;
	return name_entries(mirror, top, 0, each, arg);
}

/* ---- packs */

static int directory_pack_create(const struct mirror *mirror, char **ret_path,
				 int *ret_fd, struct err *why)
{
	(void)why;
	for (int i = 0; i < CREATE_TRIES; i++) {
		_cleanup_free_ char *path = NULL;
		uint64_t random;
		int fd;

		if (getrandom(&random, sizeof(random), 0) < 0)
			random = now_ns();
		if (asprintf(&path, PACK_TEMPORARY_PREFIX "%016" PRIx64,
			     random) < 0)
			return -ENOMEM;
		fd = openat(mirror->fd, path,
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			*ret_path = steal_ptr(path);
			*ret_fd = fd;
			return 0;
		}
		if (errno == ENOENT && mkdirat(mirror->fd, "packs", 0777) < 0 &&
		    errno != EEXIST)
			return -errno;
		if (errno != EEXIST && errno != ENOENT)
			return -errno;
	}
	return -EEXIST;
}

static int sync_parent(const struct mirror *mirror, const char *path)
{
	_cleanup_close_ int fd = -1;
	char parent[SOURCE_PATH_MAX];

	snprintf(parent, sizeof(parent), "%.*s",
		 (int)(strrchr(path, '/') - path), path);
	fd = openat(mirror->fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

/* From the temporary name to the right one. */
static int directory_pack_store(const struct mirror *mirror, const char *from,
				int fd, const char *path, struct err *why)
{
	char parent[SOURCE_PATH_MAX];
	int r;

	(void)why;
	if (fsync(fd) < 0)
		return -errno;
	snprintf(parent, sizeof(parent), "%.*s",
		 (int)(strrchr(path, '/') - path), path);
	r = mkdir_parents(mirror->fd, parent, 0777);
	if (r < 0)
		return r;
	if (renameat(mirror->fd, from, mirror->fd, path) < 0)
		return -errno;
	r = sync_parent(mirror, path);
	return r == 0 ? sync_parent(mirror, parent) : r;
}

/* ---- the lease */

/* Its age is by the clock of the filesystem, whichever host has it. */
static int directory_lease_read(struct lease *lease, struct buf *ret,
				int64_t *ret_age_s, struct err *why)
{
	const struct mirror *mirror = lease->mirror;
	struct stat st;
	int64_t now;
	int r = file_read(mirror->fd, LEASE_NAME, ret);

	if (r == 0 && fstatat(mirror->fd, LEASE_NAME, &st, 0) < 0)
		r = -errno;
	if (r == 0)
		r = directory_now(mirror, &now, why);
	if (r == 0)
		*ret_age_s = now - st.st_mtim.tv_sec;
	return r;
}

/* -ENOENT if by now it is gone or somebody else's. */
static int open_lease(struct lease *lease, const struct buf *expected)
{
	_cleanup_close_ int fd = openat(lease->mirror->fd, LEASE_NAME,
					O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	char text[LEASE_LIMIT];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read_full(fd, text, sizeof(text));
	if (n < 0)
		return (int)n;
	if ((size_t)n != expected->len ||
	    memcmp(text, expected->data, (size_t)n))
		return -ENOENT;
	lease->fd = steal_fd(&fd);
	return 0;
}

static int directory_lease_write(struct lease *lease, const struct buf *text,
				 bool is_new, struct err *why)
{
	int r = directory_write(lease->mirror, LEASE_NAME, text->data,
				text->len, is_new ? MIRROR_WRITE_NEW : 0, why);

	return r == 0 ? open_lease(lease, text) : r;
}

static bool is_ours(const struct lease *lease)
{
	struct stat mine, now;

	return fstat(lease->fd, &mine) == 0 &&
	       fstatat(lease->mirror->fd, LEASE_NAME, &now,
		       AT_SYMLINK_NOFOLLOW) == 0 &&
	       mine.st_dev == now.st_dev && mine.st_ino == now.st_ino;
}

static int directory_lease_renew(struct lease *lease, struct err *why)
{
	(void)why;
	if (!is_ours(lease))
		return -ESTALE;
	return futimens(lease->fd, NULL) < 0 ? -errno : 0;
}

static void directory_lease_remove(struct lease *lease)
{
	if (is_ours(lease))
		unlinkat(lease->mirror->fd, LEASE_NAME, 0);
}

int mirror_open_directory(struct mirror *mirror, const char *where,
			  enum mirror_open_flags flags, struct err *err)
{
	static const struct mirror_ops ops = {
		.close = directory_close,
		.is_empty = directory_is_empty,
		.read = directory_read,
		.write = directory_write,
		.remove = directory_remove,
		.stat = directory_stat,
		.open_reader = directory_open_reader,
		.read_at = directory_read_at,
		.list = directory_list,
		.names = directory_names,
		.now = directory_now,
		.pack_create = directory_pack_create,
		.pack_store = directory_pack_store,
		.lease_read = directory_lease_read,
		.lease_write = directory_lease_write,
		.lease_renew = directory_lease_renew,
		.lease_remove = directory_lease_remove,
	};
	int r = local_path(where, &mirror->path, err);

	mirror->ops = &ops;
	return r == 0 ? open_directory(mirror, flags, err) : r;
}
