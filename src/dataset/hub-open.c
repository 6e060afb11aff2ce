/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a repository: what commit its revision is, and what is in it.
 *
 *   LOAD the head that was made before --there--> CATALOG
 *     v none, or the revision is followed
 *   INFO: revision -> commit --the same as now--> done
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
#include "base/vec.h"
#include "cache/cache.h"
#include "dataset/head.h"
#include "dataset/hub.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define INFO_BYTES_MAX (64u << 20) /* it names every file, too */
#define PAGE_BYTES_MAX (64u << 20)
#define PAGES_MAX 100000u
#define CATALOG_LEVEL 3
/* For the Hub to answer when there is something to fall back on. */
#define FALLBACK_MS 3000u

struct hub_job {
	struct task task; /* first */
	struct timer timer;
	struct waiter waiter; /* for the catalog */
	struct node *node;
	struct dataset *dataset;
	struct hub *hub;
	struct flight *flight;
	struct tries tries;
	int mirror;
	bool is_refresh, has_cached, has_token;
	struct head cached, offered;

	struct hub_repo repo; /* under its canonical name, once known */
	struct hub_info info;
	struct hub_tree *tree; /* NULL: info comes first */
	char *page;	       /* the next page's target */
	VEC(uint64_t) pages;   /* hashes of those that were asked for */
	struct fetch_request request;
	char *target, *authorization;
	struct codec *codec; /* the worker's, while a listing ends */
	struct snapshot *snapshot;
};

static void run_ask(struct task *task, struct worker *worker);
static void run_answer(struct task *task, struct worker *worker);
static void run_catalog(struct task *task, struct worker *worker);

static void job_next(struct hub_job *job,
		     void (*run)(struct task *task, struct worker *worker))
{
	job->task.run = run;
	work_add(job->node->verify, &job->task, WORK_FIRST);
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
	waiter_release(&job->waiter);
	snapshot_unref(job->snapshot);
	hub_tree_free(job->tree);
	hub_info_release(&job->info);
	hub_repo_release(&job->repo);
	clear_request(job);
	vec_release(&job->pages);
	free(job->page);
	free(job);
	if (is_followed)
		dataset_refresh_later(dataset, is_stale);
	dataset_unref(dataset);
	node_job_end(node);
}

static void job_fail(struct hub_job *job, int r, struct err *err)
{
	struct dataset *dataset = job->dataset;

	if (!err->text[0])
		err_set(err, -r, "%s", strerror(-r));
	if (atomic_load(&job->node->is_closing) || !job->has_cached) {
		err_prefix(err, r, "cannot open '%s'", dataset->name);
		dataset_set_state(dataset, DATASET_FAILED, err_text(err, r));
		job_end(job, r, err, true);
		return;
	}
	if (!job->is_refresh) {
		struct snapshot *snapshot = snapshot_new(dataset, &job->cached);

		if (!snapshot) {
			job_end(job, -ENOMEM, NULL, true);
			return;
		}
		dataset_adopt(dataset, snapshot, &job->cached);
		snapshot_unref(snapshot);
		log_warning("'%s' is served as it was: %s", dataset->name,
			    err_text(err, r));
	}
	dataset_set_state(dataset, DATASET_STALE, err_text(err, r));
	job_end(job, 0, NULL, true);
}

static void keep_head(struct hub_job *job)
{
	_cleanup_free_ char *key = hub_head_key(job->dataset);
	struct buf text;

	buf_init(&text, LIMIT_HEAD_BYTES);
	if (job->node->cache && key && head_print(&job->offered, &text) == 0)
		(void)cache_head_put(job->node->cache, key, text.data,
				     text.len);
	buf_release(&text);
}

