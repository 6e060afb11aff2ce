/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which branches and tags a repository of the Hub has that have a slash in
 * their names. They are kept in the cache, so that who has them asks nobody
 * again, and asked for when a name is looked for that the Hub does not know: by
 * one request whoever waits, without a second try.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "dataset/hub.h"

#define ANSWER_BYTES_MAX (16u << 20) /* some 100,000 names */
#define REFS_BYTES_MAX (4u << 20)
/* As long as a name that is not there is remembered. */
#define RECENT_MS 30000u

struct refs_job {
	struct task task; /* first */
	struct node *node;
	struct dataset *dataset; /* counted */
	struct flight *flight;
	struct fetch_request request;
	char *target, *authorization;
};

/* Takes the text; what was known is dropped. */
static void set_known(struct hub *hub, struct buf *text, uint64_t until_ms)
{
	struct buf known;
	scoped_lock(&hub->lock);

	known = hub->refs;
	hub->refs = *text;
	hub->has_looked_for_refs = true;
	hub->refs_until_ms = until_ms;
	*text = known;
}

/* ---- asking */

static void job_end(struct refs_job *job, int r, const struct err *err)
{
	struct node *node = job->node;

	flight_finish(job->flight, r, err, NULL);
	flight_unref(job->flight);
	free(job->request.body);
	free(job->request.headers);
	free(job->request.location);
	free(job->target);
	free(job->authorization);
	dataset_unref(job->dataset);
	free(job);
	node_job_end(node);
}

/* No list is an answer, too: there is nothing to be known. */
static int take_answer(struct refs_job *job, struct buf *text, struct err *err)
{
	const struct fetch_request *request = &job->request;
	enum fetch_class class;
	int r;

	if (request->result >= 0) {
		r = hub_refs_parse(request->body, request->body_len, text, err);
		return r == 0 || r == -ENOMEM ? r : -EIO;
	}
	class = hub_failure(job->dataset, &job->dataset->hub->repo, request,
			    job->authorization, err, &r);
	return class == FETCH_ABSENT || class == FETCH_REFUSED ? 0 : r;
}

static void run_answer(struct task *task, struct worker *worker)
{
	struct refs_job *job = (struct refs_job *)task;
	struct err err = {0};
	struct buf text;
	int r;

	(void)worker;
	buf_init(&text, REFS_BYTES_MAX);
	r = take_answer(job, &text, &err);
	if (r == 0 && text.len > 0)
		(void)hub_refs_keep(job->dataset, &text);
	if (r == 0)
		set_known(job->dataset->hub, &text, now_ms() + RECENT_MS);
	buf_release(&text);
	job_end(job, r, &err);
}

static void request_done(struct fetch_request *request)
{
	struct refs_job *job = request->arg;

	work_next(job->node->verify, &job->task, run_answer);
}

static void job_start(struct dataset *dataset, struct flight *flight)
{
	struct refs_job *job = calloc(1, sizeof(*job));
	char *target = hub_refs_target(&dataset->hub->repo);
	struct err err = {0};
	uint32_t paused_ms;

	if (!job || !target) {
		free(job);
		free(target);
		flight_finish(flight, -ENOMEM, NULL, NULL);
		return;
	}
	job->node = dataset->node;
	job->dataset = dataset_ref(dataset);
	job->flight = flight_ref(flight);
	job->target = target;
	job->authorization = hub_authorization(dataset->hub);
	job->request = (struct fetch_request){
		.origin = dataset->mirrors[0].origin,
		.path = job->target,
		.is_escaped = true,
		.authorization = job->authorization,
		.keeps_headers = true,
		.limit_bytes = ANSWER_BYTES_MAX,
		.priority = FETCH_DEMAND,
		.no_cache = true,
		.done = request_done,
		.arg = job,
	};
	node_job_begin(job->node);
	paused_ms = hub_paused_ms(job->node);
	if (paused_ms > 0)
		job_end(job, hub_pause_error(paused_ms, EIO, &err), &err);
	else if (!node_fetch(job->node, &job->request))
		job_end(job, err_set(&err, ESHUTDOWN, "larder is stopping"),
			&err);
}

/* ---- who wants to know */

static bool must_ask(struct hub *hub)
{
	scoped_lock(&hub->lock);
	return !hub->is_offline && now_ms() >= hub->refs_until_ms;
}

static int ask(struct dataset *dataset, struct waiter *waiter, struct err *err)
{
	const struct object_key key = {
		.kind = OBJECT_REFS,
		.salt = dataset->number,
	};
	struct flight *flight;
	int class;
	bool is_new;

	flight = flight_get(dataset->node->flights, &key, &is_new);
	if (!flight)
		return -ENOMEM;
	if (is_new)
		job_start(dataset, flight);
	return waiter_outcome(waiter, flight, NULL, &class, err);
}

int dataset_refs_ask(struct dataset *dataset, struct waiter *waiter,
		     struct err *err)
{
	int r = waiter_begin(waiter, err);

	if (r == 0 && must_ask(dataset->hub))
		r = ask(dataset, waiter, err);
	return waiter_end(dataset->node, waiter, r, err);
}

static bool has_looked(struct hub *hub)
{
	scoped_lock(&hub->lock);
	return hub->has_looked_for_refs;
}

bool dataset_refs_below(struct dataset *dataset, const char *prefix)
{
	struct hub *hub = dataset->hub;

	if (!has_looked(hub)) {
		struct buf text;

		buf_init(&text, REFS_BYTES_MAX);
		(void)hub_refs_load(dataset, &text);
		set_known(hub, &text, 0);
		buf_release(&text);
	}
	scoped_lock(&hub->lock);
	return hub_refs_below(hub->refs.data, hub->refs.len, prefix);
}
