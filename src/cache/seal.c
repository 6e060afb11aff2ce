/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The complete mark of a blob and whether it still holds. A mark is compared
 * with the file wherever a descriptor is handed out; that costs one fstat,
 * which the length of the file needs anyway. What differs is not judged:
 * somebody has touched the file, so the mark is void, every unit is checked
 * again, and if all are right it is marked anew. How it comes to be marked:
 * sealer.c.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/files.h"
#include "cache/internal.h"

static bool can_be_sealed(const struct cache_blob *blob)
{
	return blob->segment_bytes == 0 && !blob->is_unnamed &&
	       !atomic_load(&blob->is_stale) && !atomic_load(&blob->is_cut);
}

bool seal_is_wanted(const struct cache_blob *blob)
{
	return !blob->is_unnamed && (blob->segment_bytes == 0 ||
				     atomic_load(&blob->seal.is_by_content));
}

static int64_t nanoseconds(const struct timespec *time)
{
	return (int64_t)((uint64_t)time->tv_sec * 1000000000u +
			 (uint64_t)time->tv_nsec);
}

struct file_mark file_mark_of(const struct stat *st)
{
	return (struct file_mark){
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = nanoseconds(&st->st_mtim),
		.ctime_ns = nanoseconds(&st->st_ctim),
	};
}

static struct file_mark mark_get(const struct seal *seal)
{
	return (struct file_mark){
		.device = atomic_load(&seal->device),
		.inode = atomic_load(&seal->inode),
		.size = atomic_load(&seal->size),
		.mtime_ns = atomic_load(&seal->mtime_ns),
		.ctime_ns = atomic_load(&seal->ctime_ns),
	};
}

void cache_blob_expect(struct cache_blob *blob)
{
	atomic_store(&blob->seal.is_by_content, true);
}

unsigned int cache_blob_rejections(struct cache_blob *blob)
{
	return atomic_load(&blob->seal.rejections);
}

bool seal_agrees(const struct cache_blob *blob, const struct stat *st)
{
	struct file_mark marked = mark_get(&blob->seal);
	struct file_mark now = file_mark_of(st);

	return file_mark_equal(&marked, &now);
}

void seal_set(struct cache_blob *blob, const struct file_mark *mark)
{
	struct seal *seal = &blob->seal;

	if (blob->segment_bytes > 0 || atomic_load(&seal->is_sealed))
		return;
	atomic_store(&seal->device, mark->device);
	atomic_store(&seal->inode, mark->inode);
	atomic_store(&seal->size, mark->size);
	atomic_store(&seal->mtime_ns, mark->mtime_ns);
	atomic_store(&seal->ctime_ns, mark->ctime_ns);
	atomic_store(&seal->is_sealed, true);
}

void seal_void(struct cache_blob *blob)
{
	struct record unmark = {
		.op = {
			.kind = INDEX_UNMARK, .id = blob->id,
			.gen = blob->gen, .mark = mark_get(&blob->seal),
		},
		.blob = blob,
	};

	if (!atomic_exchange(&blob->seal.is_sealed, false))
		return;
	blob_distrust(blob);
	log_limited(1000, log_warning("blob file changed by somebody else, "
				      "checking it again: gen=%016" PRIx64,
				      blob->gen));
	if (blob->cache->is_readonly)
		return;
	/* Once that is recorded, it is checked as a whole. */
	blob_ref(blob);
	if (recorder_add(&blob->cache->recorder, &unmark) < 0)
		blob_unref(blob);
}

void seal_load(struct cache_blob *blob, const struct blob_row *row)
{
	struct stat st;
	int fd = atomic_load(&blob->fds[0]);

	/* Also for those who know the blob from the index only. */
	if (row->is_by_content)
		cache_blob_expect(blob);
	if (row->present_units != row->unit_count)
		return;
	if (!row->has_mark && !atomic_load(&blob->seal.is_checking) &&
	    !atomic_load(&blob->is_stale) && !atomic_load(&blob->is_cut))
		sealer_add(blob);
	if (!row->has_mark || !can_be_sealed(blob))
		return;
	seal_set(blob, &row->mark);
	if (fstat(fd, &st) < 0 || !seal_agrees(blob, &st))
		seal_void(blob);
}

/* Its mark may have been set by another process. */
static bool is_marked(struct cache_blob *blob)
{
	struct blob_row row;

	if (atomic_load(&blob->seal.is_sealed))
		return true;
	if (!cache_has_index(blob->cache) ||
	    index_blob(blob->cache->index, &blob->id, &row) != 1 ||
	    row.gen != blob->gen)
		return false;
	seal_load(blob, &row);
	return atomic_load(&blob->seal.is_sealed);
}

/*
 * Who gets the descriptor reads without us, and errors would be his: none is
 * given of a file on a disk that fails. We read the first byte to see that: it
 * is the last to be in memory still.
 */
static bool is_readable(const struct cache_blob *blob, int fd)
{
	uint8_t byte;

	return blob->blob_bytes == 0 || pread_full(fd, &byte, 1, 0) == 1;
}

bool cache_blob_is_proven(struct cache_blob *blob)
{
	struct blob_row row;
	int fd;

	if (blob_attach(blob, false) < 0)
		return false;
	if (blob->segment_bytes > 0) {
		if (!cache_has_index(blob->cache) ||
		    index_blob(blob->cache->index, &blob->id, &row) != 1 ||
		    row.gen != blob->gen)
			return false;
		/* Who was to check it may have been killed. */
		seal_load(blob, &row);
		return row.has_mark;
	}
	if (cache_blob_sealed_fd(blob, &fd) != 1)
		return false;
	close(fd);
	return true;
}

int cache_blob_prove(struct cache_blob *blob)
{
	int failure = atomic_exchange(&blob->seal.failure, 0);

	return failure < 0 ? failure : cache_blob_is_proven(blob);
}

int cache_blob_sealed_fd(struct cache_blob *blob, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	char path[BLOB_PATH_MAX];
	struct stat st;

	if (blob_attach(blob, false) < 0 || !can_be_sealed(blob) ||
	    !is_marked(blob))
		return 0;
	blob_path(&blob->id, blob->gen, 0, 0, path);
	fd = open_regular(blob->cache->blobs.dirfd, path, O_RDONLY, 0);
	if (fd >= 0 && ofd_lock(fd, F_RDLCK, 0, 1) == -EAGAIN)
		return 0; /* being evicted */
	if (fd < 0 || fstat(fd, &st) < 0 || !seal_agrees(blob, &st)) {
		if (fd >= 0 || fd == -ENOENT)
			seal_void(blob);
		return 0;
	}
	if (!is_readable(blob, fd))
		return 0;
	*ret_fd = steal_fd(&fd);
	return 1;
}
