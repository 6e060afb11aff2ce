/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_EXCHANGE_H
#define LARDER_FETCH_EXCHANGE_H

#include "base/buf.h"
#include "fetch/answer.h"
#include "fetch/internal.h"

/* One request over HTTP and its answers. The transfer thread's. */
struct exchange {
	struct list list; /* running or idle */
	struct job *job;  /* NULL: served otherwise, to be cut off */
	CURL *easy;
	struct curl_slist *headers;
	struct curl_slist authorization; /* goes before them, or no data */
	char *url;
	bool may_authenticate; /* still at the origin itself */
	unsigned redirects;
	/* The answer at hand. */
	struct answer answer;
	bool is_judged;
	struct judgement judgement;
	char *location;	       /* of a redirect that is the answer */
	struct buf kept_lines; /* of the answer, if asked for */
	bool has_failed; /* class and err say why; or is_enough: cut short */
	bool is_enough;
	enum fetch_class class;
	struct err err;
	uint64_t received; /* bytes of the body, wanted or not */
	uint64_t sent;
	struct buf body;	     /* the wanted ones */
	struct pool *pool;	     /* where body is from; NULL: malloc */
	struct buf reason;	     /* the start of an answer that failed */
	const char *proxy;	     /* asked through it, or NULL */
	char words[CURL_ERROR_SIZE]; /* libcurl's, of the last failure */
	bool has_grown;
};

struct exchange *exchange_new(void); /* NULL on ENOMEM */
/* Out of the multi handle already. */
void exchange_free(struct exchange *exchange);
void exchange_clear(struct exchange *exchange);

/* Ask; into the multi handle. -ENOMEM, or -EACCES with err for want of
 * keys. */
int exchange_begin(struct exchange *exchange, struct job *job, struct err *err);
/* Once before it is asked: what comes, judge and keep (exchange-hear.c). */
void exchange_listen(struct exchange *exchange);
/* The first failure counts. */
void exchange_fail(struct exchange *exchange, enum fetch_class class,
		   const char *text);
/* The same, for what libcurl says. */
void exchange_fail_code(struct exchange *exchange, CURLcode code);
/* An answer that is no success may say more than its status. */
void exchange_judge_failure(struct exchange *exchange);
/* Tell the request of bytes that came since the last time. */
void exchange_progress(struct exchange *exchange);
/* libcurl is done with it. False: it goes on elsewhere, after a redirect. */
bool exchange_ended(struct exchange *exchange, CURLcode code);
/* Everything into the request but result, class and err. */
void exchange_answer(struct exchange *exchange);

#endif