static void job_succeed(struct hub_job *job)
{
	struct hub *hub = job->hub;

	if (job->tree) {
		keep_head(job);
		pthread_mutex_lock(&hub->lock);
		memcpy(hub->commit, job->info.commit, sizeof(hub->commit));
		hub->is_restricted = job->info.is_restricted;
		pthread_mutex_unlock(&hub->lock);
	}
	dataset_set_state(job->dataset, DATASET_OK, "");
	dataset_adopt(job->dataset, job->snapshot, &job->offered);
	job_end(job, 0, NULL, false);
}

/* ---- what was made before */

static bool load_cached(struct hub_job *job)
{
	_cleanup_free_ char *key = hub_head_key(job->dataset);
	struct buf text;
	int r;

	if (!job->node->cache || !key)
		return false;
	buf_init(&text, LIMIT_HEAD_BYTES);
	r = cache_head_get(job->node->cache, key, &text);
	if (r >= 0)
		r = head_parse(text.data, text.len, &job->cached, NULL);
	buf_release(&text);
	return r >= 0 &&
	       strcmp(job->cached.dataset, job->dataset->remote_name) == 0;
}

static void offer(struct hub_job *job, const struct head *head)
{
	struct err err = {0};

	job->offered = *head;
	snapshot_unref(job->snapshot);
	job->snapshot = snapshot_new(job->dataset, head);
	if (job->snapshot)
		run_catalog(&job->task, NULL);
	else
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
		job->has_cached = load_cached(job);
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
	if (!job->tree)
		job->target = hub_info_target(&job->repo);
	else if (job->page)
		job->target = strdup(job->page);
	else
		job->target = hub_tree_target(&job->repo, job->info.commit);
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
		.limit_bytes = job->tree ? PAGE_BYTES_MAX : INFO_BYTES_MAX,
		.priority = job->tries.priority,
		.deadline_ms = job->tries.give_up_ms,
		.no_cache = !job->tree, /* a commit's listing never changes */
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
		r = err_set(&err, EAGAIN,
			    "the Hub's limit of requests is used up, again in "
			    "%u s",
			    (delay_ms + 999) / 1000);
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
	job->tree = job->repo.id ? hub_tree_new(&job->repo) : NULL;
	return job->tree ? 0 : -ENOMEM;
}

static bool is_known_commit(struct hub_job *job)
{
	struct hub *hub = job->hub;

	scoped_lock(&hub->lock);
	return job->is_refresh &&
	       hub->is_restricted == job->info.is_restricted &&
	       strcmp(hub->commit, job->info.commit) == 0;
}

/* Pages that lead back to one that was there before never end. */
static int note_page(struct hub_job *job, struct err *err)
{
	uint64_t hash = checksum_xxh3(job->target, strlen(job->target));
	uint64_t *kept;

	for (size_t i = 0; i < job->pages.count; i++)
		if (job->pages.items[i] == hash)
			return err_set(err, EBADMSG,
				       "the listing goes round in a circle");
	if (job->pages.count >= PAGES_MAX)
		return err_set(err, EBADMSG, "the listing has no end");
	kept = vec_push(&job->pages);
	if (!kept)
		return -ENOMEM;
	*kept = hash;
	return 0;
}

/* 1: the last page. */
static int take_page(struct hub_job *job, struct err *err)
{
	int r = note_page(job, err);

	if (r == 0)
		r = hub_tree_add(job->tree, job->request.body,
				 job->request.body_len, err);
	if (r < 0)
		return r;
	free(job->page);
	job->page = NULL;
	r = hub_next_page(job->request.headers, &job->repo, job->info.commit,
			  &job->page, err);
	if (r < 0)
		return r;
	return job->page ? 0 : 1;
}

static int store_catalog(struct hub_job *job, const struct digest *digest,
			 const void *data, size_t len)
{
	size_t bound = codec_bound(len);
	_cleanup_free_ void *frame = NULL;
	long stored;

	if (!job->node->cache || !job->codec)
		return -ENODEV;
	frame = malloc(bound);
	if (!frame)
		return -ENOMEM;
	stored = codec_compress(job->codec, data, len, CATALOG_LEVEL, frame,
				bound);
	if (stored < 0)
		return (int)stored;
	return cache_object_put(job->node->cache, CACHE_OBJECT, digest, frame,
				(size_t)stored);
}

