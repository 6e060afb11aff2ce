/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which snapshot a dataset is: fetching its head, believing it, looking
 * again from time to time.
 *
 *   LOAD the last good head from the disk
 *     v
 *   ASK a mirror: its marker once, then the head --fails--> the next mirror
 *     v                                        all failed--> the last good
 *   CATALOG: the root catalog must be here before anybody     head, stale
 *     v      is sent to the new snapshot
 *   current
 *
 * With a last good head at hand a silent mirror gets few seconds, not a
 * reader's whole time: the refresh goes on behind.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/cache.h"
#include "dataset/catalog-wait.h"
#include "dataset/head.h"
#include "dataset/hub.h"
#include "dataset/objects.h"
#include "dataset/tries.h"
#include "source/source.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

/* For the mirrors to answer when there is something to fall back on. */
#define FALLBACK_MS 3000u
#define MARKER_BYTES_MAX 4096u

struct head_job {
	struct task task; /* first */
	struct timer timer;
	struct catalog_wait catalog; /* of offered */
	struct node *node;
	struct dataset *dataset;
	struct flight *flight;
	struct tries tries;
	int mirror;
	bool is_refresh, asks_marker, has_no_marker;
	struct fetch_request request;
	char path[SOURCE_PATH_MAX];
	char etag[128]; /* of the head that is current or offered */

	bool has_cached; /* the last good head, or the current one */
	struct head cached;
	struct head offered;
	uint8_t *text; /* of offered */
	size_t text_len;
};

static void run_ask(struct task *task, struct worker *worker);
static void run_answer(struct task *task, struct worker *worker);

static void job_next(struct head_job *job,
		     void (*run)(struct task *task, struct worker *worker))
{
	work_next(job->node->verify, &job->task, run);
}

/* ---- ends */

static void job_end(struct head_job *job, int r, const struct err *err,
		    bool is_stale)
{
	struct dataset *dataset = job->dataset;
	struct node *node = job->node;
	bool has_current;

	pthread_mutex_lock(&dataset->lock);
	has_current = dataset->current;
	pthread_mutex_unlock(&dataset->lock);
	flight_finish(job->flight, r, err, NULL);
	flight_unref(job->flight);
	catalog_wait_release(&job->catalog);
	free(job->text);
	free(job->request.body);
	free(job);
	if (has_current)
		dataset_refresh_later(dataset, is_stale);
	node_job_end(node);
}

static void keep_etag(struct head_job *job)
{
	struct mirror *mirror = &job->dataset->mirrors[job->mirror];

	scoped_lock(&job->dataset->lock);
	snprintf(mirror->head_etag, sizeof(mirror->head_etag), "%s", job->etag);
	mirror->head_serial = job->offered.serial;
}

static void job_succeed(struct head_job *job)
{
	struct dataset *dataset = job->dataset;

	if (job->text)
		head_cache_keep(dataset, &job->offered, job->text,
				job->text_len);
	keep_etag(job);
	dataset_set_state(dataset, DATASET_OK, "");
	dataset_adopt(dataset, job->catalog.snapshot, &job->offered);
	job_end(job, 0, NULL, false);
}

/* No mirror gave a head we can use. */
static void job_fall_back(struct head_job *job, int r, struct err *err)
{
	struct dataset *dataset = job->dataset;
	bool is_for_good = !tries_can_heal(&job->tries);
	struct snapshot *snapshot;
	char time[FORMAT_MAX];

	if (atomic_load(&job->node->is_closing) || !job->has_cached) {
		err_prefix(err, r, "cannot open dataset '%s'", dataset->name);
		dataset_set_state(dataset, DATASET_FAILED, err_text(err, r));
		job_end(job, r, err, true);
		return;
	}
	if (!job->is_refresh) {
		snapshot = snapshot_new(dataset, &job->cached);
		if (!snapshot) {
			job_end(job, -ENOMEM, NULL, true);
			return;
		}
		dataset_adopt(dataset, snapshot, &job->cached);
		snapshot_unref(snapshot);
		log_warning(
			"'%s' is served as it was at %s: %s%s", dataset->name,
			format_time(job->cached.time, time), err_text(err, r),
			is_for_good ?
				"; that does not pass by itself: if the source is mistyped, give the right one" :
				"");
	}
	dataset_set_stale(dataset, is_for_good, err_text(err, r));
	job_end(job, 0, NULL, true);
}

/* ---- the head at hand */

static void run_load(struct task *task, struct worker *worker)
{
	struct head_job *job = (struct head_job *)task;
	struct dataset *dataset = job->dataset;

	pthread_mutex_lock(&dataset->lock);
	if (dataset->current) {
		job->cached = dataset->head;
		job->has_cached = true;
		job->is_refresh = true;
	}
	pthread_mutex_unlock(&dataset->lock);
	if (!job->has_cached)
		job->has_cached = head_cache_load(dataset, &job->cached);
	if (job->is_refresh)
		job->tries.priority = FETCH_READAHEAD;
	if (job->has_cached && !job->is_refresh)
		job->tries.give_up_ms = job->tries.started_ms + FALLBACK_MS;
	run_ask(task, worker);
}

