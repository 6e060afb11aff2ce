/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of an origin's queued requests may start now: readers' before those
 * of readahead and prefetch, within limits for each origin and for all. What
 * rides on a body that is on its way already needs no connection.
 */
#include <config.h>

#include "base/io.h"
#include "fetch/internal.h"
#include "fetch/spool.h"

/* Of each origin, whatever the others have. */
#define OWN_CONNECTIONS 2

/* How many of so many slots requests of this priority may fill. */
static unsigned slots(unsigned limit, enum fetch_priority priority)
{
	unsigned n = limit;

	if (priority == FETCH_READAHEAD)
		n = limit - (limit + 7) / 8;
	else if (priority == FETCH_PREFETCH)
		n = limit / 2;
	return n > 0 ? n : 1;
}

static bool has_room(const struct origin *origin, unsigned limit,
		     unsigned all_running, unsigned all_limit,
		     enum fetch_priority priority, uint64_t now_ms)
{
	if (priority == FETCH_PREFETCH && !origin->url.is_local &&
	    hold_is_on(origin->fetcher, now_ms))
		return false;
	if (origin->running >= slots(limit, priority))
		return false;
	return all_running < slots(all_limit, priority) ||
	       origin->running < OWN_CONNECTIONS;
}

/*
 * A server that ignores ranges sends the whole file for each. Sixteen of
 * them at once would cost sixteen files, so they come one by one until it is
 * known what the server does. A range that is all of the file costs no more.
 */
static bool needs_trial(const struct job *job)
{
	const struct asked *asked = &job->asked;
	bool is_all = asked->offset == 0 && asked->expected_total &&
		      asked->length == asked->expected_total;

	return !job->origin->url.is_local && asked->has_range && !is_all &&
	       job->origin->ranges < RANGES_TRUSTED;
}

static bool may_try(const struct job *job, uint64_t now_ms)
{
	return !needs_trial(job) || job->origin->trial_until_ms <= now_ms;
}

static void trial_begin(struct job *job, uint64_t now_ms)
{
	struct origin *origin = job->origin;
	/* Long before silence would tell of a dead server. */
	uint64_t most_ms = origin->fetcher->silence_timeout_ms / 4;

	if (!needs_trial(job))
		return;
	origin->trial = job;
	origin->trial_until_ms =
		now_ms + (most_ms < TRIAL_MS ? most_ms : TRIAL_MS);
	look_by(origin->fetcher, origin->trial_until_ms);
}

void job_trial_end(struct job *job)
{
	struct origin *origin = job->origin;

	if (origin->trial != job)
		return;
	origin->trial = NULL;
	origin->trial_until_ms = 0;
	/* The next one need not wait for an event. */
	origin->fetcher->is_woken = true;
}

/* The first of a queue that may run; one that rides needs no slot. */
static struct job *pick(struct origin *origin, struct list *queue,
			bool has_slot, uint64_t now_ms)
{
	for (struct list *item = queue->next; item != queue;
	     item = item->next) {
		struct job *job = list_item(item, struct job, queue);

		job->spool = origin->url.is_local ? NULL : spool_find(job);
		if (job->spool || (has_slot && may_try(job, now_ms)))
			return job;
		if (!has_slot && list_is_empty(&origin->spools))
			return NULL;
	}
	return NULL;
}

struct job *origin_admit(struct origin *origin, unsigned limit,
			 unsigned all_running, unsigned all_limit)
{
	uint64_t now = now_ms();

	for (int i = 0; i < FETCH_PRIORITIES; i++) {
		struct list *queue = &origin->queues[i];
		bool has_slot = !list_is_empty(queue) &&
				has_room(origin, limit, all_running, all_limit,
					 (enum fetch_priority)i, now);
		struct job *job = pick(origin, queue, has_slot, now);

		if (job) {
			list_remove(&job->queue);
			job->state = job->spool ? JOB_RIDING : JOB_RUNNING;
			if (origin->url.is_local)
				origin->fetcher->file_queued--;
			if (job->spool)
				return job;
			origin->running++;
			trial_begin(job, now);
			return job;
		}
		if (!has_slot && !list_is_empty(queue))
			return NULL;
	}
	return NULL;
}
