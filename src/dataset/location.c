/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the Hub keeps a large file: a signed location on another host, which
 * holds for minutes. It is asked for once, by one request whoever waits, and
 * serves every connection until it ends or is refused; only such requests
 * count against the Hub's limits. The one byte that is asked for along with it
 * is what a server without such hosts answers.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "dataset/hub.h"

#define LOCATION_COST_BYTES 4096u
/* A server that sends the bytes itself is asked again after that time. */
#define DIRECT_S 3600

struct location_job {
	struct task task; /* first */
	struct node *node;
	struct dataset *dataset;
	struct blob *blob; /* counted */
	struct flight *flight;
	uint32_t generation;
	struct fetch_request request;
	char *authorization;
};

static void free_location(struct object *object)
{
	struct location *location = (struct location *)object;

	if (location->origin)
		origin_close(location->origin);
	free(location->target);
	free(location);
}

static struct object_key table_key(const struct blob *blob)
{
	return (struct object_key){
		.kind = OBJECT_LOCATION,
		.digest = blob->id,
		.salt = blob->object.key.salt,
	};
}

/* ---- the answer */

/* SCHEME://HOST[:PORT] and what follows. */
static int split_url(struct node *node, const char *url,
		     struct location *location, struct err *err)
{
	const char *host = strstr(url, "://");
	const char *path = host ? strchr(host + 3, '/') : NULL;
	_cleanup_free_ char *base = NULL;

	if (!path)
		return err_set(err, EPROTO, "redirect to nonsense");
	base = strndup(url, (size_t)(path - url));
	location->target = strdup(path + 1);
	if (!base || !location->target)
		return -ENOMEM;
	return origin_open(node->fetcher, base, &location->origin, err);
}

/* The commit in PREFIX/resolve/COMMIT/PATH. */
static const char *commit_of(const struct blob *blob, char text[41])
{
	const char *at = strstr(blob->url, "/resolve/");

	text[0] = '\0';
	if (at && strlen(at + 9) > 40) {
		memcpy(text, at + 9, 40);
		text[40] = '\0';
	}
	return text;
}

static int make_location(struct location_job *job, struct location **ret,
			 struct err *err)
{
	const struct fetch_request *request = &job->request;
	struct object_key key = table_key(job->blob);
	struct location *location;
	char commit[41];
	int r;

	r = hub_resolved_check(request->headers, commit_of(job->blob, commit),
			       job->blob->bytes, &job->blob->id, err);
	if (r < 0)
		return r;
	location = calloc(1, sizeof(*location));
	if (!location)
		return -ENOMEM;
	object_init(&location->object, &key, LOCATION_COST_BYTES,
		    free_location);
	location->generation = job->generation;
	location->expires = wall_seconds() + DIRECT_S;
	if (request->location) {
		location->expires =
			hub_location_expires(request->location, wall_seconds());
		r = split_url(job->node, request->location, location, err);
	}
	if (r < 0) {
		object_unref(&location->object);
		return r;
	}
	*ret = location;
	return 0;
}

static void job_end(struct location_job *job, int r, const struct err *err,
		    struct location *location)
{
	struct node *node = job->node;

	flight_finish(job->flight, r, err, (struct object *)location);
	flight_unref(job->flight);
	blob_unref(job->blob);
	free(job->request.body);
	free(job->request.headers);
	free(job->request.location);
	free(job->authorization);
	free(job);
	node_job_end(node);
}

static void run_answer(struct task *task, struct worker *worker)
{
	struct location_job *job = (struct location_job *)task;
	enum fetch_class class = FETCH_WRONG;
	struct location *location = NULL;
	struct err err = {0};
	int r;

	(void)worker;
	if (job->request.result >= 0)
		r = make_location(job, &location, &err);
	else
		class = hub_failure(job->dataset, &job->dataset->hub->repo,
				    &job->request, job->authorization, &err,
				    &r);
	/* A refusal is an answer. */
	if (r == 0 || class == FETCH_REFUSED || class == FETCH_ABSENT)
		origin_note(job->request.origin, FETCH_OK, now_ms());
	else
		origin_note(job->request.origin, class, now_ms());
	if (r < 0)
		job->flight->class = (int)class;
	else
		table_put(job->node->pages, &location->object);
	job_end(job, r, &err, location);
}

