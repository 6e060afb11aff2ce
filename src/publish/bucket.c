/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a bucket, one at a time for each thread that asks: open, get,
 * put, delete, list.
 *
 * An answer that is lost leaves open whether a request was carried out. What
 * is written twice is written alike, so that matters only where a condition
 * was set: what then stands there is compared with what was sent.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "format/digest.h"
#include "publish/bucket-call.h"
#include "publish/publish.h"
#include "source/source.h"

#define CONNECTIONS_MAX 32u
/* Servers put large uploads together before they answer. */
#define SILENCE_MS 60000u
#define LIST_BYTES_MAX ((size_t)64 << 20)
#define PAGES_MAX 1000000u /* a server that never comes to an end */
#define QUERY_LIMIT 16384u
#define STOP_LOOK_MS 50u

/* ---- opening */

static const char *name_end(const char *url)
{
	return strchrnul(url + strlen("s3://"), '/');
}

int bucket_open(const char *url, const struct mirror_access *access,
		struct bucket **ret, struct err *err)
{
	static const struct mirror_access defaults;
	_cleanup_free_ char *name = strndup(url, (size_t)(name_end(url) - url));
	struct bucket *bucket = calloc(1, sizeof(*bucket));
	const char *prefix = name_end(url);
	struct fetcher_options options = {
		.silence_timeout_ms = SILENCE_MS,
		.max_connections = CONNECTIONS_MAX,
	};
	size_t len;
	int r;

	if (!access)
		access = &defaults;
	options.proxy = access->proxy;
	options.ca_file = access->ca_file;
	options.cert_file = access->cert_file;
	options.cert_key_file = access->cert_key_file;
	prefix += strspn(prefix, "/");
	for (len = strlen(prefix); len > 0 && prefix[len - 1] == '/';)
		len--;
	if (!bucket || !name ||
	    asprintf(&bucket->prefix, "%.*s%s", (int)len, prefix,
		     len ? "/" : "") < 0) {
		free(bucket);
		return err_set(err, ENOMEM, "out of memory");
	}
	bucket->stop = access->stop;
	r = fetcher_open(&options, &bucket->fetcher, err);
	if (r == 0)
		r = origin_open_with(bucket->fetcher, name, access->origin,
				     &bucket->origin, err);
	if (r < 0) {
		bucket_close(bucket);
		return r;
	}
	*ret = bucket;
	return 0;
}

void bucket_close(struct bucket *bucket)
{
	if (!bucket)
		return;
	origin_close(bucket->origin);
	fetcher_close(bucket->fetcher);
	free(bucket->prefix);
	free(bucket);
}

/* ---- one request */

struct waiting {
	pthread_mutex_t mutex;
	pthread_cond_t answered;
	bool is_done;
};

static void on_done(struct fetch_request *request)
{
	struct waiting *waiting = request->arg;

	scoped_lock(&waiting->mutex);
	waiting->is_done = true;
	pthread_cond_signal(&waiting->answered);
}

static void ask(const struct bucket *bucket, struct fetch_request *request)
{
	struct waiting waiting = {
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.answered = PTHREAD_COND_INITIALIZER,
	};

	request->done = on_done;
	request->arg = &waiting;
	fetch_start(bucket->fetcher, request);
	pthread_mutex_lock(&waiting.mutex);
	while (!waiting.is_done)
		pthread_cond_wait(&waiting.answered, &waiting.mutex);
	pthread_mutex_unlock(&waiting.mutex);
}

static bool is_stopped(const struct bucket *bucket)
{
	return bucket->stop && *bucket->stop;
}

static void wait_before(const struct bucket *bucket, unsigned round,
			uint32_t retry_after_ms)
{
	uint64_t random = 0, until_ms;

	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	until_ms = now_ms() + retry_delay_ms(round, retry_after_ms, random);
	while (now_ms() < until_ms && !is_stopped(bucket))
		usleep(1000 * STOP_LOOK_MS);
}

static void fill_request(const struct bucket *bucket,
			 const struct bucket_call *call, const char *key,
			 const char *sha256, struct fetch_request *ret)
{
	*ret = (struct fetch_request){
		.origin = bucket->origin,
		.path = key,
		.has_range = call->has_range,
		.offset = call->offset,
		.length = call->length,
		.limit_bytes = call->limit_bytes,
		.method = call->method,
		.query = call->query,
		.send = call->send,
		.send_len = call->send_len,
		.send_sha256 = sha256,
		.send_header = call->send_header,
	};
	if (call->if_match && call->if_match[0])
		ret->if_match = call->if_match;
	else if (call->if_match)
		ret->if_none_match = "*";
}

static int result_of(const struct fetch_request *answer)
{
	/* AWS says 409 where another request with a condition is under way,
	 * and 404 where there is nothing to match. */
	if (answer->status == 412 || answer->status == 409 ||
	    (answer->if_match && answer->class == FETCH_ABSENT))
		return -ESTALE;
	return answer->result;
}

int bucket_call(const struct bucket *bucket, struct bucket_call *call,
		struct err *why)
{
	unsigned attempts = call->attempts ? call->attempts : BUCKET_ATTEMPTS;
	_cleanup_free_ char *key = NULL;
	char sha256[DIGEST_HEX_MAX];
	struct digest digest;
	int r;

