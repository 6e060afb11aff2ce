/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread that owns the curl multi handle. It starts what the queues
 * admit, moves bytes into bodies, follows redirects, ends what is over time,
 * and calls done; it waits in curl_multi_poll only.
 *
 * Redirects are followed here and not by libcurl, so that one function decides
 * what a server may send us to. A body is allocated when its header was
 * accepted: queued requests cost no memory, and wrong answers none either.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/answer.h"
#include "fetch/internal.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "dev"
#endif

#define REDIRECTS_MAX 5
/* A short useless body is read to its end: that keeps the connection. */
#define DRAIN_BYTES_MAX (64u << 10)
/* libcurl's largest; fewer system calls for long ranges. */
#define RECEIVE_BYTES (512L << 10)
/* Easy handles kept for the next requests. */
#define IDLE_TRANSFERS_MAX 32
#define CONNECTIONS_KEPT 64L
#define POLL_MAX_MS 60000

struct transfer {
	struct list list; /* running or idle */
	struct job *job;
	CURL *easy;
	struct curl_slist *headers;
	char *url;
	bool may_authenticate; /* still at the origin itself */
	unsigned redirects;
	/* The answer at hand. */
	struct answer answer;
	bool is_judged;
	struct judgement judgement;
	bool has_failed; /* class and err say why; or is_enough: cut short */
	bool is_enough;
	enum fetch_class class;
	struct err err;
	uint64_t received; /* bytes of the body, wanted or not */
	struct buf body;   /* the wanted ones */
	bool has_grown;
};

/* ---- what an answer is worth */

static void fail(struct transfer *transfer, enum fetch_class class,
		 const char *text)
{
	if (transfer->has_failed)
		return;
	transfer->has_failed = true;
	transfer->class = class;
	err_set(&transfer->err, EIO, "%s", text);
}

static void judge(struct transfer *transfer)
{
	const struct asked *asked = &transfer->job->asked;
	struct judgement *judgement = &transfer->judgement;
	struct err err = { 0 };

	transfer->is_judged = true;
	answer_judge(&transfer->answer, asked, judgement, &err);
	if (judgement->action == ANSWER_FAIL)
		fail(transfer, judgement->class, err.text);
	if (judgement->action != ANSWER_TAKE)
		return;
	buf_init(&transfer->body, judgement->has_want ? judgement->want :
							asked->limit_bytes);
	if (!judgement->has_want || judgement->want == 0)
		return;
	transfer->body.data = body_new(judgement->want);
	if (transfer->body.data)
		transfer->body.capacity = judgement->want;
	else
		fail(transfer, FETCH_LOCAL, "out of memory");
}

static void heard(struct transfer *transfer, size_t bytes)
{
	uint64_t now = now_ms();

	pace_bytes(&transfer->job->pace, bytes, now);
	transfer->job->origin->bytes_ms = now;
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
	struct transfer *transfer = arg;
	size_t len = size * count;

	heard(transfer, len);
	if (answer_line(&transfer->answer, line, len) < 0) {
		fail(transfer, FETCH_WRONG, "header of the answer too long");
		return 0;
	}
	if (transfer->answer.is_complete && !transfer->is_judged)
		judge(transfer);
	return len;
}

/* The part of these bytes that is wanted; the position is `received`. */
static int keep(struct transfer *transfer, const char *data, size_t len)
{
	const struct judgement *judgement = &transfer->judgement;
	uint64_t before = 0;

	if (transfer->received < judgement->skip)
		before = judgement->skip - transfer->received;
	if (before >= len)
		return 0;
	data += before;
	len -= before;
	if (len > transfer->body.limit - transfer->body.len)
		len = transfer->body.limit - transfer->body.len;
	if (len == 0)
		return 0;
	if (transfer->body.len == 0)
		job_alive(transfer->job);
	transfer->has_grown = true;
	return buf_append(&transfer->body, data, len);
}