/* ---- asking */

static void request_done(struct fetch_request *request)
{
	struct location_job *job = request->arg;

	work_next(job->node->verify, &job->task, run_answer);
}

static int job_start(struct dataset *dataset, struct blob *blob,
		     uint32_t generation, struct flight *flight)
{
	struct location_job *job = calloc(1, sizeof(*job));

	if (!job) {
		flight_finish(flight, -ENOMEM, NULL, NULL);
		return -ENOMEM;
	}
	job->node = dataset->node;
	job->dataset = dataset;
	job->blob = blob_ref(blob);
	job->flight = flight_ref(flight);
	job->generation = generation;
	job->authorization = hub_authorization(dataset->hub);
	job->request = (struct fetch_request){
		.origin = dataset->mirrors[0].origin,
		.path = blob->url,
		.has_range = true,
		.length = 1,
		.expected_total = blob->bytes,
		.authorization = job->authorization,
		.keeps_redirect = true,
		.keeps_headers = true,
		.priority = FETCH_DEMAND,
		.done = request_done,
		.arg = job,
	};
	node_job_begin(job->node);
	if (!node_fetch(job->node, &job->request)) {
		struct err err;
		int r = err_set(&err, ESHUTDOWN, "larder is stopping");

		job_end(job, r, &err, NULL);
	}
	return 0;
}

/* In the table; generation_now has dropped what has ended. */
static struct location *known(struct node *node, const struct blob *blob,
			      uint32_t generation)
{
	struct object_key key = table_key(blob);
	struct location *location =
		(struct location *)table_get(node->pages, &key);

	if (!location)
		return NULL;
	if (location->generation == generation)
		return location;
	object_unref(&location->object);
	return NULL;
}

/* The flight of a location that has ended by now must not be met again. */
static uint32_t generation_now(struct node *node, struct blob *blob)
{
	struct object_key key = table_key(blob);
	struct location *location =
		(struct location *)table_get(node->pages, &key);

	if (location && wall_seconds() >= location->expires)
		location_void(node, blob, location);
	object_unref((struct object *)location);
	return atomic_load(&blob->location_generation);
}

int location_get(struct dataset *dataset, struct blob *blob,
		 struct waiter *waiter, struct location **ret,
		 enum fetch_class *ret_class, struct err *err)
{
	struct node *node = dataset->node;
	uint32_t generation = generation_now(node, blob);
	struct object_key key = table_key(blob);
	struct object *object;
	uint32_t paused_ms;
	struct flight *flight;
	int class = -1;
	bool is_new;
	int r;

	*ret = known(node, blob, generation);
	if (*ret)
		return 0;
	paused_ms = hub_paused_ms(node);
	if (paused_ms > 0) {
		*ret_class = FETCH_BUSY;
		return hub_pause_error(paused_ms, EIO, err);
	}
	key.salt += generation * UINT64_C(0x9E3779B97F4A7C15);
	flight = flight_get(node->flights, &key, &is_new);
	if (!flight)
		return -ENOMEM;
	if (is_new) {
		r = job_start(dataset, blob, generation, flight);
		if (r < 0) {
			flight_unref(flight);
			return r;
		}
	}
	r = waiter_outcome(waiter, flight, &object, &class, err);
	if (r == 0)
		*ret = (struct location *)object;
	else if (class >= 0)
		*ret_class = (enum fetch_class) class;
	return r;
}

void location_void(struct node *node, struct blob *blob,
		   const struct location *location)
{
	struct object_key key = table_key(blob);
	uint32_t generation = location->generation;

	if (atomic_compare_exchange_strong(&blob->location_generation,
					   &generation, generation + 1))
		table_drop(node->pages, &key);
}
