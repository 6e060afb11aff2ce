/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a request's time is over: its deadline, silence, crawling, a server
 * that is known to be dead by now. Watched in one place for all requests, also
 * queued ones and those whose file thread hangs in a dead network disk, so that
 * done comes when promised whatever happens below.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/internal.h"

/* A read that finds everything dead looks again, but not for long. */
#define EARLY_PROBE_MS 1000
/* As often, whoever waits while no other origin is good is told so. */
#define TELL_MS 1000
/* A job in a callback is looked at again soon. */
#define CALLING_LOOK_MS 10

/* A queued file for which no thread is left. */
static bool nobody_comes(const struct job *job)
{
	return job->state == JOB_QUEUED && job->origin->url.is_local &&
	       (job->origin->stuck >= FILES_PER_ORIGIN ||
		job->origin->fetcher->file_threads == 0);
}

uint64_t job_first_look(const struct fetcher *fetcher, const struct job *job)
{
	uint64_t ms = UINT64_MAX;

	if (fetcher->is_closing)
		return 0;
	if (job->deadline_ms)
		ms = job->deadline_ms;
	if (job->is_early && job->start_ms + EARLY_PROBE_MS < ms)
		ms = job->start_ms + EARLY_PROBE_MS;
	if (nobody_comes(job))
		ms = 0;
	return ms;
}

static bool end_job(struct job *job, enum fetch_class class, const char *text)
{
	job->end_class = class;
	err_set(&job->end_err, EIO, "%s", text);
	return true;
}

static bool end_slow(struct job *job, const char *what, uint64_t ms)
{
	char seconds[SECONDS_MAX];

	job->end_class = FETCH_SLOW;
	err_set(&job->end_err, ETIMEDOUT, "%s %s", what,
		seconds_text(ms, seconds));
	return true;
}

/* Whether it can be had elsewhere now. */
static bool is_elsewhere(const struct job *job)
{
	for (size_t i = 0; i < job->other_count; i++)
		if (origin_is_good(job->others[i]))
			return true;
	return false;
}

uint32_t job_patience_ms(const struct job *job)
{
	return job->patience_ms && job->patience_ms < job->silence_ms ?
		       job->patience_ms :
		       job->silence_ms;
}

static uint32_t crawl_bytes_per_s(const struct job *job)
{
	uint32_t share = job->min_bytes_per_s;

	if (job->origin->running > 1)
		share /= job->origin->running;
	if (job->priority == FETCH_DEMAND && share < job->demand_bytes_per_s)
		share = job->demand_bytes_per_s;
	return share > PACE_CRAWL_BYTES_PER_S ? share : PACE_CRAWL_BYTES_PER_S;
}

/* No byte for silence_ms, though it was asked for. */
static bool end_silent(struct job *job, uint32_t silence_ms, bool is_only)
{
	/* Nobody else is asked: next time it has more time. */
	if (is_only && !job->pace.has_bytes)
		origin_answered(job->origin, silence_ms);
	/* Haste says nothing about the server. */
	job->met_silence =
		!job->origin->url.is_local &&
		silence_ms >= job->origin->fetcher->silence_timeout_ms;
	return end_slow(job, "silent for", silence_ms);
}

static bool has_stalled(struct job *job, bool is_elsewhere, uint64_t now_ms,
			uint64_t *next_ms)
{
	bool is_only =
		job->other_count ? !is_elsewhere : job->min_bytes_per_s == 0;
	bool is_held_to = is_elsewhere || job->other_count == 0;
	uint32_t silence_ms =
		is_held_to ? job_patience_ms(job) : job->silence_ms;
	uint32_t rate =
		is_held_to ? crawl_bytes_per_s(job) : PACE_CRAWL_BYTES_PER_S;
	char text[48];
	uint64_t look;

	switch (pace_look(&job->pace, silence_ms, rate, now_ms, &look)) {
	case PACE_SILENT:
		return end_silent(job, silence_ms, is_only);
	case PACE_CRAWLS:
		snprintf(text, sizeof(text), "slower than %u KiB/s for",
			 rate >> 10);
		return end_slow(job, text, silence_ms);
	case PACE_FINE:
		break;
	}
	if (look < *next_ms)
		*next_ms = look;
	return false;
}

/* A connection does not come about, or what stands before it in the queue
 * fails at this server; and there is another. */
static bool waits_in_vain(struct job *job, uint64_t now_ms, uint64_t *next_ms)
{
	uint64_t since_ms = job->run_ms ? job->run_ms : job->start_ms;

	if (job->state == JOB_QUEUED && !job->is_probe &&
	    !origin_is_good(job->origin))
		return end_job(job, FETCH_SLOW,
			       "what was asked before failed there");
	if (!job->patience_ms || job->pace.has_begun ||
	    job->state != JOB_RUNNING)
		return false;
	if (now_ms >= since_ms + job->patience_ms)
		return end_slow(job, "no connection within", job->patience_ms);
	if (since_ms + job->patience_ms < *next_ms)
		*next_ms = since_ms + job->patience_ms;
	return false;
}