static int give_catalog(void *arg, const struct digest *digest,
			const void *data, size_t len)
{
	struct hub_job *job = arg;
	struct catalog_object *object;
	int r;

	if (store_catalog(job, digest, data, len) == 0)
		return 0;
	r = catalog_object_make(digest, data, len, &object);
	if (r < 0)
		return r;
	hub_pin(job->hub, &object->object);
	table_put(job->node->catalogs, &object->object);
	object_unref(&object->object);
	return 0;
}

static void finish_listing(struct hub_job *job, struct worker *worker)
{
	struct hub_totals totals = {0};
	struct head head = {0};
	struct err err = {0};
	int r;

	job->codec = worker->codec;
	r = hub_tree_finish(job->tree, &job->info, give_catalog, job, &totals,
			    &err);
	job->codec = NULL;
	if (r < 0) {
		job_fail(job, r == -EBADMSG ? -EIO : r, &err);
		return;
	}
	snprintf(head.dataset, sizeof(head.dataset), "%s",
		 job->dataset->remote_name);
	head.catalog = totals.catalog;
	head.catalog_bytes = totals.catalog_bytes;
	head.entry_count = totals.entry_count;
	head.total_bytes = totals.total_bytes;
	head.serial = job->has_cached ? job->cached.serial + 1 : 1;
	head.time = wall_seconds();
	offer(job, &head);
}

static void take_answer(struct hub_job *job, struct worker *worker)
{
	bool is_info = !job->tree;
	struct err err = {0};
	int r = is_info ? take_info(job, &err) : take_page(job, &err);

	if (r == -ENOMEM) {
		job_fail(job, r, &err);
		return;
	}
	if (r < 0 && is_info) {
		/* A page that somebody answers instead of the Hub. */
		ask_again(job, FETCH_WRONG, &err);
		return;
	}
	if (r < 0) {
		job_fail(job, -EIO, &err);
		return;
	}
	tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
	tries_progress(&job->tries);
	if (is_info && job->info.is_disabled) {
		r = err_set(&err, EACCES, "the Hub has disabled it");
		job_fail(job, r, &err);
	} else if (is_info &&
		   (r = hub_rules_check(&job->hub->rules, job->repo.kind,
					job->repo.id, &err)) < 0) {
		/* It was asked for by another name. */
		job_fail(job, r, &err);
	} else if (is_info && is_known_commit(job)) {
		dataset_set_state(job->dataset, DATASET_OK, "");
		job_end(job, 0, NULL, false);
	} else if (r == 1) {
		finish_listing(job, worker);
	} else {
		run_ask(&job->task, worker);
	}
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
		take_answer(job, worker);
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

static void wake_job(struct waiter *waiter)
{
	job_next((struct hub_job *)((char *)waiter -
				    offsetof(struct hub_job, waiter)),
		 run_catalog);
}

static void run_catalog(struct task *task, struct worker *worker)
{
	struct hub_job *job = (struct hub_job *)task;
	struct err err = {0};
	int r;

	(void)worker;
	r = snapshot_load(job->snapshot, &job->waiter, &err);
	if (r == DATASET_PARKED)
		return;
	if (r == 0) {
		job_succeed(job);
	} else if (!job->tree && !job->hub->is_offline &&
		   !atomic_load(&job->node->is_closing)) {
		/* The cache has lost what the head names. */
		job->has_cached = false;
		job_next(job, run_ask);
	} else {
		job->has_cached = false;
		job_fail(job, r, &err);
	}
}

void hub_open_start(struct dataset *dataset, struct flight *flight)
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
	waiter_init(&job->waiter, wake_job);
	tries_init(&job->tries, dataset, -1, FETCH_DEMAND);
	node_job_begin(job->node);
	job_next(job, run_load);
}
