/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction, never on the read path. A file is unlinked first and forgotten in
 * the index second: a row without a file is a miss, a file without a row would
 * be lost space. Whether somebody has a file open is asked of the file itself,
 * by its lock; readers keep what they may come back to open for a while, so
 * when that stands in the way they are asked to let go, and asked again.
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
#include "base/err.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/candidates.h"
#include "cache/evict.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/measure.h"

/* Without an index all files are looked at. */
#define MEASURE_MS 60000u
/* Leftovers go so early when space is short and nothing else can. */
#define PRESSED_AGE_S 60
#define FULL_SWEEP_MS 60000u
/* Catalogs and recipes unused for a month, when no blob can go. */
#define OLD_OBJECT_S (30 * 86400)
/* When everything is in use: no look at the whole index per write, but four
 * times as long as the last one took. */
#define QUIET_MS 100u
#define QUIET_FACTOR 4u
/* By hand: how long others may take to let go. Their keepers look once a
 * second. */
#define LET_GO_MS 3000u
#define LET_GO_POLL_MS 100u
/* Who holds the gate for so long is stopped, or the disk is that slow. */
#define OVERTAKE_MS 5000u

void evictor_init(struct evictor *evictor, int cache_dirfd)
{
	pthread_mutex_init(&evictor->lock, NULL);
	pthread_mutex_init(&evictor->pressure_lock, NULL);
	pin_set_init(&evictor->pins, cache_dirfd);
}

void evictor_release(struct evictor *evictor)
{
	pin_set_release(&evictor->pins);
	pthread_mutex_destroy(&evictor->lock);
	pthread_mutex_destroy(&evictor->pressure_lock);
}

void cache_on_pressure(struct cache *cache, void (*let_go)(void *arg),
		       void *arg)
{
	scoped_lock(&cache->evictor.pressure_lock);
	cache->evictor.let_go = let_go;
	cache->evictor.let_go_arg = arg;
}

void evictor_let_go(struct cache *cache)
{
	struct evictor *evictor = &cache->evictor;

	blob_table_renew(&cache->blobs);
	pthread_mutex_lock(&evictor->pressure_lock);
	if (evictor->let_go)
		evictor->let_go(evictor->let_go_arg);
	pthread_mutex_unlock(&evictor->pressure_lock);
	blob_table_trim(&cache->blobs, INT64_MAX);
}

/* ---- one file */

enum fate { FATE_EVICTED, FATE_PINNED, FATE_OPEN, FATE_GONE };

/* The blob, or the units in a segment that has gone. */
static void forget(struct cache *cache, const struct evict_candidate *candidate)
{
	struct record drop = { .op = {
		.kind = INDEX_DROP_BLOB, .id = candidate->id,
		.gen = candidate->gen,
	} };
	char path[BLOB_PATH_MAX];

	if (candidate->segment_bytes > 0) {
		drop.op.kind = INDEX_DROP_RANGE;
		drop.op.offset = candidate->segment * candidate->segment_bytes;
		drop.op.delta = (int64_t)candidate->segment_bytes;
	} else {
		blob_announcement_path(&candidate->id, path);
		unlinkat(cache->blobs.dirfd, path, 0);
	}
	blob_directory_drop(cache->blobs.dirfd, &candidate->id);
	crash_point("evict-unlinked");
	(void)recorder_add(&cache->recorder, &drop);
	crash_point("evict-dropped");
	atomic_fetch_add(&cache->blobs_evicted, 1);
	atomic_fetch_add(&cache->bytes_evicted, candidate->disk_bytes);
}

/* A file that no row speaks of was counted with what else lies there. */
static void forget_stray(struct cache *cache,
			 const struct evict_candidate *candidate)
{
	struct record less = { .op = {
		.kind = INDEX_ADD_OTHER, .unit = candidate->id.bytes[0],
		.delta = -(int64_t)candidate->disk_bytes,
	} };

	blob_directory_drop(cache->blobs.dirfd, &candidate->id);
	if (cache_has_index(cache))
		(void)recorder_add(&cache->recorder, &less);
	atomic_fetch_add(&cache->blobs_evicted, 1);
	atomic_fetch_add(&cache->bytes_evicted, candidate->disk_bytes);
}

