/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a repository: what commit its revision is, and what is in it.
 *
 *   LOAD the head that was made before --there--> CATALOG
 *     v none, or the revision is followed
 *   INFO: revision -> commit --the same as now--> done
 *     v
 *   TURN: somebody lists this commit just now? --then it is there--> CATALOG
 *     v
 *   TREE: page after page of the listing
 *     v
 *   catalogs into the cache, a head for them
 *     v
 *   CATALOG: the root catalog is here --> current
 *
 * A revision is resolved once. Later mounts, also of other processes, find the
 * head in the cache and ask nobody; only where it was asked for is the Hub
 * asked again from time to time, as a mirror is. A listing that breaks off is
 * no listing: nothing is shown of it.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cache/cache.h"
#include "dataset/catalog-wait.h"
#include "dataset/head.h"
#include "dataset/hub-listing.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define INFO_BYTES_MAX (64u << 20) /* it names every file, too */
#define PAGE_BYTES_MAX (64u << 20)
/* For the Hub to answer when there is something to fall back on. */
#define FALLBACK_MS 3000u
/* For another's listing, whose end is bounded by its own tries. */
#define TURN_MS 3600000u

struct hub_job {
	struct task task; /* first */
	struct timer timer;
	struct catalog_wait catalog;
	struct node *node;
	struct dataset *dataset;
	struct hub *hub;
	struct flight *flight;
	struct tries tries;
	int mirror;
	bool is_refresh, has_cached, has_token;
	struct err trouble; /* why what was made before is shown again */
	struct head cached, offered;

	struct hub_repo repo;	    /* under its canonical name, once known */
	struct hub_info info;	    /* of the commit, once known */
	struct hub_listing listing; /* begun when info is known */
	struct waiter turn;	    /* while another job lists the commit */
	struct flight *listed;	    /* others wait for ours */
	struct fetch_request request;
	char *target, *authorization;
};

static void run_ask(struct task *task, struct worker *worker);
static void run_answer(struct task *task, struct worker *worker);

static void job_next(struct hub_job *job,
		     void (*run)(struct task *task, struct worker *worker))
{
	work_next(job->node->verify, &job->task, run);
}

/* ---- ends */

static void clear_request(struct hub_job *job)
{
	free(job->request.body);
	free(job->request.headers);
	free(job->request.location);
	free(job->target);
	free(job->authorization);
	job->request = (struct fetch_request){0};
	job->target = job->authorization = NULL;
}

static void job_end(struct hub_job *job, int r, const struct err *err,
		    bool is_stale)
{
	struct dataset *dataset = job->dataset;
	struct node *node = job->node;
	bool is_followed;

	pthread_mutex_lock(&dataset->lock);
	is_followed = job->hub->is_followed && dataset->current;
	pthread_mutex_unlock(&dataset->lock);
	flight_finish(job->flight, r, err, NULL);
	flight_unref(job->flight);
	if (job->listed) {
		flight_finish(job->listed, r, err, NULL);
		flight_unref(job->listed);
	}
	waiter_release(&job->turn);
	catalog_wait_release(&job->catalog);
	hub_listing_release(&job->listing);
	hub_info_release(&job->info);
	hub_repo_release(&job->repo);
	clear_request(job);
	free(job);
	if (is_followed)
		dataset_refresh_later(dataset, is_stale);
	dataset_unref(dataset);
	node_job_end(node);
}

static void offer(struct hub_job *job, const struct head *head);

static void job_fail(struct hub_job *job, int r, struct err *err)
{
	struct dataset *dataset = job->dataset;

	if (!err->text[0])
		err_set(err, -r, "%s", strerror(-r));
	if (atomic_load(&job->node->is_closing) || !job->has_cached) {
		err_prefix(err, r, "cannot open '%s'", dataset->name);
		dataset_set_state(dataset, DATASET_FAILED, err_text(err, r));
		job_end(job, r, err, true);
	} else if (job->is_refresh) {
		dataset_set_state(dataset, DATASET_STALE, err_text(err, r));
		job_end(job, 0, NULL, true);
	} else {
		job->trouble = *err;
		offer(job, &job->cached);
	}
}

