/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting one object: a job on a flight.
 *
 *   LOOK (disk) --miss--> ASK --mirror chosen--> request under way
 *                          ^                          |
 *                          +---- failed, others ----- ANSWER --good--> done
 *
 * Disk and parsing are done by the verify pool, not by the caller: a large
 * catalog takes long enough that a reader of another file would notice.
 * Objects are small and few; they are not charged to the budget.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cache/cache.h"
#include "dataset/objects.h"
#include "dataset/tries.h"
#include "source/source.h"

struct object_job {
	struct task task; /* first */
	struct timer timer;
	struct node *node;
	struct flight *flight;
	struct object_want want;
	struct tries tries;
	int mirror;
	bool is_uncached; /* this try goes past caches in between */
	struct fetch_request request;
	char path[SOURCE_PATH_MAX];
};

static void run_look(struct task *task, struct worker *worker);
static void run_ask(struct task *task, struct worker *worker);
static void run_answer(struct task *task, struct worker *worker);

/* For callers that go over the mirrors themselves, or may come back later. */
static enum fetch_class failure_class(const struct object_job *job)
{
	enum fetch_class class = FETCH_UNREACHABLE;

	if (job->want.mirror < 0)
		return tries_can_heal(&job->tries) ? class : FETCH_ABSENT;
	if (job->mirror >= 0)
		class = job->tries.mirrors[job->mirror].class;
	return class == FETCH_OK ? FETCH_UNREACHABLE : class;
}

static void job_finish(struct object_job *job, int r, const struct err *err,
		       struct object *object)
{
	struct node *node = job->node;

	if (r < 0)
		job->flight->class = (int)failure_class(job);
	flight_finish(job->flight, r, err, object);
	flight_unref(job->flight);
	object_unref(job->want.parent);
	free(job->request.body);
	free(job);
	node_job_end(node);
}

static void keep(struct object_job *job, struct object *object,
		 const uint8_t *data, size_t len)
{
	if (data && job->node->cache)
		(void)cache_object_put(
			job->node->cache,
			(enum cache_object_kind)job->want.cache_kind,
			&job->want.cache_name, data, len);
	table_put(job->want.table, object);
}

/* From the disk: 1 and finished, or 0. */
static int look_on_disk(struct object_job *job, struct worker *worker)
{
	struct object_want *want = &job->want;
	struct cache *cache = job->node->cache;
	struct object *object = NULL;
	bool is_wrong = false;
	struct buf stored;
	int r;

	if (!cache || want->is_fresh)
		return 0;
	buf_init(&stored, want->limit_bytes);
	r = cache_object_get(cache, (enum cache_object_kind)want->cache_kind,
			     &want->cache_name, &stored);
	if (r >= 0)
		r = want->parse(want, worker->codec, stored.data, stored.len,
				&object, &is_wrong, NULL);
	if (r >= 0) {
		keep(job, object, NULL, 0);
		job_finish(job, 0, NULL, object);
	} else if (is_wrong || r == -EBADMSG) {
		(void)cache_object_drop(
			cache, (enum cache_object_kind)want->cache_kind,
			&want->cache_name);
	}
	buf_release(&stored);
	return r >= 0;
}

static void run_look(struct task *task, struct worker *worker)
{
	struct object_job *job = (struct object_job *)task;

	struct err err;

	if (look_on_disk(job, worker) != 0)
		return;
	if (!job->want.dataset->hub) {
		run_ask(task, worker);
		return;
	}
	/* It was made here: nobody has another. */
	job_finish(job,
		   err_set(&err, EIO,
			   "%s: the cache has lost it (mount it again)",
			   job->want.what),
		   &err, NULL);
}

static void request_done(struct fetch_request *request)
{
	struct object_job *job = request->arg;

	work_next(job->node->verify, &job->task, run_answer);
}

static void fire_retry(struct timer *timer)
{
	struct object_job *job =
		(struct object_job *)((char *)timer -
				      offsetof(struct object_job, timer));

	work_next(job->node->verify, &job->task, run_ask);
}

static void start_request(struct object_job *job)
{
	struct object_want *want = &job->want;
	struct mirror *mirror = &want->dataset->mirrors[job->mirror];

	if (want->is_places)
		mirror_places_path(&want->key.digest, job->path);
	else
		mirror_object_path(&want->key.digest, job->path);
	job->request = (struct fetch_request){
		.origin = mirror->origin,
		.path = job->path,
		.has_range = want->length > 0,
		.offset = want->offset,
		.length = want->length,
		.limit_bytes = want->limit_bytes,
		.priority = job->tries.priority,
		.deadline_ms = job->tries.give_up_ms,
		.no_cache = job->is_uncached,
		.done = request_done,
		.arg = job,
	};
	tries_haste(&job->tries, job->mirror, 0, 0, &job->request);
	if (!node_fetch(job->node, &job->request)) {
		struct err err;
		int r = err_set(&err, ESHUTDOWN, "larder is stopping");

		job_finish(job, r, &err, NULL);
	}
}