static enum fate evict_stray(struct cache *cache,
			     const struct evict_candidate *candidate)
{
	int r;

	if (candidate_is_known(cache, candidate))
		return FATE_GONE;
	(void)blob_table_forget(&cache->blobs, &candidate->id);
	r = blob_file_remove(cache->blobs.dirfd, candidate, false);
	if (r < 0)
		return r == -ENOENT ? FATE_GONE : FATE_OPEN;
	forget_stray(cache, candidate);
	return FATE_EVICTED;
}

/* A blob that is one file, or one segment of a larger one. */
static enum fate evict_file(struct cache *cache,
			    const struct evict_candidate *candidate,
			    bool is_dry_run, uint64_t *ret_bytes)
{
	bool is_free;
	int r;

	*ret_bytes = candidate->disk_bytes;
	if (pin_set_has(&cache->evictor.pins, &candidate->id))
		return FATE_PINNED;
	if (candidate->is_stray)
		return evict_stray(cache, candidate);
	/* Of a blob in use other segments may be had. */
	is_free = blob_table_forget(&cache->blobs, &candidate->id);
	if (!is_free && candidate->segment_bytes == 0)
		return FATE_OPEN;
	r = blob_file_remove(cache->blobs.dirfd, candidate, is_dry_run);
	if (r == -ENOENT && candidate->segment_bytes > 0)
		return FATE_GONE;
	if (r < 0 && r != -ENOENT)
		return FATE_OPEN;
	if (!is_dry_run)
		forget(cache, candidate);
	return FATE_EVICTED;
}

/* ---- down to the limit */

/* Bytes freed. What is open stays in *candidates, for another try. */
static uint64_t evict_down(struct cache *cache, struct candidates *candidates,
			   uint64_t excess)
{
	uint64_t freed = 0, bytes;
	size_t i, open = 0;

	for (i = 0; i < candidates->count && freed < excess; i++) {
		struct evict_candidate *candidate = &candidates->items[i];

		if (candidate->disk_bytes == 0)
			continue;
		switch (evict_file(cache, candidate, false, &bytes)) {
		case FATE_EVICTED:
			freed += bytes;
			break;
		case FATE_OPEN:
			candidates->items[open++] = *candidate;
			break;
		default:
			break;
		}
	}
	log_debug("evicted: bytes=%" PRIu64 " wanted=%" PRIu64 " seen=%zu "
		  "open=%zu", freed, excess, i, open);
	candidates->count = open;
	return freed;
}

static uint64_t evict_candidates(struct cache *cache,
				 struct candidates *candidates, uint64_t excess)
{
	uint64_t freed;

	evict_choose(candidates->items, candidates->count, excess);
	freed = evict_down(cache, candidates, excess);
	if (freed >= excess || candidates->count == 0)
		return freed;
	claims_ask_idle(&cache->claims);
	evictor_let_go(cache);
	return freed + evict_down(cache, candidates, excess - freed);
}

static uint64_t excess_now(struct cache *cache)
{
	struct space *space = &cache->space;
	uint64_t used = 0, excess;

	if (!cache_has_index(cache))
		used = atomic_load(&space->used);
	else if (index_used(cache->index, &used) == 0)
		atomic_store(&space->used, used);
	excess = space_excess(&space->limits, space_used(space),
			      space_free_bytes(space),
			      atomic_load(&space->refused));
	/* Quotas and inodes are not asked for: who is told that they are
	 * used up frees a tenth. */
	if (excess == 0 && atomic_load(&space->is_full))
		excess = used / 10;
	return excess;
}

/* Files that no row speaks of are not in the total, so what is missing on the
 * disk may be more than all that is known. */
static bool is_sweep_due(struct cache *cache)
{
	return now_ms() >= cache->evictor.next_full_sweep_ms &&
	       space_free_bytes(&cache->space) <
		       cache->space.limits.min_free_bytes;
}

