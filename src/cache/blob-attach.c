/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file is a blob's current one is said by the index; for
 * the time between making a file and its first commit, a symlink cdef.new
 * whose text names the generation announces it. Making that symlink is the
 * arbitration between processes: it exists or it does not, nobody waits for
 * a commit before the first byte can be stored, and after a crash the next
 * process adopts the file. It is read, never followed. Generations are
 * random 64-bit numbers: unlike a counter they survive a lost index without
 * ever repeating, and need no transaction.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/io.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/internal.h"

static int attach_to(struct cache_blob *blob, uint64_t gen,
		     uint64_t segment_bytes, int first_fd)
{
	uint64_t count =
		segment_bytes == 0 ?
			1 :
			(blob->blob_bytes + segment_bytes - 1) / segment_bytes;

	if (count == 0 || count > LIMIT_SEGMENTS)
		return -EFBIG;
	blob->fds = calloc(count, sizeof(*blob->fds));
	blob->watches = calloc(count, sizeof(*blob->watches));
	if (!blob->fds || !blob->watches) {
		free(blob->fds);
		free(blob->watches);
		blob->fds = NULL;
		blob->watches = NULL;
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < count; i++)
		atomic_init(&blob->fds[i], -1);
	atomic_store(&blob->fds[0], first_fd);
	if (first_fd >= 0)
		watch_start(blob, 0, first_fd);
	blob->gen = gen;
	blob->segment_bytes = segment_bytes;
	blob->segment_count = count;
	atomic_store_explicit(&blob->is_attached, true, memory_order_release);
	return 0;
}

/* Attach to an existing file of generation gen. */
static int attach_existing(struct cache_blob *blob, uint64_t gen,
			   uint64_t segment_bytes)
{
	_cleanup_close_ int fd = -1;
	char path[BLOB_PATH_MAX];
	int r;

	/* Of segments any may be missing: they are looked for when needed. */
	if (segment_bytes == 0) {
		blob_path(&blob->id, gen, 0, 0, path);
		fd = blob_open_file(blob, path, 0, blob->blob_bytes);
		if (fd < 0)
			return fd;
	}
	r = attach_to(blob, gen, segment_bytes, fd);
	if (r == 0)
		(void)steal_fd(&fd);
	return r;
}

/* The index's row, unless its file is known to be gone. 1, 0, errno. */
static int current_row(struct cache_blob *blob, struct blob_row *ret)
{
	int r;

	if (!cache_has_index(blob->cache))
		return 0;
	r = index_blob(blob->cache->index, &blob->id, ret);
	if (r == 1 && ret->gen == blob->missing_gen)
		return 0;
	return r;
}

/* The file of the row is not there: tell the index, look elsewhere. */
static void row_lost(struct cache_blob *blob, const struct blob_row *row)
{
	struct record drop = {.op = {
				      .kind = INDEX_DROP_BLOB,
				      .id = blob->id,
				      .gen = row->gen,
			      }};

	blob->missing_gen = row->gen;
	atomic_fetch_add(&blob->cache->blobs_lost, 1);
	/* Nothing to warn of: another process may be evicting it. */
	log_debug("blob file missing, forgetting it: gen=%016" PRIx64,
		  row->gen);
	if (!blob->cache->is_readonly)
		(void)recorder_add(&blob->cache->recorder, &drop);
}

static int attach_by_index(struct cache_blob *blob)
{
	struct blob_row row;
	int r = current_row(blob, &row);

	if (r != 1)
		return -ENOENT;
	if (row.blob_bytes != blob->blob_bytes ||
	    row.unit_count != blob->unit_count) {
		row_lost(blob, &row);
		return -ENOENT;
	}
	r = attach_existing(blob, row.gen, row.segment_bytes);
	if (r == -ENOENT)
		row_lost(blob, &row);
	if (r == 0) {
		atomic_store(&blob->is_recorded, true);
		seal_load(blob, &row);
	}
	return r;
}

/* A file that another process has made and not recorded yet. -EAGAIN: it has
 * been recorded meanwhile. */
