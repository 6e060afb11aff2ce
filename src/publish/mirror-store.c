/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mirror whatever it is kept in: open or create it, read and write objects,
 * list what it holds.
 *
 * An object that is there already is read and checked before it is trusted,
 * because a machine that lost power may have left an empty file under a right
 * name. Small files are synced together, before the head is written.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
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

static int write_marker(const struct mirror *mirror, struct err *err)
{
	struct err why = {0};
	struct buf text;
	int r;

	buf_init(&text, MARKER_LIMIT);
	r = mirror_marker_print(wall_seconds(), &text);
	if (r == 0)
		r = mirror->ops->write(
			mirror, MIRROR_MARKER, text.data, text.len,
			MIRROR_WRITE_SYNC | MIRROR_WRITE_NEW, &why);
	buf_release(&text);
	if (r < 0 && r != -EEXIST) /* another publisher was first: fine */
		return err_set(err, -r, "cannot write to mirror '%s': %s",
			       mirror->path, err_text(&why, r));
	return 0;
}

static int check_unmarked(struct mirror *mirror, enum mirror_open_flags flags,
			  struct err *err)
{
	struct err why = {0};
	bool is_empty;
	int r = mirror->ops->is_empty(mirror, &is_empty, &why);

	if (r < 0)
		return err_set(err, -r, "cannot list '%s': %s", mirror->path,
			       err_text(&why, r));
	if (!is_empty)
		return err_set(
			err, EINVAL,
			"'%s' is no mirror (it has no file '%s') and is not empty",
			mirror->path, MIRROR_MARKER);
	if (flags & MIRROR_OPEN_CREATE)
		return write_marker(mirror, err);
	if (flags & MIRROR_OPEN_ABSENT_OK)
		return 0;
	return err_set(err, ENOENT, "'%s' is no mirror: it is empty",
		       mirror->path);
}

static int check_marker(struct mirror *mirror, enum mirror_open_flags flags,
			struct err *err)
{
	struct err why = {0};
	struct buf text;
	int r;

	buf_init(&text, MARKER_LIMIT);
	r = mirror->ops->read(mirror, MIRROR_MARKER, &text, &why);
	if (r == 0) {
		r = mirror_marker_check(text.data, text.len, err);
		if (r < 0)
			err_prefix(err, r, "mirror '%s'", mirror->path);
	} else if (r != -ENOENT) {
		err_set(err, -r, "cannot read '%s/%s': %s", mirror->path,
			MIRROR_MARKER, err_text(&why, r));
	} else {
		r = check_unmarked(mirror, flags, err);
	}
	buf_release(&text);
	return r;
}

int mirror_open(const char *where, const struct mirror_access *access,
		enum mirror_open_flags flags, struct mirror **ret,
		struct err *err)
{
	struct mirror *mirror = calloc(1, sizeof(*mirror));
	int r;

	if (!mirror)
		return err_set(err, ENOMEM, "out of memory");
	mirror->fd = -1;
	pthread_mutex_init(&mirror->mutex, NULL);
	mirror->unsynced = calloc(1, sizeof(*mirror->unsynced));
	if (starts_with(where, "s3://"))
		r = mirror_open_bucket(mirror, where, access, err);
	else
		r = mirror_open_directory(mirror, where, flags, err);
	if (r == 0 && !mirror->is_absent)
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
	if (mirror->ops)
		mirror->ops->close(mirror);
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
	struct err why = {0};
	int r;

	if (mirror->is_absent)
		return err_set(err, ENOENT, "no mirror");
	buf_init(&frame, codec_bound(limit_bytes));
	r = mirror->ops->read(mirror, mirror_object_path(digest, path), &frame,
			      &why);
	if (r < 0)
		err_set(err, -r, "%s: %s", path, err_text(&why, r));
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
	struct err why = {0};
	int r = mirror->ops->write(mirror, path, data, len, 0, &why);

	if (r < 0)
		return err_set(err, -r, "cannot write to mirror '%s': %s",
			       mirror->path, err_text(&why, r));
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

	if (mirror->fd < 0)
		return 0; /* a bucket has what it confirmed */
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

static int add_stranger(struct stored_files *files, const char *top,
			const char *name)
{
	char **slot = vec_push(&files->strangers);

	if (!slot || asprintf(slot, "%s/%s", top, name) < 0) {
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

static bool is_fan(const char *name)
{
	static const char digits[] = "0123456789abcdef";

	return strlen(name) == 2 && strchr(digits, name[0]) &&
	       strchr(digits, name[1]);
}

static int compare_files(const void *a, const void *b)
{
	return digest_compare(&((const struct stored_file *)a)->digest,
			      &((const struct stored_file *)b)->digest);
}

int stored_files_add(struct stored_files *files, const char *top,
		     const char *name, bool is_regular, uint64_t size,
		     int64_t mtime)
{
	const char *slash = strchr(name, '/');
	struct stored_file *file;
	struct digest digest;
	char fan[3] = {0};

	if (slash == name + 2)
		memcpy(fan, name, 2);
	if (!is_regular || !is_fan(fan) ||
	    !parse_digest_name(fan, slash + 1, &digest))
		return add_stranger(files, top, name);
	file = vec_push(&files->list);
	if (!file)
		return -ENOMEM;
	*file = (struct stored_file){
		.digest = digest,
		.size = size,
		.mtime = mtime,
	};
	return 0;
}

int mirror_list(const struct mirror *mirror, const char *top,
		struct stored_files *ret, struct err *err)
{
	struct stored_files files = {0};
	struct err why = {0};
	int r;

	*ret = files;
	if (mirror->is_absent)
		return 0;
	r = mirror->ops->list(mirror, top, &files, &why);
	if (r < 0) {
		stored_files_release(&files);
		return err_set(err, -r, "cannot list '%s/%s': %s", mirror->path,
			       top, err_text(&why, r));
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

int mirror_remove_many(const struct mirror *mirror, const char *const *paths,
		       size_t count, mirror_removed_fn removed, void *arg)
{
	int r = 0;

	if (mirror->ops->remove_many)
		return mirror->ops->remove_many(mirror, paths, count, removed,
						arg);
	for (size_t i = 0; i < count && r == 0; i++) {
		struct err why = {0};

		r = mirror->ops->remove(mirror, paths[i], &why);
		r = removed(arg, i, r, &why);
	}
	return r;
}

int mirror_now(const struct mirror *mirror, int64_t *ret_seconds,
	       struct err *why)
{
	return mirror->ops->now(mirror, ret_seconds, why);
}

int mirror_reader_open(struct mirror_reader *reader,
		       const struct mirror *mirror, const char *path,
		       uint64_t size, size_t ahead, struct err *why)
{
	*reader = (struct mirror_reader){
		.mirror = mirror,
		.path = path,
		.size = size,
		.ahead = ahead,
		.fd = -1,
	};
	return mirror->ops->open_reader(reader, why);
}

ssize_t mirror_reader_read(struct mirror_reader *reader, void *data, size_t len,
			   uint64_t offset, struct err *why)
{
	return reader->mirror->ops->read_at(reader, data, len, offset, why);
}

void mirror_reader_close(struct mirror_reader *reader)
{
	if (reader->fd >= 0)
		close(steal_fd(&reader->fd));
	free(steal_ptr(reader->window));
}
