/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request from fetch_start to done. One lock guards queues and
 * states; it is never held across a callback, the network or a disk.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/pool.h"
#include "fetch/internal.h"

/* Of a time-out or of what is usual, for who is in haste. */
#define HASTE 4
#define HASTE_MIN_MS 1000
#define ANSWER_MS_MAX 60000
#define LIMIT_DEFAULT_BYTES (UINT64_C(64) << 20)

static const struct {
	const char *name;
	int errnum;
} classes[] = {
	[FETCH_OK] = {"ok", 0},
	[FETCH_ABSENT] = {"absent", ENOENT},
	[FETCH_REFUSED] = {"refused", EACCES},
	[FETCH_UNREACHABLE] = {"unreachable", EIO},
	[FETCH_BUSY] = {"busy", EIO},
	[FETCH_SLOW] = {"slow", ETIMEDOUT},
	[FETCH_WRONG] = {"wrong", EIO},
	[FETCH_CANCELED] = {"canceled", ECANCELED},
	[FETCH_LOCAL] = {"local", ENOMEM},
};

const char *fetch_class_name(enum fetch_class class)
{
	return classes[class].name;
}

const char *seconds_text(uint64_t ms, char ret_text[SECONDS_MAX])
{
	/* Tenths: nobody wants to read "after 0.201 s". */
	snprintf(ret_text, SECONDS_MAX, "%.5g s",
		 (double)((ms + 50) / 100) / 10);
	return ret_text;
}

static void job_free(struct job *job)
{
	free(job->path);
	free(job->if_none_match);
	free(job->if_range);
	free(job->authorization);
	free(job);
}