static int attach_announced(struct cache_blob *blob)
{
	struct blob_table *table = &blob->cache->blobs;
	char path[BLOB_PATH_MAX], text[64] = "";
	uint64_t gen, segment_bytes;
	struct blob_row row;
	ssize_t n;
	int r;

	if (!cache_has_index(blob->cache))
		return -ENOENT;
	blob_announcement_path(&blob->id, path);
	n = readlinkat(table->dirfd, path, text, sizeof(text) - 1);
	if (n < 0)
		return -ENOENT;
	/* Its maker withdraws it if a row was there before it; so was ours
	 * to see then. */
	if (current_row(blob, &row) == 1)
		return -EAGAIN;
	r = -ENOENT;
	if (n == 33 && text[16] == '-') {
		text[16] = '\0';
		if (blob_parse_hex64(text, &gen) == 0 && gen != 0 &&
		    blob_parse_hex64(text + 17, &segment_bytes) == 0 &&
		    gen != blob->missing_gen)
			r = attach_existing(blob, gen, segment_bytes);
	}
	/* Whoever records first takes it away, its maker may be dead. */
	if (r == 0)
		atomic_store(&blob->is_announced, true);
	/* Left by a process that died; never a promise. */
	if (r == -ENOENT && !blob->cache->is_readonly)
		unlinkat(table->dirfd, path, 0);
	return r;
}

/* A name of the blob in its directory: its generation, and whether it is of
 * a segment. */
static int parse_candidate(struct cache_blob *blob, const char *directory,
			   const char *name, uint64_t *ret_gen,
			   uint64_t *ret_segment_bytes)
{
	char hex[DIGEST_HEX_MAX], wanted[DIGEST_HEX_MAX];

	if (blob_name_parse(directory, name, hex, ret_gen) < 0 ||
	    strcmp(hex, digest_hex(&blob->id, wanted)) != 0 || *ret_gen == 0 ||
	    *ret_gen == blob->missing_gen)
		return -ENOENT;
	*ret_segment_bytes =
		strchr(strchr(name, '.') + 1, '.') ? SEGMENT_BYTES : 0;
	return *ret_segment_bytes && blob->blob_bytes <= SEGMENT_BYTES ?
		       -ENOENT :
		       0;
}

/*
 * A file that was there before the index: what is in it may be the blob's.
 * Several are possible; every process takes the one with the highest number.
 */
static int attach_candidate(struct cache_blob *blob)
{
	_cleanup_closedir_ DIR *dir = NULL;
	uint64_t best = 0, best_segment_bytes = 0, gen, segment_bytes;
	char path[BLOB_PATH_MAX];
	struct dirent *entry;

	if (!cache_has_index(blob->cache) ||
	    index_old_data_s(blob->cache->index) == 0)
		return -ENOENT;
	blob_announcement_path(&blob->id, path);
	path[2] = '\0';
	if (directory_open(blob->cache->blobs.dirfd, path, O_NOFOLLOW, &dir) <
	    0)
		return -ENOENT;
	while ((entry = readdir(dir))) {
		if (parse_candidate(blob, path, entry->d_name, &gen,
				    &segment_bytes) < 0 ||
		    gen < best)
			continue;
		best = gen;
		best_segment_bytes = segment_bytes;
	}
	return best ? attach_existing(blob, best, best_segment_bytes) : -ENOENT;
}

static uint64_t choose_gen(void)
{
	uint64_t gen = 0;

	while (gen == 0)
		if (getrandom(&gen, sizeof(gen), 0) != sizeof(gen))
			gen = now_ns() << 16 ^ (uint64_t)getpid();
	return gen;
}

/* A new file stays open until it is recorded, and while the index is held by a
 * process that is stopped none is. Half of the descriptors are left for those
 * who read and for connections. A new one would be the lowest that is free. */
static bool is_short_of_descriptors(const struct cache *cache)
{
	int lowest = fcntl(cache->blobs.dirfd, F_DUPFD_CLOEXEC, 0);
	struct rlimit limit;

	if (lowest >= 0)
		close(lowest);
	return lowest < 0 || (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
			      (rlim_t)lowest >= limit.rlim_cur / 2);
}

