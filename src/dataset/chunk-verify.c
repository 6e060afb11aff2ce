/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk's frame becomes its plain bytes, which end the flight and then go
 * to the cache. Readers are answered from memory first: writing to the disk and
 * recording in the index are not on their way. The flight keeps its bytes
 * until they are written and nobody holds it any more; where the disk is far
 * behind until they are recorded, so that it sets the pace.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/io.h"
#include "base/pool.h"
#include "cache/cache.h"
#include "dataset/chunk.h"
#include "dataset/recent.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

static void unclaim(struct flight *flight)
{
	if (atomic_exchange(&flight->is_claimed, false))
		cache_unclaim(flight->node->cache, &flight->key.digest);
	crash_point("fetch-unclaimed");
}

/* Nothing of it is in flight any more; kept_bytes stay in use. */
static void discharge(struct flight *flight, uint64_t kept_bytes)
{
	uint64_t charged = CHUNK_COST(flight->length);

	flight->charged_bytes = kept_bytes;
	budget_leave(flight->node, &flight->dataset->share, charged,
		     charged - kept_bytes);
}

void chunk_fail(struct flight *flight, int r, const struct err *err)
{
	unclaim(flight);
	discharge(flight, 0);
	flight_finish(flight, r, err, NULL);
	flight_unref(flight);
}

void chunk_present(struct flight *flight)
{
	unclaim(flight);
	discharge(flight, 0);
	flight_finish(flight, 0, NULL, NULL);
	flight_unref(flight);
}

/* One chunk on its way into one blob of the cache. */
struct chunk_put {
	struct task task; /* first */
	struct flight *flight;
	struct blob *blob;
};

static void puts_down(struct flight *flight)
{
	if (atomic_fetch_sub(&flight->puts, 1) == 1)
		unclaim(flight);
}

static void run_recorded(struct task *task, struct worker *worker)
{
	struct chunk_put *put = (struct chunk_put *)task;

	(void)worker;
	puts_down(put->flight);
	blob_unref(put->blob);
	flight_unref(put->flight);
	free(put);
}

/* On a thread of the cache, which must not run our destructors. First, since that
 * is what gives memory back: behind the next chunks fresh pages were wanted for
 * each of them. */
static void recorded(void *arg)
{
	struct chunk_put *put = arg;

	work_add(put->flight->node->verify, &put->task, WORK_FIRST);
}

static int give_one(struct flight *flight, const struct flight_target *target)
{
	struct chunk_put *put;
	int r;

	if (!target->blob->cached)
		return -ENODEV;
	put = malloc(sizeof(*put));
	if (!put)
		return -ENOMEM;
	put->task.run = run_recorded;
	put->flight = flight_ref(flight);
	put->blob = blob_ref(target->blob);
	atomic_fetch_add(&flight->puts, 1);
	if (target->blob->url) /* its key is made up */
		r = cache_blob_put(target->blob->cached, target->unit,
				   target->offset, flight->plain,
				   flight->length, recorded, put);
	else
		r = cache_blob_put_chunk(target->blob->cached, target->unit,
					 target->offset, flight->plain,
					 flight->length, &flight->key.digest,
					 recorded, put);
	if (r < 0) {
		puts_down(flight);
		blob_unref(put->blob);
		flight_unref(flight);
		free(put);
	}
	return r;
}

static void give(struct flight *flight)
{
	struct flight_target target;
	/* without a cache all is, also where nothing was to be given */
	bool is_lost = !flight->node->cache;

	while (flight_take_target(flight, &target)) {
		int r = give_one(flight, &target);

		if (r == -ESTALE)
			blob_forget(flight->node, target.blob);
		blob_unref(target.blob);
		is_lost |= r < 0;
		if (r < 0 && r != -ENODEV)
			log_debug("chunk not cached: %s", err_text(NULL, r));
	}
	if (is_lost)
		recent_keep(flight->node->recent, flight);
	else if (!cache_is_behind(flight->node->cache))
		atomic_fetch_sub(&flight->gives, 1);
}

/* Gives it and ends its landing, with its reference. The worker may be stuck
 * with the disk from here on. */
static void give_first(struct flight *flight, struct worker *worker)
{
	work_leave(worker);
	give(flight);
	crash_point("fetch-given");
	work_return(worker);
	puts_down(flight);
	flight_unref(flight);
}

struct late_give {
	struct task task; /* first */
	struct flight *flight;
};

static void run_late(struct task *task, struct worker *worker)
{
	struct late_give *late = (struct late_give *)task;

	give_first(late->flight, worker);
	free(late);
}

/* Takes the flight's reference and one of its puts. */
static void give_later(struct flight *flight, enum work_class class)
{
	struct late_give *late = malloc(sizeof(*late));

	if (!late) {
		puts_down(flight);
		flight_unref(flight);
		return;
	}
	late->task.run = run_late;
	late->flight = flight;
	work_add(flight->node->verify, &late->task, class);
}