/* All that is wanted is here, and reading the rest is not worth it. */
static bool is_enough(const struct transfer *transfer)
{
	const struct judgement *judgement = &transfer->judgement;

	if (!judgement->has_want || transfer->body.len < judgement->want)
		return false;
	return judgement->body_max - transfer->received > DRAIN_BYTES_MAX;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct transfer *transfer = arg;
	size_t len = size * count;

	heard(transfer, len);
	if (!transfer->is_judged)
		fail(transfer, FETCH_WRONG, "an answer without a header");
	if (transfer->has_failed ||
	    transfer->judgement.action != ANSWER_TAKE) {
		transfer->received += len;
		return transfer->received > DRAIN_BYTES_MAX ? 0 : len;
	}
	if (len > transfer->judgement.body_max - transfer->received) {
		fail(transfer, FETCH_WRONG, "body longer than promised");
		return 0;
	}
	if (keep(transfer, data, len) < 0) {
		fail(transfer, FETCH_LOCAL, "out of memory");
		return 0;
	}
	transfer->received += len;
	transfer->is_enough = is_enough(transfer);
	return transfer->is_enough ? 0 : len;
}

/* Called when the request is about to be sent: connecting is over. */
static int on_connected(void *arg, char *to, char *from, int to_port,
			int from_port)
{
	struct transfer *transfer = arg;
	struct fetcher *fetcher = transfer->job->origin->fetcher;
	uint64_t now = now_ms();

	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	pace_begin(&transfer->job->pace, now);
	scoped_lock(&fetcher->lock);
	look_by(fetcher, now + fetcher->silence_timeout_ms);
	return CURL_PREREQFUNC_OK;
}

/* ---- foreign codes */

static void fail_connect(struct transfer *transfer)
{
	long errnum = 0;

	transfer->job->met_silence = true;
	curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &errnum);
	if (errnum == ECONNREFUSED)
		fail(transfer, FETCH_UNREACHABLE, "connection refused");
	else if (errnum == ENETUNREACH || errnum == EHOSTUNREACH)
		fail(transfer, FETCH_UNREACHABLE, "no route to the server");
	else
		fail(transfer, FETCH_UNREACHABLE, "cannot connect");
}

static void fail_lost(struct transfer *transfer)
{
	const struct judgement *judgement = &transfer->judgement;
	long status = 0;
	char text[96];

	curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_CONNECTCODE, &status);
	if (status >= 300) {
		snprintf(text, sizeof(text), "proxy: HTTP %ld", status);
		fail(transfer, status == 407 || status == 403 ?
				       FETCH_REFUSED : FETCH_UNREACHABLE,
		     text);
	} else if (transfer->is_judged && judgement->has_body_bytes) {
		snprintf(text, sizeof(text),
			 "connection lost after %llu of %llu bytes",
			 (unsigned long long)transfer->received,
			 (unsigned long long)judgement->body_max);
		fail(transfer, FETCH_UNREACHABLE, text);
	} else {
		fail(transfer, FETCH_UNREACHABLE, "connection lost");
	}
}

static void fail_code(struct transfer *transfer, CURLcode code)
{
	uint32_t timeout_ms = transfer->job->origin->fetcher->connect_timeout_ms;
	char text[64], seconds[SECONDS_MAX];

	switch ((int)code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		fail(transfer, FETCH_UNREACHABLE, "name of the host not found");
		return;
	case CURLE_COULDNT_RESOLVE_PROXY:
		fail(transfer, FETCH_UNREACHABLE,
		     "name of the proxy not found");
		return;
	case CURLE_COULDNT_CONNECT:
		fail_connect(transfer);
		return;
	case CURLE_OPERATION_TIMEDOUT: /* the only one libcurl has from us */
		snprintf(text, sizeof(text), "no connection within %s",
			 seconds_text(timeout_ms, seconds));
		transfer->job->met_silence = true;
		fail(transfer, FETCH_UNREACHABLE, text);
		return;
	case CURLE_PEER_FAILED_VERIFICATION:
		fail(transfer, FETCH_UNREACHABLE, "certificate not trusted");
		return;
	case CURLE_SSL_CACERT_BADFILE:
		fail(transfer, FETCH_UNREACHABLE, "cannot read the CA file");
		return;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
		fail(transfer, FETCH_UNREACHABLE, "TLS does not come about");
		return;
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
	case CURLE_PROXY:
		fail_lost(transfer);
		return;
	case CURLE_OUT_OF_MEMORY:
		/* libcurl 7.88 says so of a header line above 100 KiB. */
		fail(transfer, FETCH_WRONG, "header of the answer too long");
		return;
	case CURLE_URL_MALFORMAT:
		fail(transfer, FETCH_LOCAL, "not a valid URL");
		return;
	}
	fail(transfer, FETCH_WRONG, "not an answer of HTTP");
}