static int create_file(struct cache_blob *blob, const char *path,
		       uint64_t segment_bytes)
{
	uint64_t size = segment_bytes && segment_bytes < blob->blob_bytes ?
				segment_bytes :
				blob->blob_bytes;

	return blob_open_file(blob, path, O_CREAT | O_EXCL, size);
}

/* 0 and the announcement is ours, -EEXIST, or it cannot be made: 0. */
static int announce(struct cache_blob *blob, uint64_t gen,
		    uint64_t segment_bytes)
{
	struct blob_table *table = &blob->cache->blobs;
	char path[BLOB_PATH_MAX], text[64];
	struct blob_row row;

	blob_announcement_path(&blob->id, path);
	snprintf(text, sizeof(text), "%016" PRIx64 "-%016" PRIx64, gen,
		 segment_bytes);
	if (symlinkat(text, table->dirfd, path) < 0)
		return errno == EEXIST ? -EEXIST : 0;
	/* Another process may have announced, recorded and taken its
	 * announcement away between our two looks. */
	if (current_row(blob, &row) == 1 && row.gen != gen) {
		unlinkat(table->dirfd, path, 0);
		return -EEXIST;
	}
	atomic_store(&blob->is_announced, true);
	return 0;
}

static int attach_new(struct cache_blob *blob)
{
	struct cache *cache = blob->cache;
	uint64_t gen = choose_gen();
	uint64_t segment_bytes = 0;
	_cleanup_close_ int fd = -1;
	char path[BLOB_PATH_MAX];
	int r = 0;

	if (is_short_of_descriptors(cache)) {
		blob_table_trim(&cache->blobs, INT64_MAX);
		if (is_short_of_descriptors(cache))
			return -EMFILE;
	}
	if (blob->blob_bytes > cache->space.limits.limit_bytes / 8 &&
	    blob->blob_bytes > SEGMENT_BYTES && cache_has_index(cache))
		segment_bytes = SEGMENT_BYTES;
	blob_path(&blob->id, gen, segment_bytes, 0, path);
	fd = create_file(blob, path, segment_bytes);
	if (fd < 0)
		return fd;
	crash_point("blob-created");
	/* Nothing could ever tell that a file made without the index is
	 * there: it lives as long as its descriptor. Unlinked before it is
	 * watched, as that changes its times. */
	blob->is_unnamed = !cache_has_index(cache);
	if (blob->is_unnamed)
		unlinkat(cache->blobs.dirfd, path, 0);
	else
		r = announce(blob, gen, segment_bytes);
	crash_point("blob-announced");
	if (r == 0)
		r = attach_to(blob, gen, segment_bytes, fd);
	if (r < 0)
		unlinkat(cache->blobs.dirfd, path, 0);
	else
		(void)steal_fd(&fd);
	return r;
}

static int attach(struct cache_blob *blob, uint64_t segment, bool may_create)
{
	int r = -ENOENT;

	(void)segment;
	scoped_lock(&blob->lock);
	if (atomic_load(&blob->is_attached))
		return 0;
	for (int i = 0; i < BLOB_TRIES; i++) {
		r = attach_by_index(blob);
		if (r == -ENOENT)
			r = attach_announced(blob);
		if (r == -ENOENT)
			r = attach_candidate(blob);
		if (r == -ENOENT && may_create)
			r = attach_new(blob);
		if (r != -EEXIST && r != -EAGAIN)
			return r;
	}
	return -EBUSY;
}

int blob_attach(struct cache_blob *blob, bool may_create)
{
	if (atomic_load_explicit(&blob->is_attached, memory_order_acquire))
		return 0;
	if (blob->cache->blobs.dirfd < 0)
		return -EROFS;
	return blob_run(blob, attach, 0, may_create);
}

void blob_recorded(struct cache_blob *blob)
{
	char path[BLOB_PATH_MAX];

	atomic_store(&blob->is_recorded, true);
	if (!atomic_load(&blob->is_announced) ||
	    !atomic_exchange(&blob->is_announced, false))
		return;
	blob_announcement_path(&blob->id, path);
	crash_point("blob-recorded");
	unlinkat(blob->cache->blobs.dirfd, path, 0);
	crash_point("blob-unannounced");
}
