/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a bucket, deleted up to a thousand at a time.
 *
 * Not every server knows that request. One that refuses it as a whole, or
 * answers what is no answer to it, is asked for each object alone from then
 * on; so is every object that its answer does not name, and every one that it
 * had no time for. Only what the server says of an object by name counts.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "format/digest.h"
#include "publish/bucket-call.h"
#include "source/source.h"

#define BODY_LIMIT ((size_t)4 << 20)
#define ANSWER_BYTES_MAX ((size_t)8 << 20)

_Static_assert(BUCKET_DELETE_MAX <= S3_DELETE_MAX, "servers take no more");

struct deleting {
	struct bucket *bucket;
	const char *const *paths;
	size_t count;
	bucket_deleted_fn each;
	void *arg;
	bool *is_told; /* each one's result */
	int result;
};

static void tell(struct deleting *deleting, size_t i, int result,
		 const struct err *why)
{
	int r = deleting->each(deleting->arg, i, result, why);

	deleting->is_told[i] = true;
	if (r != 0)
		deleting->result = r;
}

static void delete_each(struct deleting *deleting)
{
	for (size_t i = 0; i < deleting->count && deleting->result == 0; i++) {
		struct err why = {0};
		int r;

		if (deleting->is_told[i])
			continue;
		r = bucket_delete(deleting->bucket, deleting->paths[i], &why);
		tell(deleting, i, r, &why);
	}
}

/* Servers want one of them: MD5, which all know, unless it is forbidden here.
 */
static int check_header(const struct buf *body, char **ret)
{
	_cleanup_free_ char *text = NULL;
	uint8_t md5[DIGEST_MD5_BYTES];
	const char *name = "Content-MD5";
	struct digest sha256;

	if (digest_md5(body->data, body->len, md5) == 0) {
		text = base64_encode(md5, sizeof(md5));
	} else {
		name = "x-amz-checksum-sha256";
		digest_sha256(body->data, body->len, &sha256);
		text = base64_encode(sha256.bytes, DIGEST_BYTES);
	}
	if (!text || asprintf(ret, "%s: %s", name, text) < 0)
		return -ENOMEM;
	return 0;
}

/* -EOPNOTSUPP: it does not know this. */
static int ask(const struct deleting *deleting, struct s3_answer *ret,
	       struct err *why)
{
	const struct bucket *bucket = deleting->bucket;
	struct bucket_call call = {
		.method = FETCH_POST,
		.query = "delete=",
		.limit_bytes = ANSWER_BYTES_MAX,
	};
	_cleanup_free_ char *header = NULL;
	struct buf body;
	int r;

	buf_init(&body, BODY_LIMIT);
	r = s3_delete_body(bucket->prefix, deleting->paths, deleting->count,
			   &body);
	if (r == 0)
		r = check_header(&body, &header);
	if (r == 0) {
		call.send = body.data;
		call.send_len = body.len;
		call.send_header = header;
		r = bucket_call(bucket, &call, why);
		if (r < 0 && (call.answer.class == FETCH_REFUSED ||
			      call.answer.class == FETCH_ABSENT ||
			      call.answer.class == FETCH_WRONG ||
			      call.answer.status == 501))
			r = -EOPNOTSUPP;
	}
	buf_release(&body);
	if (r < 0)
		return r;
	r = s3_answer_parse(call.answer.body, call.answer.body_len, ret, why);
	free(call.answer.body);
	return r == -EBADMSG ? -EOPNOTSUPP : r;
}

static bool is_for_now(const char *code)
{
	return !strcmp(code, "InternalError") || !strcmp(code, "SlowDown") ||
	       !strcmp(code, "ServiceUnavailable") ||
	       !strcmp(code, "RequestTimeout");
}

static void hear(struct deleting *deleting, const struct s3_item *item)
{
	size_t cut = strlen(deleting->bucket->prefix);
	struct err why = {0};
	int r = 0;

	if (!starts_with(item->key, deleting->bucket->prefix) ||
	    (item->code && is_for_now(item->code)))
		return;
	if (item->code && strcmp(item->code, "NoSuchKey") != 0)
		r = err_set(&why,
			    !strcmp(item->code, "AccessDenied") ? EACCES : EIO,
			    "%s", item->code);
	for (size_t i = 0; i < deleting->count; i++)
		if (!deleting->is_told[i] &&
		    !strcmp(deleting->paths[i], item->key + cut)) {
			tell(deleting, i, r, &why);
			return;
		}
}

static int delete_together(struct deleting *deleting)
{
	struct s3_answer answer = {0};
	struct err why = {0};
	int r = ask(deleting, &answer, &why);

	if (r == -EOPNOTSUPP) {
		atomic_store(&deleting->bucket->deletes_singly, true);
		return 0;
	}
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		tell(deleting, 0, r, &why);
		return r;
	}
	for (size_t i = 0; i < answer.items.count; i++)
		hear(deleting, &answer.items.items[i]);
	s3_answer_release(&answer);
	return 0;
}

int bucket_delete_many(struct bucket *bucket, const char *const *paths,
		       size_t count, bucket_deleted_fn each, void *arg)
{
	_cleanup_free_ bool *is_told = calloc(count + 1, sizeof(*is_told));
	struct deleting deleting = {
		.bucket = bucket,
		.paths = paths,
		.count = count,
		.each = each,
		.arg = arg,
		.is_told = is_told,
	};
	int r = 0;

	if (!is_told)
		return -ENOMEM;
	if (count > 1 && !atomic_load(&bucket->deletes_singly))
		r = delete_together(&deleting);
	if (r < 0)
		return r;
	delete_each(&deleting);
	return deleting.result;
}