/* ---- running */

static void transfer_free(struct transfer *transfer)
{
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	buf_release(&transfer->body);
	free(transfer->url);
	free(transfer);
}

static struct transfer *transfer_new(struct fetcher *fetcher)
{
	struct transfer *transfer;

	if (!list_is_empty(&fetcher->idle_transfers)) {
		transfer = list_item(fetcher->idle_transfers.next,
				     struct transfer, list);
		list_remove(&transfer->list);
		fetcher->idle_count--;
		return transfer;
	}
	transfer = calloc(1, sizeof(*transfer));
	if (!transfer)
		return NULL;
	list_init(&transfer->list);
	transfer->easy = curl_easy_init();
	if (!transfer->easy) {
		free(transfer);
		return NULL;
	}
	return transfer;
}

/* Out of the multi handle (what is not finished is cut off) and back to the
 * idle ones, clean. */
static void transfer_rest(struct fetcher *fetcher, struct transfer *transfer)
{
	CURL *easy = transfer->easy;

	curl_multi_remove_handle(fetcher->multi, easy);
	list_remove(&transfer->list);
	curl_slist_free_all(transfer->headers);
	buf_release(&transfer->body);
	free(transfer->url);
	*transfer = (struct transfer){ .easy = easy };
	list_init(&transfer->list);
	if (fetcher->idle_count >= IDLE_TRANSFERS_MAX) {
		transfer_free(transfer);
		return;
	}
	curl_easy_reset(easy);
	list_add(&fetcher->idle_transfers, &transfer->list);
	fetcher->idle_count++;
}

static int add_header(struct transfer *transfer, const char *name,
		      const char *value)
{
	struct curl_slist *longer;
	char line[256];

	snprintf(line, sizeof(line), "%s: %s", name, value);
	longer = curl_slist_append(transfer->headers, line);
	if (!longer)
		return -ENOMEM;
	transfer->headers = longer;
	return 0;
}

static int add_headers(struct transfer *transfer)
{
	const struct job *job = transfer->job;
	int r = add_header(transfer, "Accept-Encoding", "identity");

	if (r == 0 && job->request->no_cache)
		r = add_header(transfer, "Cache-Control", "no-cache");
	if (r == 0 && job->request->no_cache)
		r = add_header(transfer, "Pragma", "no-cache");
	if (r == 0 && job->if_none_match)
		r = add_header(transfer, "If-None-Match", job->if_none_match);
	return r;
}

static void set_common(struct fetcher *fetcher, struct transfer *transfer)
{
	CURL *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_SHARE, fetcher->share);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "larder/" PACKAGE_VERSION);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BYTES);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* Without it, leaving a request whose name look-up hangs would make
	 * this thread wait for the look-up. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)fetcher->connect_timeout_ms);
	if (fetcher->proxy)
		curl_easy_setopt(easy, CURLOPT_PROXY, fetcher->proxy);
	if (fetcher->ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, fetcher->ca_file);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
}

static void set_request(struct transfer *transfer)
{
	const struct fetch_request *request = transfer->job->request;
	char range[64];

	curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER,
			 transfer->headers);
	if (!request->has_range)
		return;
	snprintf(range, sizeof(range), "%llu-%llu",
		 (unsigned long long)request->offset,
		 (unsigned long long)(request->offset + request->length - 1));
	curl_easy_setopt(transfer->easy, CURLOPT_RANGE, range);
}

