/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an exchange failed: libcurl's codes, and answers whose own words say
 * more than their status, as a class and a text that says what to do.
 *
 * Whether a host or the proxy before it is meant can be told only for
 * connections and names; for the rest the text says that there was one.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fetch/exchange.h"

#define TOO_LARGE 100 /* CURLE_TOO_LARGE, of libcurl 8.6 */

/* OpenSSL's verdicts (X509_V_ERR_*), as CURLINFO_SSL_VERIFYRESULT has them. */
#define CERT_UNKNOWN_ISSUER 2
#define CERT_NOT_YET_VALID 9
#define CERT_EXPIRED 10
#define CERT_SELF_SIGNED 18
#define CERT_NO_CHAIN 21
#define PROXY_PASSWORD ": give proxy=http://USER:PASSWORD@HOST"

static void fail_named(struct exchange *exchange, enum fetch_class class,
		       const char *how, const char *text)
{
	_cleanup_free_ char *proxy =
		exchange->proxy ? url_redact(exchange->proxy) : NULL;

	if (exchange->has_failed)
		return;
	exchange->has_failed = true;
	exchange->class = class;
	if (proxy)
		err_set(&exchange->err, EIO, "%sproxy '%s': %s", how, proxy,
			text);
	else
		err_set(&exchange->err, EIO, "%s", text);
}

void exchange_fail(struct exchange *exchange, enum fetch_class class,
		   const char *text)
{
	if (class == FETCH_UNREACHABLE || class == FETCH_SLOW)
		fail_named(exchange, class, "via ", text);
	if (exchange->has_failed)
		return;
	exchange->has_failed = true;
	exchange->class = class;
	err_set(&exchange->err, EIO, "%s", text);
}

static void fail_connect(struct exchange *exchange)
{
	const char *text = "cannot connect";
	long errnum = 0;

	exchange->job->met_silence = true;
	curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &errnum);
	if (errnum == ECONNREFUSED)
		text = "connection refused";
	else if (errnum == ENETUNREACH || errnum == EHOSTUNREACH)
		text = "no route to the server";
	fail_named(exchange, FETCH_UNREACHABLE, "", text);
}

/* TLS 1.3 tells of a missing certificate only after the handshake. */
static bool wants_certificate(const struct exchange *exchange)
{
	return strstr(exchange->words, "certificate required") ||
	       strstr(exchange->words, "bad certificate") ||
	       strstr(exchange->words, "alert handshake failure");
}

static void fail_lost(struct exchange *exchange)
{
	const struct judgement *judgement = &exchange->judgement;
	long status = 0;
	char text[128];

	curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_CONNECTCODE, &status);
	if (status == 407) {
		fail_named(exchange, FETCH_REFUSED, "",
			   "HTTP 407" PROXY_PASSWORD);
	} else if (status >= 300) {
		snprintf(text, sizeof(text), "HTTP %ld", status);
		fail_named(exchange,
			   status == 403 ? FETCH_REFUSED : FETCH_UNREACHABLE,
			   "", text);
	} else if (wants_certificate(exchange)) {
		exchange_fail(
			exchange, FETCH_REFUSED,
			"the server wants a client certificate that it trusts: give cert and cert-key");
	} else if (exchange->is_judged && judgement->has_body_bytes) {
		snprintf(text, sizeof(text),
			 "connection lost after %llu of %llu bytes",
			 (unsigned long long)exchange->received,
			 (unsigned long long)judgement->body_max);
		exchange_fail(exchange, FETCH_UNREACHABLE, text);
	} else {
		exchange_fail(exchange, FETCH_UNREACHABLE, "connection lost");
	}
}

static const char *certificate_text(long verdict, const char *words)
{
	if (strstr(words, "subject name"))
		return "the certificate is for another host's name";
	if (verdict == CERT_EXPIRED)
		return "the server's certificate has expired: it needs a new one";
	if (verdict == CERT_NOT_YET_VALID)
		return "the server's certificate is not valid yet: check the clocks";
	if (verdict == CERT_UNKNOWN_ISSUER ||
	    (verdict >= CERT_SELF_SIGNED && verdict <= CERT_NO_CHAIN))
		return "the certificate is of an unknown authority: give ca=FILE";
	return "certificate not trusted";
}

static void fail_tls(struct exchange *exchange, CURLcode code)
{
	const char *text = "TLS does not come about", *words = exchange->words;
	long verdict = -1;

	if (code == CURLE_PEER_FAILED_VERIFICATION) {
		curl_easy_getinfo(exchange->easy, CURLINFO_SSL_VERIFYRESULT,
				  &verdict);
		text = certificate_text(verdict, words);
	} else if (code == CURLE_SSL_CACERT_BADFILE) {
		text = "cannot use the CA file: check ca";
	} else if (code == CURLE_SSL_CERTPROBLEM) {
		text = "cannot use the client certificate: check cert and cert-key";
	} else if (strstr(words, "wrong version number") ||
		   strstr(words, "packet length too long")) {
		text = "no TLS on this port: check it, or use http://";
	} else if (strstr(words, "protocol version") ||
		   strstr(words, "unsupported protocol")) {
		text = "no version of TLS in common: 1.2 or later is needed";
	} else if (wants_certificate(exchange)) {
		text = "the server refuses: it may want a client certificate: give cert and cert-key";
	}
	exchange_fail(exchange, FETCH_UNREACHABLE, text);
}

