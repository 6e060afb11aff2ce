/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching chunks that are claimed: places, runs, requests, second tries.
 *
 * What came wrong, or is not where the places say, is asked for once more past
 * every cache, places included: a mirror that was packed anew is more
 * likely than one that lies. After that the next mirror is asked.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/io.h"
#include "cache/cache.h"
#include "dataset/chunk.h"
#include "dataset/demand.h"
#include "dataset/hub.h"
#include "dataset/reference.h"
#include "source/source.h"

/* One request: long enough to be worth its round trip, short enough to be
 * spread over connections. A gap costs less than another request. */
#define RUN_BYTES_MAX (8u << 20)
#define RUN_GAP_MAX (64u << 10)
/* By reference blocks lie one after another: a file on several connections. */
#define RUN_REFERENCE_MAX (4u << 20)
/* Others overtake after 5 s without progress. */
#define TELL_PROGRESS_MS 500u

static void run_outcome(struct task *task, struct worker *worker);

static enum work_class chunk_class(const struct job_chunk *chunk)
{
	return chunk->job->priority == FETCH_DEMAND ||
			       atomic_load(&chunk->flight->is_demanded) ?
		       WORK_DEMAND :
		       WORK_BEHIND;
}

/* ---- places and runs */

static void note_failure(struct chunk_job *job, enum fetch_class class,
			 const char *text, uint32_t retry_after_ms,
			 bool is_noted)
{
	char all[200];

	(is_noted ? tries_record : tries_note)(&job->tries, job->mirror, class,
					       text, retry_after_ms);
	tries_text(&job->tries, all, sizeof(all));
	for (uint32_t i = 0; i < job->count; i++)
		flight_trouble(job->chunks[i].flight, tries_errnum(&job->tries),
			       all);
	job->mirror = -1;
	job->is_fresh = job->is_uncached = false;
}

static void forget_places(struct chunk_job *job)
{
	for (uint32_t i = 0; i < job->count; i++)
		places_forget(job->dataset, job->mirror, &job->source.places,
			      job->chunks[i].ordinal, &job->chunks[i].at);
	job->is_fresh = job->is_uncached = true;
}

static int check_place(const struct chunk_place *at, struct err *err)
{
	if (at->place.stored_bytes == 0 ||
	    at->place.stored_bytes > LIMIT_FRAME_BYTES)
		return err_set(err, EBADMSG, "places name a frame of %u bytes",
			       at->place.stored_bytes);
	return 0;
}

/* All places on job->mirror: 0, DATASET_PARKED or an error and its class. */
static int find_places(struct chunk_job *job, enum fetch_class *ret_class,
		       struct err *err)
{
	for (uint32_t i = 0; i < job->count; i++) {
		struct job_chunk *chunk = &job->chunks[i];
		int r = place_get(job->dataset, job->mirror,
				  &job->source.places,
				  job->source.places_chunks, chunk->ordinal,
				  job->is_fresh, &job->waiter, &chunk->at,
				  ret_class, err);

		if (r == 0) {
			*ret_class = FETCH_WRONG;
			r = check_place(&chunk->at, err);
		}
		if (r != 0)
			return r;
	}
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct chunk_place *x = &((const struct job_chunk *)a)->at;
	const struct chunk_place *y = &((const struct job_chunk *)b)->at;
	int order = digest_compare(&x->pack, &y->pack);

	if (order != 0)
		return order;
	return (x->place.offset > y->place.offset) -
	       (x->place.offset < y->place.offset);
}

static uint64_t place_end(const struct job_chunk *chunk)
{
	return chunk->at.place.offset + chunk->at.place.stored_bytes;
}

/* How many chunks from `first` on make one request. */
static uint32_t run_length(const struct chunk_job *job, uint32_t first)
{
	uint64_t start = job->chunks[first].at.place.offset;
	uint64_t end = place_end(&job->chunks[first]);
	uint32_t max = job->reference ? RUN_REFERENCE_MAX : RUN_BYTES_MAX;
	uint32_t i = first + 1;

	for (; i < job->count; i++) {
		const struct job_chunk *next = &job->chunks[i];

		if (!digest_equal(&next->at.pack,
				  &job->chunks[first].at.pack) ||
		    next->at.place.offset < end ||
		    next->at.place.offset - end > RUN_GAP_MAX ||
		    place_end(next) - start > max)
			break;
		end = place_end(next);
	}
	return i - first;
}

