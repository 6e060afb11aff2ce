/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole bodies of servers that ignore ranges.
 *
 * Cutting each range out of a body of its own costs a file for every chunk,
 * and which other ranges will be wanted is not known here. So the body is
 * kept, on the disk, in a file without a name: nothing is left of it after a
 * crash. Its transfer is a request of its own (the carrier): whoever caused
 * it may lose patience, those who ride along need not know.
 *
 * What was wrong is asked for again past every cache, and that must not be
 * answered from what was kept before: such a request rides only with a body
 * that was itself asked for so, lately.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/spool.h"

#define LOG_MODULE "fetch"
#include "base/log.h"

#define SPOOL_DIR "/var/tmp"
#define KEPT_BYTES_MAX (UINT64_C(1) << 30)
#define KEPT_MS 600000u
/* All that came wrong with one body shares the second one. */
#define UNCACHED_MS 10000u
/* After the disk has refused a body. */
#define DISK_PAUSE_MS 60000u

struct spool {
	struct list list; /* origin->spools, the newest last */
	struct list riders;
	struct origin *origin;
	struct fetch_request request; /* the carrier's */
	bool is_complete, is_uncached;
	int fd;
	uint64_t total; /* 0: unknown */
	uint64_t received;
	uint64_t used_ms, ended_ms;
	char path[];
};

static void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	list_remove(&spool->list);
	close(spool->fd);
	free(spool);
}

static int make_file(const char *dir)
{
	return open(dir ? dir : SPOOL_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC,
		    0600);
}

static struct spool *spool_new(const struct job *job)
{
	size_t size = strlen(job->path) + 1;
	struct spool *spool = calloc(1, sizeof(*spool) + size);

	if (!spool)
		return NULL;
	list_init(&spool->list);
	list_init(&spool->riders);
	spool->origin = job->origin;
	spool->is_uncached = job->request->no_cache;
	spool->used_ms = now_ms();
	memcpy(spool->path, job->path, size);
	spool->fd = make_file(job->origin->fetcher->spool_dir);
	if (spool->fd < 0) {
		free(spool);
		return NULL;
	}
	return spool;
}

/* ---- riding */

static bool may_ride(const struct spool *spool, const struct job *job,
		     uint64_t now)
{
	if (strcmp(spool->path, job->path) != 0)
		return false;
	return !job->request->no_cache ||
	       (spool->is_uncached &&
		(!spool->is_complete || now < spool->ended_ms + UNCACHED_MS));
}

struct spool *spool_find(struct job *job)
{
	struct list *spools = &job->origin->spools;
	uint64_t now;

	if (!job->asked.has_range || list_is_empty(spools))
		return NULL;
	now = now_ms();
	for (struct list *item = spools->prev; item != spools;
	     item = item->prev) {
		struct spool *spool = list_item(item, struct spool, list);

		if (may_ride(spool, job, now))
			return spool;
	}
	return NULL;
}

static void fail_rider(struct job *job, enum fetch_class class,
		       const char *text)
{
	struct err err;

	list_remove(&job->rider);
	err_set(&err, EIO, "%s", text);
	job_finish(job, class, &err);
}

static void serve(struct spool *spool, struct job *job)
{
	struct fetch_request *request = job->request;
	uint8_t *body = body_new(request->pool, job->asked.length);
	ssize_t n = -ENOMEM;

	if (body)
		n = pread_full(spool->fd, body, job->asked.length,
			       job->asked.offset);
	if (n < 0 || (uint64_t)n != job->asked.length) {
		body_free(request->pool, body, job->asked.length);
		fail_rider(job, FETCH_LOCAL,
			   n == -ENOMEM ? "out of memory" :
					  "cannot read what was kept of it");
		return;
	}
	spool->used_ms = now_ms();
	list_remove(&job->rider);
	request->body = body;
	request->body_len = job->asked.length;
	request->total = spool->total;
	if (request->progress)
		request->progress(request, body, job->asked.length);
	job_finish(job, FETCH_OK, NULL);
}

/* What a range of it can never be, or NULL. */
static const char *mismatch(const struct spool *spool, const struct job *job)
{
	const struct asked *asked = &job->asked;

	if (spool->total == 0)
		return NULL;
	if (asked->expected_total && asked->expected_total != spool->total)
		return "file of another size";
	if (asked->offset + asked->length > spool->total)
		return "file shorter than expected";
	return NULL;
}

void spool_serve(struct spool *spool)
{
	struct list *next;

	for (struct list *item = spool->riders.next; item != &spool->riders;
	     item = next) {
		struct job *job = list_item(item, struct job, rider);
		const char *text = mismatch(spool, job);

		next = item->next;
		if (text)
			fail_rider(job, FETCH_WRONG, text);
		else if (job->asked.offset + job->asked.length <=
			 spool->received)
			serve(spool, job);
	}
}

static void ride(struct spool *spool, struct job *job)
{
	job->spool = spool;
	job->is_early = false;
	list_add(&spool->riders, &job->rider);
}

void spool_join(struct job *job)
{
	ride(job->spool, job);
	spool_serve(job->spool);
}

/* ---- the body */

