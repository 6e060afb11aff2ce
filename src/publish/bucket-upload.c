/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large objects of a bucket: sent in parts, a few at a time, from a file, so
 * that memory is bounded whatever their size and a part that fails is sent
 * again alone. The object appears when the parts are put together; parts of an
 * upload that never was are taken away by the next run.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "publish/bucket-call.h"
#include "publish/parallel.h"
#include "source/source.h"

/* A pack of 256 MiB has 32; four of them are in memory. */
#define PART_BYTES (UINT64_C(8) << 20)
#define PARTS_AT_ONCE 4u
#define QUERY_LIMIT 4096u
#define BODY_LIMIT (4u << 20)
#define ROUNDS_MAX 10000u

_Static_assert(PART_BYTES >= S3_PART_BYTES_MIN, "servers refuse smaller parts");

struct upload {
	const struct bucket *bucket;
	const char *path;
	int fd;
	uint64_t size;
	char *id;
	size_t count;
	char **etags;
};

static int read_part(const struct upload *upload, size_t i, uint8_t **ret,
		     size_t *ret_len)
{
	uint64_t offset = i * PART_BYTES;
	uint64_t len = upload->size - offset;
	uint8_t *data;
	ssize_t n;

	if (len > PART_BYTES)
		len = PART_BYTES;
	data = malloc(len ? len : 1);
	if (!data)
		return -ENOMEM;
	n = pread_full(upload->fd, data, len, offset);
	if (n != (ssize_t)len) {
		free(data);
		return n < 0 ? (int)n : -EIO;
	}
	*ret = data;
	*ret_len = len;
	return 0;
}

static int send_part(void *arg, size_t i, struct err *err)
{
	struct upload *upload = arg;
	struct bucket_call call = {.method = FETCH_PUT, .path = upload->path};
	_cleanup_free_ uint8_t *data = NULL;
	struct buf query;
	int r;

	buf_init(&query, QUERY_LIMIT);
	r = read_part(upload, i, &data, &call.send_len);
	if (r == 0)
		r = s3_part_query(upload->id, (unsigned)i + 1, &query);
	if (r == 0) {
		call.send = data;
		call.query = (char *)query.data;
		r = bucket_call(upload->bucket, &call, err);
		free(call.answer.body);
	}
	buf_release(&query);
	if (r == 0) {
		upload->etags[i] = strdup(call.answer.etag);
		r = upload->etags[i] ? 0 : -ENOMEM;
	}
	return r;
}

static int post(const struct bucket *bucket, const char *path,
		const char *query, const struct buf *body,
		struct s3_answer *ret, struct err *why)
{
	struct bucket_call call = {
		.method = FETCH_POST,
		.path = path,
		.query = query,
		.send = body ? body->data : NULL,
		.send_len = body ? body->len : 0,
	};

	return bucket_ask(bucket, &call, ret, why);
}

static int begin(struct upload *upload, struct err *why)
{
	struct s3_answer answer;
	int r = post(upload->bucket, upload->path, "uploads=", NULL, &answer,
		     why);

	if (r < 0)
		return r;
	upload->id = steal_ptr(answer.upload_id);
	s3_answer_release(&answer);
	return upload->id ? 0 : err_set(why, EBADMSG, "not an answer of S3");
}

/* S3 begins with 200 before it knows how it ends, and says so in the body. */
static int put_together(struct upload *upload, struct err *why)
{
	struct s3_answer answer = {0};
	struct buf query, body;
	int r;

	buf_init(&query, QUERY_LIMIT);
	buf_init(&body, BODY_LIMIT);
	r = s3_upload_query(upload->id, &query);
	if (r == 0)
		r = s3_complete_body((const char *const *)upload->etags,
				     upload->count, &body);
	if (r == 0)
		r = post(upload->bucket, upload->path, (char *)query.data,
			 &body, &answer, why);
	if (r == 0 && answer.code)
		r = err_set(why, EIO, "%s", answer.code);
	s3_answer_release(&answer);
	buf_release(&query);
	buf_release(&body);
	return r;
}

