/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Hub is asked to open a repository: which commit its revision is, and
 * what is in that, unless somebody lists it just now. Tries are told apart from
 * answers: a refusal is one, a page that is none of the Hub's is a bad try.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "dataset/hub-job.h"

#define INFO_BYTES_MAX (64u << 20) /* it names every file, too */
#define PAGE_BYTES_MAX (64u << 20)
/* For another's listing, whose end is bounded by its own tries. */
#define TURN_MS 3600000u

static void run_answer(struct task *task, struct worker *worker);

void hub_job_next(struct hub_job *job,
		  void (*run)(struct task *task, struct worker *worker))
{
	work_next(job->node->verify, &job->task, run);
}

void hub_job_clear_request(struct hub_job *job)
{
	free(job->request.body);
	free(job->request.headers);
	free(job->request.location);
	free(job->target);
	free(job->authorization);
	job->request = (struct fetch_request){0};
	job->target = job->authorization = NULL;
}

static void request_done(struct fetch_request *request)
{
	hub_job_next(request->arg, run_answer);
}

static void start_request(struct hub_job *job)
{
	struct err err = {0};

	hub_job_clear_request(job);
	if (!job->listing.tree)
		job->target = hub_info_target(&job->repo);
	else
		job->target = hub_listing_target(&job->listing, &job->repo,
						 job->info.commit);
	if (!job->target) {
		hub_job_fail(job, -ENOMEM, &err);
		return;
	}
	job->authorization = hub_authorization(job->hub);
	job->has_token = job->authorization;
	job->request = (struct fetch_request){
		.origin = job->dataset->mirrors[job->mirror].origin,
		.path = job->target,
		.is_escaped = true,
		.authorization = job->authorization,
		.keeps_headers = true,
		.limit_bytes =
			job->listing.tree ? PAGE_BYTES_MAX : INFO_BYTES_MAX,
		.priority = job->tries.priority,
		.deadline_ms = job->tries.give_up_ms,
		.no_cache =
			!job->listing
				 .tree, /* a commit's listing never changes */
		.done = request_done,
		.arg = job,
	};
	if (!node_fetch(job->node, &job->request))
		hub_job_fail(job,
			     err_set(&err, ESHUTDOWN, "larder is stopping"),
			     &err);
}

static void fire_retry(struct timer *timer)
{
	hub_job_next((struct hub_job *)((char *)timer -
					offsetof(struct hub_job, timer)),
		     hub_job_ask);
}

static void sleep_then_ask(struct hub_job *job, uint32_t delay_ms)
{
	job->timer.fire = fire_retry;
	if (!timer_set(job->node->timers, &job->timer, now_ms() + delay_ms))
		fire_retry(&job->timer);
}

void hub_job_ask(struct task *task, struct worker *worker)
{
	struct hub_job *job = (struct hub_job *)task;
	uint32_t delay_ms = hub_paused_ms(job->node);
	struct err err = {0};
	int r;

	(void)worker;
	if (delay_ms > 0 && now_ms() + delay_ms < job->tries.give_up_ms &&
	    !job->has_cached) {
		sleep_then_ask(job, delay_ms);
		return;
	}
	if (delay_ms > 0) {
		r = hub_pause_error(delay_ms, EAGAIN, &err);
		hub_job_fail(job, r, &err);
		return;
	}
	r = tries_next(&job->tries, &job->mirror, &delay_ms, &err);
	if (r == 0)
		start_request(job);
	else if (r == -EAGAIN && !job->has_cached)
		sleep_then_ask(job, delay_ms);
	else if (r == -EAGAIN)
		hub_job_fail(job, err_set(&err, EIO, "the Hub does not answer"),
			     &err);
	else
		hub_job_fail(job, r, &err);
}

static void ask_again(struct hub_job *job, enum fetch_class class,
		      const struct err *err)
{
	char all[200];

	tries_note(&job->tries, job->mirror, class, err->text,
		   job->request.retry_after_ms);
	tries_text(&job->tries, all, sizeof(all));
	flight_trouble(job->flight, tries_errnum(&job->tries), all);
	hub_job_ask(&job->task, NULL);
}

/* ---- answers */

/* A commit's name, a renamed repository's new one. */
static int take_info(struct hub_job *job, struct err *err)
{
	int r = hub_info_parse(job->request.body, job->request.body_len,
			       &job->info, err);

	if (r < 0)
		return r;
	free(job->repo.id);
	job->repo.id = strdup(job->info.id);
	return job->repo.id ? 0 : -ENOMEM;
}

static bool is_unchanged(struct hub_job *job)
{
	struct dataset *dataset = job->dataset;

	scoped_lock(&dataset->lock);
	return job->is_refresh &&
	       strcmp(dataset->current->commit, job->info.commit) == 0 &&
	       dataset->current->is_restricted == job->info.is_restricted;
}

static uint64_t next_serial(const struct hub_job *job)
{
	return job->has_cached ? job->cached.serial + 1 : 1;
}

