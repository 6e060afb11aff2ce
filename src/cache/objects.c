/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects and heads: small whole files, written under another name and
 * renamed. Their readers check digests and signatures, so nothing is checked
 * here and objects are not synced: after a power cut a damaged one is dropped
 * and fetched again. Heads are synced, because a head lost would let an older
 * one be accepted. A reader waits for most of this, so it is done on a thread
 * of the disk's.
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
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/measure.h"

#define PATH_MAX_OURS (DIGEST_PATH_MAX + 16)
#define READ_STEP 65536

/* What is done with one file. */
struct file_call {
	struct disk_call call; /* first */
	struct cache *cache;
	char path[PATH_MAX_OURS];
	struct buf data; /* read, or to be written */
	enum file_write_flags flags;
	struct digest object; /* it is counted; or of no type */
};

static void file_call_release(struct disk_call *call)
{
	buf_release(&((struct file_call *)call)->data);
}

static struct file_call *file_call_new(struct cache *cache, const char *path,
				       int (*run)(struct disk_call *call))
{
	struct file_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->call.run = run;
	call->call.release = file_call_release;
	call->call.what = "file";
	call->cache = cache;
	snprintf(call->path, sizeof(call->path), "%s", path);
	return call;
}

static int read_there(struct cache *cache, const char *path, struct buf *ret)
{
	_cleanup_close_ int fd = open_regular(cache->dirfd, path, O_RDONLY, 0);
	size_t before = ret->len;
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > ret->limit - before)
		return -EFBIG;
	r = buf_append_zeros(ret, (size_t)st.st_size);
	if (r < 0)
		return r;
	n = read_full(fd, ret->data + before, (size_t)st.st_size);
	if (n == st.st_size)
		return 0;
	ret->len = before;
	return n < 0 ? (int)n : -ENOENT; /* being truncated: as if missing */
}

static int run_read(struct disk_call *call)
{
	struct file_call *file = (struct file_call *)call;
	int r = read_there(file->cache, file->path, &file->data);

	if (r == 0 && file->object.type != DIGEST_NONE)
		measure_used(file->cache, file->path);
	return r;
}

static int read_whole(struct cache *cache, const char *path,
		      const struct digest *object, struct buf *ret)
{
	struct file_call *call = file_call_new(cache, path, run_read);
	int r;

	if (!call)
		return -ENOMEM;
	if (object)
		call->object = *object;
	buf_init(&call->data, ret->limit - ret->len);
	r = disk_run(&cache->disk, &call->call);
	if (r == -ETIMEDOUT)
		return r;
	if (r == 0 && ret->capacity > 0) {
		r = buf_append(ret, call->data.data, call->data.len);
	} else if (r == 0) {
		call->data.limit = ret->limit;
		*ret = call->data;
		call->data = (struct buf){ 0 };
	}
	disk_call_free(&call->call);
	return r;
}

/* What stands in the way is not ours: a directory in place of a file. */
static int write_there(struct cache *cache, const char *path, const void *data,
		       size_t len, enum file_write_flags flags)
{
	int r;

	r = file_write(cache->dirfd, path, data, len, 0600, flags);
	if (r != -EISDIR && r != -ENOTEMPTY && r != -EEXIST)
		return r;
	r = remove_tree(cache->dirfd, path);
	if (r < 0)
		return r;
	return file_write(cache->dirfd, path, data, len, 0600, flags);
}

static void object_path(enum cache_object_kind kind, const struct digest *name,
			char ret_path[PATH_MAX_OURS])
{
	char path[DIGEST_PATH_MAX];

	digest_path("objects", name, path);
	snprintf(ret_path, PATH_MAX_OURS, "%s%s", path,
		 kind == CACHE_PLACES ? ".places" : "");
}

