/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What s3://BUCKET/PREFIX means: the bucket's URL over HTTP, and what its
 * errors say. Requests are signed by libcurl; which keys, s3-keys.c knows.
 *
 * Errors of S3 are small XML documents, of which two elements matter. They are
 * searched for, not parsed: nothing but words and a class depend on them, and
 * a class only where the status agrees.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "fetch/s3.h"

#define REGION_DEFAULT "us-east-1"
#define BUCKET_BYTES_MAX 255
#define CODE_MAX 64

/* ---- the URL */

static int out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static const char *first_of(const char *option, const char *name,
			    const char *other)
{
	const char *value = option;

	if (!value || !value[0])
		value = getenv(name);
	if ((!value || !value[0]) && other)
		value = getenv(other);
	return value && value[0] ? value : NULL;
}

static bool is_made_of(const char *text, size_t len, const char *others)
{
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    !strchr(others, c))
			return false;
	}
	return len > 0;
}

static int set_region(struct s3 *s3, const struct origin_options *options,
		      struct err *err)
{
	const char *region = first_of(options->s3_region, "AWS_REGION",
				      "AWS_DEFAULT_REGION");

	if (!region)
		region = REGION_DEFAULT;
	if (strlen(region) > 63 || !is_made_of(region, strlen(region), "-"))
		return err_set(err, EINVAL, "'%s' is no region of S3", region);
	s3->region = strdup(region);
	if (!s3->region ||
	    asprintf(&s3->signature, "aws:amz:%s:s3", region) < 0)
		return out_of_memory(err);
	return 0;
}

