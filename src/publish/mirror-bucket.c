/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mirror in a bucket of S3.
 *
 * There is no rename: a pack gets its name when it is whole, so it is collected
 * in a nameless file on this machine and sent from there. A head is put in
 * place of the one that was read, the lease where there is none or in place of
 * a stale one; servers that know no conditions leave that to the look after
 * it. Ages are by the server's clock alone.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "publish/bucket.h"
#include "publish/lease.h"
#include "publish/mirror-store.h"
#include "source/source.h"

#define HEADS "heads/"
/* /tmp may be memory. */
#define SPOOL_DIRECTORY "/var/tmp"

_Static_assert(MIRROR_REMOVE_MAX <= BUCKET_DELETE_MAX, "one request each");

static void close_bucket(struct mirror *mirror)
{
	bucket_close(steal_ptr(mirror->bucket));
	for (size_t i = 0; i < mirror->seen.count; i++)
		free(mirror->seen.items[i].path);
	vec_release(&mirror->seen);
}

static int stop_at_first(void *arg, const char *path, uint64_t size,
			 int64_t mtime)
{
	(void)path;
	(void)size;
	(void)mtime;
	*(bool *)arg = false;
	return 1;
}

static int is_empty(const struct mirror *mirror, bool *ret, struct err *why)
{
	int r;

	*ret = true;
	r = bucket_list(mirror->bucket, "", stop_at_first, ret, why);
	return r < 0 ? r : 0;
}

/* ---- heads: in place of what was read */

/* A new slot has no ETag: there was none. */
static struct seen_head *seen_head(struct mirror *mirror, const char *path,
				   bool want_new)
{
	struct seen_head *seen = NULL;

	for (size_t i = 0; i < mirror->seen.count && !seen; i++)
		if (!strcmp(mirror->seen.items[i].path, path))
			seen = &mirror->seen.items[i];
	if (seen || !want_new)
		return seen;
	seen = vec_push(&mirror->seen);
	if (!seen)
		return NULL;
	*seen = (struct seen_head){.path = strdup(path)};
	if (seen->path)
		return seen;
	mirror->seen.count--;
	return NULL;
}

static void note_head(const struct mirror *mirror, const char *path,
		      const char *etag)
{
	struct mirror *noting = (struct mirror *)mirror; /* its notes */
	struct seen_head *seen;

	if (!starts_with(path, HEADS))
		return;
	scoped_lock(&noting->mutex);
	seen = seen_head(noting, path, true);
	if (seen)
		snprintf(seen->etag, sizeof(seen->etag), "%s", etag);
}

static int read_object(const struct mirror *mirror, const char *path,
		       struct buf *ret, struct err *why)
{
	struct object_state state;
	int r = bucket_get(mirror->bucket, path, ret, &state, why);

	if (r == 0)
		note_head(mirror, path, state.etag);
	else if (r == -ENOENT)
		note_head(mirror, path, "");
	return r;
}

static int write_object(const struct mirror *mirror, const char *path,
			const void *data, size_t len,
			enum mirror_write_flags flags, struct err *why)
{
	struct mirror *noting = (struct mirror *)mirror;
	struct put_condition condition = {0};
	char etag[128] = "", before[128];
	int r;

	if (flags & MIRROR_WRITE_NEW) {
		condition.if_match = "";
	} else if (starts_with(path, HEADS)) {
		const struct seen_head *seen;

		scoped_lock(&noting->mutex);
		seen = seen_head(noting, path, false);
		if (seen) {
			snprintf(before, sizeof(before), "%s", seen->etag);
			condition.if_match = before;
		}
	}
	r = bucket_put(mirror->bucket, path, data, len, &condition, etag, why);
	if (r == -ESTALE && (flags & MIRROR_WRITE_NEW))
		return -EEXIST;
	if (r == -ESTALE)
		err_set(why, ESTALE,
			"somebody else has changed it meanwhile: try again");
	if (r == 0)
		note_head(mirror, path, etag);
	return r;
}

static int remove_object(const struct mirror *mirror, const char *path,
			 struct err *why)
{
	return bucket_delete(mirror->bucket, path, why);
}

static int remove_objects(const struct mirror *mirror, const char *const *paths,
			  size_t count, mirror_removed_fn removed, void *arg)
{
	return bucket_delete_many(mirror->bucket, paths, count, removed, arg);
}

