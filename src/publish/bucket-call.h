/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_BUCKET_CALL_H
#define LARDER_PUBLISH_BUCKET_CALL_H

#include <signal.h>
#include <stdatomic.h>

#include "fetch/fetch.h"
#include "publish/bucket.h"

struct s3_answer;

struct bucket {
	struct fetcher *fetcher;
	struct origin *origin; /* the bucket itself */
	char *prefix;	       /* "" or with its '/' */
	const volatile sig_atomic_t *stop;
	atomic_bool deletes_singly; /* the server knows no other way */
};

/* As often as this is asked, over about a minute. */
#define BUCKET_ATTEMPTS 8u

/* One request and its answer. The body is the caller's to free. */
struct bucket_call {
	enum fetch_method method;
	const char *path;  /* below the prefix; NULL: the bucket itself */
	const char *query; /* as of fetch_request */
	const void *send;
	size_t send_len;
	const char *send_header; /* as of fetch_request */
	const char *if_match; /* as of put_condition */
	bool has_range;
	uint64_t offset, length;
	size_t limit_bytes;
	unsigned attempts; /* 0: BUCKET_ATTEMPTS */
	/* answered */
	struct fetch_request answer;
	unsigned tried;
};
int bucket_call(const struct bucket *bucket, struct bucket_call *call,
		struct err *why);
/* The same where S3 says something: what that is. */
int bucket_ask(const struct bucket *bucket, struct bucket_call *call,
	       struct s3_answer *ret, struct err *why);

#endif
