/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blob files: their names, reading and writing them at a blob's offsets, whether
 * it is one file or several, removing them. Which file is the current one:
 * blob-attach.c.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/crash.h"
#include "base/text.h"
#include "cache/evict.h"
#include "cache/files.h"
#include "cache/internal.h"

void blob_path(const struct digest *id, uint64_t gen, uint64_t segment_bytes,
	       uint64_t segment, char ret_path[BLOB_PATH_MAX])
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(id, hex);
	if (segment_bytes == 0)
		snprintf(ret_path, BLOB_PATH_MAX, "%.2s/%s.%016" PRIx64, hex,
			 hex + 2, gen);
	else
		snprintf(ret_path, BLOB_PATH_MAX,
			 "%.2s/%s.%016" PRIx64 ".%" PRIu64, hex, hex + 2, gen,
			 segment);
}

void blob_announcement_path(const struct digest *id,
			    char ret_path[BLOB_PATH_MAX])
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(id, hex);
	snprintf(ret_path, BLOB_PATH_MAX, "%.2s/%s.new", hex, hex + 2);
}

int blob_parse_hex64(const char *text, uint64_t *ret)
{
	uint8_t bytes[8];

	if (hex_decode(text, bytes, sizeof(bytes)) < 0)
		return -EINVAL;
	*ret = 0;
	for (int i = 0; i < 8; i++)
		*ret = *ret << 8 | bytes[i];
	return 0;
}

int blob_name_parse(const char *directory, const char *name,
		    char ret_hex[DIGEST_HEX_MAX], uint64_t *ret_gen)
{
	size_t length = strcspn(name, ".");
	char gen[17] = "";

	if (strlen(directory) != 2 || length + 3 > DIGEST_HEX_MAX ||
	    strnlen(name + length, 17) < 17)
		return -EINVAL;
	snprintf(ret_hex, DIGEST_HEX_MAX, "%s%.*s", directory, (int)length,
		 name);
	memcpy(gen, name + length + 1, 16);
	if (name[length + 17] != '\0' && name[length + 17] != '.')
		return -EINVAL;
	return blob_parse_hex64(gen, ret_gen);
}

/* ---- segments */

static uint64_t segment_size(const struct cache_blob *blob, uint64_t segment)
{
	uint64_t start = segment * blob->segment_bytes;

	if (blob->segment_bytes == 0)
		return blob->blob_bytes;
	return blob->blob_bytes - start < blob->segment_bytes ?
		       blob->blob_bytes - start : blob->segment_bytes;
}

