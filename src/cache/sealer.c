/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How complete blobs get their mark: a few threads sync a file, read it
 * again and compare each unit with the checksum that was made of its verified
 * bytes. No digest is computed of chunks: what was put had been checked against
 * one, and rot needs no more than XXH3 to be seen. Files by reference had
 * nothing to be checked against, so their one digest is compared here. Reading is from the page
 * cache while the kernel still has the file, since that is what readers will
 * get; `larder verify` reads past it. Only keys are queued, so that a thousand
 * files filled at once are not held open until their turn.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/io.h"
#include "base/thread.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "format/limits.h"

/* 4 MiB; what does not fit is checked when it is opened again. */
#define QUEUE_MAX 65536u
/* A tenth of a second of a slow disk. */
#define SYNC_BYTES (UINT64_C(16) << 20)
/* Held while a process checks a file, so that no two do. */
#define LOCK_SEALER 1
/*
 * A file's times advance in steps of a tick, at most 10 ms, where the kernel
 * keeps no finer ones (before Linux 6.13): a change in the tick in which we
 * looked could not be told.
 */
static const struct timespec tick_pause = { .tv_nsec = 20000000 };

struct check {
	struct sealer *sealer;
	struct cache_blob *blob;
	uint64_t at; /* units must follow each other without a gap */
	uint8_t *buffer;
	struct hasher *hasher; /* NULL: the units' digests were enough */
	bool is_wrong;
};

static bool is_right(struct check *check, const struct unit_row *row)
{
	if (blob_read(check->blob, row->offset, check->buffer, row->length) <
		    0 ||
	    checksum_xxh3(check->buffer, row->length) != row->checksum)
		return false;
	if (check->hasher)
		hasher_add(check->hasher, check->buffer, row->length);
	return true;
}

/* 0 right, 1 wrong, negative errno: not known. */
static int check_unit(struct check *check, uint64_t unit,
		      const struct unit_row *row)
{
	struct cache_blob *blob = check->blob;
	struct unit_row again;

	if (row->offset != check->at || row->length > LIMIT_CHUNK_BYTES)
		return -EINVAL;
	check->at += row->length;
	if (is_right(check, row))
		return 0;
	/* It may just have been found bad, and put again. */
	if (index_unit(blob->cache->index, &blob->id, blob->gen, unit,
		       &again) != 1)
		return -ENOENT;
	if (again.offset == row->offset && again.length == row->length &&
	    is_right(check, &again))
		return 0;
	blob_unit_suspect(check->blob, unit, row->length);
	return 1;
}

static int check_row(struct check *check, uint32_t number)
{
	struct cache_blob *blob = check->blob;
	uint64_t first = (uint64_t)number * ROW_UNITS;
	struct units_row row;

	if (index_units(blob->cache->index, &blob->id, blob->gen,
			blob->unit_count, number, &row) != 1)
		return -ENOENT;
	for (uint32_t i = 0; i < row.count; i++) {
		int r;

		if (atomic_load(&check->sealer->is_stopping))
			return -ESHUTDOWN;
		if (!(row.present[i / 64] >> (i % 64) & 1))
			return -ENOENT;
		r = check_unit(check, first + i, &row.units[i]);
		if (r < 0)
			return r;
		if (r > 0)
			check->is_wrong = true;
	}
	return 0;
}

/* Wrong as a whole: which unit is to blame nobody can say. */
static int reject(struct cache_blob *blob)
{
	uint64_t rows = (blob->unit_count + ROW_UNITS - 1) / ROW_UNITS;
	char hex[DIGEST_HEX_MAX];

	atomic_fetch_add(&blob->seal.rejections, 1);
	log_warning("a file's bytes do not have its digest, dropping it: "
		    "digest=%s",
		    digest_hex(&blob->id, hex));
	for (uint64_t i = 0; i < rows; i++) {
		struct units_row row;

		if (index_units(blob->cache->index, &blob->id, blob->gen,
				blob->unit_count, (uint32_t)i, &row) != 1)
			continue;
		for (uint32_t j = 0; j < row.count; j++)
			cache_blob_drop(blob, i * ROW_UNITS + j,
					row.units[j].length);
	}
	return -EBADMSG;
}