/* Whoever knows the others may look whether they are back. */
static void tell_later(struct job *job, uint64_t now_ms, uint64_t *next_ms)
{
	if (job->origin->url.is_local || !job->request->about_others)
		return;
	if (now_ms >= job->told_ms + TELL_MS) {
		job->told_ms = now_ms;
		job->is_to_be_told = true;
	}
	if (job->told_ms + TELL_MS < *next_ms)
		*next_ms = job->told_ms + TELL_MS;
}

static bool is_left(struct job *job, uint64_t now_ms, uint64_t *next_ms)
{
	bool is_there = is_elsewhere(job);

	if (is_there && waits_in_vain(job, now_ms, next_ms))
		return true;
	if (!is_there && job->other_count)
		tell_later(job, now_ms, next_ms);
	return job->state == JOB_RUNNING &&
	       has_stalled(job, is_there, now_ms, next_ms);
}

struct job *job_to_tell(struct fetcher *fetcher)
{
	scoped_lock(&fetcher->lock);
	for (struct list *item = fetcher->jobs.next; item != &fetcher->jobs;
	     item = item->next) {
		struct job *job = list_item(item, struct job, all);

		if (job->is_to_be_told) {
			job->is_to_be_told = false;
			return job;
		}
	}
	return NULL;
}

/* Is this job's time over? If not, *next_ms comes down to when it may be. */
static bool has_ended(struct fetcher *fetcher, struct job *job, uint64_t now_ms,
		      uint64_t *next_ms)
{
	uint64_t deadline_ms = job->deadline_ms;
	uint64_t early_ms = job->start_ms + EARLY_PROBE_MS;

	if (job->is_canceled || fetcher->is_closing)
		return end_job(job, FETCH_CANCELED, "canceled");
	/* Its time stands still too. */
	if (job->is_held) {
		(void)hold_is_on(fetcher, now_ms);
		if (fetcher->hold.next_ms < *next_ms)
			*next_ms = fetcher->hold.next_ms;
		return false;
	}
	if (deadline_ms && now_ms >= deadline_ms)
		return end_slow(job, "timed out after", now_ms - job->start_ms);
	if (job->is_early && !job->pace.has_bytes && now_ms >= early_ms)
		return end_slow(job, "no answer within", EARLY_PROBE_MS);
	if (nobody_comes(job))
		return end_job(job, FETCH_SLOW, "the disk does not answer");
	if (job->state == JOB_QUEUED && job->start_ms < job->origin->dead_ms)
		return end_job(job, job->origin->dead_class,
			       "the server does not answer");
	if (deadline_ms && deadline_ms < *next_ms)
		*next_ms = deadline_ms;
	if (job->state == JOB_QUEUED && job->origin->trial &&
	    job->origin->trial_until_ms < *next_ms)
		*next_ms = job->origin->trial_until_ms;
	if (job->is_early && !job->pace.has_bytes && early_ms < *next_ms)
		*next_ms = early_ms;
	return is_left(job, now_ms, next_ms);
}

static void take_out(struct job *job)
{
	struct origin *origin = job->origin;

	if (job->state == JOB_QUEUED) {
		list_remove(&job->queue);
		job->state = JOB_ENDED;
		if (origin->url.is_local)
			origin->fetcher->file_queued--;
	} else if (origin->url.is_local) {
		files_abandon(job);
	}
	list_remove(&job->rider);
}

struct job *jobs_expire(struct fetcher *fetcher, uint64_t now_ms)
{
	struct job *ended = NULL;
	uint64_t next_ms = UINT64_MAX;

	scoped_lock(&fetcher->lock);
	if (now_ms < fetcher->next_look_ms)
		return NULL;
	fetcher->next_look_ms = UINT64_MAX;
	for (struct list *item = fetcher->jobs.next; item != &fetcher->jobs;
	     item = item->next) {
		struct job *job = list_item(item, struct job, all);

		if (!has_ended(fetcher, job, now_ms, &next_ms))
			continue;
		if (job->state == JOB_CALLING) {
			/* The file thread sees it too, after its callback. */
			if (now_ms + CALLING_LOOK_MS < next_ms)
				next_ms = now_ms + CALLING_LOOK_MS;
			continue;
		}
		take_out(job);
		job->next_ended = ended;
		ended = job;
	}
	look_by(fetcher, next_ms);
	return ended;
}
