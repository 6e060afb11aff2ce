/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries and bodies of requests to a bucket. Names stand in the order of
 * their bytes and have their '=', as the signature wants them: not every
 * libcurl puts them right.
 */
#include <config.h>

#include <string.h>

#include "base/buf.h"
#include "source/source.h"

static int add_escaped(struct buf *buf, const char *text)
{
	int r = 0;

	for (; *text && r == 0; text++) {
		unsigned char c = (unsigned char)*text;
		bool is_plain = (c >= 'a' && c <= 'z') ||
				(c >= 'A' && c <= 'Z') ||
				(c >= '0' && c <= '9') || c == '-' ||
				c == '.' || c == '_' || c == '~';

		r = is_plain ? buf_append(buf, text, 1) :
			       buf_printf(buf, "%%%02X", c);
	}
	return r;
}

static int add_pair(struct buf *buf, const char *name, const char *value)
{
	int r = buf_printf(buf, "%s%s=", buf->len ? "&" : "", name);

	return r == 0 ? add_escaped(buf, value) : r;
}

/* A text, with its end. */
static int end(struct buf *buf, int r)
{
	return r == 0 ? buf_append(buf, "", 1) : r;
}

int s3_list_query(const char *prefix, const char *after, struct buf *ret)
{
	int r = 0;

	if (after)
		r = add_pair(ret, "continuation-token", after);
	if (r == 0)
		r = add_pair(ret, "encoding-type", "url");
	if (r == 0)
		r = add_pair(ret, "list-type", "2");
	if (r == 0)
		r = add_pair(ret, "prefix", prefix);
	return end(ret, r);
}

int s3_uploads_query(const char *prefix, const char *key, const char *id,
		     struct buf *ret)
{
	int r = add_pair(ret, "encoding-type", "url");

	if (r == 0 && key)
		r = add_pair(ret, "key-marker", key);
	if (r == 0)
		r = add_pair(ret, "prefix", prefix);
	if (r == 0 && key && id)
		r = add_pair(ret, "upload-id-marker", id);
	if (r == 0)
		r = add_pair(ret, "uploads", "");
	return end(ret, r);
}

int s3_part_query(const char *upload_id, unsigned number, struct buf *ret)
{
	int r = buf_printf(ret, "partNumber=%u", number);

	if (r == 0)
		r = add_pair(ret, "uploadId", upload_id);
	return end(ret, r);
}

int s3_upload_query(const char *upload_id, struct buf *ret)
{
	return end(ret, add_pair(ret, "uploadId", upload_id));
}

static int add_text(struct buf *buf, const char *text)
{
	int r = 0;

	for (; *text && r == 0; text++) {
		if (strchr("<>&\"", *text))
			r = buf_printf(buf, "&#%d;", *text);
		else
			r = buf_append(buf, text, 1);
	}
	return r;
}

int s3_delete_body(const char *prefix, const char *const *paths, size_t count,
		   struct buf *ret)
{
	int r = buf_printf(
		ret,
		"<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");

	for (size_t i = 0; i < count && r == 0; i++) {
		r = buf_printf(ret, "<Object><Key>");
		if (r == 0)
			r = add_text(ret, prefix);
		if (r == 0)
			r = add_text(ret, paths[i]);
		if (r == 0)
			r = buf_printf(ret, "</Key></Object>");
	}
	return r == 0 ? buf_printf(ret, "</Delete>") : r;
}

int s3_complete_body(const char *const *etags, size_t count, struct buf *ret)
{
	int r = buf_printf(ret, "<CompleteMultipartUpload>");

	for (size_t i = 0; i < count && r == 0; i++) {
		r = buf_printf(ret, "<Part><PartNumber>%zu</PartNumber><ETag>",
			       i + 1);
		if (r == 0)
			r = add_text(ret, etags[i]);
		if (r == 0)
			r = buf_printf(ret, "</ETag></Part>");
	}
	return r == 0 ? buf_printf(ret, "</CompleteMultipartUpload>") : r;
}