static int check_content(struct check *check)
{
	struct digest digest;

	if (!check->hasher)
		return 0;
	hasher_finish(check->hasher, &digest);
	if (digest_equal(&digest, &check->blob->id))
		return 0;
	return digest_is_none(&digest) ? -ENOMEM : reject(check->blob);
}

static int check_rows(struct check *check)
{
	struct cache_blob *blob = check->blob;
	uint64_t rows = (blob->unit_count + ROW_UNITS - 1) / ROW_UNITS;

	for (uint64_t i = 0; i < rows; i++) {
		int r = check_row(check, (uint32_t)i);

		if (r < 0)
			return r;
	}
	if (check->is_wrong)
		return -EBADMSG;
	return check->at == blob->blob_bytes ? check_content(check) : -EINVAL;
}

/* 0: every unit lies where it should and is what was put. */
static int check_units(struct sealer *sealer, struct cache_blob *blob)
{
	struct check check = { .sealer = sealer, .blob = blob };
	_cleanup_free_ uint8_t *buffer = malloc(LIMIT_CHUNK_BYTES);
	int r = buffer ? 0 : -ENOMEM;

	check.buffer = buffer;
	if (r == 0 && atomic_load(&blob->seal.is_by_content)) {
		check.hasher = hasher_new();
		r = check.hasher ? hasher_start(check.hasher, blob->id.type,
						blob->blob_bytes) :
				   -ENOMEM;
	}
	if (r == 0)
		r = check_rows(&check);
	hasher_free(check.hasher);
	return r;
}

