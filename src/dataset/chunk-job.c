/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of chunk jobs from their start to the claims: which chunks are
 * here by now, which another process fetches. See the states in chunk.h. A job
 * belongs to whoever runs its current step; between steps it belongs to what
 * it waits for. No step waits.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/pool.h"
#include "cache/cache.h"
#include "dataset/chunk.h"
#include "dataset/demand.h"
#include "dataset/hub.h"

static void run_claim(struct task *task, struct worker *worker);

void chunk_job_next(struct chunk_job *job,
		    void (*run)(struct task *task, struct worker *worker))
{
	work_next(job->node->verify, &job->task, run);
}

static void wake_job(struct waiter *waiter)
{
	struct chunk_job *job =
		(struct chunk_job *)((char *)waiter -
				     offsetof(struct chunk_job, waiter));

	chunk_job_next(job, chunk_job_place);
}

struct chunk_job *chunk_job_new(struct dataset *dataset,
				const struct blob_source *source,
				enum fetch_priority priority, uint32_t capacity)
{
	struct chunk_job *job =
		calloc(1, sizeof(*job) + capacity * sizeof(job->chunks[0]));

	if (!job)
		return NULL;
	job->node = dataset->node;
	job->dataset = dataset;
	job->source = *source;
	job->priority = priority;
	job->mirror = -1;
	job->capacity = capacity;
	waiter_init(&job->waiter, wake_job);
	node_job_begin(job->node);
	return job;
}

void chunk_job_add(struct chunk_job *job, struct flight *flight,
		   const struct recipe_record *record, struct blob *blob,
		   const struct blob_source *source, uint64_t unit,
		   uint64_t start)
{
	struct job_chunk *chunk = &job->chunks[job->count++];

	*chunk = (struct job_chunk){
		.job = job,
		.flight = flight,
		.blob = blob,
		.unit = unit,
		.start = start,
		.ordinal = source->first_ordinal + unit,
		.digest = record->digest,
		.length = record->length,
	};
	chunk_verify_init(chunk);
	if (blob->url && !job->reference)
		job->reference = blob_ref(blob);
	flight_keep_blob(flight, blob);
	flight_add_target(flight, blob, unit, start);
	flight->length = record->length;
	flight->dataset = job->dataset;
	job->entry.bytes += CHUNK_COST(record->length);
}

void chunk_job_drop_body(struct chunk_job *job)
{
	uint8_t *body = steal_ptr(job->body);

	if (body)
		pool_put(job->node->pool, body, job->request.length);
}

void chunk_job_free(struct chunk_job *job)
{
	struct node *node = job->node;

	waiter_release(&job->waiter);
	object_unref((struct object *)job->location);
	blob_unref(job->reference);
	free(job->authorization);
	free(job->request.headers);
	chunk_job_drop_body(job);
	free(job);
	node_job_end(node);
}

void chunk_job_start(struct chunk_job *job)
{
	if (job->count == 0) {
		chunk_job_free(job);
		return;
	}
	tries_init(&job->tries, job->dataset, -1, job->priority);
	if (job->priority != FETCH_PREFETCH)
		demand_note(job->node);
	job->task.run = run_claim;
	job->entry.task = &job->task;
	if (job->priority == FETCH_DEMAND &&
	    !budget_enter(job->node, &job->dataset->share, &job->entry))
		return;
	work_add(job->node->verify, &job->task, WORK_FIRST);
}

void chunk_job_fail(struct chunk_job *job, int r, const struct err *err)
{
	int class =
		tries_can_heal(&job->tries) ? FETCH_UNREACHABLE : FETCH_ABSENT;

	for (uint32_t i = 0; i < job->count; i++) {
		job->chunks[i].flight->class = class;
		chunk_fail(job->chunks[i].flight, r, err);
	}
	job->count = 0;
	chunk_job_free(job);
}

struct chunk_job *chunk_job_split(struct chunk_job *job, uint32_t first,
				  uint32_t count)
{
	struct chunk_job *other =
		chunk_job_new(job->dataset, &job->source, job->priority, count);

	if (!other)
		return NULL;
	other->tries = job->tries;
	other->mirror = job->mirror;
	other->is_fresh = job->is_fresh;
	other->is_uncached = job->is_uncached;
	if (job->reference)
		other->reference = blob_ref(job->reference);
	if (job->location)
		other->location =
			(struct location *)object_ref(&job->location->object);
	other->count = count;
	for (uint32_t i = 0; i < count; i++) {
		other->chunks[i] = job->chunks[first + i];
		other->chunks[i].job = other;
	}
	return other;
}

static void drop_chunk(struct chunk_job *job, uint32_t i)
{
	job->count--;
	memmove(&job->chunks[i], &job->chunks[i + 1],
		(job->count - i) * sizeof(job->chunks[0]));
}

/* ---- claims */

int chunk_job_recheck(struct chunk_job *job, uint32_t i)
{
	const struct job_chunk *chunk = &job->chunks[i];

	if (!chunk->blob->cached)
		return 0;
	return cache_blob_recheck(chunk->blob->cached, chunk->unit);
}

void chunk_job_present(struct chunk_job *job)
{
	chunk_present(job->chunks[0].flight);
	job->count = 0;
	chunk_job_free(job);
}

/* Whoever had the claim may have put the chunk into another blob. */
static void run_copy(struct task *task, struct worker *worker)
{
	struct chunk_job *job = (struct chunk_job *)task;

	if (!chunk_find(&job->chunks[0])) {
		chunk_job_place(task, worker);
		return;
	}
	job->count = 0;
	chunk_job_free(job);
}

void chunk_job_proceed(struct chunk_job *job)
{
	tries_init(&job->tries, job->dataset, -1, job->priority);
	chunk_job_next(job, run_copy);
}

/* true: the chunk is no longer this job's business. */
static bool claim_chunk(struct chunk_job *job, uint32_t i)
{
	struct job_chunk *chunk = &job->chunks[i];
	struct chunk_job *other;
	int r;

	if (!chunk->blob->cached)
		return false;
	r = cache_claim(job->node->cache, &chunk->digest);
	if (r == 0) {
		other = chunk_job_split(job, i, 1);
		if (!other)
			return false; /* a second download */
		stats_add(job->node->stats, STAT_FLIGHTS_JOINED, 1);
		foreign_add(job->node->foreign, other);
		return true;
	}
	if (r < 0)
		return false;
	atomic_store(&chunk->flight->is_claimed, true);
	crash_point("fetch-claimed");
	if (chunk_job_recheck(job, i) == 1) {
		chunk_present(chunk->flight);
		return true;
	}
	return chunk_find(chunk);
}

static void run_claim(struct task *task, struct worker *worker)
{
	struct chunk_job *job = (struct chunk_job *)task;

	for (uint32_t i = 0; i < job->count;) {
		if (claim_chunk(job, i))
			drop_chunk(job, i);
		else
			i++;
	}
	if (job->count == 0)
		chunk_job_free(job);
	else
		chunk_job_place(task, worker);
}