static int copy_text(const char *text, char **ret)
{
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static bool header_value_valid(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static bool etag_valid(const char *text)
{
	return !text ||
	       (strlen(text) < FETCH_ETAG_MAX && header_value_valid(text));
}

static int request_check(const struct fetch_request *request, struct err *err)
{
	uint64_t end;

	if (request->is_escaped ? !header_value_valid(request->path) :
				  !path_below_valid(request->path))
		return err_set(err, EINVAL, "not a path below the origin");
	if (request->has_range &&
	    (request->length == 0 || request->length > SIZE_MAX / 2 ||
	     __builtin_add_overflow(request->offset, request->length, &end)))
		return err_set(err, EINVAL, "not a valid range");
	if (request->pool &&
	    (!request->has_range || request->length > POOL_BYTES_MAX))
		return err_set(err, EINVAL, "not a range for a pool");
	if (request->method != FETCH_GET && !request->origin->s3)
		return err_set(err, ENOTSUP, "nothing can be written there");
	if (!etag_valid(request->if_none_match) ||
	    !etag_valid(request->if_range))
		return err_set(err, EINVAL, "not a valid ETag");
	if (request->authorization &&
	    !header_value_valid(request->authorization))
		return err_set(err, EINVAL, "not a valid token");
	return 0;
}

static uint32_t at_most(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void set_patience(struct job *job, bool is_hasty)
{
	const struct fetcher *fetcher = job->origin->fetcher;
	uint32_t usual_ms = atomic_load(&job->origin->answer_ms);
	uint32_t ms = fetcher->silence_timeout_ms / HASTE;

	job->silence_ms = fetcher->silence_timeout_ms;
	job->connect_ms = fetcher->connect_timeout_ms;
	if (!is_hasty)
		return;
	if (ms < HASTE_MIN_MS)
		ms = HASTE_MIN_MS;
	if (ms < HASTE * usual_ms)
		ms = HASTE * usual_ms;
	job->silence_ms = at_most(ms, job->silence_ms);
	job->connect_ms = at_most(ms, job->connect_ms);
}

void origin_answered(struct origin *origin, uint64_t took_ms)
{
	uint32_t usual_ms = atomic_load(&origin->answer_ms);
	uint32_t ms =
		took_ms < ANSWER_MS_MAX ? (uint32_t)took_ms : ANSWER_MS_MAX;

	/* Slower counts at once, faster by and by. */
	if (ms < usual_ms)
		ms = usual_ms - (usual_ms - ms + 7) / 8;
	atomic_store(&origin->answer_ms, ms);
}

static struct job *job_new(struct fetch_request *request)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	list_init(&job->all);
	list_init(&job->queue);
	list_init(&job->rider);
	job->request = request;
	job->origin = request->origin;
	job->priority = request->priority;
	job->holders = 1;
	job->asked = (struct asked){
		.has_range = request->has_range,
		.is_conditional = request->if_none_match != NULL,
		.is_write = request->method != FETCH_GET,
		.offset = request->offset,
		.length = request->length,
		.expected_total = request->expected_total,
		.limit_bytes = request->limit_bytes ? request->limit_bytes :
						      LIMIT_DEFAULT_BYTES,
	};
	job->deadline_ms = request->deadline_ms;
	job->min_bytes_per_s = request->min_bytes_per_s;
	job->demand_bytes_per_s = request->demand_bytes_per_s;
	job->patience_ms = request->patience_ms;
	job->holds_prefetch = request->holds_prefetch;
	job->others = request->others;
	job->other_count = request->other_count;
	set_patience(job, request->is_hasty);
	job->start_ms = job->told_ms = now_ms();
	if (copy_text(request->path, &job->path) < 0 ||
	    copy_text(request->if_none_match, &job->if_none_match) < 0 ||
	    copy_text(request->if_range, &job->if_range) < 0 ||
	    copy_text(request->authorization, &job->authorization) < 0) {
		job_free(job);
		return NULL;
	}
	return job;
}

/* Failed before it began; done comes from the transfer thread. */
static void stillborn_add(struct fetcher *fetcher,
			  struct fetch_request *request, int result)
{
	request->result = result;
	request->class = FETCH_LOCAL;
	request->private = fetcher->stillborn;
	fetcher->stillborn = request;
}

struct fetch_request *stillborn_take(struct fetcher *fetcher)
{
	struct fetch_request *request;

	scoped_lock(&fetcher->lock);
	request = fetcher->stillborn;
	if (request) {
		fetcher->stillborn = request->private;
		request->private = NULL;
	}
	return request;
}

static void active_ended(struct fetcher *fetcher)
{
	scoped_lock(&fetcher->lock);

	if (--fetcher->active > 0 || !fetcher->is_closing)
		return;
	fetcher_wake(fetcher);
	pthread_cond_broadcast(&fetcher->file_work);
}

void stillborn_finish(struct fetcher *fetcher, struct fetch_request *request)
{
	request->done(request);
	active_ended(fetcher);
}

static void probe_begin(struct fetcher *fetcher, struct job *job)
{
	struct origin *origin = job->origin;

	scoped_lock(&origin->lock);
	if (origin->health.failures == 0)
		return;
	job->is_probe = true;
	/* A server that answers, if not well, may take its usual time. */
	job->is_early = job->start_ms < origin->health.bad_until_ms &&
			(origin->health.last == FETCH_UNREACHABLE ||
			 origin->health.last == FETCH_SLOW);
	origin->health.probe_until_ms = job->start_ms +
					fetcher->connect_timeout_ms +
					fetcher->silence_timeout_ms;
}

static void probe_end(struct job *job)
{
	scoped_lock(&job->origin->lock);

	job->origin->health.probe_until_ms = 0;
}

void job_alive(struct job *job)
{
	struct origin_health health;

	if (!job->is_probe)
		return;
	origin_health(job->origin, &health);
	if (health.last == FETCH_UNREACHABLE || health.last == FETCH_BUSY ||
	    health.last == FETCH_REFUSED)
		origin_note(job->origin, FETCH_OK, now_ms());
}

static void answer_clear(struct fetch_request *request)
{
	request->result = -EINPROGRESS;
	request->class = FETCH_OK;
	request->body = NULL;
	request->body_len = 0;
	request->total = 0;
	request->not_modified = false;
	request->status = 0;
	request->location = request->headers = NULL;
	request->date = request->modified = -1;
	request->etag[0] = '\0';
	request->retry_after_ms = 0;
	request->is_misnamed = false;
	request->err.text[0] = '\0';
	request->private = NULL;
}

bool look_by(struct fetcher *fetcher, uint64_t ms)
{
	if (ms >= fetcher->next_look_ms)
		return false;
	fetcher->next_look_ms = ms;
	return true;
}

void fetch_start(struct fetcher *fetcher, struct fetch_request *request)
{
	struct job *job = NULL;
	int r;

	answer_clear(request);
	r = request_check(request, &request->err);
	if (r == 0) {
		job = job_new(request);
		if (!job)
			r = err_set(&request->err, ENOMEM, "out of memory");
	}
	scoped_lock(&fetcher->lock);
	fetcher->active++;
	if (r < 0) {
		stillborn_add(fetcher, request, r);
		fetcher_wake(fetcher);
		return;
	}
	request->private = job;
	job->origin->references++;
	probe_begin(fetcher, job);
	hold_note(job, job->start_ms);
	list_add(&fetcher->jobs, &job->all);
	list_add(&job->origin->queues[job->priority], &job->queue);
	if (job->origin->url.is_local) {
		fetcher->file_queued++;
		files_wake(job->origin);
	}
	if (look_by(fetcher, job_first_look(fetcher, job)) ||
	    !job->origin->url.is_local)
		fetcher_wake(fetcher);
}

struct job *job_new_running(struct fetch_request *request)
{
	struct fetcher *fetcher = request->origin->fetcher;
	struct job *job;

	answer_clear(request);
	job = job_new(request);
	if (!job)
		return NULL;
	scoped_lock(&fetcher->lock);
	fetcher->active++;
	request->private = job;
	job->origin->references++;
	job->state = JOB_RUNNING;
	list_add(&fetcher->jobs, &job->all);
	return job;
}

uint8_t *body_new(struct pool *pool, size_t len)
{
	return pool ? pool_get(pool, len) : malloc(len);
}

void body_free(struct pool *pool, uint8_t *body, size_t len)
{
	if (pool && body)
		pool_put(pool, body, len);
	else
		free(body);
}

/* A request is ours while its result says so; under the lock. */
static struct job *job_of(const struct fetch_request *request)
{
	return request->result == -EINPROGRESS ? request->private : NULL;
}

void fetch_cancel(struct fetcher *fetcher, struct fetch_request *request)
{
	struct job *job;

	scoped_lock(&fetcher->lock);
	job = job_of(request);
	if (!job)
		return;
	job->is_canceled = true;
	if (look_by(fetcher, 0))
		fetcher_wake(fetcher);
}

void fetch_raise(struct fetcher *fetcher, struct fetch_request *request,
		 enum fetch_priority priority)
{
	struct job *job;

	scoped_lock(&fetcher->lock);
	job = job_of(request);
	if (!job || priority >= job->priority)
		return;
	job->priority = priority;
	hold_note(job, now_ms());
	if (job->is_held)
		fetcher_wake(fetcher);
	if (job->state != JOB_QUEUED)
		return;
	list_remove(&job->queue);
	list_add(&job->origin->queues[priority], &job->queue);
	fetcher_wake(fetcher);
	if (job->origin->url.is_local)
		files_wake(job->origin);
}

/*
 * One silent connection is its own trouble. But where nothing came on any
 * connection since this one was last heard of, the server is dead, and those
 * queued for it need not find that out one after the other.
 */
static void note_silence(struct job *job, enum fetch_class class)
{
	struct origin *origin = job->origin;
	uint64_t since = job->pace.has_begun ? job->pace.last_ms : job->run_ms;

	if (!job->met_silence || job->is_away || origin->bytes_ms > since)
		return;
	origin->dead_ms = now_ms();
	origin->dead_class = class;
	look_by(origin->fetcher, 0);
}

/* The result goes in last: it says that the request is no longer ours. */
static void request_close(struct job *job, enum fetch_class class,
			  const struct err *err)
{
	struct fetch_request *request = job->request;

	scoped_lock(&job->origin->fetcher->lock);
	list_remove(&job->all);
	if (job->state == JOB_RUNNING || job->state == JOB_CALLING)
		job->origin->running--;
	job_trial_end(job);
	note_silence(job, class);
	request->class = class;
	if (class != FETCH_OK && err)
		request->err = *err;
	request->private = NULL;
	request->result = -classes[class].errnum;
}

void job_put(struct job *job)
{
	struct origin *origin = job->origin;
	bool is_last;

	pthread_mutex_lock(&origin->fetcher->lock);
	is_last = --job->holders == 0;
	pthread_mutex_unlock(&origin->fetcher->lock);
	if (!is_last)
		return;
	job_free(job);
	origin_unref(origin);
}

void job_finish(struct job *job, enum fetch_class class, const struct err *err)
{
	struct fetch_request *request = job->request;
	struct fetcher *fetcher = job->origin->fetcher;

	request_close(job, class, err);
	request->done(request);
	/* After done, where the outcome is noted: one probe at a time. */
	if (job->is_probe)
		probe_end(job);
	active_ended(fetcher);
	job_put(job);
}
