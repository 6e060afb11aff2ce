/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request over HTTP and its answers on an easy handle: what is asked, where
 * a redirect leads, what is handed over. exchange-hear.c listens to what comes,
 * exchange-fail.c finds words for what went wrong.
 *
 * Redirects are followed here and not by libcurl, so that one function decides
 * what a server may send us to.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/exchange.h"
#include "fetch/spool.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "dev"
#endif

#define REDIRECTS_MAX 5
/* libcurl's largest; fewer system calls for long ranges. */
#define RECEIVE_BYTES (512L << 10)
/* SHA-256 of nothing. */
#define EMPTY_SHA256                                                           \
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* ---- asking */

static int add_line(struct exchange *exchange, const char *line)
{
	struct curl_slist *longer = curl_slist_append(exchange->headers, line);

	if (!longer)
		return -ENOMEM;
	exchange->headers = longer;
	return 0;
}

static int add_header(struct exchange *exchange, const char *name,
		      const char *value)
{
	_cleanup_free_ char *line = NULL;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		return -ENOMEM;
	return add_line(exchange, line);
}

static int add_headers(struct exchange *exchange)
{
	const struct job *job = exchange->job;
	const struct s3 *s3 = job->origin->s3;
	int r = 0;

	/* Headers given here are signed: what proxies change is not among
	 * them for S3. */
	if (!s3)
		r = add_header(exchange, "Accept-Encoding", "identity");
	if (s3 && s3->keys.id[0])
		r = add_header(exchange, "x-amz-content-sha256",
			       job->request->send_sha256 ?
				       job->request->send_sha256 :
				       EMPTY_SHA256);
	/* Without it libcurl gives one of its own, and signs none. */
	if (r == 0 && job->asked.is_write)
		r = add_header(exchange, "Content-Type",
			       "application/octet-stream");
	if (r == 0 && job->request->send_header)
		r = add_line(exchange, job->request->send_header);
	if (r == 0 && job->request->if_match)
		r = add_header(exchange, "If-Match", job->request->if_match);
	if (r == 0 && s3 && s3->keys.token[0])
		r = add_header(exchange, "x-amz-security-token",
			       s3->keys.token);
	if (r == 0 && job->request->no_cache)
		r = add_header(exchange, "Cache-Control", "no-cache");
	if (r == 0 && job->request->no_cache && !s3)
		r = add_header(exchange, "Pragma", "no-cache");
	if (r == 0 && job->if_none_match)
		r = add_header(exchange, "If-None-Match", job->if_none_match);
	if (r == 0 && job->if_range && job->if_range[0])
		r = add_header(exchange, "If-Range", job->if_range);
	if (r == 0 && job->authorization &&
	    asprintf(&exchange->authorization.data, "Authorization: %s",
		     job->authorization) < 0) {
		exchange->authorization.data = NULL;
		r = -ENOMEM;
	}
	exchange->authorization.next = exchange->headers;
	return r;
}

/* What may have to stand still has a connection of its own: over HTTP/2 the
 * bytes of a stream that stands still, of which a window is under way, would
 * hold up those of a reader on the same connection. */
static long http_version(const struct job *job)
{
	return job->priority == FETCH_PREFETCH ? CURL_HTTP_VERSION_1_1 :
						 CURL_HTTP_VERSION_2TLS;
}

static void set_common(struct exchange *exchange)
{
	const struct fetcher *fetcher = exchange->job->origin->fetcher;
	CURL *easy = exchange->easy;

	curl_easy_setopt(easy, CURLOPT_SHARE, fetcher->share);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
			 http_version(exchange->job));
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "larder/" PACKAGE_VERSION);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BYTES);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* Without it, leaving a request whose name look-up hangs would make
	 * this thread wait for the look-up. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)exchange->job->connect_ms);
	/* The proxy was chosen here: libcurl asks no environment. */
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->words);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION,
			 (long)CURL_SSLVERSION_TLSv1_2);
	if (fetcher->ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, fetcher->ca_file);
}

static void set_method(CURL *easy, const struct fetch_request *request)
{
	static const char *const names[] = {
		[FETCH_PUT] = "PUT",
		[FETCH_POST] = "POST",
		[FETCH_DELETE] = "DELETE",
	};

	if (request->method == FETCH_GET)
		return;
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, names[request->method]);
	/* What is sent moves as well, though nothing comes. */
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	if (request->method == FETCH_DELETE)
		return;
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
			 (curl_off_t)request->send_len);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
			 request->send ? request->send : "");
}

