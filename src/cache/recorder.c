/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group commits. Whatever arrives while a transaction is synced is the next
 * transaction, so the disk sets the pace and nobody waits for it. A fast disk
 * would make that one for each chunk: then a moment more is waited, since a
 * transaction costs as much as a tenth of a chunk's way to its reader. When the
 * gate cannot be had in time (its holder is stopped), records are called
 * back at once and kept aside within a bound: the process serves without
 * recording and catches up when the holder is gone.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/text.h"
#include "base/thread.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/layout.h"

/* About 16 MiB of records; more are forgotten (refetched some day). */
#define PARKED_MAX 65536u
#define RETRY_MS 1000u
/* From one transaction to the next: as long as the reader of another process
 * may well wait for a chunk that it finds being fetched. */
#define PACE_MS 20u
/* The holder's process id, for people, behind the lock bytes. */
#define HOLDER_OFFSET 64
#define HOLDER_MAX 16

/* Who waits at a gate holds a read lock on the byte this far behind it. */
#define WAITING_OFFSET 8
/* Who has the cache open holds a read lock here. */
#define PRESENT_OFFSET 16
static const struct timespec polite_pause = { .tv_nsec = 4000000 };

static int gate_wait(int fd, enum gate gate, uint32_t timeout_ms)
{
	int r;

	/* Somebody polls: a process that commits all the time would win
	 * every time. */
	if (ofd_test(fd, F_WRLCK, gate + WAITING_OFFSET, 1) == 1)
		nanosleep(&polite_pause, NULL);
	r = ofd_lock(fd, F_WRLCK, gate, 1);
	if (r != -EAGAIN || timeout_ms == 0)
		return r;
	(void)ofd_lock(fd, F_RDLCK, gate + WAITING_OFFSET, 1);
	r = ofd_lock_within(fd, F_WRLCK, gate, 1, timeout_ms);
	(void)ofd_lock(fd, F_UNLCK, gate + WAITING_OFFSET, 1);
	return r;
}

int gate_enter(int fd, enum gate gate, uint32_t timeout_ms)
{
	char text[HOLDER_MAX + 1] = "";
	int r;

	if (fd < 0)
		return -EROFS;
	r = gate_wait(fd, gate, timeout_ms);
	if (r < 0 || gate != GATE_WRITER)
		return r;
	snprintf(text, sizeof(text), "%-15ld\n", (long)getpid());
	(void)pwrite_full(fd, text, HOLDER_MAX, HOLDER_OFFSET);
	return 0;
}

void gate_leave(int fd, enum gate gate)
{
	(void)ofd_lock(fd, F_UNLCK, gate, 1);
}

bool gate_is_first(int fd)
{
	bool is_first = fd >= 0 && ofd_lock(fd, F_WRLCK, PRESENT_OFFSET, 1) == 0;

	if (fd >= 0)
		(void)ofd_lock(fd, F_RDLCK, PRESENT_OFFSET, 1);
	return is_first;
}

int64_t gate_holder(int fd)
{
	char text[HOLDER_MAX + 1] = "";
	uint64_t pid = 0;

	(void)pread_full(fd, text, HOLDER_MAX, HOLDER_OFFSET);
	text[strcspn(text, " \n")] = '\0';
	return parse_u64(text, &pid) == 0 ? (int64_t)pid : 0;
}

static void warn_suspended(struct recorder *recorder)
{
	int64_t pid = gate_holder(recorder->cache->gate_fd);

	log_limited(60000, log_warning("index busy for 2 s, serving without "
				       "recording: pid=%" PRId64
				       " (is it stopped?)", pid));
}

static void record_callback(struct recorder *recorder, struct record *record)
{
	void (*recorded)(void *arg);

	pthread_mutex_lock(&recorder->lock);
	recorded = record->recorded;
	record->recorded = NULL;
	pthread_mutex_unlock(&recorder->lock);
	if (recorded)
		recorded(record->arg);
}

void record_finish(struct recorder *recorder, struct record *record)
{
	record_callback(recorder, record);
	unrecorded_remove(&recorder->cache->space.unrecorded,
			  record->unrecorded_bytes);
	record->unrecorded_bytes = 0;
	if (record->pending)
		pending_remove(&recorder->cache->pending, record->pending);
	record->pending = NULL;
	if (record->blob)
		blob_unref(record->blob);
	record->blob = NULL;
}

/* Call back now, record later; until then its bytes count as unrecorded, or the
 * limit would not hold for as long as the gate cannot be had. */