/* What depends on the URL: again after each redirect. */
static int transfer_ask(struct fetcher *fetcher, struct transfer *transfer)
{
	const struct url_base *base = &transfer->job->origin->url;
	bool may = transfer->may_authenticate;
	CURL *easy = transfer->easy;

	transfer->job->pace.has_begun = false;
	if (curl_easy_setopt(easy, CURLOPT_URL, transfer->url) != CURLE_OK)
		return -ENOMEM;
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	/* One connection that carries all is found before others are made. */
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT,
			 !strncmp(transfer->url, "https:", 6) ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_USERNAME, may ? base->user : NULL);
	curl_easy_setopt(easy, CURLOPT_PASSWORD, may ? base->password : NULL);
	return curl_multi_add_handle(fetcher->multi, easy) ? -ENOMEM : 0;
}

static void transfer_start(struct fetcher *fetcher, struct job *job)
{
	static const struct err no_memory = { "out of memory" };
	struct transfer *transfer = transfer_new(fetcher);
	int r = -ENOMEM;

	if (transfer) {
		transfer->job = job;
		job->run_ms = now_ms();
		transfer->may_authenticate = true;
		list_add(&fetcher->transfers, &transfer->list);
		job->transfer = transfer;
		transfer->url = url_join(&job->origin->url, job->path);
		if (transfer->url)
			r = add_headers(transfer);
	}
	if (r == 0) {
		set_common(fetcher, transfer);
		set_request(transfer);
		r = transfer_ask(fetcher, transfer);
	}
	if (r == 0)
		return;
	if (transfer)
		transfer_rest(fetcher, transfer);
	job_finish(job, FETCH_LOCAL, &no_memory);
}

static void tell_progress(struct transfer *transfer)
{
	struct fetch_request *request = transfer->job->request;

	if (transfer->has_grown && request->progress)
		request->progress(request, transfer->body.data,
				  transfer->body.len);
	transfer->has_grown = false;
}

/* Give the answer to the request and the transfer back. */
static void transfer_finish(struct fetcher *fetcher, struct transfer *transfer)
{
	struct job *job = transfer->job;
	struct fetch_request *request = job->request;
	enum fetch_class class = transfer->has_failed ? transfer->class :
							FETCH_OK;
	struct err err = transfer->err;
	curl_off_t retry_after_s = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER,
			  &retry_after_s);
	if (retry_after_s > 3600)
		retry_after_s = 3600;
	request->retry_after_ms = retry_after_s > 0 ?
					  (uint32_t)retry_after_s * 1000 : 0;
	if (transfer->is_judged && !transfer->has_failed) {
		tell_progress(transfer);
		request->not_modified = transfer->judgement.action ==
					ANSWER_NOT_MODIFIED;
		snprintf(request->etag, sizeof(request->etag), "%s",
			 transfer->answer.etag);
		request->total = transfer->judgement.has_want ||
						 request->not_modified ?
					 transfer->judgement.total :
					 transfer->received;
	}
	request->body = buf_steal(&transfer->body, &request->body_len);
	transfer_rest(fetcher, transfer);
	job_finish(job, class, &err);
}

/* ---- the end of an answer */

static int follow(struct fetcher *fetcher, struct transfer *transfer)
{
	char text[64];
	bool is_same;
	char *url;
	struct err err = { 0 };
	int r;

	if (++transfer->redirects > REDIRECTS_MAX) {
		snprintf(text, sizeof(text), "more than %d redirects",
			 REDIRECTS_MAX);
		fail(transfer, FETCH_WRONG, text);
		return -EPROTO;
	}
	r = url_redirect(transfer->url, transfer->answer.location, &url,
			 &is_same, &err);
	if (r < 0) {
		fail(transfer, r == -ENOMEM ? FETCH_LOCAL : FETCH_WRONG,
		     err.text);
		return r;
	}
	free(transfer->url);
	transfer->url = url;
	/* Once away from the origin, also a way back proves nothing. */
	transfer->may_authenticate &= is_same;
	transfer->job->is_away |= !is_same;
	transfer->answer = (struct answer){ 0 };
	transfer->judgement = (struct judgement){ 0 };
	transfer->is_judged = false;
	transfer->received = 0;
	curl_multi_remove_handle(fetcher->multi, transfer->easy);
	r = transfer_ask(fetcher, transfer);
	if (r < 0)
		fail(transfer, FETCH_LOCAL, "out of memory");
	return r;
}