static void finish_listing(struct hub_job *job, struct worker *worker)
{
	struct hub_totals totals = {0};
	struct head head = {0};
	struct err err = {0};
	int r = hub_listing_finish(&job->listing, job->dataset, &job->info,
				   worker->codec, &totals, &err);

	if (r < 0) {
		hub_job_fail(job, r, &err);
		return;
	}
	snprintf(head.dataset, sizeof(head.dataset), "%s",
		 job->dataset->remote_name);
	head.catalog = totals.catalog;
	head.catalog_bytes = totals.catalog_bytes;
	head.entry_count = totals.entry_count;
	head.total_bytes = totals.total_bytes;
	head.serial = next_serial(job);
	head.time = wall_seconds();
	hub_job_offer(job, &head);
}

void hub_job_list(struct hub_job *job)
{
	struct err err = {0};
	int r = hub_listing_begin(&job->listing, &job->repo);

	if (r < 0)
		hub_job_fail(job, r, &err);
	else
		hub_job_ask(&job->task, NULL);
}

/* Somebody may have listed the commit already, by another revision's name. */
static bool offer_listed(struct hub_job *job)
{
	struct head head;

	if (!hub_head_load(job->dataset, job->info.commit, &head))
		return false;
	head.serial = next_serial(job);
	hub_job_offer(job, &head);
	return true;
}

static void run_turn(struct task *task, struct worker *worker)
{
	struct hub_job *job = (struct hub_job *)task;
	struct err err = {0};
	int r = waiter_begin(&job->turn, &err);

	(void)worker;
	waiter_release(&job->turn);
	if (r < 0)
		hub_job_fail(job, r, &err);
	else if (!offer_listed(job))
		hub_job_list(job);
}

static void wake_turn(struct waiter *waiter)
{
	hub_job_next((struct hub_job *)((char *)waiter -
					offsetof(struct hub_job, turn)),
		     run_turn);
}

/* Waits for another job that lists the commit just now. What that one keeps may
 * have come before the look at it. */
static void list_in_turn(struct hub_job *job)
{
	bool is_new = false;
	struct flight *flight =
		hub_listing_flight(job->dataset, job->info.commit, &is_new);
	struct err err = {0};
	int r;

	if (!flight || is_new) {
		job->listed = flight;
		if (!offer_listed(job))
			hub_job_list(job);
		return;
	}
	waiter_init(&job->turn, wake_turn);
	job->turn.timeout_ms =
		job->has_cached && !job->is_refresh ? FALLBACK_MS : TURN_MS;
	r = waiter_hold(&job->turn, flight);
	r = waiter_end(job->node, &job->turn, r < 0 ? r : DATASET_PARKED, &err);
	if (r != DATASET_PARKED)
		hub_job_fail(job, r, &err);
}

static void take_info_answer(struct hub_job *job)
{
	struct err err = {0};
	int r = take_info(job, &err);

	if (r == -ENOMEM) {
		hub_job_fail(job, r, &err);
		return;
	}
	if (r < 0) {
		/* A page that somebody answers instead of the Hub. */
		ask_again(job, FETCH_WRONG, &err);
		return;
	}
	tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
	tries_progress(&job->tries);
	/* It may have been asked for by another name. */
	r = hub_rules_check(&job->hub->rules, job->repo.kind, job->repo.id,
			    &err);
	if (r == 0 && job->info.is_disabled)
		r = err_set(&err, EACCES, "the Hub has disabled it");
	if (r < 0) {
		hub_job_fail(job, r, &err);
	} else if (is_unchanged(job)) {
		dataset_set_state(job->dataset, DATASET_OK, "");
		hub_job_end(job, 0, NULL, false);
	} else if (!offer_listed(job)) {
		list_in_turn(job);
	}
}

static void take_page_answer(struct hub_job *job, struct worker *worker)
{
	struct err err = {0};
	int r = hub_listing_take(&job->listing, &job->repo, job->info.commit,
				 job->target, &job->request, &err);

	if (r < 0) {
		hub_job_fail(job, r == -ENOMEM ? r : -EIO, &err);
		return;
	}
	tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
	tries_progress(&job->tries);
	if (r == 1)
		finish_listing(job, worker);
	else
		hub_job_ask(&job->task, worker);
}

static void run_answer(struct task *task, struct worker *worker)
{
	struct hub_job *job = (struct hub_job *)task;
	enum fetch_class class;
	struct err err = {0};
	int r;

	if (job->request.result >= 0) {
		stats_add(job->node->stats, STAT_FETCHED_WIRE_BYTES,
			  job->request.body_len);
		if (job->listing.tree)
			take_page_answer(job, worker);
		else
			take_info_answer(job);
		return;
	}
	class = hub_failure(job->dataset, &job->repo, &job->request,
			    job->has_token, &err, &r);
	if (class == FETCH_REFUSED || class == FETCH_ABSENT) {
		tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
		hub_job_fail(job, r, &err);
	} else {
		ask_again(job, class, &err);
	}
}
