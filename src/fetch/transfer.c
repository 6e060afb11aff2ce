/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread that owns the curl multi handle. It starts what the queues
 * admit, tells of bytes that came, ends what is over time, and calls done; it
 * waits in curl_multi_poll only.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/exchange.h"
#include "fetch/spool.h"

/* Easy handles kept for the next requests. */
#define IDLE_EXCHANGES_MAX 32
#define POLL_MAX_MS 60000

/* ---- exchanges */

static struct exchange *take_exchange(struct fetcher *fetcher)
{
	struct exchange *exchange;

	if (list_is_empty(&fetcher->idle_exchanges))
		return exchange_new();
	exchange =
		list_item(fetcher->idle_exchanges.next, struct exchange, list);
	list_remove(&exchange->list);
	fetcher->idle_count--;
	return exchange;
}

/* Out of the multi handle (what is not finished is cut off) and back to the
 * idle ones. */
static void rest_exchange(struct fetcher *fetcher, struct exchange *exchange)
{
	curl_multi_remove_handle(fetcher->multi, exchange->easy);
	list_remove(&exchange->list);
	/* libcurl does not say what becomes of a pause. */
	if (fetcher->idle_count >= IDLE_EXCHANGES_MAX ||
	    (exchange->job && exchange->job->is_held)) {
		exchange_free(exchange);
		return;
	}
	exchange_clear(exchange);
	list_add(&fetcher->idle_exchanges, &exchange->list);
	fetcher->idle_count++;
}

static void start(struct fetcher *fetcher, struct job *job)
{
	struct err err = {"out of memory"};
	struct exchange *exchange;
	int r = -ENOMEM;

	if (job->spool) {
		spool_join(job);
		return;
	}
	exchange = take_exchange(fetcher);
	if (exchange) {
		list_add(&fetcher->exchanges, &exchange->list);
		r = exchange_begin(exchange, job, &err);
		if (r == 0)
			return;
		rest_exchange(fetcher, exchange);
	}
	job_finish(job, r == -EACCES ? FETCH_REFUSED : FETCH_LOCAL, &err);
}

/* Give the answer to the request and the exchange back. */
static void finish(struct fetcher *fetcher, struct exchange *exchange)
{
	struct job *job = exchange->job;
	enum fetch_class class =
		exchange->has_failed ? exchange->class : FETCH_OK;
	struct err err = exchange->err;

	exchange_answer(exchange);
	rest_exchange(fetcher, exchange);
	job_finish(job, class, &err);
}

/* ---- the thread */

static void ended(struct fetcher *fetcher, struct exchange *exchange,
		  CURLcode code)
{
	if (!exchange_ended(exchange, code))
		return;
	if (exchange->job)
		finish(fetcher, exchange);
	else
		rest_exchange(fetcher, exchange);
}

/* What libcurl has kept of a body meanwhile comes within the call. */
static void move_held(struct fetcher *fetcher)
{
	struct job *job;

	while ((job = hold_end(fetcher))) {
		struct exchange *exchange = job->exchange;
		CURLcode code = curl_easy_pause(exchange->easy, CURLPAUSE_CONT);

		if (code != CURLE_OK)
			ended(fetcher, exchange, code);
	}
}

static bool reap(struct fetcher *fetcher)
{
	struct exchange *exchange;
	bool has_ended = false;
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(fetcher->multi, &left))) {
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE,
				  (char **)&exchange);
		ended(fetcher, exchange, code);
		has_ended = true;
	}
	return has_ended;
}

static void tell_all(struct fetcher *fetcher)
{
	struct list *item;

	for (item = fetcher->exchanges.next; item != &fetcher->exchanges;
	     item = item->next)
		exchange_progress(list_item(item, struct exchange, list));
}

/* One job that may start now, or NULL. */
static struct job *admit(struct fetcher *fetcher)
{
	struct job *job = NULL;
	unsigned running = 0;

