/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_S3_H
#define LARDER_FETCH_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "fetch/fetch.h"
#include "fetch/url.h"

/* Keys may be long tokens of a few KiB; a header line carries them. */
#define S3_TOKEN_MAX 8192

/* Who asks. Empty id: nobody in particular. */
struct s3_keys {
	char id[129];
	char secret[257];
	char token[S3_TOKEN_MAX];
};

/* Where the keys are from: a file if there is one, else fixed. */
struct s3_source {
	char *file; /* NULL: keys stay as they are */
	char *profile;
	bool is_optional; /* no such file: anonymous */
	struct stat seen; /* when it was read; st_ino 0: never */
	uint64_t looked_ms;
	int result; /* of the last look, with err */
	struct err err;
};

/* A bucket. Constant but for source and keys, which are the transfer
 * thread's. */
struct s3 {
	char *bucket;
	char *region;
	char *signature; /* what libcurl's AWS signature is asked for */
	struct s3_source source;
	struct s3_keys keys;
};

/*
 * s3://BUCKET[/PREFIX]. ret_base is the bucket's URL over HTTP. options may be
 * NULL. A file of keys that was named and cannot be used is an error.
 */
int s3_parse(const char *url, const struct origin_options *options,
	     struct url_base *ret_base, struct s3 **ret, struct err *err);
void s3_free(struct s3 *s3);
/* The same bucket, asked in the same way. */
bool s3_equal(const struct s3 *a, const struct s3 *b);

/* Keys to ask with now: a file is looked at again, at most once a second.
 * -EACCES with err: there should be keys and there are none. */
int s3_keys_refresh(struct s3 *s3, uint64_t now_ms, struct err *err);
/* Of one profile in AWS's format. -ENOENT: no such profile. */
int s3_keys_parse(char *text, const char *profile, struct s3_keys *ret,
		  struct err *err);
/* Where to look for them; fills source and, from the environment, keys. */
int s3_keys_open(struct s3 *s3, const struct origin_options *options,
		 struct err *err);

/*
 * What an answer that is no success means: class and words that say what to
 * do, and never hold a secret. region is what the server named, or "".
 */
void s3_judge(const struct s3 *s3, unsigned status, const char *region,
	      const char *body, size_t len, enum fetch_class *ret_class,
	      struct err *err);

/* The text of the first element with that name, cut to size; "" if there is
 * none, or if it holds anything but words. */
void s3_element(const char *body, size_t len, const char *name, char *ret,
		size_t size);

#endif