/* ---- requests */

/* Hand the frames that are complete to the verify pool. */
static void hand_out(struct chunk_job *job, const uint8_t *body, size_t len)
{
	while (job->handed < job->count) {
		struct job_chunk *chunk = &job->chunks[job->handed];
		uint64_t offset = chunk->at.place.offset - job->start;

		if (offset + chunk->at.place.stored_bytes > len)
			break;
		chunk->frame = body + offset;
		chunk->state = CHUNK_HANDED;
		job->handed++;
		atomic_fetch_add(&job->pending, 1);
		work_add(job->node->verify, &chunk->task, chunk_class(chunk));
	}
}

static void tell_progress(struct chunk_job *job)
{
	uint64_t now = now_ms();

	if (!job->node->cache || now < job->told_ms + TELL_PROGRESS_MS)
		return;
	job->told_ms = now;
	for (uint32_t i = job->handed; i < job->count; i++)
		cache_progress(job->node->cache, &job->chunks[i].digest);
}

/* Before readers are answered, so that whoever has read it sees it counted. */
static void count_wire(struct chunk_job *job, size_t len)
{
	stats_add(job->node->stats, STAT_FETCHED_WIRE_BYTES,
		  len - job->counted);
	job->counted = len;
}

static void request_progress(struct fetch_request *request, const uint8_t *body,
			     size_t len)
{
	struct chunk_job *job = request->arg;

	count_wire(job, len);
	hand_out(job, body, len);
	tell_progress(job);
	if (job->priority != FETCH_PREFETCH)
		demand_note(job->node);
}

void chunk_job_settle(struct chunk_job *job)
{
	if (atomic_fetch_sub(&job->pending, 1) == 1)
		chunk_job_next(job, run_outcome);
}

static void request_done(struct fetch_request *request)
{
	struct chunk_job *job = request->arg;

	chunk_request_ended(job);
	job->body = request->body;
	request->body = NULL;
	crash_point("fetch-arrived");
	count_wire(job, request->body_len);
	if (request->result >= 0)
		hand_out(job, job->body, request->body_len);
	chunk_job_settle(job);
}

static uint64_t largest_frame(const struct chunk_job *job)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < job->count; i++)
		if (job->chunks[i].at.place.stored_bytes > most)
			most = job->chunks[i].at.place.stored_bytes;
	return most;
}

static void start_request(struct chunk_job *job)
{
	const struct job_chunk *last = &job->chunks[job->count - 1];
	struct mirror *mirror = &job->dataset->mirrors[job->mirror];

	job->start = job->chunks[0].at.place.offset;
	job->handed = 0;
	job->counted = 0;
	atomic_store(&job->pending, 1);
	mirror_pack_path(&job->chunks[0].at.pack, job->path);
	free(job->request.headers);
	job->request = (struct fetch_request){
		.origin = mirror->origin,
		.path = job->path,
		.has_range = true,
		.offset = job->start,
		.length = place_end(last) - job->start,
		.pool = job->node->pool,
		.expected_total = job->chunks[0].at.pack_bytes,
		.priority = job->priority,
		.holds_prefetch = true,
		.deadline_ms = job->tries.give_up_ms,
		.no_cache = job->is_uncached,
		.progress = request_progress,
		.done = request_done,
		.arg = job,
	};
	tries_haste(&job->tries, job->mirror, job->request.length,
		    largest_frame(job), &job->request);
	if (job->reference)
		reference_ask(job);
	if (!chunk_request_start(job)) {
		struct err err;
		int r = err_set(&err, ESHUTDOWN, "larder is stopping");

		chunk_job_fail(job, r, &err);
	}
	crash_point("fetch-asked");
}

/* Every run but the first becomes a job of its own. */
static void start_runs(struct chunk_job *job)
{
	uint32_t count, first;

	qsort(job->chunks, job->count, sizeof(job->chunks[0]), compare_places);
	count = run_length(job, 0);
	for (first = count; first < job->count;) {
		uint32_t n = run_length(job, first);
		struct chunk_job *other = chunk_job_split(job, first, n);

		if (other) {
			start_request(other);
		} else {
			for (uint32_t i = 0; i < n; i++)
				chunk_fail(job->chunks[first + i].flight,
					   -ENOMEM, NULL);
		}
		first += n;
	}
	job->count = count;
	start_request(job);
}