static void run_ask(struct task *task, struct worker *worker)
{
	struct object_job *job = (struct object_job *)task;
	uint32_t delay_ms = 0;
	struct err err = {0};
	int r;

	(void)worker;
	r = tries_next(&job->tries, &job->mirror, &delay_ms, &err);
	if (r == 0) {
		job->is_uncached = job->want.is_fresh ||
				   job->tries.mirrors[job->mirror].wrong > 0;
		start_request(job);
		return;
	}
	/* A job about one mirror leaves it to its caller to come again. */
	if (r == -EAGAIN && job->want.mirror < 0) {
		job->timer.fire = fire_retry;
		if (!timer_set(job->node->timers, &job->timer,
			       now_ms() + delay_ms))
			fire_retry(&job->timer);
		return;
	}
	if (job->want.mirror >= 0) {
		job->mirror = job->want.mirror;
		err_set(&err, EIO, "%s",
			job->tries.mirrors[job->mirror].text[0] ?
				job->tries.mirrors[job->mirror].text :
				"not asked, it failed just now");
		r = r == -EAGAIN ? -EIO : r;
	}
	r = err_prefix(&err, r, "%s", job->want.what);
	job_finish(job, r, &err, NULL);
}

static void note_failure(struct object_job *job, enum fetch_class class,
			 const char *text, uint32_t retry_after_ms)
{
	char all[200];

	tries_note(&job->tries, job->mirror, class, text, retry_after_ms);
	tries_text(&job->tries, all, sizeof(all));
	flight_trouble(job->flight, tries_errnum(&job->tries), all);
}

/* Bytes that are wrong may be a cache's in between: ask once past it. */
static bool retry_uncached(struct object_job *job)
{
	if (job->is_uncached)
		return false;
	job->is_uncached = true;
	start_request(job);
	return true;
}

static void run_answer(struct task *task, struct worker *worker)
{
	struct object_job *job = (struct object_job *)task;
	_cleanup_free_ uint8_t *body = steal_ptr(job->request.body);
	size_t len = job->request.body_len;
	enum fetch_class class = job->request.class;
	struct err err = job->request.err;
	struct object *object = NULL;
	bool is_wrong = false;
	int r = job->request.result;

	if (r >= 0) {
		stats_add(job->node->stats, STAT_FETCHED_WIRE_BYTES, len);
		err.text[0] = '\0';
		r = job->want.parse(&job->want, worker->codec, body, len,
				    &object, &is_wrong, &err);
		if (r < 0)
			class = FETCH_WRONG;
	} else {
		is_wrong = class == FETCH_WRONG;
	}
	if (r >= 0) {
		tries_note(&job->tries, job->mirror, FETCH_OK, NULL, 0);
		keep(job, object, body, len);
		job_finish(job, 0, NULL, object);
		return;
	}
	if (is_wrong && retry_uncached(job))
		return;
	if (job->request.result >= 0 && !is_wrong) {
		/* The right bytes, but nothing we can use. */
		r = r == -ENOMEM ? r : -EIO;
		r = err_prefix(&err, r, "%s", job->want.what);
		job_finish(job, r, &err, NULL);
		return;
	}
	note_failure(job, class, err.text, job->request.retry_after_ms);
	run_ask(task, worker);
}

static int job_start(const struct object_want *want, struct flight *flight)
{
	struct object_job *job = calloc(1, sizeof(*job));
	struct node *node = want->dataset->node;

	if (!job) {
		flight_finish(flight, -ENOMEM, NULL, NULL);
		return -ENOMEM;
	}
	job->node = node;
	job->flight = flight_ref(flight);
	job->want = *want;
	job->mirror = -1;
	if (want->parent)
		object_ref(want->parent);
	tries_init(&job->tries, want->dataset, want->mirror, FETCH_DEMAND);
	job->task.run = run_look;
	node_job_begin(node);
	work_add(node->verify, &job->task, WORK_FIRST);
	return 0;
}

int object_get(const struct object_want *want, struct waiter *waiter,
	       struct object **ret, enum fetch_class *ret_class,
	       struct err *err)
{
	struct node *node = want->dataset->node;
	struct object_key key = want->key;
	struct object *object = table_get(want->table, &key);
	struct flight *flight;
	int class = -1;
	bool is_new;
	int r;

	if (object) {
		*ret = object;
		return 0;
	}
	key.salt = want->flight_salt;
	flight = flight_get(node->flights, &key, &is_new);
	if (!flight)
		return -ENOMEM;
	if (is_new) {
		r = job_start(want, flight);
		if (r < 0) {
			flight_unref(flight);
			return r;
		}
	}
	r = waiter_outcome(waiter, flight, ret, &class, err);
	if (class >= 0)
		waiter->class = class;
	if (class >= 0 && ret_class)
		*ret_class = (enum fetch_class) class;
	return r;
}