static void job_fall_back(struct hub_job *job)
{
	struct dataset *dataset = job->dataset;

	dataset_adopt(dataset, job->catalog.snapshot, &job->cached);
	log_warning("'%s' is served as it was: %s", dataset->name,
		    job->trouble.text);
	dataset_set_state(dataset, DATASET_STALE, job->trouble.text);
	job_end(job, 0, NULL, true);
}

static void job_succeed(struct hub_job *job)
{
	struct hub *hub = job->hub;

	if (job->info.commit[0]) {
		/* a commit has its own, for whoever asks for it by name */
		hub_head_keep(job->dataset, hub->repo.revision, &job->offered);
		hub_head_keep(job->dataset, job->info.commit, &job->offered);
	}
	dataset_set_state(job->dataset, DATASET_OK, "");
	dataset_adopt(job->dataset, job->catalog.snapshot, &job->offered);
	job_end(job, 0, NULL, false);
}

/* ---- what was made before */

static void offer(struct hub_job *job, const struct head *head)
{
	struct snapshot *snapshot = snapshot_new(job->dataset, head);
	struct err err = {0};

	job->offered = *head;
	if (snapshot) {
		catalog_wait_start(&job->catalog, snapshot);
		return;
	}
	job->has_cached = false;
	job_fail(job, -ENOMEM, &err);
}

static void run_load(struct task *task, struct worker *worker)
{
	struct hub_job *job = (struct hub_job *)task;
	struct dataset *dataset = job->dataset;
	struct err err = {0};
	int r;

	pthread_mutex_lock(&dataset->lock);
	if (dataset->current) {
		job->cached = dataset->head;
		job->has_cached = job->is_refresh = true;
	}
	pthread_mutex_unlock(&dataset->lock);
	if (!job->has_cached)
		job->has_cached = hub_head_load(
			dataset, job->hub->repo.revision, &job->cached);
	if (job->is_refresh)
		job->tries.priority = FETCH_READAHEAD;
	else if (job->has_cached && job->hub->is_followed)
		job->tries.give_up_ms = job->tries.started_ms + FALLBACK_MS;
	if (job->has_cached && !job->is_refresh &&
	    (!job->hub->is_followed || job->hub->is_offline)) {
		offer(job, &job->cached);
	} else if (job->hub->is_offline) {
		r = err_set(&err, ENETUNREACH,
			    job->has_cached ?
				    "HF_HUB_OFFLINE is set" :
				    "HF_HUB_OFFLINE is set and the cache has "
				    "no listing of it");
		job_fail(job, r, &err);
	} else {
		run_ask(task, worker);
	}
}

/* ---- asking */

static void request_done(struct fetch_request *request)
{
	job_next(request->arg, run_answer);
}

static void start_request(struct hub_job *job)
{
	struct err err = {0};

	clear_request(job);
	if (!job->listing.tree)
		job->target = hub_info_target(&job->repo);
	else
		job->target = hub_listing_target(&job->listing, &job->repo,
						 job->info.commit);
	if (!job->target) {
		job_fail(job, -ENOMEM, &err);
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
		job_fail(job, err_set(&err, ESHUTDOWN, "larder is stopping"),
			 &err);
}

static void fire_retry(struct timer *timer)
{
	job_next((struct hub_job *)((char *)timer -
				    offsetof(struct hub_job, timer)),
		 run_ask);
}

static void sleep_then_ask(struct hub_job *job, uint32_t delay_ms)
{
	job->timer.fire = fire_retry;
	if (!timer_set(job->node->timers, &job->timer, now_ms() + delay_ms))
		fire_retry(&job->timer);
}

static void run_ask(struct task *task, struct worker *worker)
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
		job_fail(job, r, &err);
		return;
	}
	r = tries_next(&job->tries, &job->mirror, &delay_ms, &err);
	if (r == 0)
		start_request(job);
	else if (r == -EAGAIN && !job->has_cached)
		sleep_then_ask(job, delay_ms);
	else if (r == -EAGAIN)
		job_fail(job, err_set(&err, EIO, "the Hub does not answer"),
			 &err);
	else
		job_fail(job, r, &err);
}

static void ask_again(struct hub_job *job, enum fetch_class class,
		      const struct err *err)
{
	char all[200];

	tries_note(&job->tries, job->mirror, class, err->text,
		   job->request.retry_after_ms);
	tries_text(&job->tries, all, sizeof(all));
	flight_trouble(job->flight, tries_errnum(&job->tries), all);
	run_ask(&job->task, NULL);
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
		job_fail(job, r, &err);
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
	offer(job, &head);
}

