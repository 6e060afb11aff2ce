/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blob files. Which file is a blob's current one is said by the index; for
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/crash.h"
#include "base/text.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/evict.h"
#include "cache/files.h"
#include "cache/internal.h"

/* Two processes that keep undoing each other's files give up after this. */
#define ATTACH_TRIES 8

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

static int parse_hex64(const char *text, uint64_t *ret)
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
	return parse_hex64(gen, ret_gen);
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
static int open_file(struct cache_blob *blob, const char *path, int flags,
		     uint64_t size)
{
	const char directory[3] = { path[0], path[1], '\0' };
	int r = open_there(blob, path, flags, size);

	for (int i = 0; i < ATTACH_TRIES && r == -ENOENT && (flags & O_CREAT);
	     i++) {
		if (mkdirat(blob->cache->blobs.dirfd, directory, 0700) < 0 &&
		    errno != EEXIST)
			return -errno;
		r = open_there(blob, path, flags, size);
	}
	return r;
}

int blob_segment(struct cache_blob *blob, uint64_t segment, bool may_create)
{
	char path[BLOB_PATH_MAX];
	int fd;

	if (segment >= blob->segment_count)
		return -EINVAL;
	fd = atomic_load_explicit(&blob->fds[segment], memory_order_acquire);
	if (fd >= 0)
		return fd;
	/* Held across an open: only who wants this very file waits. */
	scoped_lock(&blob->lock);
	fd = atomic_load(&blob->fds[segment]);
	if (fd >= 0)
		return fd;
	if (blob->is_unnamed || atomic_load(&blob->is_stale))
		may_create = false;
	blob_path(&blob->id, blob->gen, blob->segment_bytes, segment, path);
	fd = open_file(blob, path, may_create ? O_CREAT : 0,
		       segment_size(blob, segment));
	if (fd < 0)
		return fd;
	watch_start(blob, segment, fd);
	atomic_store_explicit(&blob->fds[segment], fd, memory_order_release);
	return fd;
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

/* ---- which file */

static int attach_to(struct cache_blob *blob, uint64_t gen,
		     uint64_t segment_bytes, int first_fd)
{
	uint64_t count = segment_bytes == 0 ? 1 :
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
		fd = open_file(blob, path, 0, blob->blob_bytes);
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
	struct record drop = { .op = {
		.kind = INDEX_DROP_BLOB, .id = blob->id, .gen = row->gen,
	} };

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
		if (parse_hex64(text, &gen) == 0 && gen != 0 &&
		    parse_hex64(text + 17, &segment_bytes) == 0 &&
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
	    strcmp(hex, digest_hex(&blob->id, wanted)) != 0 ||
	    *ret_gen == 0 || *ret_gen == blob->missing_gen)
		return -ENOENT;
	*ret_segment_bytes = strchr(strchr(name, '.') + 1, '.') ?
				     SEGMENT_BYTES : 0;
	return *ret_segment_bytes && blob->blob_bytes <= SEGMENT_BYTES ?
		       -ENOENT : 0;
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
	if (directory_open(blob->cache->blobs.dirfd, path, O_NOFOLLOW,
			   &dir) < 0)
		return -ENOENT;
	while ((entry = readdir(dir))) {
		if (parse_candidate(blob, path, entry->d_name, &gen,
				    &segment_bytes) < 0 || gen < best)
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

static int create_file(struct cache_blob *blob, const char *path,
		       uint64_t segment_bytes)
{
	uint64_t size = segment_bytes && segment_bytes < blob->blob_bytes ?
				segment_bytes : blob->blob_bytes;

	return open_file(blob, path, O_CREAT | O_EXCL, size);
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

int blob_attach(struct cache_blob *blob, bool may_create)
{
	int r = -ENOENT;

	if (atomic_load_explicit(&blob->is_attached, memory_order_acquire))
		return 0;
	if (blob->cache->blobs.dirfd < 0)
		return -EROFS;
	scoped_lock(&blob->lock);
	if (atomic_load(&blob->is_attached))
		return 0;
	for (int i = 0; i < ATTACH_TRIES; i++) {
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