/* Capitals and '_' are of old buckets, and of other servers. */
static int set_bucket(struct s3 *s3, const char *text, size_t len,
		      struct err *err)
{
	if (memchr(text, '@', len))
		return err_set(
			err, EINVAL,
			"keys do not belong into an s3:// URL (use s3-credentials)");
	if (len > BUCKET_BYTES_MAX || text[0] == '.' ||
	    !is_made_of(text, len, "-._ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
		return err_set(
			err, EINVAL,
			"no bucket in the URL (write s3://BUCKET/PREFIX)");
	s3->bucket = strndup(text, len);
	return s3->bucket ? 0 : out_of_memory(err);
}

/* A bucket whose name can be one label of a host's name, as certificates
 * have it. */
static bool is_label(const char *bucket)
{
	return is_made_of(bucket, strlen(bucket), "-");
}

static int make_base(const struct s3 *s3, const struct origin_options *options,
		     char **ret, struct err *err)
{
	const char *endpoint =
		first_of(options->s3_endpoint, "AWS_ENDPOINT_URL_S3",
			 "AWS_ENDPOINT_URL");
	bool is_path = options->s3_path_style == S3_PATH_STYLE_YES ||
		       (options->s3_path_style == S3_PATH_STYLE_AUTO &&
			(endpoint || !is_label(s3->bucket)));
	_cleanup_free_ char *amazon = NULL;
	const char *host;
	int n;

	if (!endpoint) {
		if (asprintf(&amazon, "https://s3.%s.amazonaws.com%s",
			     s3->region,
			     starts_with(s3->region, "cn-") ? ".cn" : "") < 0)
			return out_of_memory(err);
		endpoint = amazon;
	}
	host = strstr(endpoint, "://");
	if (!host || (strncasecmp(endpoint, "http:", 5) != 0 &&
		      strncasecmp(endpoint, "https:", 6) != 0))
		return err_set(
			err, EINVAL,
			"the endpoint of S3 is no http:// or https:// URL");
	host += 3;
	n = (int)strlen(endpoint);
	while (n > 0 && endpoint[n - 1] == '/')
		n--;
	if (is_path)
		n = asprintf(ret, "%.*s/%s", n, endpoint, s3->bucket);
	else
		n = asprintf(ret, "%.*s%s.%.*s", (int)(host - endpoint),
			     endpoint, s3->bucket, n - (int)(host - endpoint),
			     host);
	return n < 0 ? out_of_memory(err) : 0;
}

static int parse(struct s3 *s3, const char *url,
		 const struct origin_options *options,
		 struct url_base *ret_base, struct err *err)
{
	const char *bucket = strstr(url, "://") + 3;
	size_t len = strcspn(bucket, "/");
	_cleanup_free_ char *prefix = strdup(bucket + len + (bucket[len] != 0));
	_cleanup_free_ char *base = NULL;
	int r;

	if (!prefix)
		return out_of_memory(err);
	for (len = strlen(prefix); len > 0 && prefix[len - 1] == '/'; len--)
		prefix[len - 1] = '\0';
	r = set_bucket(s3, bucket, strcspn(bucket, "/"), err);
	if (r == 0 && !path_below_valid(prefix))
		r = err_set(err, EINVAL,
			    "an s3:// URL has no empty, '.' or '..' parts");
	if (r == 0)
		r = set_region(s3, options, err);
	if (r == 0)
		r = make_base(s3, options, &base, err);
	if (r == 0)
		r = s3_keys_open(s3, options, err);
	if (r < 0)
		return r;
	r = url_base_parse(base, ret_base, err);
	if (r < 0)
		return err_prefix(err, r, "the endpoint of S3");
	free(ret_base->base);
	ret_base->base = NULL;
	if (ret_base->user || ret_base->password)
		r = err_set(
			err, EINVAL,
			"keys do not belong into the endpoint of S3 (use s3-credentials)");
	if (r == 0) {
		ret_base->base = base;
		ret_base->base = url_join(ret_base, prefix);
		if (!ret_base->base)
			r = out_of_memory(err);
	}
	if (r < 0)
		url_base_release(ret_base);
	return r;
}

int s3_parse(const char *url, const struct origin_options *options,
	     struct url_base *ret_base, struct s3 **ret, struct err *err)
{
	static const struct origin_options defaults;
	struct s3 *s3 = calloc(1, sizeof(*s3));
	int r;

	if (!s3)
		return out_of_memory(err);
	*ret_base = (struct url_base){0};
	r = parse(s3, url, options ? options : &defaults, ret_base, err);
	if (r < 0) {
		s3_free(s3);
		return r;
	}
	*ret = s3;
	return 0;
}

void s3_free(struct s3 *s3)
{
	if (!s3)
		return;
	free(s3->bucket);
	free(s3->region);
	free(s3->signature);
	free(s3->source.file);
	free(s3->source.profile);
	explicit_bzero(&s3->keys, sizeof(s3->keys));
	free(s3);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool s3_equal(const struct s3 *a, const struct s3 *b)
{
	if (!a || !b)
		return a == b;
	/* Keys of the environment are the same for all. */
	return same_text(a->bucket, b->bucket) &&
	       same_text(a->region, b->region) &&
	       same_text(a->source.file, b->source.file) &&
	       same_text(a->source.profile, b->source.profile) &&
	       (a->source.file || same_text(a->keys.id, b->keys.id));
}

/* ---- errors */

void s3_element(const char *body, size_t len, const char *name, char *ret,
		size_t size)
{
	char start[CODE_MAX];
	const char *at, *end;

	ret[0] = '\0';
	snprintf(start, sizeof(start), "<%s>", name);
	at = len > 0 ? memmem(body, len, start, strlen(start)) : NULL;
	if (!at)
		return;
	at += strlen(start);
	end = memchr(at, '<', (size_t)(body + len - at));
	if (!end || (size_t)(end - at) >= size)
		return;
	for (const char *c = at; c < end; c++)
		if (!is_made_of(c, 1, "-._ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
			return;
	memcpy(ret, at, (size_t)(end - at));
	ret[end - at] = '\0';
}

static enum fetch_class class_of(unsigned status, const char *code)
{
	if (status == 429 || status == 408 || status >= 500 ||
	    !strcmp(code, "RequestTimeout") || !strcmp(code, "SlowDown"))
		return FETCH_BUSY;
	if (status == 404 && strcmp(code, "NoSuchBucket") != 0)
		return FETCH_ABSENT;
	if (status == 412 || status == 409)
		return FETCH_WRONG; /* a condition did not hold */
	return FETCH_REFUSED;
}

static void say_who(const struct s3 *s3, const char *code, struct err *err)
{
	const char *id = s3->keys.id;

	if (!id[0])
		err_set(err, EACCES,
			"%s without keys: give s3-credentials, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
			code);
	else if (!strcmp(code, "SignatureDoesNotMatch"))
		err_set(err, EACCES,
			"SignatureDoesNotMatch: the secret key is not that of key id '%s'",
			id);
	else if (!strcmp(code, "InvalidAccessKeyId"))
		err_set(err, EACCES,
			"InvalidAccessKeyId: the server does not know key id '%s'",
			id);
	else if (!strcmp(code, "ExpiredToken") ||
		 !strcmp(code, "InvalidToken") ||
		 !strcmp(code, "TokenRefreshRequired"))
		err_set(err, EACCES,
			"%s: renew the session token of key id '%s'", code, id);
	else
		err_set(err, EACCES,
			"%s for key id '%s': check its rights to bucket '%s'",
			code, id, s3->bucket);
}

void s3_judge(const struct s3 *s3, unsigned status, const char *region,
	      const char *body, size_t len, enum fetch_class *ret_class,
	      struct err *err)
{
	char code[CODE_MAX], named[CODE_MAX];

	s3_element(body, len, "Code", code, sizeof(code));
	s3_element(body, len, "Region", named, sizeof(named));
	if (region[0])
		snprintf(named, sizeof(named), "%s", region);
	*ret_class = class_of(status, code);
	if (status == 404 && len > 0 && !code[0]) {
		*ret_class = FETCH_WRONG;
		err_set(err, EIO,
			"HTTP 404, but not of S3: check the endpoint");
	} else if (!strcmp(code, "NoSuchBucket")) {
		err_set(err, EACCES,
			"NoSuchBucket: there is no bucket '%s' here: check its name and the endpoint",
			s3->bucket);
	} else if (named[0] && strcmp(named, s3->region) != 0 &&
		   *ret_class == FETCH_REFUSED) {
		err_set(err, EACCES,
			"bucket '%s' is in region '%s', not '%s': give s3-region=%s",
			s3->bucket, named, s3->region, named);
	} else if (status >= 300 && status < 400) {
		err_set(err, EACCES,
			"HTTP %u: bucket '%s' is elsewhere: check s3-region and s3-endpoint",
			status, s3->bucket);
	} else if (!strcmp(code, "RequestTimeTooSkewed")) {
		err_set(err, EACCES,
			"RequestTimeTooSkewed: this machine's clock is wrong: set it");
	} else if (*ret_class == FETCH_REFUSED &&
		   (status == 400 || status == 401 || status == 403)) {
		char name[CODE_MAX];

		snprintf(name, sizeof(name), "HTTP %u", status);
		say_who(s3, code[0] ? code : name, err);
	} else {
		err_set(err, EIO, "HTTP %u%s%s", status, code[0] ? " " : "",
			code);
	}
}