static int stat_object(const struct mirror *mirror, const char *path,
		       uint64_t *ret_size, int64_t *ret_mtime, struct err *why)
{
	struct object_state state;
	char first;
	int r = bucket_get_range(mirror->bucket, path, &first, 1, 0, &state,
				 why);

	if (r < 0)
		return r;
	*ret_size = state.size;
	*ret_mtime = state.modified;
	return 0;
}

/* ---- reading in pieces */

static int open_reader(struct mirror_reader *reader, struct err *why)
{
	(void)reader;
	(void)why;
	return 0;
}

/* Fetch so that offset and len are in the window, if they fit. */
static int move_window(struct mirror_reader *reader, size_t len,
		       uint64_t offset, struct err *why)
{
	uint64_t left = reader->size - offset;
	size_t wanted = reader->ahead;
	int r;

	if (!reader->window)
		reader->window = malloc(reader->ahead);
	if (!reader->window)
		return -ENOMEM;
	if (wanted > left)
		wanted = (size_t)left;
	if (wanted < len)
		return -EINVAL;
	reader->window_len = 0;
	r = bucket_get_range(reader->mirror->bucket, reader->path,
			     reader->window, wanted, offset, NULL, why);
	if (r < 0)
		return r;
	reader->window_offset = offset;
	reader->window_len = wanted;
	return 0;
}

static ssize_t read_at(struct mirror_reader *reader, void *data, size_t len,
		       uint64_t offset, struct err *why)
{
	uint64_t in_window = offset - reader->window_offset;
	int r;

	if (offset >= reader->size)
		return 0;
	if (len > reader->size - offset)
		len = (size_t)(reader->size - offset);
	if (len == 0)
		return 0;
	if (len > reader->ahead) {
		r = bucket_get_range(reader->mirror->bucket, reader->path, data,
				     len, offset, NULL, why);
		return r < 0 ? r : (ssize_t)len;
	}
	if (offset < reader->window_offset || in_window > reader->window_len ||
	    reader->window_len - in_window < len) {
		r = move_window(reader, len, offset, why);
		if (r < 0)
			return r;
		in_window = 0;
	}
	memcpy(data, reader->window + in_window, len);
	return (ssize_t)len;
}

/* ---- listing */

struct listing {
	const char *top;
	struct stored_files *files;
	mirror_name_fn each;
	void *arg;
};

static int list_file(void *arg, const char *path, uint64_t size, int64_t mtime)
{
	struct listing *listing = arg;

	return stored_files_add(listing->files, listing->top,
				path + strlen(listing->top) + 1, true, size,
				mtime);
}

static int list_name(void *arg, const char *path, uint64_t size, int64_t mtime)
{
	struct listing *listing = arg;

	(void)size;
	(void)mtime;
	return listing->each(listing->arg, path);
}

static int list_files(const struct mirror *mirror, const char *top,
		      struct stored_files *files, struct err *why)
{
	struct listing listing = {.top = top, .files = files};
	char below[SOURCE_PATH_MAX];

	snprintf(below, sizeof(below), "%s/", top);
	return bucket_list(mirror->bucket, below, list_file, &listing, why);
}

static int list_names(const struct mirror *mirror, const char *top,
		      mirror_name_fn each, void *arg, struct err *why)
{
	struct listing listing = {.each = each, .arg = arg};
	char below[SOURCE_PATH_MAX];

	snprintf(below, sizeof(below), "%s/", top);
	return bucket_list(mirror->bucket, below, list_name, &listing, why);
}

static int now(const struct mirror *mirror, int64_t *ret_seconds,
	       struct err *why)
{
	struct object_state state;
	char first;
	int r = bucket_get_range(mirror->bucket, MIRROR_MARKER, &first, 1, 0,
				 &state, why);

	if (r == 0)
		*ret_seconds = state.date;
	return r;
}

/* ---- packs */

static int create_pack(const struct mirror *mirror, char **ret_path,
		       int *ret_fd, struct err *why)
{
	const char *directory = getenv("TMPDIR");
	int fd, r;

	(void)mirror;
	if (!directory || !directory[0])
		directory = SPOOL_DIRECTORY;
	fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		_cleanup_free_ char *name = NULL;

		if (asprintf(&name, "%s/larder-XXXXXX", directory) < 0)
			return -ENOMEM;
		fd = mkostemp(name, O_CLOEXEC);
		if (fd >= 0)
			unlink(name);
	}
	if (fd < 0) {
		r = -errno;
		return err_set(why, -r, "temporary file in '%s': %s", directory,
			       strerror(-r));
	}
	*ret_path = NULL;
	*ret_fd = fd;
	return 0;
}