void chunk_give_late(struct flight *flight)
{
	flight_begin_give(flight);
	atomic_fetch_add(&flight->puts, 1);
	give_later(flight_ref(flight), WORK_BEHIND);
}

struct zeros_give {
	struct task task; /* first */
	struct blob *blob;
	uint64_t unit, start;
	uint32_t length;
};

static void run_zeros(struct task *task, struct worker *worker)
{
	struct zeros_give *zeros = (struct zeros_give *)task;
	struct cache_blob *cached = zeros->blob->cached;

	work_leave(worker);
	if (!cache_blob_recheck(cached, zeros->unit))
		(void)cache_blob_put(cached, zeros->unit, zeros->start, NULL,
				     zeros->length, NULL, NULL);
	work_return(worker);
	blob_unref(zeros->blob);
	free(zeros);
}

void chunk_give_zeros(struct node *node, struct blob *blob, uint64_t unit,
		      uint64_t start, uint32_t length)
{
	struct zeros_give *zeros = malloc(sizeof(*zeros));

	if (!zeros)
		return;
	*zeros = (struct zeros_give){
		.task.run = run_zeros,
		.blob = blob_ref(blob),
		.unit = unit,
		.start = start,
		.length = length,
	};
	work_add(node->verify, &zeros->task, WORK_BEHIND);
}

/* Ends the flight; its bytes are still to be given. */
static void land(struct flight *flight, uint8_t *plain)
{
	atomic_store(&flight->puts, 1);
	atomic_store(&flight->gives, 1);
	flight->plain = plain;
	discharge(flight, flight->length);
	crash_point("fetch-verified");
	flight_finish(flight, 0, NULL, NULL);
	crash_point("fetch-answered");
}

static bool is_chunk(const struct flight *flight, const uint8_t *plain)
{
	struct digest digest;

	digest_sha256(plain, flight->length, &digest);
	return digest_equal(&digest, &flight->key.digest);
}

/* It may lie in the blob's file although nobody has recorded it, or in another
 * blob of the cache. true: the flight has landed. */
bool chunk_find(struct job_chunk *chunk)
{
	struct flight *flight = chunk->flight;
	struct node *node = flight->node;
	uint8_t *plain = pool_get(node->pool, flight->length);

	if (!plain)
		return false;
	if ((cache_blob_candidate(chunk->blob->cached, chunk->unit,
				  chunk->start, flight->length, plain) == 1 &&
	     is_chunk(flight, plain)) ||
	    (cache_chunk_get(node->cache, &flight->key.digest, flight->length,
			     plain) == 1 &&
	     is_chunk(flight, plain))) {
		stats_add(node->stats, STAT_CHUNKS_VERIFIED, 1);
		/* Its job goes on with other chunks. */
		land(flight, plain);
		give_later(flight, WORK_DEMAND);
		return true;
	}
	pool_put(node->pool, plain, flight->length);
	return false;
}

static void note_corrupt(const struct chunk_job *job,
			 const struct job_chunk *chunk)
{
	const struct mirror *mirror = &job->dataset->mirrors[job->mirror];
	char hex[DIGEST_HEX_MAX];

	stats_add(job->node->stats, STAT_CHUNKS_CORRUPT, 1);
	log_limited(
		1000,
		log_warning("corrupt chunk dataset=%s mirror=%s chunk=%.12s",
			    job->dataset->name, origin_name(mirror->origin),
			    digest_hex(&chunk->digest, hex)));
}

static void run_verify(struct task *task, struct worker *worker)
{
	struct job_chunk *chunk = (struct job_chunk *)task;
	struct chunk_job *job = chunk->job;
	uint8_t *plain = pool_get(job->node->pool, chunk->length);
	struct flight *landed = NULL;
	int r = -ENOMEM;

	if (plain && job->reference) {
		memcpy(plain, chunk->frame, chunk->length);
		r = 0;
	} else if (plain && worker->codec) {
		r = codec_open_frame(worker->codec, chunk->frame,
				     chunk->at.place.stored_bytes, plain,
				     chunk->length, &chunk->digest);
	}
	chunk->state = r < 0 ? CHUNK_BAD : CHUNK_GOOD;
	if (r == 0) {
		stats_add(job->node->stats, STAT_FETCHED_PLAIN_BYTES,
			  chunk->length);
		chunk->flight->wire_bytes = chunk->at.place.stored_bytes;
		chunk->flight->mirror = job->mirror;
		if (!job->reference)
			stats_add(job->node->stats, STAT_CHUNKS_VERIFIED, 1);
		landed = steal_ptr(chunk->flight);
		land(landed, plain);
	} else {
		if (plain)
			pool_put(job->node->pool, plain, chunk->length);
		if (r == -ENOMEM)
			atomic_store(&job->is_short_of_memory, true);
		else
			note_corrupt(job, chunk);
	}
	chunk_job_settle(job); /* which may free it */
	if (landed)
		give_first(landed, worker);
}

void chunk_verify_init(struct job_chunk *chunk)
{
	chunk->task.run = run_verify;
}