void exchange_fail_code(struct exchange *exchange, CURLcode code)
{
	struct job *job = exchange->job;
	char text[64], seconds[SECONDS_MAX];

	switch ((int)code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		exchange_fail(exchange, FETCH_UNREACHABLE,
			      "name of the host not found");
		return;
	case CURLE_COULDNT_RESOLVE_PROXY:
		fail_named(exchange, FETCH_UNREACHABLE, "",
			   "name of the host not found");
		return;
	case CURLE_COULDNT_CONNECT:
		fail_connect(exchange);
		return;
	case CURLE_OPERATION_TIMEDOUT: /* the only one libcurl has from us */
		snprintf(text, sizeof(text), "no connection within %s",
			 seconds_text(job->connect_ms, seconds));
		job->met_silence = job->connect_ms >=
				   job->origin->fetcher->connect_timeout_ms;
		exchange_fail(exchange, FETCH_UNREACHABLE, text);
		return;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
		fail_tls(exchange, code);
		return;
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
	case CURLE_PROXY:
		fail_lost(exchange);
		return;
	/* Header lines above 100 KiB, as libcurl 7.88 says it, and since 8.6. */
	case CURLE_OUT_OF_MEMORY:
	case TOO_LARGE:
		exchange_fail(exchange, FETCH_WRONG,
			      "header of the answer too long");
		return;
	case CURLE_URL_MALFORMAT:
		exchange_fail(exchange, FETCH_LOCAL, "not a valid URL");
		return;
	}
	exchange_fail(exchange, FETCH_WRONG, "not an answer of HTTP");
}

/* ---- answers */

static bool says(const struct exchange *exchange, const char *text)
{
	return exchange->reason.len > 0 &&
	       memmem(exchange->reason.data, exchange->reason.len, text,
		      strlen(text));
}

static void judge_http(struct exchange *exchange, unsigned status)
{
	const char *text = NULL;
	char words[64];

	if (exchange->proxy) {
		snprintf(words, sizeof(words), "HTTP %u%s", status,
			 status == 407 ? PROXY_PASSWORD : "");
		exchange->has_failed = false;
		fail_named(exchange, exchange->class,
			   status == 407 ? "" : "via ", words);
	}
	if (status != 400)
		return;
	/* nginx has no other status for these. */
	if (says(exchange, "No required SSL certificate"))
		text = "HTTP 400: the server wants a client certificate: give cert and cert-key";
	else if (says(exchange, "SSL certificate error"))
		text = "HTTP 400: the server does not trust the client certificate: check cert";
	else if (says(exchange, "plain HTTP request was sent to HTTPS"))
		text = "HTTP 400: the server speaks TLS on this port: use https://";
	if (!text)
		return;
	exchange->class = FETCH_REFUSED;
	err_set(&exchange->err, EACCES, "%s", text);
}

static bool begins_page(const struct buf *body)
{
	size_t at = 0;

	while (at < body->len && strchr(" \t\r\n", body->data[at]))
		at++;
	return at < body->len && body->data[at] == '<';
}

/* What a proxy, or a network that wants a login, gives instead of anything. A
 * file may be a page as well, but none that is asked for without a range. */
static void judge_page(struct exchange *exchange)
{
	bool is_wrong = exchange->has_failed ?
				exchange->class == FETCH_WRONG :
				!exchange->job->asked.has_range &&
					begins_page(&exchange->body);

	if (!exchange->answer.is_html || !is_wrong)
		return;
	exchange->has_failed = false;
	fail_named(exchange, FETCH_WRONG, "via ",
		   "a page of HTML instead of the file: does it want a login?");
}

void exchange_judge_failure(struct exchange *exchange)
{
	const struct answer *answer = &exchange->answer;
	const struct s3 *s3 = exchange->job->origin->s3;

	if (exchange->is_judged && answer->status == 200)
		judge_page(exchange);
	if (!exchange->is_judged || answer->status < 300 ||
	    answer->status == 304)
		return;
	if (!s3 || answer->status == 407) {
		if (exchange->has_failed)
			judge_http(exchange, answer->status);
		return;
	}
	s3_judge(s3, answer->status, answer->region,
		 (const char *)exchange->reason.data, exchange->reason.len,
		 &exchange->class, &exchange->err);
	exchange->has_failed = true;
}