	if (asprintf(&key, "%s%s", call->path ? bucket->prefix : "",
		     call->path ? call->path : "") < 0)
		return err_set(why, ENOMEM, "out of memory");
	if (call->send) {
		digest_sha256(call->send, call->send_len, &digest);
		digest_hex(&digest, sha256);
	}
	for (call->tried = 1;; call->tried++) {
		fill_request(bucket, call, key, call->send ? sha256 : NULL,
			     &call->answer);
		ask(bucket, &call->answer);
		r = result_of(&call->answer);
		if (r == 0)
			return 0;
		free(steal_ptr(call->answer.body));
		if (call->answer.status == 501 && call->if_match) {
			call->if_match = NULL; /* it knows no conditions */
			continue;
		}
		if (r == -ESTALE || call->tried >= attempts ||
		    !retry_worth(call->answer.class) ||
		    call->answer.class == FETCH_WRONG ||
		    call->answer.status == 501)
			break;
		if (is_stopped(bucket))
			return err_set(why, ECANCELED, "stopped by a signal");
		wait_before(bucket, call->tried - 1,
			    call->answer.retry_after_ms);
	}
	return err_set(why, -r, "%s", call->answer.err.text);
}

int bucket_ask(const struct bucket *bucket, struct bucket_call *call,
	       struct s3_answer *ret, struct err *why)
{
	int r = bucket_call(bucket, call, why);

	if (r < 0)
		return r;
	r = s3_answer_parse(call->answer.body, call->answer.body_len, ret, why);
	free(call->answer.body);
	return r;
}

/* ---- objects */

static void keep_state(const struct fetch_request *answer,
		       struct object_state *ret)
{
	if (!ret)
		return;
	snprintf(ret->etag, sizeof(ret->etag), "%s", answer->etag);
	ret->size = answer->total;
	ret->date = answer->date >= 0 ? answer->date : wall_seconds();
	ret->modified = answer->modified >= 0 ? answer->modified : ret->date;
}

int bucket_get(const struct bucket *bucket, const char *path, struct buf *ret,
	       struct object_state *ret_state, struct err *why)
{
	struct bucket_call call = {
		.path = path,
		.limit_bytes = ret->limit - ret->len,
	};
	int r = bucket_call(bucket, &call, why);

	if (r < 0)
		return r;
	keep_state(&call.answer, ret_state);
	r = buf_append(ret, call.answer.body, call.answer.body_len);
	free(call.answer.body);
	return r;
}

int bucket_get_range(const struct bucket *bucket, const char *path, void *data,
		     size_t len, uint64_t offset,
		     struct object_state *ret_state, struct err *why)
{
	struct bucket_call call = {
		.path = path,
		.has_range = true,
		.offset = offset,
		.length = len,
	};
	int r = bucket_call(bucket, &call, why);

	if (r < 0)
		return r;
	keep_state(&call.answer, ret_state);
	memcpy(data, call.answer.body, len);
	free(call.answer.body);
	return 0;
}

static bool stands_there(const struct bucket *bucket, const char *path,
			 const void *data, size_t len, char ret_etag[128])
{
	struct object_state state;
	struct buf there;
	bool is_same;

	buf_init(&there, len);
	is_same = bucket_get(bucket, path, &there, &state, NULL) == 0 &&
		  there.len == len && memcmp(there.data, data, len) == 0;
	buf_release(&there);
	if (is_same && ret_etag)
		snprintf(ret_etag, sizeof(state.etag), "%s", state.etag);
	return is_same;
}

int bucket_put(const struct bucket *bucket, const char *path, const void *data,
	       size_t len, const struct put_condition *condition,
	       char ret_etag[128], struct err *why)
{
	struct bucket_call call = {
		.method = FETCH_PUT,
		.path = path,
		.send = data,
		.send_len = len,
	};
	int r;

	if (condition) {
		call.if_match = condition->if_match;
		call.attempts = condition->attempts;
	}
	r = bucket_call(bucket, &call, why);
	free(call.answer.body);
	if (r == 0 && ret_etag)
		snprintf(ret_etag, sizeof(call.answer.etag), "%s",
			 call.answer.etag);
	if (r == -ESTALE && call.tried > 1 &&
	    stands_there(bucket, path, data, len, ret_etag))
		r = 0;
	return r;
}

int bucket_delete(const struct bucket *bucket, const char *path,
		  struct err *why)
{
	struct bucket_call call = {.method = FETCH_DELETE, .path = path};
	int r = bucket_call(bucket, &call, why);

	free(call.answer.body);
	return r;
}

/* ---- listing */

static int list_page(const struct bucket *bucket, const char *prefix,
		     const char *after, struct s3_answer *ret, struct err *why)
{
	struct bucket_call call = {.limit_bytes = LIST_BYTES_MAX};
	struct buf query;
	int r;

	buf_init(&query, QUERY_LIMIT);
	r = s3_list_query(prefix, after, &query);
	call.query = (char *)query.data;
	if (r == 0)
		r = bucket_ask(bucket, &call, ret, why);
	buf_release(&query);
	return r;
}

int bucket_list(const struct bucket *bucket, const char *below,
		int (*each)(void *arg, const char *path, uint64_t size,
			    int64_t mtime),
		void *arg, struct err *why)
{
	size_t cut = strlen(bucket->prefix);
	_cleanup_free_ char *prefix = NULL, *after = NULL;
	bool is_over = false;
	int r = 0;

	if (asprintf(&prefix, "%s%s", bucket->prefix, below) < 0)
		return -ENOMEM;
	for (unsigned i = 0; !is_over && r == 0; i++) {
		struct s3_answer page;

		if (i == PAGES_MAX)
			return err_set(why, E2BIG, "its list has no end");
		r = list_page(bucket, prefix, after, &page, why);
		if (r < 0)
			return r;
		for (size_t k = 0; k < page.items.count && r == 0; k++) {
			const struct s3_item *item = &page.items.items[k];

			if (starts_with(item->key, prefix))
				r = each(arg, item->key + cut, item->size,
					 item->mtime);
		}
		is_over = !page.is_truncated;
		free(after);
		after = steal_ptr(page.next);
		s3_answer_release(&page);
	}
	return r;
}