static void records_park(struct recorder *recorder, struct record *records,
			 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct record *kept = NULL;

		record_callback(recorder, &records[i]);
		if (records[i].op.kind != INDEX_NOTHING &&
		    recorder->parked.count < PARKED_MAX)
			kept = vec_push(&recorder->parked);
		if (kept)
			*kept = records[i];
		else
			record_finish(recorder, &records[i]);
	}
}

/* They are called back at once and kept for later. */
static void suspend(struct recorder *recorder, struct record *records,
		    size_t count)
{
	recorder->is_suspended = true;
	recorder->retry_ms = now_ms() + RETRY_MS;
	records_park(recorder, records, count);
}

static void records_prepare(struct recorder *recorder, struct record *records,
			    size_t count)
{
	struct cache_blob *measured = NULL;
	uint64_t disk_bytes = 0;

	for (size_t i = 0; i < count; i++) {
		struct index_op *op = &records[i].op;

		if (op->kind == INDEX_RECORD && records[i].blob) {
			if (records[i].blob != measured) {
				measured = records[i].blob;
				disk_bytes = blob_disk_bytes(measured);
			}
			op->disk_bytes = disk_bytes;
			/* The row may have been lost with its index. */
			op->may_create |= !atomic_load(&measured->is_recorded);
		}
		recorder->ops[i] = *op;
	}
}

static void record_result(struct recorder *recorder, struct record *record,
			  const struct index_op *op)
{
	struct record more = { .op = *op };

	if (op->kind == INDEX_RECORD && op->result == 0)
		blob_recorded(record->blob);
	if ((op->kind == INDEX_RECORD && op->is_complete) ||
	    (op->kind == INDEX_UNMARK && op->result == 0 && record->blob))
		sealer_add(record->blob);
	if (op->kind == INDEX_MARK && op->result == 0)
		seal_set(record->blob, &op->mark);
	else if (op->kind == INDEX_RECORD && op->result == -ESTALE)
		blob_set_stale(record->blob);
	else if (op->kind == INDEX_DROP_UNIT && record->blob)
		blob_unit_dropped(record->blob, op->unit);
	else if ((op->kind == INDEX_DROP_BLOB ||
		  op->kind == INDEX_DROP_RANGE) && op->result == 1)
		(void)recorder_add(recorder, &more);
}

/*
 * Two processes may find the same unit bad, and one of them may have put it
 * again: the drop of the other must not take that away. Who puts it has
 * written it before the gate can be his, so with the gate this look is the last
 * word. Rare, hence with the gate held.
 */
static void keep_right_units(struct recorder *recorder,
			     struct record *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct index_op *op = &recorder->ops[i];

		if (op->kind != INDEX_DROP_UNIT || op->is_certain ||
		    !records[i].blob ||
		    !blob_unit_is_right(records[i].blob, op->unit))
			continue;
		op->kind = INDEX_NOTHING;
		blob_unit_dropped(records[i].blob, op->unit);
	}
}

static int write_watched(struct recorder *recorder, size_t count,
			 uint64_t *ret_used)
{
	struct cache *cache = recorder->cache;
	struct index *index = cache->index;
	int r = index_watch_begin(index, cache->gate_fd);

	if (r < 0)
		return r == -EDQUOT ? -ENOSPC : r;
	r = index_write(index, recorder->ops, count, ret_used);
	if (r != -EFAULT)
		index_watch_end(index, cache->gate_fd);
	return r;
}

static int write_index(struct recorder *recorder, size_t count,
		       uint64_t *ret_used)
{
	struct cache *cache = recorder->cache;
	int r;

	/* Nobody replaces it while the gate is held. */
	if (!index_is_current(cache->index))
		return -EIO;
	r = write_watched(recorder, count, ret_used);
	if (r == -ENOSPC && layout_ballast_drop(cache->dirfd)) {
		log_warning("disk full, gave the ballast to the index");
		r = write_watched(recorder, count, ret_used);
	}
	if (r < 0)
		log_limited(60000, log_warning("cannot record: count=%zu "
					       "reason=%s", count,
					       strerror(-r)));
	return r;
}