static void fail_riders(struct spool *spool, enum fetch_class class,
			const char *text, uint32_t retry_after_ms)
{
	while (!list_is_empty(&spool->riders)) {
		struct job *job =
			list_item(spool->riders.next, struct job, rider);

		job->request->retry_after_ms = retry_after_ms;
		fail_rider(job, class, text);
	}
}

static void carrier_done(struct fetch_request *request)
{
	struct spool *spool = request->arg;

	if (request->result < 0) {
		fail_riders(spool, request->class, request->err.text,
			    request->retry_after_ms);
		spool_free(spool);
		return;
	}
	spool->is_complete = true;
	spool->ended_ms = now_ms();
	spool->total = spool->received;
	spool_serve(spool);
	fail_riders(spool, FETCH_WRONG, "file shorter than expected", 0);
	spools_trim(spool->origin->fetcher);
}

int spool_write(struct spool *spool, const void *data, size_t len)
{
	int r = pwrite_full(spool->fd, data, len, spool->received);

	if (r < 0)
		spool->origin->fetcher->spools_off_ms =
			now_ms() + DISK_PAUSE_MS;
	else
		spool->received += len;
	return r;
}

static void name_rangeless(struct origin *origin)
{
	if (origin->is_named_rangeless)
		return;
	origin->is_named_rangeless = true;
	log_warning("server ignores ranges, whole files are fetched origin=%s",
		    origin->name);
}

/* The exchange goes on for the carrier, in the slot that the job had. */
static void hand_over(struct exchange *exchange, struct spool *spool,
		      struct job *carrier)
{
	struct job *job = exchange->job;

	carrier->spool = spool;
	carrier->exchange = exchange;
	carrier->run_ms = job->run_ms;
	carrier->pace = job->pace;
	carrier->is_away = job->is_away;
	exchange->job = carrier;
	exchange->judgement.skip = 0;
	exchange->judgement.has_want = false;
	job->exchange = NULL;
	job->state = JOB_RIDING;
}

static bool begin_new(struct exchange *exchange)
{
	struct job *job = exchange->job, *carrier = NULL;
	struct fetcher *fetcher = job->origin->fetcher;
	struct spool *spool;

	if (now_ms() < fetcher->spools_off_ms)
		return false;
	spool = spool_new(job);
	if (spool) {
		spool->total = exchange->judgement.total;
		spool->request = (struct fetch_request){
			.origin = job->origin,
			.path = spool->path,
			.priority = job->priority,
			.no_cache = spool->is_uncached,
			.done = carrier_done,
			.arg = spool,
		};
		carrier = job_new_running(&spool->request);
	}
	if (!carrier) {
		spool_free(spool);
		return false;
	}
	name_rangeless(job->origin);
	list_add(&job->origin->spools, &spool->list);
	if (fetcher->trim_ms == 0)
		fetcher->trim_ms = now_ms() + KEPT_MS;
	job_alive(job);
	scoped_lock(&fetcher->lock);
	hand_over(exchange, spool, carrier);
	ride(spool, job);
	return true;
}

bool spool_begin(struct exchange *exchange)
{
	struct job *job = exchange->job;
	struct fetcher *fetcher = job->origin->fetcher;
	struct spool *spool = spool_find(job);

	if (!spool)
		return begin_new(exchange);
	pthread_mutex_lock(&fetcher->lock);
	job->state = JOB_RIDING;
	job->origin->running--;
	pthread_mutex_unlock(&fetcher->lock);
	job->exchange = NULL;
	exchange->job = NULL;
	ride(spool, job);
	spool_serve(spool);
	return true;
}

/* ---- keeping */

static struct spool *older(struct spool *a, struct spool *b)
{
	return !a || b->used_ms < a->used_ms ? b : a;
}

/* One that has to go, out of its list, or NULL. */
static struct spool *take_victim(struct fetcher *fetcher, uint64_t now,
				 bool *ret_is_any)
{
	struct spool *oldest = NULL;
	uint64_t bytes = 0;

	scoped_lock(&fetcher->lock);
	for (struct list *o = fetcher->origins.next; o != &fetcher->origins;
	     o = o->next) {
		struct list *spools = &list_item(o, struct origin, all)->spools;

		for (struct list *s = spools->next; s != spools; s = s->next) {
			struct spool *spool = list_item(s, struct spool, list);

			bytes += spool->received;
			if (spool->is_complete)
				oldest = older(oldest, spool);
			*ret_is_any = true;
		}
	}
	if (!oldest ||
	    (bytes <= KEPT_BYTES_MAX && now < oldest->used_ms + KEPT_MS))
		return NULL;
	list_remove(&oldest->list);
	return oldest;
}

void spools_trim(struct fetcher *fetcher)
{
	uint64_t now = now_ms();
	struct spool *spool;
	bool is_any;

	do {
		is_any = false;
		spool = take_victim(fetcher, now, &is_any);
		spool_free(spool);
	} while (spool);
	fetcher->trim_ms = is_any ? now + KEPT_MS / 10 : 0;
}

void spools_release(struct origin *origin)
{
	while (!list_is_empty(&origin->spools))
		spool_free(list_item(origin->spools.next, struct spool, list));
}