static void set_request(struct exchange *exchange)
{
	const struct fetch_request *request = exchange->job->request;
	char range[64];

	set_method(exchange->easy, request);
	if (!request->has_range)
		return;
	snprintf(range, sizeof(range), "%llu-%llu",
		 (unsigned long long)request->offset,
		 (unsigned long long)(request->offset + request->length - 1));
	curl_easy_setopt(exchange->easy, CURLOPT_RANGE, range);
}

static void set_signature(struct exchange *exchange, const struct s3 *s3)
{
	CURL *easy = exchange->easy;

	if (!s3->keys.id[0])
		return;
	curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, s3->signature);
	curl_easy_setopt(easy, CURLOPT_USERNAME, s3->keys.id);
	curl_easy_setopt(easy, CURLOPT_PASSWORD, s3->keys.secret);
}

/* What depends on the URL: again after each redirect. */
static int ask(struct exchange *exchange)
{
	struct fetcher *fetcher = exchange->job->origin->fetcher;
	const struct url_base *base = &exchange->job->origin->url;
	bool may = exchange->may_authenticate;
	CURL *easy = exchange->easy;

	exchange->job->pace.has_begun = false;
	if (curl_easy_setopt(easy, CURLOPT_URL, exchange->url) != CURLE_OK)
		return -ENOMEM;
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER,
			 may && exchange->authorization.data ?
				 &exchange->authorization :
				 exchange->headers);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	/* One connection that carries all is found before others are made. */
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT,
			 !strncmp(exchange->url, "https:", 6) ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_USERNAME, may ? base->user : NULL);
	curl_easy_setopt(easy, CURLOPT_PASSWORD, may ? base->password : NULL);
	if (exchange->job->origin->s3)
		set_signature(exchange, exchange->job->origin->s3);
	curl_easy_setopt(easy, CURLOPT_SSLCERT,
			 may ? fetcher->cert_file : NULL);
	curl_easy_setopt(easy, CURLOPT_SSLKEY,
			 may ? fetcher->cert_key_file : NULL);
	exchange->words[0] = '\0';
	exchange->proxy = proxy_for(&fetcher->proxies, exchange->url);
	curl_easy_setopt(easy, CURLOPT_PROXY,
			 exchange->proxy ? exchange->proxy : "");
	return curl_multi_add_handle(fetcher->multi, easy) ? -ENOMEM : 0;
}

static char *url_of(const struct job *job)
{
	char *url = job->request->is_escaped ?
			    url_append(&job->origin->url, job->path) :
			    url_join(&job->origin->url, job->path);
	char *asked = NULL;

	if (!url || !job->request->query)
		return url;
	if (asprintf(&asked, "%s?%s", url, job->request->query) < 0)
		asked = NULL;
	free(url);
	return asked;
}

int exchange_begin(struct exchange *exchange, struct job *job, struct err *err)
{
	int r;

	exchange->job = job;
	exchange->may_authenticate = true;
	job->exchange = exchange;
	job->run_ms = now_ms();
	exchange->url = url_of(job);
	if (!exchange->url)
		return -ENOMEM;
	if (job->origin->s3) {
		r = s3_keys_refresh(job->origin->s3, job->run_ms, err);
		if (r < 0)
			return r;
	}
	r = add_headers(exchange);
	if (r < 0)
		return r;
	set_common(exchange);
	exchange_listen(exchange);
	set_request(exchange);
	return ask(exchange);
}

/* ---- handing over */

void exchange_progress(struct exchange *exchange)
{
	struct fetch_request *request;

	if (!exchange->has_grown)
		return;
	exchange->has_grown = false;
	request = exchange->job->request;
	if (exchange->job->spool)
		spool_serve(exchange->job->spool);
	else if (request->progress)
		request->progress(request, exchange->body.data,
				  exchange->body.len);
}