static void commit(struct recorder *recorder, struct record *records,
		   size_t count)
{
	struct cache *cache = recorder->cache;
	uint64_t used = 0;
	int r = -EIO;

	records_prepare(recorder, records, count);
	if (cache_has_index(cache)) {
		r = gate_enter(cache->gate_fd, GATE_WRITER, GATE_TIMEOUT_MS);
		if (r == -EAGAIN) {
			warn_suspended(recorder);
			suspend(recorder, records, count);
			return;
		}
		if (r == 0) {
			keep_right_units(recorder, records, count);
			r = write_index(recorder, count, &used);
			crash_point("commit-written");
			gate_leave(cache->gate_fd, GATE_WRITER);
		}
	}
	if (r == 0)
		atomic_store(&cache->space.used, used);
	for (size_t i = 0; i < count && r == 0; i++)
		record_result(recorder, &records[i], &recorder->ops[i]);
	crash_point("commit-told");
	claims_wake(&cache->claims);
	for (size_t i = 0; i < count; i++)
		record_finish(recorder, &records[i]);
}

static void records_commit(struct recorder *recorder, struct record *records,
			   size_t count)
{
	struct disk *disk = &recorder->cache->disk;
	struct disk_op op;

	if (!disk_begin(disk, &op, "commit", DISK_SYNC)) {
		suspend(recorder, records, count);
		return;
	}
	commit(recorder, records, count);
	disk_end(disk, &op);
}

static void recorder_resume(struct recorder *recorder)
{
	struct cache *cache = recorder->cache;
	size_t done = 0;

	recorder->retry_ms = now_ms() + RETRY_MS;
	if (disk_is_hanging(&cache->disk))
		return;
	if (cache_has_index(cache)) {
		if (gate_enter(cache->gate_fd, GATE_WRITER, 0) < 0)
			return;
		gate_leave(cache->gate_fd, GATE_WRITER);
	}
	recorder->is_suspended = false;
	while (done < recorder->parked.count && !recorder->is_suspended) {
		size_t count = recorder->parked.count - done;

		if (count > INDEX_OPS_MAX)
			count = INDEX_OPS_MAX;
		/* Copied: a commit that fails parks its records again. */
		memcpy(recorder->batch, recorder->parked.items + done,
		       count * sizeof(*recorder->batch));
		done += count;
		records_commit(recorder, recorder->batch, count);
	}
	recorder->parked.count -= done;
	memmove(recorder->parked.items, recorder->parked.items + done,
		recorder->parked.count * sizeof(*recorder->parked.items));
}

static void wait_for_records(struct recorder *recorder)
{
	struct timespec until;

	if (recorder->queue.count > 0 || recorder->is_stopping)
		return;
	if (!recorder->is_suspended) {
		pthread_cond_wait(&recorder->arrived, &recorder->lock);
		return;
	}
	until.tv_sec = (time_t)(recorder->retry_ms / 1000);
	until.tv_nsec = (long)(recorder->retry_ms % 1000) * 1000000;
	pthread_cond_timedwait(&recorder->arrived, &recorder->lock, &until);
}

/* Unless there is a whole transaction's worth. */
static void keep_pace(struct recorder *recorder)
{
	struct timespec until;

	until.tv_sec = (time_t)(recorder->paced_ms / 1000);
	until.tv_nsec = (long)(recorder->paced_ms % 1000) * 1000000;
	recorder->is_pacing = true;
	while (recorder->queue.count < INDEX_OPS_MAX &&
	       !recorder->is_stopping && now_ms() < recorder->paced_ms)
		pthread_cond_timedwait(&recorder->arrived, &recorder->lock,
				       &until);
	recorder->is_pacing = false;
}

/* Moves up to a batch out of the queue; false when it is over. */
static bool records_take(struct recorder *recorder, size_t *ret_count)
{
	size_t count;

	scoped_lock(&recorder->lock);
	keep_pace(recorder);
	wait_for_records(recorder);
	count = recorder->queue.count;
	if (count > INDEX_OPS_MAX)
		count = INDEX_OPS_MAX;
	if (count > 0) {
		memcpy(recorder->batch, recorder->queue.items,
		       count * sizeof(*recorder->batch));
		recorder->queue.count -= count;
		memmove(recorder->queue.items, recorder->queue.items + count,
			recorder->queue.count * sizeof(*recorder->batch));
	}
	recorder->batch_count = count;
	*ret_count = count;
	return count > 0 || !recorder->is_stopping;
}

/* Takes one that waits to be called back; false: none does. */
static bool take_waiting(struct record *records, size_t count, size_t *at,
			 struct record *ret)
{
	for (; *at < count; (*at)++) {
		struct record *record = &records[*at];

		if (!record->recorded)
			continue;
		ret->recorded = record->recorded;
		ret->arg = record->arg;
		record->recorded = NULL;
		return true;
	}
	return false;
}