static uint64_t evict_leftovers(struct cache *cache, uint64_t missing)
{
	cache->evictor.next_full_sweep_ms = now_ms() + FULL_SWEEP_MS;
	for (unsigned int i = 0; i < 256; i++) {
		keeper_sweep(cache, i, PRESSED_AGE_S);
		measure_directory(cache, i);
	}
	return missing ? measure_evict_objects(cache, missing, OLD_OBJECT_S) :
			 0;
}

/* Whether enough was freed, or another round will free more. */
static bool evict_gated(struct cache *cache)
{
	struct candidates candidates = { 0 };
	uint64_t excess = excess_now(cache), freed = 0;
	bool is_more;

	if (excess == 0 && !is_sweep_due(cache))
		return true;
	if (candidates_collect(cache, &candidates) == 0)
		freed = evict_candidates(cache, &candidates, excess);
	is_more = candidates.is_cut && freed > 0;
	if ((freed < excess && !is_more &&
	     now_ms() >= cache->evictor.next_full_sweep_ms) ||
	    is_sweep_due(cache))
		freed += evict_leftovers(cache, bytes_left(excess, freed));
	atomic_store(&cache->space.is_full, false);
	atomic_store(&cache->space.refused, 0);
	/* The next look at the total must see it. */
	recorder_flush(&cache->recorder, 2 * GATE_TIMEOUT_MS);
	crash_point("evict-flushed");
	candidates_release(&candidates);
	return freed >= excess || is_more;
}

/*
 * Whether it is ours to evict. Two at a time do no harm, they unlink the same
 * files; the gate only saves the work.
 */
static bool take_turn(struct cache *cache, bool *ret_has_gate)
{
	struct evictor *evictor = &cache->evictor;

	*ret_has_gate = gate_enter(cache->gate_fd, GATE_EVICTOR, 0) == 0;
	if (*ret_has_gate)
		evictor->held_since_ms = 0;
	else if (evictor->held_since_ms == 0)
		evictor->held_since_ms = now_ms();
	return *ret_has_gate ||
	       now_ms() - evictor->held_since_ms >= OVERTAKE_MS;
}

/* The total is what is measured then, and taken off at once. */
static bool evict_without_index(struct cache *cache)
{
	struct space *space = &cache->space;
	struct candidates candidates = { 0 };
	uint64_t excess, freed = 0, used = measure_all(cache);

	atomic_store(&space->used, used);
	excess = excess_now(cache);
	if (excess > 0 && candidates_collect(cache, &candidates) == 0)
		freed = evict_candidates(cache, &candidates, excess);
	atomic_store(&space->used, bytes_left(used, freed));
	atomic_store(&space->is_full, false);
	atomic_store(&space->refused, 0);
	candidates_release(&candidates);
	return freed >= excess;
}

/* Whether there may be something to do. What lies there without an index is not
 * known before it is measured, which takes a while. */
static bool is_due(struct cache *cache)
{
	struct evictor *evictor = &cache->evictor;

	if (now_ms() < atomic_load(&evictor->quiet_until_ms))
		return false;
	if (cache_has_index(cache))
		return excess_now(cache) > 0 || is_sweep_due(cache);
	if (evictor->next_measure_ms > now_ms() && excess_now(cache) == 0)
		return false;
	evictor->next_measure_ms = now_ms() + MEASURE_MS;
	return true;
}

void evictor_run(struct cache *cache)
{
	struct evictor *evictor = &cache->evictor;
	bool has_gate, is_enough;

	/* Files made without it have no name: closing them is enough. */
	if (!cache_has_index(cache) &&
	    space_used(&cache->space) > cache->space.limits.limit_bytes)
		evictor_let_go(cache);
	/* While the index cannot be written, what is freed could not be
	 * taken off the total, and everything would go. */
	if (cache->is_readonly ||
	    atomic_load(&cache->recorder.is_suspended) || !is_due(cache))
		return;
	scoped_lock(&evictor->lock);
	if (!take_turn(cache, &has_gate))
		return;
	uint64_t start_ms = now_ms();
	atomic_store(&evictor->is_busy, true);
	is_enough = cache_has_index(cache) ? evict_gated(cache) :
					     evict_without_index(cache);
	if (!is_enough)
		atomic_store(&evictor->quiet_until_ms,
			     now_ms() + QUIET_MS +
			     QUIET_FACTOR * (now_ms() - start_ms));
	atomic_store(&evictor->is_busy, false);
	if (has_gate)
		gate_leave(cache->gate_fd, GATE_EVICTOR);
}