static void begin_listing(struct hub_job *job)
{
	struct err err = {0};
	int r = hub_listing_begin(&job->listing, &job->repo);

	if (r < 0)
		job_fail(job, r, &err);
	else
		run_ask(&job->task, NULL);
}

/* Somebody may have listed the commit already, by another revision's name. */
static bool offer_listed(struct hub_job *job)
{
	struct head head;

	if (!hub_head_load(job->dataset, job->info.commit, &head))
		return false;
	head.serial = next_serial(job);
	offer(job, &head);
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
		job_fail(job, r, &err);
	else if (!offer_listed(job))
		begin_listing(job);
}

static void wake_turn(struct waiter *waiter)
{
	job_next((struct hub_job *)((char *)waiter -
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
			begin_listing(job);
		return;
	}
	waiter_init(&job->turn, wake_turn);
	job->turn.timeout_ms =
		job->has_cached && !job->is_refresh ? FALLBACK_MS : TURN_MS;
	r = waiter_hold(&job->turn, flight);
	r = waiter_end(job->node, &job->turn, r < 0 ? r : DATASET_PARKED, &err);
	if (r != DATASET_PARKED)
		job_fail(job, r, &err);
}

static void take_info_answer(struct hub_job *job)
{
	struct err err = {0};
	int r = take_info(job, &err);

	if (r == -ENOMEM) {
		job_fail(job, r, &err);
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
		job_fail(job, r, &err);
	} else if (is_unchanged(job)) {
		dataset_set_state(job->dataset, DATASET_OK, "");
		job_end(job, 0, NULL, false);
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
		job_fail(job, r == -ENOMEM ? r : -EIO, &err);
		return;
	}
	tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
	tries_progress(&job->tries);
	if (r == 1)
		finish_listing(job, worker);
	else
		run_ask(&job->task, worker);
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
		job_fail(job, r, &err);
	} else {
		ask_again(job, class, &err);
	}
}

/* ---- the catalog */

/* Who may look may have changed since the commit was listed. */
static bool is_as_told(const struct hub_job *job)
{
	return !job->info.commit[0] || job->listing.tree ||
	       job->catalog.snapshot->is_restricted == job->info.is_restricted;
}

static void catalog_done(struct catalog_wait *wait, int r, struct err *err)
{
	struct hub_job *job =
		(struct hub_job *)((char *)wait -
				   offsetof(struct hub_job, catalog));

	if (r == 0 && job->trouble.text[0]) {
		job_fall_back(job);
		return;
	}
	if (r == 0 && is_as_told(job)) {
		job_succeed(job);
		return;
	}
	if (job->listing.tree || job->hub->is_offline || job->trouble.text[0] ||
	    atomic_load(&job->node->is_closing)) {
		if (job->trouble.text[0])
			*err = job->trouble;
		job->has_cached = false;
		job_fail(job, r < 0 ? r : -ESHUTDOWN, err);
		return;
	}
	/* The cache has lost what the head names. */
	job->has_cached = job->has_cached && job->info.commit[0];
	if (job->info.commit[0])
		begin_listing(job);
	else
		job_next(job, run_ask);
}

void hub_open_start(struct dataset *dataset, struct flight *flight,
		    bool is_asked)
{
	struct hub *hub = dataset->hub;
	struct hub_job *job = calloc(1, sizeof(*job));

	if (job) {
		job->repo.kind = hub->repo.kind;
		job->repo.id = strdup(hub->repo.id);
		job->repo.revision = strdup(hub->repo.revision);
		job->repo.subdir = strdup(hub->repo.subdir);
	}
	if (!job || !job->repo.id || !job->repo.revision || !job->repo.subdir) {
		if (job)
			hub_repo_release(&job->repo);
		free(job);
		flight_finish(flight, -ENOMEM, NULL, NULL);
		return;
	}
	job->node = dataset->node;
	job->dataset = dataset_ref(dataset);
	job->hub = hub;
	job->flight = flight_ref(flight);
	catalog_wait_init(&job->catalog, job->node, catalog_done);
	tries_init(&job->tries, dataset, -1, FETCH_DEMAND);
	job->tries.asks_all = is_asked;
	node_job_begin(job->node);
	job_next(job, run_load);
}