/* Opens, locks and, if it is short, extends a file. -ENOENT: as if missing. */
static int open_there(struct cache_blob *blob, const char *path, int flags,
		     uint64_t size)
{
	struct blob_table *table = &blob->cache->blobs;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	fd = open_regular(table->dirfd, path, O_RDWR | flags, 0600);
	if (fd == -EROFS || fd == -EACCES)
		fd = open_regular(table->dirfd, path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	/* The mark of a file in use. The evictor holds the other kind for
	 * the moment in which it unlinks. */
	r = ofd_lock(fd, F_RDLCK, 0, 1);
	if (r == -EAGAIN)
		return -ENOENT;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return -ENOENT;
	if ((uint64_t)st.st_size < size && !blob->cache->is_readonly &&
	    ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* The same; what is to be made gets its directory, which eviction takes away
 * whenever it is empty. */
int blob_open_file(struct cache_blob *blob, const char *path, int flags,
		     uint64_t size)
{
	const char directory[3] = { path[0], path[1], '\0' };
	int r = open_there(blob, path, flags, size);

	for (int i = 0; i < BLOB_TRIES && r == -ENOENT && (flags & O_CREAT);
	     i++) {
		if (mkdirat(blob->cache->blobs.dirfd, directory, 0700) < 0 &&
		    errno != EEXIST)
			return -errno;
		r = open_there(blob, path, flags, size);
	}
	return r;
}

/* ---- calls on threads of the disk's */

struct blob_call {
	struct disk_call call; /* first */
	struct cache_blob *blob;
	int (*run)(struct cache_blob *blob, uint64_t segment, bool may_create);
	uint64_t segment;
	bool may_create;
};

static int call_run(struct disk_call *call)
{
	struct blob_call *blob_call = (struct blob_call *)call;

	return blob_call->run(blob_call->blob, blob_call->segment,
			      blob_call->may_create);
}

static void call_release(struct disk_call *call)
{
	blob_unref(((struct blob_call *)call)->blob);
}

int blob_run(struct cache_blob *blob,
	     int (*run)(struct cache_blob *blob, uint64_t segment,
			bool may_create),
	     uint64_t segment, bool may_create)
{
	struct blob_call *call = calloc(1, sizeof(*call));

	if (!call)
		return -ENOMEM;
	*call = (struct blob_call){
		.call = { .run = call_run,
			  .release = call_release,
			  .what = "blob" },
		.blob = blob,
		.run = run,
		.segment = segment,
		.may_create = may_create,
	};
	blob_ref(blob);
	return disk_run_and_free(&blob->cache->disk, &call->call);
}

static int open_segment(struct cache_blob *blob, uint64_t segment,
			bool may_create)
{
	char path[BLOB_PATH_MAX];
	int fd;

	/* Held across an open: only who wants this very file waits. */
	scoped_lock(&blob->lock);
	fd = atomic_load(&blob->fds[segment]);
	if (fd >= 0)
		return fd;
	if (blob->is_unnamed || atomic_load(&blob->is_stale))
		may_create = false;
	blob_path(&blob->id, blob->gen, blob->segment_bytes, segment, path);
	fd = blob_open_file(blob, path, may_create ? O_CREAT : 0,
		       segment_size(blob, segment));
	if (fd < 0)
		return fd;
	watch_start(blob, segment, fd);
	atomic_store_explicit(&blob->fds[segment], fd, memory_order_release);
	return fd;
}

int blob_segment(struct cache_blob *blob, uint64_t segment, bool may_create)
{
	int fd;

	if (segment >= blob->segment_count)
		return -EINVAL;
	fd = atomic_load_explicit(&blob->fds[segment], memory_order_acquire);
	return fd >= 0 ? fd : blob_run(blob, open_segment, segment, may_create);
}

void blob_distrust(struct cache_blob *blob)
{
	/* First the number, then the bits: cache_blob_has. */
	atomic_fetch_add(&blob->distrusts, 1);
	for (uint64_t i = 0; i < (blob->unit_count + 63) / 64; i++)
		atomic_store(&blob->sound[i], 0);
	atomic_store(&blob->own_units, 0);
	atomic_store(&blob->own_bytes, 0);
}

bool blob_segment_is_whole(const struct cache_blob *blob, uint64_t segment,
			   const struct stat *st)
{
	return (uint64_t)st->st_size >= segment_size(blob, segment);
}

/* Calls fn for the parts of a range that lie in one file each. */
static int for_parts(struct cache_blob *blob, uint64_t offset, size_t len,
		     bool may_create,
		     int (*fn)(struct cache_blob *blob, uint64_t segment,
			       int fd, uint64_t at, size_t len, void *arg),
		     uint8_t *data)
{
	while (len > 0) {
		uint64_t segment = 0, at = offset;
		size_t part = len;
		int fd, r;

		if (blob->segment_bytes > 0) {
			segment = offset / blob->segment_bytes;
			at = offset % blob->segment_bytes;
			if (part > blob->segment_bytes - at)
				part = (size_t)(blob->segment_bytes - at);
		}
		fd = blob_segment(blob, segment, may_create);
		if (fd < 0)
			return fd;
		r = fn(blob, segment, fd, at, part, data);
		if (r < 0)
			return r;
		offset += part;
		len -= part;
		data = data ? data + part : NULL;
	}
	return 0;
}

static int write_part(struct cache_blob *blob, uint64_t segment, int fd,
		      uint64_t at, size_t len, void *data)
{
	int r;

	watch_write(blob, segment, fd);
	r = pwrite_full(fd, data, len, at);
	watch_written(blob, segment, fd);
	return r;
}

static int read_part(struct cache_blob *blob, uint64_t segment, int fd,
		     uint64_t at, size_t len, void *data)
{
	ssize_t n = pread_full(fd, data, len, at);

	(void)blob;
	(void)segment;
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -ENODATA;
}

static int check_hole(struct cache_blob *blob, uint64_t segment, int fd,
		      uint64_t at, size_t len, void *data)
{
	off_t next = lseek(fd, (off_t)at, SEEK_DATA);

	(void)blob;
	(void)segment;
	(void)data;
	if (next < 0)
		return errno == ENXIO ? 0 : -errno;
	return (uint64_t)next >= at + len ? 0 : -EEXIST;
}

static int check_data(struct cache_blob *blob, uint64_t segment, int fd,
		      uint64_t at, size_t len, void *data)
{
	off_t next = lseek(fd, (off_t)at, SEEK_HOLE);

	(void)blob;
	(void)segment;
	(void)data;
	return next < 0 || (uint64_t)next >= at + len ? 0 : -ENODATA;
}

int blob_write(struct cache_blob *blob, uint64_t offset, const void *data,
	       size_t len)
{
	return for_parts(blob, offset, len, true, write_part, (uint8_t *)data);
}

int blob_read(struct cache_blob *blob, uint64_t offset, void *data, size_t len)
{
	int r = for_parts(blob, offset, len, false, read_part, data);

	return r == -ENOENT ? -ENODATA : r;
}

bool blob_has_hole(struct cache_blob *blob, uint64_t offset, size_t len)
{
	return for_parts(blob, offset, len, false, check_data, NULL) ==
	       -ENODATA;
}

bool blob_is_hole(struct cache_blob *blob, uint64_t offset, size_t len)
{
	int r = for_parts(blob, offset, len, false, check_hole, NULL);

	return r == 0 || r == -ENOENT; /* no such segment yet */
}

uint64_t blob_disk_bytes(struct cache_blob *blob)
{
	struct stat st;
	int fd;

	if (blob->segment_count != 1)
		return 0;
	fd = atomic_load(&blob->fds[0]);
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	return st.st_blocks > 0 ? (uint64_t)st.st_blocks * 512 : 512;
}

/* ---- removing */

void blob_add_unlinked(struct cache_blob *blob, uint64_t bytes)
{
	atomic_fetch_add(&blob->unlinked_bytes, bytes);
	atomic_fetch_add(&blob->cache->space.unlinked, bytes);
}

void blob_unlink_own(struct cache_blob *blob)
{
	for (uint64_t i = 0; i < blob->segment_count; i++) {
		char path[BLOB_PATH_MAX];
		struct stat st;
		int fd = atomic_load(&blob->fds[i]);

		if (fd < 0)
			continue;
		if (!blob->is_unnamed && fstat(fd, &st) == 0)
			blob_add_unlinked(blob, (uint64_t)st.st_blocks * 512);
		blob_path(&blob->id, blob->gen, blob->segment_bytes, i, path);
		unlinkat(blob->cache->blobs.dirfd, path, 0);
	}
}

void blob_directory_drop(int blobs_fd, const struct digest *id)
{
	char path[BLOB_PATH_MAX];

	blob_announcement_path(id, path);
	path[2] = '\0';
	unlinkat(blobs_fd, path, AT_REMOVEDIR);
}

static int remove_file(int blobs_fd, const char *path, bool is_dry_run)
{
	_cleanup_close_ int fd = open_regular(blobs_fd, path, O_RDWR, 0);
	int r;

	if (fd < 0)
		return fd;
	/* Held until it is unlinked: who opens it meanwhile sees no file. */
	r = ofd_lock(fd, F_WRLCK, 0, 1);
	if (r < 0)
		return r == -EAGAIN ? -EBUSY : r;
	if (is_dry_run)
		return 0;
	crash_point("evict-locked");
	return unlinkat(blobs_fd, path, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int blob_file_remove(int blobs_fd, const struct evict_candidate *candidate,
		     bool is_dry_run)
{
	char path[BLOB_PATH_MAX];

	blob_path(&candidate->id, candidate->gen, candidate->segment_bytes,
		  candidate->segment, path);
	return remove_file(blobs_fd, path, is_dry_run);
}
