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
 * INFO to TREE are hub-ask.c's. A revision is resolved once. Later mounts, also
 * of other processes, find the head in the cache and ask nobody; only where it
 * was asked for is the Hub asked again from time to time, as a mirror is. A
 * listing that breaks off is no listing: nothing is shown of it.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataset/hub-job.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

/* ---- ends */

void hub_job_end(struct hub_job *job, int r, const struct err *err,
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
	hub_job_clear_request(job);
	free(job);
	if (is_followed)
		dataset_refresh_later(dataset, is_stale);
	dataset_unref(dataset);
	node_job_end(node);
}

void hub_job_fail(struct hub_job *job, int r, struct err *err)
{
	struct dataset *dataset = job->dataset;

	if (!err->text[0])
		err_set(err, -r, "%s", strerror(-r));
	if (atomic_load(&job->node->is_closing) || !job->has_cached) {
		err_prefix(err, r, "cannot open '%s'", dataset->name);
		dataset_set_state(dataset, DATASET_FAILED, err_text(err, r));
		hub_job_end(job, r, err, true);
	} else if (job->is_refresh) {
		dataset_set_state(dataset, DATASET_STALE, err_text(err, r));
		hub_job_end(job, 0, NULL, true);
	} else {
		job->trouble = *err;
		hub_job_offer(job, &job->cached);
	}
}

static void job_fall_back(struct hub_job *job)
{
	struct dataset *dataset = job->dataset;

	dataset_adopt(dataset, job->catalog.snapshot, &job->cached);
	log_warning("'%s' is served as it was: %s", dataset->name,
		    job->trouble.text);
	dataset_set_state(dataset, DATASET_STALE, job->trouble.text);
	hub_job_end(job, 0, NULL, true);
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
	hub_job_end(job, 0, NULL, false);
}

/* ---- what was made before */

void hub_job_offer(struct hub_job *job, const struct head *head)
{
	struct snapshot *snapshot = snapshot_new(job->dataset, head);
	struct err err = {0};

	job->offered = *head;
	if (snapshot) {
		catalog_wait_start(&job->catalog, snapshot);
		return;
	}
	job->has_cached = false;
	hub_job_fail(job, -ENOMEM, &err);
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
		hub_job_offer(job, &job->cached);
	} else if (job->hub->is_offline) {
		r = err_set(&err, ENETUNREACH,
			    job->has_cached ?
				    "HF_HUB_OFFLINE is set" :
				    "HF_HUB_OFFLINE is set and the cache has "
				    "no listing of it");
		hub_job_fail(job, r, &err);
	} else {
		hub_job_ask(task, worker);
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
		hub_job_fail(job, r < 0 ? r : -ESHUTDOWN, err);
		return;
	}
	/* The cache has lost what the head names. */
	job->has_cached = job->has_cached && job->info.commit[0];
	if (job->info.commit[0])
		hub_job_list(job);
	else
		hub_job_next(job, hub_job_ask);
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
	hub_job_next(job, run_load);
}
