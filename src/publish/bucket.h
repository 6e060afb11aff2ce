/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_BUCKET_H
#define LARDER_PUBLISH_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h"

struct buf;
struct mirror_access;

/*
 * A prefix of a bucket of S3. Calls wait for their answer and try again what is
 * worth it. Thread-safe. Paths are below the prefix. Results are 0 or a
 * negative errno with the reason in `why`: -ENOENT: there is none; -ESTALE: a
 * condition did not hold.
 */
struct bucket;

int bucket_open(const char *url, const struct mirror_access *access,
		struct bucket **ret, struct err *err);
void bucket_close(struct bucket *bucket);

/* What a server says of an object. */
struct object_state {
	char etag[128];
	uint64_t size;
	int64_t date, modified; /* its clock, seconds */
};

/* Appended to ret; -EFBIG past its limit. ret_state may be NULL. */
int bucket_get(const struct bucket *bucket, const char *path, struct buf *ret,
	       struct object_state *ret_state, struct err *why);
/* Exactly these bytes. */
int bucket_get_range(const struct bucket *bucket, const char *path, void *data,
		     size_t len, uint64_t offset,
		     struct object_state *ret_state, struct err *why);

/*
 * if_match: only in place of that ETag; "": only if there is none; NULL:
 * anyhow, as also where the server knows no such conditions. attempts 0: as
 * often as is worth it. ret_etag may be NULL.
 */
struct put_condition {
	const char *if_match;
	unsigned attempts;
};
int bucket_put(const struct bucket *bucket, const char *path, const void *data,
	       size_t len, const struct put_condition *condition,
	       char ret_etag[128], struct err *why);
int bucket_delete(const struct bucket *bucket, const char *path,
		  struct err *why);
/*
 * Up to BUCKET_DELETE_MAX at once, or one by one where the server knows no
 * other way. each is told the result of every one that was asked for; once it
 * has returned what is not 0, nothing more is asked for. The last such value,
 * or -ENOMEM.
 */
#define BUCKET_DELETE_MAX 1000u
typedef int (*bucket_deleted_fn)(void *arg, size_t i, int result,
				 const struct err *why);
int bucket_delete_many(struct bucket *bucket, const char *const *paths,
		       size_t count, bucket_deleted_fn each, void *arg);
/* A file's bytes, large ones in parts at a time. */
int bucket_upload(const struct bucket *bucket, const char *path, int fd,
		  uint64_t size, struct err *why);
/* Take away what uploads that never ended have left. */
int bucket_clean(const struct bucket *bucket, struct err *why);

/* Every object below a path that ends with '/', or "" for all; paths as given
 * to the other calls. Stopped by what is not 0. */
int bucket_list(const struct bucket *bucket, const char *below,
		int (*each)(void *arg, const char *path, uint64_t size,
			    int64_t mtime),
		void *arg, struct err *why);

#endif