static int store_pack(const struct mirror *mirror, const char *from, int fd,
		      const char *path, struct err *why)
{
	struct stat st;

	(void)from;
	if (fstat(fd, &st) < 0)
		return -errno;
	return bucket_upload(mirror->bucket, path, fd, (uint64_t)st.st_size,
			     why);
}

/* ---- the lease */

static int read_lease(struct lease *lease, struct buf *ret, int64_t *ret_age_s,
		      struct err *why)
{
	struct object_state state;
	int r = bucket_get(lease->mirror->bucket, LEASE_NAME, ret, &state, why);

	if (r < 0)
		return r;
	snprintf(lease->etag, sizeof(lease->etag), "%s", state.etag);
	*ret_age_s = state.date - state.modified;
	return 0;
}

/* Is this what stands there? Also where conditions mean nothing. */
static int check_lease(const struct lease *lease, struct err *why)
{
	struct buf there;
	int r;

	buf_init(&there, LEASE_LIMIT);
	r = bucket_get(lease->mirror->bucket, LEASE_NAME, &there, NULL, why);
	if (r == 0 && (there.len != lease->text_len ||
		       memcmp(there.data, lease->text, there.len) != 0))
		r = -ENOENT;
	buf_release(&there);
	return r;
}

static int write_lease(struct lease *lease, const struct buf *text, bool is_new,
		       struct err *why)
{
	const struct put_condition condition = {
		.if_match = is_new ? "" : lease->etag,
	};
	struct object_state state;
	struct buf there;
	char etag[128];
	int r = 0;

	/* A look before: not every server heeds the condition. */
	buf_init(&there, LEASE_LIMIT);
	if (is_new)
		r = bucket_get(lease->mirror->bucket, LEASE_NAME, &there,
			       &state, why);
	buf_release(&there);
	if (is_new && r == 0)
		return -EEXIST;
	if (r < 0 && r != -ENOENT)
		return r;
	r = bucket_put(lease->mirror->bucket, LEASE_NAME, text->data, text->len,
		       &condition, etag, why);
	if (r == -ESTALE)
		return is_new ? -EEXIST : -ENOENT;
	if (r < 0)
		return r;
	memcpy(lease->etag, etag, sizeof(etag));
	memcpy(lease->text, text->data, text->len);
	lease->text_len = text->len;
	return check_lease(lease, why);
}

static int renew_lease(struct lease *lease, struct err *why)
{
	const struct put_condition condition = {
		.if_match = lease->etag,
		.attempts = 1,
	};
	char etag[128];
	int r = check_lease(lease, why);

	if (r == 0)
		r = bucket_put(lease->mirror->bucket, LEASE_NAME, lease->text,
			       lease->text_len, &condition, etag, why);
	if (r == -ENOENT)
		return -ESTALE;
	if (r == 0)
		memcpy(lease->etag, etag, sizeof(etag));
	return r;
}

static void remove_lease(struct lease *lease)
{
	if (check_lease(lease, NULL) == 0)
		(void)bucket_delete(lease->mirror->bucket, LEASE_NAME, NULL);
}

int mirror_open_bucket(struct mirror *mirror, const char *where,
		       const struct mirror_access *access, struct err *err)
{
	static const struct mirror_ops ops = {
		.close = close_bucket,
		.is_empty = is_empty,
		.read = read_object,
		.write = write_object,
		.remove = remove_object,
		.remove_many = remove_objects,
		.stat = stat_object,
		.open_reader = open_reader,
		.read_at = read_at,
		.list = list_files,
		.names = list_names,
		.now = now,
		.pack_create = create_pack,
		.pack_store = store_pack,
		.lease_read = read_lease,
		.lease_write = write_lease,
		.lease_renew = renew_lease,
		.lease_remove = remove_lease,
	};

	mirror->ops = &ops;
	mirror->path = strdup(where);
	if (!mirror->path)
		return err_set(err, ENOMEM, "out of memory");
	return bucket_open(where, access, &mirror->bucket, err);
}