/* ---- asking */

static void request_done(struct fetch_request *request)
{
	job_next(request->arg, run_answer);
}

/* What this mirror called the head that readers are on, or NULL. */
static const char *known_etag(struct head_job *job)
{
	struct dataset *dataset = job->dataset;
	struct mirror *mirror = &dataset->mirrors[job->mirror];

	scoped_lock(&dataset->lock);
	if (!job->is_refresh || !mirror->head_etag[0] ||
	    mirror->head_serial != job->cached.serial)
		return NULL;
	memcpy(job->etag, mirror->head_etag, sizeof(job->etag));
	return job->etag;
}

static void start_request(struct head_job *job, bool asks_marker)
{
	struct dataset *dataset = job->dataset;

	job->asks_marker = asks_marker;
	if (asks_marker)
		snprintf(job->path, sizeof(job->path), "%s", MIRROR_MARKER);
	else
		mirror_head_path(dataset->remote_name, dataset->tag, job->path);
	job->request = (struct fetch_request){
		.origin = dataset->mirrors[job->mirror].origin,
		.path = job->path,
		.limit_bytes =
			asks_marker ? MARKER_BYTES_MAX : LIMIT_HEAD_BYTES,
		.priority = FETCH_DEMAND,
		.deadline_ms = job->tries.give_up_ms,
		.no_cache = true, /* of all files heads alone change */
		.if_none_match = asks_marker ? NULL : known_etag(job),
		.done = request_done,
		.arg = job,
	};
	tries_haste(&job->tries, job->mirror, 0, 0, &job->request);
	if (!node_fetch(job->node, &job->request)) {
		struct err err;

		job_fall_back(job,
			      err_set(&err, ESHUTDOWN, "larder is stopping"),
			      &err);
	}
}

static void fire_retry(struct timer *timer)
{
	job_next((struct head_job *)((char *)timer -
				     offsetof(struct head_job, timer)),
		 run_ask);
}

static void run_ask(struct task *task, struct worker *worker)
{
	struct head_job *job = (struct head_job *)task;
	uint32_t delay_ms = 0;
	struct err err = {0};
	int r = tries_next(&job->tries, &job->mirror, &delay_ms, &err);

	(void)worker;
	if (r == 0) {
		job->has_no_marker = false;
		start_request(
			job,
			!atomic_load(
				&job->dataset->mirrors[job->mirror].is_marked));
	} else if (r != -EAGAIN) {
		job_fall_back(job, r, &err);
	} else if (job->has_cached) {
		char text[sizeof(err.text)];

		tries_text(&job->tries, text, sizeof(text));
		r = err_set(&err, EIO, "%s",
			    text[0] ? text : "no mirror answers");
		job_fall_back(job, r, &err);
	} else {
		job->timer.fire = fire_retry;
		if (!timer_set(job->node->timers, &job->timer,
			       now_ms() + delay_ms))
			fire_retry(&job->timer);
	}
}

static void next_mirror(struct head_job *job, enum fetch_class class,
			const char *text, bool is_noted)
{
	char all[200];

	(is_noted ? tries_record : tries_note)(&job->tries, job->mirror, class,
					       text,
					       job->request.retry_after_ms);
	tries_text(&job->tries, all, sizeof(all));
	flight_trouble(job->flight, tries_errnum(&job->tries), all);
	run_ask(&job->task, NULL);
}

/* What the URL or the section got wrong: the mirror, the dataset, the tag. */
static void answer_absent(struct head_job *job)
{
	const struct dataset *dataset = job->dataset;
	char text[SOURCE_PATH_MAX];

	if (job->has_no_marker)
		snprintf(text, sizeof(text), "no larder mirror there");
	else
		snprintf(
			text, sizeof(text),
			"no dataset '%s%s%s' there (larder log at the mirror lists what there is)",
			dataset->remote_name, dataset->tag ? "@" : "",
			dataset->tag ?: "");
	next_mirror(job, FETCH_ABSENT, text, false);
}

static void answer_marker(struct head_job *job, const void *body, size_t len)
{
	struct mirror *mirror = &job->dataset->mirrors[job->mirror];
	struct fetch_request *request = &job->request;
	struct err err = {0};
	int r;

	/* Asked for until it has been there once: now it is no use to wait. */
	if (request->is_misnamed)
		job->tries.mirrors[job->mirror].is_out = true;
	if (request->result < 0 && request->class != FETCH_ABSENT) {
		next_mirror(job, request->class, request->err.text, false);
		return;
	}
	if (request->result >= 0) {
		r = mirror_marker_check(body, len, &err);
		if (r < 0) {
			next_mirror(job, FETCH_WRONG, err_text(&err, r), true);
			return;
		}
		atomic_store(&mirror->is_marked, true);
	}
	job->has_no_marker = request->result < 0;
	start_request(job, false);
}