void recorder_let_go(struct recorder *recorder)
{
	struct record waiting;
	size_t in_batch = 0, in_queue = 0;
	bool is_one = recorder->is_running;

	while (is_one) {
		pthread_mutex_lock(&recorder->lock);
		is_one = take_waiting(recorder->batch, recorder->batch_count,
				      &in_batch, &waiting) ||
			 take_waiting(recorder->queue.items,
				      recorder->queue.count, &in_queue,
				      &waiting);
		pthread_mutex_unlock(&recorder->lock);
		if (is_one)
			waiting.recorded(waiting.arg);
	}
}

static void records_done(struct recorder *recorder, size_t count)
{
	scoped_lock(&recorder->lock);
	recorder->batch_count = 0;
	recorder->done += count;
	pthread_cond_broadcast(&recorder->drained);
}

static void batch_over(struct recorder *recorder)
{
	scoped_lock(&recorder->lock);
	recorder->batch_count = 0;
}

static void *recorder_thread(void *arg)
{
	struct recorder *recorder = arg;
	size_t count;

	while (records_take(recorder, &count)) {
		if (recorder->is_suspended) {
			/* New ones behind the parked ones: order matters. */
			records_park(recorder, recorder->batch, count);
			batch_over(recorder);
			if (now_ms() >= recorder->retry_ms)
				recorder_resume(recorder);
		} else if (count > 0) {
			records_commit(recorder, recorder->batch, count);
		}
		records_done(recorder, count);
		recorder->paced_ms = now_ms() + PACE_MS;
	}
	if (recorder->is_suspended)
		recorder_resume(recorder);
	for (size_t i = 0; i < recorder->parked.count; i++)
		record_finish(recorder, &recorder->parked.items[i]);
	return NULL;
}

int recorder_start(struct recorder *recorder, struct cache *cache)
{
	int r;

	recorder->cache = cache;
	recorder->ops = calloc(INDEX_OPS_MAX, sizeof(*recorder->ops));
	recorder->batch = calloc(INDEX_OPS_MAX, sizeof(*recorder->batch));
	if (!recorder->ops || !recorder->batch)
		return -ENOMEM;
	pthread_mutex_init(&recorder->lock, NULL);
	cond_init_monotonic(&recorder->arrived);
	cond_init_monotonic(&recorder->drained);
	recorder->is_running = true; /* before anybody can look at it */
	r = thread_start(&recorder->thread, CACHE_STACK_BYTES,
			 recorder_thread, recorder);
	if (r < 0)
		recorder->is_running = false;
	return r;
}

void recorder_stop(struct recorder *recorder)
{
	if (recorder->is_running) {
		pthread_mutex_lock(&recorder->lock);
		recorder->is_stopping = true;
		pthread_cond_signal(&recorder->arrived);
		pthread_mutex_unlock(&recorder->lock);
		pthread_join(recorder->thread, NULL);
		pthread_mutex_destroy(&recorder->lock);
		pthread_cond_destroy(&recorder->arrived);
		pthread_cond_destroy(&recorder->drained);
	}
	recorder->is_running = false;
	vec_release(&recorder->queue);
	vec_release(&recorder->parked);
	free(recorder->ops);
	free(recorder->batch);
}

int recorder_add(struct recorder *recorder, const struct record *record)
{
	struct record *added;

	if (!recorder->is_running)
		return -ESHUTDOWN;
	scoped_lock(&recorder->lock);
	added = vec_push(&recorder->queue);
	if (!added)
		return -ENOMEM;
	*added = *record;
	recorder->added++;
	if (!recorder->is_pacing || recorder->queue.count >= INDEX_OPS_MAX)
		pthread_cond_signal(&recorder->arrived);
	return 0;
}

void recorder_flush(struct recorder *recorder, uint32_t timeout_ms)
{
	uint64_t until_ms = now_ms() + timeout_ms, wanted;
	struct timespec until = { (time_t)(until_ms / 1000),
				  (long)(until_ms % 1000) * 1000000 };

	scoped_lock(&recorder->lock);
	wanted = recorder->added;
	while (recorder->done < wanted)
		if (pthread_cond_timedwait(&recorder->drained, &recorder->lock,
					   &until) == ETIMEDOUT)
			break;
}