static void check_complete(struct transfer *transfer)
{
	const struct judgement *judgement = &transfer->judgement;

	if (judgement->action != ANSWER_TAKE)
		return;
	if ((judgement->has_want && transfer->body.len < judgement->want) ||
	    (judgement->has_body_bytes &&
	     transfer->received < judgement->body_max))
		fail(transfer, FETCH_WRONG, "body shorter than promised");
}

static void transfer_ended(struct fetcher *fetcher, struct transfer *transfer,
			   CURLcode code)
{
	bool is_redirect = transfer->is_judged && !transfer->has_failed &&
			   transfer->judgement.action == ANSWER_REDIRECT;

	/* A redirect counts even if its useless body was cut off. */
	if (is_redirect) {
		if (follow(fetcher, transfer) == 0)
			return;
	} else if (!transfer->has_failed && !transfer->is_enough) {
		if (code != CURLE_OK)
			fail_code(transfer, code);
		else if (!transfer->is_judged)
			fail(transfer, FETCH_WRONG,
			     "broken header of the answer");
		else
			check_complete(transfer);
	}
	transfer_finish(fetcher, transfer);
}

/* ---- the thread */

static bool reap(struct fetcher *fetcher)
{
	struct transfer *transfer;
	bool has_ended = false;
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(fetcher->multi, &left))) {
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE,
				  (char **)&transfer);
		transfer_ended(fetcher, transfer, code);
		has_ended = true;
	}
	return has_ended;
}

static void tell_all(struct fetcher *fetcher)
{
	struct list *item;

	for (item = fetcher->transfers.next; item != &fetcher->transfers;
	     item = item->next)
		tell_progress(list_item(item, struct transfer, list));
}

/* One job that may start now, or NULL. */
static struct job *admit(struct fetcher *fetcher)
{
	struct job *job = NULL;

	scoped_lock(&fetcher->lock);
	for (struct list *item = fetcher->origins.next;
	     !job && item != &fetcher->origins; item = item->next) {
		struct origin *origin = list_item(item, struct origin, all);

		if (!origin->url.is_local)
			job = origin_admit(origin, fetcher->max_connections);
	}
	return job;
}

static void finish_ended(struct fetcher *fetcher)
{
	struct job *job = jobs_expire(fetcher, now_ms());

	while (job) {
		struct job *next = job->next_ended;

		if (job->transfer) {
			fail(job->transfer, job->end_class, job->end_err.text);
			transfer_finish(fetcher, job->transfer);
		} else {
			job_finish(job, job->end_class, &job->end_err);
		}
		job = next;
	}
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
		while ((job = admit(fetcher)))
			transfer_start(fetcher, job);
		curl_multi_perform(fetcher->multi, &running);
		tell_all(fetcher);
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
			  CONNECTIONS_KEPT);
	return 0;
}

void transfers_release(struct fetcher *fetcher)
{
	while (!list_is_empty(&fetcher->idle_transfers)) {
		struct transfer *transfer =
			list_item(fetcher->idle_transfers.next,
				  struct transfer, list);

		list_remove(&transfer->list);
		transfer_free(transfer);
	}
	if (fetcher->multi)
		curl_multi_cleanup(fetcher->multi);
	if (fetcher->share)
		curl_share_cleanup(fetcher->share);
	fetcher->multi = NULL;
	fetcher->share = NULL;
}