	scoped_lock(&fetcher->lock);
	for (struct list *item = fetcher->origins.next;
	     item != &fetcher->origins; item = item->next) {
		struct origin *origin = list_item(item, struct origin, all);

		if (!origin->url.is_local)
			running += origin->running;
	}
	for (struct list *item = fetcher->origins.next;
	     !job && item != &fetcher->origins; item = item->next) {
		struct origin *origin = list_item(item, struct origin, all);

		if (!origin->url.is_local)
			job = origin_admit(origin, fetcher->max_connections,
					   running,
					   fetcher->max_all_connections);
	}
	/* Next time the others come first. */
	if (job) {
		list_remove(&job->origin->all);
		list_add(&fetcher->origins, &job->origin->all);
	}
	return job;
}

static void finish_ended(struct fetcher *fetcher)
{
	struct job *job = jobs_expire(fetcher, now_ms());

	while (job) {
		struct job *next = job->next_ended;

		if (job->exchange) {
			exchange_fail(job->exchange, job->end_class,
				      job->end_err.text);
			finish(fetcher, job->exchange);
		} else {
			job_finish(job, job->end_class, &job->end_err);
		}
		job = next;
	}
}

static void tell_about_others(struct fetcher *fetcher)
{
	struct job *job;

	while ((job = job_to_tell(fetcher)))
		job->request->about_others(job->request);
}

static void finish_stillborn(struct fetcher *fetcher)
{
	struct fetch_request *request;

	while ((request = stillborn_take(fetcher)))
		stillborn_finish(fetcher, request);
}

/* How long to sleep, or -1: all is done and the fetcher closes. */
static int next_wait_ms(struct fetcher *fetcher)
{
	uint64_t now = now_ms(), wait;

	scoped_lock(&fetcher->lock);
	if (fetcher->is_closing && fetcher->active == 0)
		return -1;
	if (fetcher->is_woken) {
		/* What woke us may have come after we looked. */
		fetcher->is_woken = false;
		return 0;
	}
	if (fetcher->next_look_ms <= now)
		return 0;
	wait = fetcher->next_look_ms - now;
	return wait < POLL_MAX_MS ? (int)wait : POLL_MAX_MS;
}

void *transfers_main(void *arg)
{
	struct fetcher *fetcher = arg;
	struct job *job;
	int wait_ms, running;

	for (;;) {
		finish_stillborn(fetcher);
		finish_ended(fetcher);
		tell_about_others(fetcher);
		while ((job = admit(fetcher)))
			start(fetcher, job);
		move_held(fetcher);
		curl_multi_perform(fetcher->multi, &running);
		tell_all(fetcher);
		if (fetcher->trim_ms && now_ms() >= fetcher->trim_ms)
			spools_trim(fetcher);
		if (reap(fetcher))
			continue;
		wait_ms = next_wait_ms(fetcher);
		if (wait_ms < 0)
			return NULL;
		if (wait_ms > 0)
			curl_multi_poll(fetcher->multi, NULL, 0, wait_ms, NULL);
	}
}

int transfers_open(struct fetcher *fetcher, struct err *err)
{
	fetcher->multi = curl_multi_init();
	fetcher->share = curl_share_init();
	if (!fetcher->multi || !fetcher->share)
		return err_set(err, ENOMEM, "out of memory");
	/* One thread uses it, so it needs no locks. */
	curl_share_setopt(fetcher->share, CURLSHOPT_SHARE,
			  CURL_LOCK_DATA_SSL_SESSION);
	curl_multi_setopt(fetcher->multi, CURLMOPT_PIPELINING,
			  (long)CURLPIPE_MULTIPLEX);
	curl_multi_setopt(fetcher->multi, CURLMOPT_MAXCONNECTS,
			  (long)fetcher->max_all_connections);
	return 0;
}

void transfers_release(struct fetcher *fetcher)
{
	while (!list_is_empty(&fetcher->idle_exchanges)) {
		struct exchange *exchange = list_item(
			fetcher->idle_exchanges.next, struct exchange, list);

		list_remove(&exchange->list);
		exchange_free(exchange);
	}
	if (fetcher->multi)
		curl_multi_cleanup(fetcher->multi);
	if (fetcher->share)
		curl_share_cleanup(fetcher->share);
	fetcher->multi = NULL;
	fetcher->share = NULL;
}