/* ---- by hand */

static void note_fate(struct cache_evicted *result, enum fate fate,
		      uint64_t bytes)
{
	switch (fate) {
	case FATE_EVICTED:
		result->blobs++;
		result->bytes += bytes;
		break;
	case FATE_PINNED:
		result->pinned_blobs++;
		result->pinned_bytes += bytes;
		break;
	case FATE_OPEN:
		result->open_blobs++;
		result->open_bytes += bytes;
		break;
	case FATE_GONE:
		break;
	}
}

/* All files of a blob; whether one of them is open. */
static bool evict_blob(struct cache *cache, const struct evict_candidate *blob,
		       bool is_dry_run, struct cache_evicted *result)
{
	uint64_t bytes, open_before = result->open_blobs;
	struct evict_candidate one = *blob;

	if (blob->segment_bytes == 0)
		note_fate(result, evict_file(cache, &one, is_dry_run, &bytes),
			  one.disk_bytes);
	for (uint64_t i = 0; blob->segment_bytes && i < candidate_segments(blob);
	     i++)
		if (candidate_segment(cache, blob, i, &one))
			note_fate(result,
				  evict_file(cache, &one, is_dry_run, &bytes),
				  one.disk_bytes);
	return result->open_blobs > open_before;
}

/* One round over the blobs; those that are open are the first *count of them
 * afterwards. */
static void evict_round(struct cache *cache, struct digest *ids, size_t *count,
			bool is_dry_run, struct cache_evicted *result)
{
	size_t open = 0;

	result->open_blobs = result->open_bytes = 0;
	for (size_t i = 0; i < *count; i++) {
		struct evict_candidate candidate;
		struct blob_row row;

		if (index_blob(cache->index, &ids[i], &row) != 1)
			continue;
		candidate = candidate_of(&ids[i], &row);
		if (evict_blob(cache, &candidate, is_dry_run, result))
			ids[open++] = ids[i];
	}
	*count = open;
}

/* With the gate if it can be had: while somebody has it, a row without a file
 * is not called lost (verify-blob.c). */
static void evict_named(struct cache *cache, struct digest *ids, size_t *count,
			bool is_dry_run, struct cache_evicted *result)
{
	bool has_gate = gate_enter(cache->gate_fd, GATE_EVICTOR,
				   GATE_TIMEOUT_MS) == 0;

	evict_round(cache, ids, count, is_dry_run, result);
	recorder_flush(&cache->recorder, 2 * GATE_TIMEOUT_MS);
	if (has_gate)
		gate_leave(cache->gate_fd, GATE_EVICTOR);
}

int cache_evict(struct cache *cache, const struct digest *ids, size_t count,
		bool is_dry_run, struct cache_evicted *ret, struct err *err)
{
	const struct timespec pause = { .tv_nsec = LET_GO_POLL_MS * 1000000 };
	uint64_t until_ms = now_ms() + LET_GO_MS;
	_cleanup_free_ struct digest *left = NULL;

	*ret = (struct cache_evicted){ 0 };
	if (cache->is_readonly || !cache_has_index(cache))
		return err_set(err, EROFS, "cannot evict from '%s': the cache "
			       "cannot be written", cache->dir);
	if (count == 0)
		return 0;
	left = calloc(count, sizeof(*left));
	if (!left)
		return err_set(err, ENOMEM, "out of memory");
	memcpy(left, ids, count * sizeof(*left));
	claims_ask_idle(&cache->claims);
	scoped_lock(&cache->evictor.lock);
	for (;;) {
		evict_named(cache, left, &count, is_dry_run, ret);
		if (count == 0 || now_ms() >= until_ms)
			break;
		nanosleep(&pause, NULL);
	}
	return 0;
}
