/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mirror as a directory: open or create it, read and write objects, list
 * what it holds.
 *
 * An object that is there already is read and checked before it is trusted,
 * because a machine that lost power may have left an empty file under a right
 * name. Small files are synced together, before the head is written.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "format/codec.h"
#include "format/limits.h"
#include "publish/mirror-store.h"
#include "source/source.h"

#define MARKER_LIMIT 4096u

/* Up to this many files are synced one by one; for more, the whole filesystem
 * is, which also writes what is not ours. */
#define UNSYNCED_MAX 64u

struct unsynced {
	size_t count;
	char paths[UNSYNCED_MAX][SOURCE_PATH_MAX];
};

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
			"cannot write to '%s': only directories and file:// are supported",
			where);
	*ret_path = strdup(where);
	return *ret_path ? 0 : -ENOMEM;
}

static int write_marker(struct mirror *mirror, struct err *err)
{
	struct buf text;
	int r;

	buf_init(&text, MARKER_LIMIT);
	r = mirror_marker_print(wall_seconds(), &text);
	if (r == 0)
		r = file_write(mirror->fd, MIRROR_MARKER, text.data, text.len,
			       0666, FILE_WRITE_SYNC | FILE_WRITE_EXCLUSIVE);
	buf_release(&text);
	if (r < 0 && r != -EEXIST) /* another publisher was first: fine */
		return err_set(err, -r, "cannot write to mirror '%s': %s",
			       mirror->path, strerror(-r));
	return 0;
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

static int check_marker(struct mirror *mirror, enum mirror_open_flags flags,
			struct err *err)
{
	struct buf text;
	int r;

	buf_init(&text, MARKER_LIMIT);
	r = file_read(mirror->fd, MIRROR_MARKER, &text);
	if (r == 0) {
		r = mirror_marker_check(text.data, text.len, err);
		if (r < 0)
			err_prefix(err, r, "mirror '%s'", mirror->path);
	} else if (r != -ENOENT) {
		err_set(err, -r, "cannot read '%s/%s': %s", mirror->path,
			MIRROR_MARKER, strerror(-r));
	} else if (!is_empty_directory(mirror->fd)) {
		r = err_set(
			err, EINVAL,
			"'%s' is no mirror (it has no file '%s') and is not empty",
			mirror->path, MIRROR_MARKER);
	} else if (flags & MIRROR_OPEN_CREATE) {
		r = write_marker(mirror, err);
	} else if (flags & MIRROR_OPEN_ABSENT_OK) {
		r = 0;
	} else {
		r = err_set(err, ENOENT, "'%s' is no mirror: it is empty",
			    mirror->path);
	}
	buf_release(&text);
	return r;
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
	return 0;
}

int mirror_open(const char *where, enum mirror_open_flags flags,
		struct mirror **ret, struct err *err)
{
	struct mirror *mirror = calloc(1, sizeof(*mirror));
	int r;

	if (!mirror)
		return err_set(err, ENOMEM, "out of memory");
	mirror->fd = -1;
	pthread_mutex_init(&mirror->mutex, NULL);
	mirror->unsynced = calloc(1, sizeof(*mirror->unsynced));
	r = local_path(where, &mirror->path, err);
	if (r == 0)
		r = open_directory(mirror, flags, err);
	if (r == 0 && mirror->fd >= 0)
		r = check_marker(mirror, flags, err);
	if (r < 0) {
		mirror_close(mirror);
		return r;
	}
	*ret = mirror;
	return 0;
}

void mirror_close(struct mirror *mirror)
{
	if (!mirror)
		return;
	if (mirror->fd >= 0)
		close(mirror->fd);
	pthread_mutex_destroy(&mirror->mutex);
	free(mirror->unsynced);
	free(mirror->path);
	free(mirror);
}

int mirror_object_read(const struct mirror *mirror, struct codec *codec,
		       const struct digest *digest, size_t limit_bytes,
		       struct buf *ret_plain, struct err *err)
{
	char path[SOURCE_PATH_MAX];
	struct buf frame;
	int r;

	if (mirror->fd < 0)
		return err_set(err, ENOENT, "no mirror");
	buf_init(&frame, codec_bound(limit_bytes));
	r = file_read(mirror->fd, mirror_object_path(digest, path), &frame);
	if (r < 0)
		err_set(err, -r, "%s: %s", path, strerror(-r));
	else
		r = codec_open_object(codec, frame.data, frame.len, limit_bytes,
				      digest, ret_plain);
	if (r == -EBADMSG)
		err_set(err, EBADMSG, "%s does not match its digest", path);
	buf_release(&frame);
	return r;
}

static bool is_stored(const struct mirror *mirror, struct codec *codec,
		      const struct digest *digest, size_t len)
{
	struct buf plain;
	bool is_sound;

	buf_init(&plain, len);
	is_sound = mirror_object_read(mirror, codec, digest, len, &plain,
				      NULL) == 0;
	buf_release(&plain);
	return is_sound;
}

static void note_unsynced(struct mirror *mirror, const char *path)
{
	struct unsynced *unsynced;

	scoped_lock(&mirror->mutex);
	unsynced = mirror->unsynced;
	if (!unsynced)
		return;
	if (unsynced->count == UNSYNCED_MAX) {
		free(steal_ptr(mirror->unsynced));
		return;
	}
	snprintf(unsynced->paths[unsynced->count++], SOURCE_PATH_MAX, "%s",
		 path);
}

int mirror_file_write(struct mirror *mirror, const char *path, const void *data,
		      size_t len, struct err *err)
{
	int r = file_write(mirror->fd, path, data, len, 0666, FILE_WRITE_MKDIR);

	if (r < 0)
		return err_set(err, -r, "cannot write to mirror '%s': %s",
			       mirror->path, strerror(-r));
	note_unsynced(mirror, path);
	return 0;
}

int mirror_object_write(struct mirror *mirror, struct codec *codec,
			const struct digest *digest, const void *data,
			size_t len, int level, bool is_dry_run,
			uint64_t *ret_stored, struct err *err)
{
	char path[SOURCE_PATH_MAX];
	_cleanup_free_ void *frame = NULL;
	size_t capacity = codec_bound(len);
	long frame_len;
	int r = 0;

	*ret_stored = 0;
	if (is_stored(mirror, codec, digest, len))
		return 0;
	frame = malloc(capacity);
	if (!frame)
		return err_set(err, ENOMEM, "out of memory");
	frame_len = codec_compress(codec, data, len, level, frame, capacity);
	if (frame_len < 0)
		return err_set(err, (int)-frame_len, "cannot compress: %s",
			       strerror((int)-frame_len));
	if (!is_dry_run)
		r = mirror_file_write(mirror, mirror_object_path(digest, path),
				      frame, (size_t)frame_len, err);
	if (r < 0)
		return r;
	*ret_stored = (uint64_t)frame_len;
	return 0;
}

static int sync_path(const struct mirror *mirror, const char *path)
{
	_cleanup_close_ int fd = openat(mirror->fd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* The file and the directories it is named by. */
static int sync_file(const struct mirror *mirror, char *path)
{
	int r = sync_path(mirror, path);

	while (r == 0 && strchr(path, '/')) {
		*strrchr(path, '/') = '\0';
		r = sync_path(mirror, path);
	}
	return r == 0 ? sync_path(mirror, ".") : r;
}

int mirror_sync(struct mirror *mirror, struct err *err)
{
	struct unsynced *unsynced = mirror->unsynced;
	int r = 0;

	if (!unsynced && syncfs(mirror->fd) < 0)
		r = -errno;
	for (size_t i = 0; unsynced && i < unsynced->count && r == 0; i++)
		r = sync_file(mirror, unsynced->paths[i]);
	if (r < 0)
		return err_set(err, -r, "cannot write to mirror '%s': %s",
			       mirror->path, strerror(-r));
	if (unsynced)
		unsynced->count = 0;
	return 0;
}

int mirror_now(const struct mirror *mirror, int64_t *ret_seconds)
{
	static const char name[] = ".tmp-clock";
	_cleanup_close_ int fd = -1;
	struct stat st;

	fd = openat(mirror->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	if (futimens(fd, NULL) < 0 || fstat(fd, &st) < 0)
		return -errno;
	unlinkat(mirror->fd, name, 0);
	*ret_seconds = st.st_mtim.tv_sec;
	return 0;
}

static int add_stranger(struct stored_files *files, const char *top,
			const char *fan, const char *name)
{
	char **slot = vec_push(&files->strangers);

	if (!slot ||
	    asprintf(slot, "%s/%s%s%s", top, fan, *fan ? "/" : "", name) < 0) {
		if (slot)
			files->strangers.count--;
		return -ENOMEM;
	}
	return 0;
}

/* fan is the two digits, name the rest. */
static bool parse_digest_name(const char *fan, const char *name,
			      struct digest *ret)
{
	char hex[DIGEST_HEX_MAX];

	if (strlen(name) != DIGEST_HEX_MAX - 3)
		return false;
	memcpy(hex, fan, 2);
	memcpy(hex + 2, name, DIGEST_HEX_MAX - 2);
	for (const char *c = hex; *c; c++)
		if (*c >= 'A' && *c <= 'F')
			return false;
	*ret = (struct digest){.type = DIGEST_SHA256};
	return hex_decode(hex, ret->bytes, DIGEST_BYTES) == 0;
}

static int list_name(int fan_fd, const char *top, const char *fan,
		     const char *name, struct stored_files *files)
{
	struct stored_file *file;
	struct digest digest;
	struct stat st;

	if (fstatat(fan_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) || !parse_digest_name(fan, name, &digest))
		return add_stranger(files, top, fan, name);
	file = vec_push(&files->list);
	if (!file)
		return -ENOMEM;
	file->digest = digest;
	file->size = (uint64_t)st.st_size;
	file->mtime = st.st_mtim.tv_sec;
	return 0;
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
	int fd = openat(top_fd, fan,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		int r = -errno;

		close(fd);
		return r;
	}
	while ((errno = 0, entry = readdir(dir))) {
		int r;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		r = list_name(dirfd(dir), top, fan, entry->d_name, files);
		if (r < 0)
			return r;
	}
	return -errno;
}

static int list_top(int top_fd, const char *top, struct stored_files *files)
{
	_cleanup_closedir_ DIR *dir = fdopendir(top_fd);
	struct dirent *entry;

	if (!dir) {
		int r = -errno;

		close(top_fd);
		return r;
	}
	while ((errno = 0, entry = readdir(dir))) {
		const char *name = entry->d_name;
		int r;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		r = is_fan(name) ? list_fan(dirfd(dir), top, name, files) :
				   add_stranger(files, top, "", name);
		if (r < 0)
			return r;
	}
	return -errno;
}

static int compare_files(const void *a, const void *b)
{
	return digest_compare(&((const struct stored_file *)a)->digest,
			      &((const struct stored_file *)b)->digest);
}

int mirror_list(const struct mirror *mirror, const char *top,
		struct stored_files *ret, struct err *err)
{
	struct stored_files files = {0};
	int fd, r;

	*ret = files;
	if (mirror->fd < 0)
		return 0;
	fd = openat(mirror->fd, top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	r = fd < 0 ? -errno : list_top(fd, top, &files);
	if (r < 0) {
		stored_files_release(&files);
		return err_set(err, -r, "cannot list '%s/%s': %s", mirror->path,
			       top, strerror(-r));
	}
	if (files.list.count > 0)
		qsort(files.list.items, files.list.count,
		      sizeof(files.list.items[0]), compare_files);
	*ret = files;
	return 0;
}

void stored_files_release(struct stored_files *files)
{
	for (size_t i = 0; i < files->strangers.count; i++)
		free(files->strangers.items[i]);
	vec_release(&files->strangers);
	vec_release(&files->list);
}

struct stored_file *stored_files_find(const struct stored_files *files,
				      const struct digest *digest)
{
	struct stored_file key = {.digest = *digest};

	if (files->list.count == 0)
		return NULL;
	return bsearch(&key, files->list.items, files->list.count, sizeof(key),
		       compare_files);
}