static int64_t disk_bytes(struct cache *cache, const char *path)
{
	struct stat st;

	if (fstatat(cache->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (int64_t)st.st_blocks * 512;
}

static void count(struct cache *cache, const struct digest *name,
		  int64_t delta)
{
	struct record record = { .op = {
		.kind = INDEX_ADD_OTHER, .delta = delta,
		.unit = name->bytes[0],
	} };

	if (delta != 0)
		(void)recorder_add(&cache->recorder, &record);
}

/* ---- objects */

int cache_object_get(struct cache *cache, enum cache_object_kind kind,
		     const struct digest *name, struct buf *ret)
{
	char path[PATH_MAX_OURS];

	object_path(kind, name, path);
	return read_whole(cache, path, name, ret);
}

static int run_put(struct disk_call *call)
{
	struct file_call *file = (struct file_call *)call;
	struct cache *cache = file->cache;
	int64_t before = disk_bytes(cache, file->path);
	int r = write_there(cache, file->path, file->data.data, file->data.len,
			    file->flags);

	if (r == 0 && file->object.type != DIGEST_NONE)
		count(cache, &file->object,
		      disk_bytes(cache, file->path) - before);
	return r;
}

static int write_whole(struct cache *cache, const char *path,
		       const struct digest *object, const void *data,
		       size_t len, enum file_write_flags flags)
{
	struct file_call *call = file_call_new(cache, path, run_put);
	int r;

	if (!call)
		return -ENOMEM;
	if (object)
		call->object = *object;
	call->flags = flags;
	if (flags & FILE_WRITE_SYNC)
		call->call.kind = DISK_SYNC;
	buf_init(&call->data, len);
	r = buf_append(&call->data, data, len);
	if (r == 0)
		return disk_run_and_free(&cache->disk, &call->call);
	disk_call_free(&call->call);
	return r;
}

int cache_object_put(struct cache *cache, enum cache_object_kind kind,
		     const struct digest *name, const void *data, size_t len)
{
	char path[PATH_MAX_OURS];
	int r;

	object_path(kind, name, path);
	r = cache->is_readonly ? -EROFS : space_admit(&cache->space, len);
	if (r == 0)
		r = write_whole(cache, path, name, data, len, FILE_WRITE_MKDIR);
	if (r < 0)
		atomic_fetch_add(&cache->puts_failed, 1);
	space_failed(&cache->space, r);
	return r;
}

static int run_drop(struct disk_call *call)
{
	struct file_call *file = (struct file_call *)call;
	int64_t before = disk_bytes(file->cache, file->path);
	int r = remove_tree(file->cache->dirfd, file->path);

	if (r == 0)
		count(file->cache, &file->object, -before);
	return r;
}

int cache_object_drop(struct cache *cache, enum cache_object_kind kind,
		      const struct digest *name)
{
	char path[PATH_MAX_OURS];
	struct file_call *call;

	if (cache->is_readonly)
		return -EROFS;
	object_path(kind, name, path);
	call = file_call_new(cache, path, run_drop);
	if (!call)
		return -ENOMEM;
	call->object = *name;
	return disk_run_and_free(&cache->disk, &call->call);
}

/* ---- heads */

/* heads/SHA-256 of the key */
static void head_path(const char *key, char ret_path[PATH_MAX_OURS])
{
	char hex[DIGEST_HEX_MAX];
	struct digest digest;

	digest_sha256(key, strlen(key), &digest);
	snprintf(ret_path, PATH_MAX_OURS, "heads/%s", digest_hex(&digest, hex));
}

int cache_head_get(struct cache *cache, const char *key, struct buf *ret)
{
	char path[PATH_MAX_OURS];

	head_path(key, path);
	return read_whole(cache, path, NULL, ret);
}

int cache_head_put(struct cache *cache, const char *key, const void *text,
		   size_t len)
{
	char path[PATH_MAX_OURS];

	if (cache->is_readonly)
		return -EROFS;
	head_path(key, path);
	return write_whole(cache, path, NULL, text, len,
			   FILE_WRITE_MKDIR | FILE_WRITE_SYNC);
}