/* 0: believed. Otherwise why not, and how that counts. */
static int judge(struct head_job *job, enum fetch_class *ret_class,
		 struct err *err)
{
	struct dataset *dataset = job->dataset;
	char name[2 * LIMIT_DATASET_NAME_BYTES + 2];
	int r;

	snprintf(name, sizeof(name), "%s%s%s", dataset->remote_name,
		 dataset->tag ? "@" : "", dataset->tag ? dataset->tag : "");
	*ret_class = FETCH_WRONG;
	r = head_parse(job->text, job->text_len, &job->offered, err);
	if (r < 0)
		return r;
	*ret_class = FETCH_REFUSED;
	if (!head_is_trusted(dataset, job->text, &job->offered, err, &r))
		return r;
	r = head_accept(&job->offered, job->has_cached ? &job->cached : NULL,
			name, wall_seconds(), err);
	if (r == 0 && dataset_head_refused(dataset, &job->offered))
		r = err_set(err, EKEYEXPIRED, "head of '%s' has expired", name);
	return r;
}

static void answer_head(struct head_job *job)
{
	struct err err = {0};
	enum fetch_class class;
	int r = judge(job, &class, &err);

	if (r == 0) {
		mirror_note(job->dataset, (unsigned)job->mirror, FETCH_OK, "");
		struct snapshot *snapshot =
			snapshot_new(job->dataset, &job->offered);

		if (snapshot)
			catalog_wait_start(&job->catalog, snapshot);
		else
			job_fall_back(job, -ENOMEM, &err);
	} else {
		next_mirror(job, class, err_text(&err, r), true);
	}
}

/* The mirror still has the head that readers are on. */
static void answer_unmodified(struct head_job *job)
{
	struct dataset *dataset = job->dataset;

	mirror_note(dataset, (unsigned)job->mirror, FETCH_OK, "");
	if (dataset_head_refused(dataset, &job->cached)) {
		next_mirror(job, FETCH_REFUSED, "head has expired", true);
		return;
	}
	job->offered = job->cached;
	pthread_mutex_lock(&dataset->lock);
	job->catalog.snapshot = snapshot_ref(dataset->current);
	pthread_mutex_unlock(&dataset->lock);
	job_succeed(job);
}

static void run_answer(struct task *task, struct worker *worker)
{
	struct head_job *job = (struct head_job *)task;
	struct fetch_request *request = &job->request;
	_cleanup_free_ uint8_t *body = steal_ptr(request->body);

	(void)worker;
	if (job->asks_marker) {
		answer_marker(job, body, request->body_len);
		return;
	}
	if (request->result >= 0 && request->not_modified) {
		answer_unmodified(job);
		return;
	}
	if (request->result >= 0) {
		memcpy(job->etag, request->etag, sizeof(job->etag));
		free(job->text);
		job->text = steal_ptr(body);
		job->text_len = request->body_len;
		answer_head(job);
		return;
	}
	if (request->class == FETCH_ABSENT)
		answer_absent(job);
	else
		next_mirror(job, request->class, request->err.text, false);
}

/* ---- the catalog */

static void catalog_done(struct catalog_wait *wait, int r, struct err *err)
{
	struct head_job *job =
		(struct head_job *)((char *)wait -
				    offsetof(struct head_job, catalog));

	if (r < 0)
		job_fall_back(job, r, err);
	else
		job_succeed(job);
}

static void job_start(struct dataset *dataset, struct flight *flight,
		      bool is_asked)
{
	struct head_job *job;

	if (dataset->hub) {
		hub_open_start(dataset, flight, is_asked);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		flight_finish(flight, -ENOMEM, NULL, NULL);
		return;
	}
	job->node = dataset->node;
	job->dataset = dataset;
	job->flight = flight_ref(flight);
	catalog_wait_init(&job->catalog, job->node, catalog_done);
	tries_init(&job->tries, dataset, -1, FETCH_DEMAND);
	job->tries.asks_all = is_asked;
	node_job_begin(job->node);
	job_next(job, run_load);
}

struct flight *dataset_head_flight(struct dataset *dataset, enum head_look look,
				   bool *ret_is_new)
{
	struct object_key key = {
		.kind = OBJECT_HEAD,
		.salt = dataset->number,
	};
	struct flight *flight =
		(look == HEAD_LOOK_ANEW ? flight_get_anew : flight_get)(
			dataset->node->flights, &key, ret_is_new);

	if (flight && *ret_is_new)
		job_start(dataset, flight, look != HEAD_LOOK);
	return flight;
}