void exchange_answer(struct exchange *exchange)
{
	struct fetch_request *request = exchange->job->request;
	curl_off_t retry_after_s = 0;

	curl_easy_getinfo(exchange->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
	if (retry_after_s > 3600)
		retry_after_s = 3600;
	request->retry_after_ms =
		retry_after_s > 0 ? (uint32_t)retry_after_s * 1000 : 0;
	request->status = exchange->answer.status;
	request->location = steal_ptr(exchange->location);
	if (exchange->kept_lines.len > 0 &&
	    buf_append(&exchange->kept_lines, "", 1) == 0)
		request->headers =
			(char *)buf_steal(&exchange->kept_lines, NULL);
	if (request->location)
		return;
	if (exchange->is_judged && !exchange->has_failed) {
		exchange_progress(exchange);
		request->not_modified =
			exchange->judgement.action == ANSWER_NOT_MODIFIED;
		snprintf(request->etag, sizeof(request->etag), "%s",
			 exchange->answer.etag);
		request->total =
			exchange->judgement.has_want || request->not_modified ?
				exchange->judgement.total :
				exchange->received;
	}
	request->date = curl_getdate(exchange->answer.date, NULL);
	request->modified = curl_getdate(exchange->answer.modified, NULL);
	if (exchange->pool == request->pool)
		request->body = buf_steal(&exchange->body, &request->body_len);
}

/* ---- the end of an answer */

static int follow(struct exchange *exchange)
{
	struct fetcher *fetcher = exchange->job->origin->fetcher;
	char text[64];
	bool is_same;
	char *url;
	struct err err = {0};
	int r;

	if (++exchange->redirects > REDIRECTS_MAX) {
		snprintf(text, sizeof(text), "more than %d redirects",
			 REDIRECTS_MAX);
		exchange_fail(exchange, FETCH_WRONG, text);
		return -EPROTO;
	}
	r = url_redirect(exchange->url, exchange->answer.location, &url,
			 &is_same, &err);
	if (r < 0) {
		exchange_fail(exchange,
			      r == -ENOMEM ? FETCH_LOCAL : FETCH_WRONG,
			      err.text);
		return r;
	}
	if (!is_same && exchange->job->request->keeps_redirect) {
		exchange->location = url;
		return -EREMOTE;
	}
	free(exchange->url);
	exchange->url = url;
	/* Once away from the origin, also a way back proves nothing. */
	exchange->may_authenticate &= is_same;
	exchange->job->is_away |= !is_same;
	exchange->answer = (struct answer){0};
	exchange->judgement = (struct judgement){0};
	exchange->is_judged = false;
	exchange->received = 0;
	buf_clear(&exchange->reason);
	curl_multi_remove_handle(fetcher->multi, exchange->easy);
	r = ask(exchange);
	if (r < 0)
		exchange_fail(exchange, FETCH_LOCAL, "out of memory");
	return r;
}

static void check_complete(struct exchange *exchange)
{
	const struct judgement *judgement = &exchange->judgement;

	if (judgement->action != ANSWER_TAKE)
		return;
	if ((judgement->has_want && exchange->body.len < judgement->want) ||
	    (judgement->has_body_bytes &&
	     exchange->received < judgement->body_max))
		exchange_fail(exchange, FETCH_WRONG,
			      "body shorter than promised");
}

bool exchange_ended(struct exchange *exchange, CURLcode code)
{
	bool is_redirect;

	if (!exchange->job)
		return true;
	exchange_judge_failure(exchange);
	is_redirect = exchange->is_judged && !exchange->has_failed &&
		      exchange->judgement.action == ANSWER_REDIRECT;
	/* A redirect counts even if its useless body was cut off. */
	if (is_redirect) {
		if (follow(exchange) == 0)
			return false;
	} else if (!exchange->has_failed && !exchange->is_enough) {
		if (code != CURLE_OK)
			exchange_fail_code(exchange, code);
		else if (!exchange->is_judged)
			exchange_fail(exchange, FETCH_WRONG,
				      "broken header of the answer");
		else
			check_complete(exchange);
	}
	return true;
}

/* ---- memory */

struct exchange *exchange_new(void)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	if (!exchange)
		return NULL;
	list_init(&exchange->list);
	exchange->easy = curl_easy_init();
	if (!exchange->easy) {
		free(exchange);
		return NULL;
	}
	return exchange;
}

static void body_release(struct exchange *exchange)
{
	if (exchange->pool)
		body_free(exchange->pool, exchange->body.data,
			  exchange->body.capacity);
	else
		buf_release(&exchange->body);
}

static void release(struct exchange *exchange)
{
	curl_slist_free_all(exchange->headers);
	free(exchange->authorization.data);
	body_release(exchange);
	buf_release(&exchange->reason);
	buf_release(&exchange->kept_lines);
	free(exchange->location);
	free(exchange->url);
}

void exchange_clear(struct exchange *exchange)
{
	CURL *easy = exchange->easy;

	curl_easy_reset(easy);
	release(exchange);
	*exchange = (struct exchange){.easy = easy};
	list_init(&exchange->list);
}

void exchange_free(struct exchange *exchange)
{
	curl_easy_cleanup(exchange->easy);
	release(exchange);
	free(exchange);
}
