/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back for a request: header lines, the verdict on them, the body.
 *
 * A body is allocated when its header was accepted: queued requests cost no
 * memory, and wrong answers none either.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/exchange.h"
#include "fetch/spool.h"

/* A short useless body is read to its end: that keeps the connection. */
#define DRAIN_BYTES_MAX (64u << 10)
/* As much is read through to cut a range out, where it cannot be kept. */
#define CUT_BYTES_MAX (UINT64_C(64) << 20)
/* Errors are shorter, where they are no pages for people. */
#define REASON_BYTES_MAX 8192u

/* Now that its size is known. */
static void set_pace(struct job *job, uint64_t bytes)
{
	uint32_t within_ms = job->request->whole_within_ms;
	uint64_t rate = within_ms ? bytes * 1000 / within_ms : 0;

	if (rate > job->demand_bytes_per_s)
		job->demand_bytes_per_s =
			rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;
}

static void make_room(struct exchange *exchange)
{
	struct judgement *judgement = &exchange->judgement;

	buf_init(&exchange->body, judgement->has_want ?
					  judgement->want :
					  exchange->job->asked.limit_bytes);
	if (!judgement->has_want || judgement->want == 0)
		return;
	set_pace(exchange->job, judgement->want);
	exchange->pool = exchange->job->request->pool;
	exchange->body.data = body_new(exchange->pool, judgement->want);
	if (exchange->body.data)
		exchange->body.capacity = judgement->want;
	else
		exchange_fail(exchange, FETCH_LOCAL, "out of memory");
}

/* What became of a range. True: of the body this exchange wants nothing. */
static bool judge_range(struct exchange *exchange)
{
	const struct judgement *judgement = &exchange->judgement;
	struct job *job = exchange->job;
	struct origin *origin = job->origin;

	pthread_mutex_lock(&origin->fetcher->lock);
	job_trial_end(job);
	pthread_mutex_unlock(&origin->fetcher->lock);
	if (exchange->answer.status == 206) {
		if (origin->ranges < RANGES_TRUSTED)
			origin->ranges++;
		return false;
	}
	if (judgement->total == judgement->want)
		return false;
	origin->ranges = 0;
	if (spool_begin(exchange))
		return true;
	if (judgement->skip + judgement->want > CUT_BYTES_MAX ||
	    judgement->total > CUT_BYTES_MAX)
		exchange_fail(exchange, FETCH_WRONG,
			      "all of a large file instead of a range");
	return false;
}

static bool is_same_version(const struct exchange *exchange)
{
	struct fetch_request *request = exchange->job->request;

	return !request->is_same ||
	       request->is_same(request, exchange->answer.etag);
}

static void judge(struct exchange *exchange)
{
	const struct asked *asked = &exchange->job->asked;
	struct judgement *judgement = &exchange->judgement;
	struct err err = {0};

	exchange->is_judged = true;
	answer_judge(&exchange->answer, asked, judgement, &err);
	if (judgement->action == ANSWER_FAIL)
		exchange_fail(exchange, judgement->class, err.text);
	if (judgement->action != ANSWER_TAKE)
		return;
	if (!is_same_version(exchange)) {
		exchange_fail(exchange, FETCH_WRONG,
			      "the file was replaced on the server");
		return;
	}
	if (asked->has_range && judge_range(exchange))
		return;
	if (!exchange->has_failed)
		make_room(exchange);
}

static void heard(struct exchange *exchange, size_t bytes)
{
	struct pace *pace = &exchange->job->pace;
	uint64_t now = now_ms();

	if (!pace->has_bytes && pace->has_begun)
		origin_answered(exchange->job->origin, now - pace->last_ms);
	pace_bytes(pace, bytes, now);
	hold_note(exchange->job, now);
	exchange->job->origin->bytes_ms = now;
}

/* A status line begins another answer. What does not fit is left out. */
static void keep_line(struct exchange *exchange, const char *line, size_t len)
{
	struct buf *lines = &exchange->kept_lines;

	if (len >= 5 && !strncmp(line, "HTTP/", 5)) {
		buf_release(lines);
		buf_init(lines, ANSWER_HEADER_BYTES_MAX + 1);
	}
	if (!exchange->answer.is_complete && !memchr(line, '\0', len))
		(void)buf_append(lines, line, len);
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
	struct exchange *exchange = arg;
	size_t len = size * count;

	heard(exchange, len);
	if (exchange->job->request->keeps_headers)
		keep_line(exchange, line, len);
	if (answer_line(&exchange->answer, line, len) < 0) {
		exchange_fail(exchange, FETCH_WRONG,
			      "header of the answer too long");
		return 0;
	}
	if (exchange->answer.is_complete && !exchange->is_judged)
		judge(exchange);
	return exchange->job ? len : 0;
}