/* The file of the blob's name; -ESTALE: what we have open is not that. */
static int look_at_file(struct cache_blob *blob, struct file_mark *ret)
{
	char path[BLOB_PATH_MAX];
	struct stat st, named;

	blob_path(&blob->id, blob->gen, 0, 0, path);
	if (fstat(atomic_load(&blob->fds[0]), &st) < 0)
		return -errno;
	if (fstatat(blob->cache->blobs.dirfd, path, &named,
		    AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (named.st_ino != st.st_ino || named.st_dev != st.st_dev)
		return -ESTALE;
	*ret = file_mark_of(&st);
	return ret->size == blob->blob_bytes ? 0 : -EINVAL;
}

/* Of all segments the latest times: enough to see one change meanwhile. */
static int look_at_segments(struct cache_blob *blob, struct file_mark *ret)
{
	*ret = (struct file_mark){ .size = blob->blob_bytes };
	for (uint64_t i = 0; i < blob->segment_count; i++) {
		int fd = blob_segment(blob, i, false);
		struct file_mark mark;
		struct stat st;

		if (fd < 0)
			return fd;
		if (fstat(fd, &st) < 0)
			return -errno;
		mark = file_mark_of(&st);
		if (mark.mtime_ns > ret->mtime_ns)
			ret->mtime_ns = mark.mtime_ns;
		if (mark.ctime_ns > ret->ctime_ns)
			ret->ctime_ns = mark.ctime_ns;
	}
	return 0;
}

static int look(struct cache_blob *blob, struct file_mark *ret)
{
	return blob->segment_bytes > 0 ? look_at_segments(blob, ret) :
					 look_at_file(blob, ret);
}

/* A sync cannot be asked to end early, so it is made in pieces: a process that
 * is to end would wait for the disk to take the whole file. */
static int sync_pieces(struct sealer *sealer, int fd, uint64_t size)
{
	for (uint64_t at = 0; at < size; at += SYNC_BYTES) {
		if (atomic_load(&sealer->is_stopping))
			return -ESHUTDOWN;
		if (sync_file_range(fd, (off_t)at, SYNC_BYTES,
				    SYNC_FILE_RANGE_WAIT_BEFORE |
					    SYNC_FILE_RANGE_WRITE |
					    SYNC_FILE_RANGE_WAIT_AFTER) < 0)
			return -errno;
	}
	return fdatasync(fd) < 0 ? -errno : 0;
}

static int cut_and_sync(struct sealer *sealer, struct cache_blob *blob)
{
	for (uint64_t i = 0; i < blob->segment_count; i++) {
		int fd = blob_segment(blob, i, false), r;
		struct stat st;

		if (fd < 0)
			return fd;
		if (fstat(fd, &st) < 0 ||
		    (blob->segment_bytes == 0 &&
		     (uint64_t)st.st_size > blob->blob_bytes &&
		     ftruncate(fd, (off_t)blob->blob_bytes) < 0))
			return -errno;
		r = sync_pieces(sealer, fd, (uint64_t)st.st_size);
		if (r < 0 && r != -ESHUTDOWN)
			blob_distrust(blob); /* some of its bytes are lost */
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_mark(struct sealer *sealer, struct cache_blob *blob,
		     struct file_mark *ret)
{
	struct file_mark after;
	int r = cut_and_sync(sealer, blob);

	if (r < 0)
		return r;
	crash_point("seal-synced");
	nanosleep(&tick_pause, NULL);
	r = look(blob, ret);
	if (r == 0)
		r = check_units(sealer, blob);
	if (r == 0)
		r = look(blob, &after);
	if (r == 0 && !file_mark_equal(ret, &after))
		r = -EAGAIN;
	return r;
}

/* Found bad, and the index has not been told yet. */
static bool has_bad_unit(const struct cache_blob *blob)
{
	for (uint64_t i = 0; i < (blob->unit_count + 63) / 64; i++)
		if (atomic_load(&blob->bad[i]) != 0)
			return true;
	return false;
}

static bool wants_mark(struct cache_blob *blob)
{
	struct blob_row row;

	return blob_attach(blob, false) == 0 && seal_is_wanted(blob) &&
	       !has_bad_unit(blob) &&
	       cache_has_index(blob->cache) &&
	       index_blob(blob->cache->index, &blob->id, &row) == 1 &&
	       row.gen == blob->gen && !row.has_mark &&
	       row.present_units == row.unit_count;
}

/* What we have open is right; the next process would find something else. */
static void give_up(struct cache_blob *blob)
{
	struct record drop = { .op = {
		.kind = INDEX_DROP_BLOB, .id = blob->id, .gen = blob->gen,
	} };

	if (atomic_load(&blob->is_stale))
		return; /* so it has been already */
	atomic_fetch_add(&blob->cache->blobs_lost, 1);
	log_warning("blob file is not in its place any more, giving it up: "
		    "gen=%016" PRIx64, blob->gen);
	(void)recorder_add(&blob->cache->recorder, &drop);
	blob_set_stale(blob);
}

/* The mark is recorded, or could not be: who waits looks. */
static void mark_over(void *arg)
{
	struct cache_blob *blob = arg;

	atomic_store(&blob->seal.is_checking, false);
	blob_unref(blob);
}

static int add_mark(struct cache_blob *blob, const struct file_mark *mark)
{
	const struct record record = {
		.op = { .kind = INDEX_MARK, .id = blob->id,
			.gen = blob->gen, .mark = *mark },
		.blob = blob,
		.recorded = mark_over,
		.arg = blob,
	};
	int r;

	blob_ref(blob);
	blob_ref(blob); /* mark_over's */
	r = recorder_add(&blob->cache->recorder, &record);
	if (r < 0) {
		blob_unref(blob);
		blob_unref(blob);
	}
	crash_point("seal-added");
	return r;
}

/* 0: the mark is on its way; 1: nothing to do. */
static int seal_blob(struct sealer *sealer, struct cache_blob *blob)
{
	struct file_mark mark;
	int fd, r;

	if (!wants_mark(blob))
		return 1;
	fd = blob_segment(blob, 0, false);
	if (fd < 0 || ofd_lock(fd, F_WRLCK, LOCK_SEALER, 1) < 0)
		return 1; /* evicted, or another process does it */
	r = make_mark(sealer, blob, &mark);
	crash_point("seal-checked");
	(void)ofd_lock(fd, F_UNLCK, LOCK_SEALER, 1);
	if (r == -ESTALE)
		give_up(blob);
	return r < 0 ? r : add_mark(blob, &mark);
}

static void check_blob(struct sealer *sealer, struct cache_blob *blob)
{
	int r = seal_blob(sealer, blob);

	if (r == 0)
		return;
	if (r < 0 && r != -ESHUTDOWN) {
		atomic_store(&blob->seal.failure, r);
		log_debug("not marked complete: gen=%016" PRIx64 " reason=%s",
			  blob->gen, strerror(-r));
	}
	atomic_store(&blob->seal.is_checking, false);
	if (atomic_exchange(&blob->seal.is_asked_again, false))
		sealer_add(blob);
}

static bool sealer_take(struct sealer *sealer, struct sealer_entry *ret)
{
	scoped_lock(&sealer->lock);
	while (sealer->queue.count == 0 && !atomic_load(&sealer->is_stopping))
		pthread_cond_wait(&sealer->arrived, &sealer->lock);
	if (atomic_load(&sealer->is_stopping))
		return false;
	*ret = sealer->queue.items[--sealer->queue.count];
	return true;
}

static void *sealer_thread(void *arg)
{
	struct sealer *sealer = arg;
	struct sealer_entry entry;

	while (sealer_take(sealer, &entry)) {
		struct cache_blob *blob;
		bool is_other;

		if (cache_blob_open(sealer->cache, &entry.id, entry.blob_bytes,
				    entry.unit_count, &blob, NULL) < 0)
			continue;
		/* Looking at it would ask for what is being done. */
		is_other = atomic_exchange(&blob->seal.is_checking, true);
		atomic_store(&blob->seal.is_queued, false);
		if (entry.is_by_content)
			cache_blob_expect(blob);
		/* Two that find it wrong would count that twice. */
		if (is_other)
			atomic_store(&blob->seal.is_asked_again, true);
		else
			check_blob(sealer, blob);
		cache_blob_close(blob);
	}
	return NULL;
}

void sealer_add(struct cache_blob *blob)
{
	struct sealer *sealer = &blob->cache->sealer;
	struct sealer_entry *entry;

	if (!sealer->is_running || !seal_is_wanted(blob) ||
	    atomic_exchange(&blob->seal.is_queued, true))
		return;
	scoped_lock(&sealer->lock);
	entry = NULL;
	if (sealer->queue.count < QUEUE_MAX &&
	    !atomic_load(&sealer->is_stopping))
		entry = vec_push(&sealer->queue);
	if (!entry) {
		atomic_store(&blob->seal.is_queued, false);
		return;
	}
	*entry = (struct sealer_entry){
		.id = blob->id,
		.blob_bytes = blob->blob_bytes,
		.unit_count = blob->unit_count,
		.is_by_content = atomic_load(&blob->seal.is_by_content),
	};
	pthread_cond_signal(&sealer->arrived);
}

int sealer_start(struct sealer *sealer, struct cache *cache)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int r = 0;

	sealer->cache = cache;
	if (cache->is_readonly)
		return 0;
	pthread_mutex_init(&sealer->lock, NULL);
	pthread_cond_init(&sealer->arrived, NULL);
	sealer->is_running = true; /* before anybody can look at it */
	while (r == 0 && sealer->thread_count < SEALER_THREADS_MAX &&
	       (sealer->thread_count == 0 ||
		(long)sealer->thread_count < cores)) {
		r = thread_start(&sealer->threads[sealer->thread_count],
				 CACHE_STACK_BYTES, sealer_thread, sealer);
		if (r == 0)
			sealer->thread_count++;
	}
	return sealer->thread_count > 0 ? 0 : r;
}

void sealer_stop(struct sealer *sealer)
{
	if (!sealer->is_running)
		return;
	pthread_mutex_lock(&sealer->lock);
	atomic_store(&sealer->is_stopping, true);
	pthread_cond_broadcast(&sealer->arrived);
	pthread_mutex_unlock(&sealer->lock);
	for (unsigned int i = 0; i < sealer->thread_count; i++)
		pthread_join(sealer->threads[i], NULL);
	sealer->thread_count = 0;
	vec_release(&sealer->queue);
}