static void fire_retry(struct timer *timer)
{
	chunk_job_next((struct chunk_job *)((char *)timer -
					    offsetof(struct chunk_job, timer)),
		       chunk_job_place);
}

static void sleep_then_place(struct chunk_job *job, uint32_t delay_ms)
{
	job->timer.fire = fire_retry;
	if (!timer_set(job->node->timers, &job->timer, now_ms() + delay_ms))
		fire_retry(&job->timer);
}

/* 0: places are known; 1: the job waits or has ended. */
static int place_once(struct chunk_job *job)
{
	enum fetch_class class = FETCH_WRONG;
	struct err err = {0};
	uint32_t delay_ms;
	int r;

	if (job->mirror < 0) {
		r = tries_next(&job->tries, &job->mirror, &delay_ms, &err);
		if (r == -EAGAIN) {
			sleep_then_place(job, delay_ms);
			return 1;
		}
		if (r < 0) {
			chunk_job_fail(job, r, &err);
			return 1;
		}
		/* It was wrong before, and caches have had their chance. */
		job->is_fresh = job->is_uncached =
			job->tries.mirrors[job->mirror].wrong > 0;
	}
	r = waiter_begin(&job->waiter, &err);
	if (r == 0)
		r = job->reference ? reference_find(job, &class, &err) :
				     find_places(job, &class, &err);
	else
		class = FETCH_SLOW;
	r = waiter_end(job->node, &job->waiter, r, &err);
	if (r == DATASET_PARKED)
		return 1;
	if (r == 0)
		return 0;
	if (atomic_load(&job->node->is_closing)) {
		chunk_job_fail(job, -ESHUTDOWN, &err);
		return 1;
	}
	if ((class == FETCH_WRONG || class == FETCH_ABSENT) && !job->is_fresh &&
	    !job->reference)
		forget_places(job);
	else
		note_failure(job, class, err.text, 0, true);
	return -EAGAIN;
}

void chunk_job_place(struct task *task, struct worker *worker)
{
	struct chunk_job *job = (struct chunk_job *)task;
	int r;

	(void)worker;
	do
		r = place_once(job);
	while (r == -EAGAIN);
	if (r == 0)
		start_runs(job);
}

/* ---- outcome */

/* Good chunks have ended; true if any. */
static bool drop_good(struct chunk_job *job)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < job->count; i++)
		if (job->chunks[i].state != CHUNK_GOOD) {
			job->chunks[kept] = job->chunks[i];
			job->chunks[kept++].state = CHUNK_WANTED;
		}
	if (kept == job->count)
		return false;
	job->count = kept;
	return true;
}

static void retry_reference(struct chunk_job *job, enum fetch_class class,
			    const char *text)
{
	bool is_noted;
	struct err err;

	err_set(&err, EIO, "%s", text);
	is_noted = reference_note(job, class, &err);
	if (reference_failed(job, &class, &err))
		return;
	/* What it says of one file says nothing of others. */
	is_noted |= class == FETCH_REFUSED || class == FETCH_ABSENT ||
		    class == FETCH_WRONG;
	note_failure(job, class, err.text, job->request.retry_after_ms,
		     is_noted);
}

static void run_outcome(struct task *task, struct worker *worker)
{
	struct chunk_job *job = (struct chunk_job *)task;
	enum fetch_class class = job->request.class;
	const char *text = job->request.err.text;

	chunk_job_drop_body(job);
	if (drop_good(job))
		tries_progress(&job->tries);
	if (job->count == 0) {
		if (!job->reference || !reference_note(job, FETCH_OK, NULL))
			tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
		chunk_job_free(job);
		return;
	}
	if (job->request.result >= 0) {
		class = FETCH_WRONG;
		text = "wrong bytes";
	}
	if (atomic_exchange(&job->is_short_of_memory, false)) {
		class = FETCH_LOCAL;
		text = "out of memory";
	}
	if (atomic_load(&job->node->is_closing)) {
		struct err err;

		chunk_job_fail(job,
			       err_set(&err, ESHUTDOWN, "larder is stopping"),
			       &err);
		return;
	}
	if (job->reference)
		retry_reference(job, class, text);
	else if ((class == FETCH_WRONG || class == FETCH_ABSENT) &&
		 !job->is_uncached)
		forget_places(job);
	else
		note_failure(job, class, text, job->request.retry_after_ms,
			     false);
	chunk_job_place(task, worker);
}