/* Also where the answer that it is whole was lost. */
static bool is_whole(const struct upload *upload)
{
	struct object_state state;
	char first;

	return bucket_get_range(upload->bucket, upload->path, &first, 1, 0,
				&state, NULL) == 0 &&
	       state.size == upload->size;
}

static int abort_upload(const struct bucket *bucket, const char *path,
			const char *id, struct err *why)
{
	struct bucket_call call = {.method = FETCH_DELETE, .path = path};
	struct buf query;
	int r;

	buf_init(&query, QUERY_LIMIT);
	r = s3_upload_query(id, &query);
	if (r == 0) {
		call.query = (char *)query.data;
		r = bucket_call(bucket, &call, why);
		free(call.answer.body);
	}
	buf_release(&query);
	return r == -ENOENT ? 0 : r;
}

static int send_parts(struct upload *upload, struct err *why)
{
	int r;

	upload->count = (size_t)((upload->size + PART_BYTES - 1) / PART_BYTES);
	if (upload->count > S3_PARTS_MAX)
		return -EFBIG;
	upload->etags = calloc(upload->count, sizeof(char *));
	if (!upload->etags)
		return -ENOMEM;
	r = begin(upload, why);
	if (r < 0)
		return r;
	r = parallel_for(upload->count, PARTS_AT_ONCE, send_part, upload, why);
	if (r == 0) {
		r = put_together(upload, why);
		if (r < 0 && is_whole(upload))
			return 0;
	}
	if (r < 0)
		(void)abort_upload(upload->bucket, upload->path, upload->id,
				   NULL);
	return r;
}

int bucket_upload(const struct bucket *bucket, const char *path, int fd,
		  uint64_t size, struct err *why)
{
	struct upload upload = {
		.bucket = bucket,
		.path = path,
		.fd = fd,
		.size = size,
	};
	_cleanup_free_ uint8_t *data = NULL;
	size_t len = 0;
	int r;

	if (size <= PART_BYTES) {
		r = read_part(&upload, 0, &data, &len);
		return r == 0 ? bucket_put(bucket, path, data, len, NULL, NULL,
					   why) :
				r;
	}
	r = send_parts(&upload, why);
	for (size_t i = 0; upload.etags && i < upload.count; i++)
		free(upload.etags[i]);
	free(upload.etags);
	free(upload.id);
	return r;
}

/* ---- leavings */

/* -EOPNOTSUPP: the server does not know this. */
static int ask_uploads(const struct bucket *bucket, const char *key,
		       const char *id, struct s3_answer *ret, struct err *why)
{
	struct bucket_call call = {0};
	struct buf query;
	int r;

	buf_init(&query, QUERY_LIMIT);
	r = s3_uploads_query(bucket->prefix, key, id, &query);
	call.query = (char *)query.data;
	if (r == 0)
		r = bucket_ask(bucket, &call, ret, why);
	buf_release(&query);
	return r < 0 && call.answer.status == 501 ? -EOPNOTSUPP : r;
}

int bucket_clean(const struct bucket *bucket, struct err *why)
{
	_cleanup_free_ char *key = NULL, *id = NULL;
	size_t cut = strlen(bucket->prefix);
	bool is_over = false;
	int r = 0;

	for (unsigned round = 0; round < ROUNDS_MAX && !is_over && r == 0;
	     round++) {
		struct s3_answer page;

		r = ask_uploads(bucket, key, id, &page, why);
		/* What cannot be listed is the server's own to clear away. */
		if (r < 0)
			return r == -EOPNOTSUPP ? 0 : r;
		for (size_t i = 0; i < page.items.count && r == 0; i++) {
			const struct s3_item *item = &page.items.items[i];

			if (item->upload_id &&
			    !strncmp(item->key, bucket->prefix, cut))
				r = abort_upload(bucket, item->key + cut,
						 item->upload_id, why);
		}
		is_over = !page.is_truncated;
		free(key);
		free(id);
		key = steal_ptr(page.next);
		id = steal_ptr(page.next_id);
		s3_answer_release(&page);
	}
	return r;
}