/* The part of these bytes that is wanted; the position is `received`. */
static int keep(struct exchange *exchange, const char *data, size_t len)
{
	const struct judgement *judgement = &exchange->judgement;
	struct spool *spool = exchange->job->spool;
	uint64_t before = 0;

	if (spool) {
		exchange->has_grown = true;
		return spool_write(spool, data, len);
	}
	if (exchange->received < judgement->skip)
		before = judgement->skip - exchange->received;
	if (before >= len)
		return 0;
	data += before;
	len -= before;
	if (len > exchange->body.limit - exchange->body.len)
		len = exchange->body.limit - exchange->body.len;
	if (len == 0)
		return 0;
	if (exchange->body.len == 0)
		job_alive(exchange->job);
	exchange->has_grown = true;
	return buf_append(&exchange->body, data, len);
}

/* All that is wanted is here, and reading the rest is not worth it. */
static bool is_enough(const struct exchange *exchange)
{
	const struct judgement *judgement = &exchange->judgement;

	if (!judgement->has_want || exchange->body.len < judgement->want)
		return false;
	return judgement->body_max - exchange->received > DRAIN_BYTES_MAX;
}

static void keep_reason(struct exchange *exchange, const char *data, size_t len)
{
	size_t room = REASON_BYTES_MAX - exchange->reason.len;

	(void)buf_append(&exchange->reason, data, len < room ? len : room);
}

/* Never on a connection that may carry readers' bytes too, whatever libcurl
 * makes of the wish for another one. */
static bool stands_still(struct exchange *exchange)
{
	long version = CURL_HTTP_VERSION_NONE;

	if (exchange->job->priority != FETCH_PREFETCH)
		return false;
	curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_VERSION, &version);
	return version <= CURL_HTTP_VERSION_1_1 && hold_begin(exchange->job);
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct exchange *exchange = arg;
	size_t len = size * count;
	int r;

	if (stands_still(exchange))
		return CURL_WRITEFUNC_PAUSE;
	heard(exchange, len);
	if (!exchange->is_judged)
		exchange_fail(exchange, FETCH_WRONG,
			      "an answer without a header");
	if (exchange->has_failed || exchange->judgement.action != ANSWER_TAKE) {
		keep_reason(exchange, data, len);
		exchange->received += len;
		return exchange->received > DRAIN_BYTES_MAX ? 0 : len;
	}
	if (len > exchange->judgement.body_max - exchange->received) {
		exchange_fail(exchange, FETCH_WRONG,
			      "body longer than promised");
		return 0;
	}
	r = keep(exchange, data, len);
	if (r < 0) {
		exchange_fail(exchange, FETCH_LOCAL,
			      r == -ENOMEM ? "out of memory" :
					     "no disk space to keep it");
		return 0;
	}
	exchange->received += len;
	exchange->is_enough = is_enough(exchange);
	return exchange->is_enough ? 0 : len;
}

static int on_sent(void *arg, curl_off_t down_total, curl_off_t down,
		   curl_off_t up_total, curl_off_t up)
{
	struct exchange *exchange = arg;

	(void)down_total;
	(void)down;
	(void)up_total;
	if ((uint64_t)up > exchange->sent)
		heard(exchange, (size_t)((uint64_t)up - exchange->sent));
	exchange->sent = (uint64_t)up;
	return 0;
}

/* Called when the request is about to be sent: connecting is over. */
static int on_connected(void *arg, char *to, char *from, int to_port,
			int from_port)
{
	struct exchange *exchange = arg;
	struct fetcher *fetcher = exchange->job->origin->fetcher;
	uint64_t now = now_ms();

	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	pace_begin(&exchange->job->pace, now);
	scoped_lock(&fetcher->lock);
	look_by(fetcher, now + job_patience_ms(exchange->job));
	return CURL_PREREQFUNC_OK;
}

void exchange_listen(struct exchange *exchange)
{
	CURL *easy = exchange->easy;

	buf_init(&exchange->reason, REASON_BYTES_MAX);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_sent);
	curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exchange);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, exchange);
}
