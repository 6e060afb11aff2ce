/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header lines of an HTTP answer, and the verdict on them before a byte of the
 * body is taken. Pure, so that every rule is a row of a test.
 *
 * The rule that matters: a range is only what says, in Content-Range, that it
 * is exactly the range asked. Length alone proves nothing; proxies that answer
 * the start of the file, or a login page, have the right length sooner or
 * later.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "fetch/answer.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Decimal digits only, at least one, no overflow; moves *text past them. */
static bool take_number(const char **text, const char *end, uint64_t *ret)
{
	const char *start = *text;
	uint64_t n = 0;

	for (; *text < end && **text >= '0' && **text <= '9'; (*text)++)
		if (!mul_checked(n, 10, &n) ||
		    !add_checked(n, (uint64_t)(**text - '0'), &n))
			return false;
	*ret = n;
	return *text > start;
}

static bool take_char(const char **text, const char *end, char c)
{
	if (*text >= end || **text != c)
		return false;
	(*text)++;
	return true;
}

int content_range_parse(const char *text, size_t len, struct content_range *ret)
{
	struct content_range range = {0};
	const char *end = text + len;

	if (len < 6 || strncasecmp(text, "bytes ", 6))
		return -EINVAL;
	text += 6;
	while (text < end && is_space(*text))
		text++;
	if (!take_number(&text, end, &range.first) ||
	    !take_char(&text, end, '-') ||
	    !take_number(&text, end, &range.last) ||
	    !take_char(&text, end, '/'))
		return -EINVAL;
	if (!take_char(&text, end, '*')) {
		if (!take_number(&text, end, &range.total))
			return -EINVAL;
		range.has_total = true;
	}
	if (text != end || range.first > range.last ||
	    (range.has_total && range.last >= range.total))
		return -EINVAL;
	*ret = range;
	return 0;
}

static void read_status(struct answer *answer, const char *line, size_t len)
{
	const char *end = line + len;
	const char *text = memchr(line, ' ', len);
	uint64_t status = 0;

	/* The bytes of interim answers count too: they could go on for ever. */
	*answer = (struct answer){.header_bytes = answer->header_bytes};
	while (text && text < end && *text == ' ')
		text++;
	if (!text || !take_number(&text, end, &status) || status < 100 ||
	    status > 999)
		answer->is_broken = true;
	else
		answer->status = (unsigned)status;
}

static bool name_is(const char *line, size_t name_len, const char *name)
{
	return strlen(name) == name_len && !strncasecmp(line, name, name_len);
}

/* A value goes back to servers or into a URL: only printable bytes. */
static void keep_text(char *to, size_t size, const char *text, size_t len)
{
	to[0] = '\0';
	if (len >= size)
		return;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return;
	memcpy(to, text, len);
	to[len] = '\0';
}

static void read_length(struct answer *answer, const char *text, size_t len)
{
	const char *end = text + len;
	uint64_t length;

	if (!take_number(&text, end, &length) || text != end ||
	    (answer->has_length && answer->length != length)) {
		answer->is_broken = true;
		return;
	}
	answer->has_length = true;
	answer->length = length;
}

static void read_field(struct answer *answer, const char *line, size_t name_len,
		       const char *value, size_t len)
{
	if (name_is(line, name_len, "content-range")) {
		if (answer->has_range ||
		    content_range_parse(value, len, &answer->range) < 0)
			answer->is_broken |= answer->status == 206;
		answer->has_range = true;
	} else if (name_is(line, name_len, "content-length")) {
		read_length(answer, value, len);
	} else if (name_is(line, name_len, "content-encoding")) {
		if (len > 0 && !name_is(value, len, "identity"))
			answer->is_encoded = true;
	} else if (name_is(line, name_len, "content-type")) {
		answer->is_html = len >= 9 && name_is(value, 9, "text/html");
	} else if (name_is(line, name_len, "etag")) {
		keep_text(answer->etag, sizeof(answer->etag), value, len);
	} else if (name_is(line, name_len, "date")) {
		keep_text(answer->date, sizeof(answer->date), value, len);
	} else if (name_is(line, name_len, "last-modified")) {
		keep_text(answer->modified, sizeof(answer->modified), value,
			  len);
	} else if (name_is(line, name_len, "x-amz-bucket-region")) {
		keep_text(answer->region, sizeof(answer->region), value, len);
	} else if (name_is(line, name_len, "location")) {
		keep_text(answer->location, sizeof(answer->location), value,
			  len);
	}
}

int answer_line(struct answer *answer, const char *line, size_t len)
{
	const char *colon, *value;

	if (len > ANSWER_HEADER_BYTES_MAX ||
	    answer->header_bytes + len > ANSWER_HEADER_BYTES_MAX)
		return -EFBIG;
	answer->header_bytes += len;
	while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r' ||
			   is_space(line[len - 1])))
		len--;
	if (answer->is_complete)
		return 0;
	if (len >= 5 && !strncmp(line, "HTTP/", 5)) {
		read_status(answer, line, len);
		return 0;
	}
	if (len == 0) {
		answer->is_complete =
			answer->status >= 200 || answer->is_broken;
		return 0;
	}
	colon = memchr(line, ':', len);
	if (!colon)
		return 0;
	value = colon + 1;
	while (value < line + len && is_space(*value))
		value++;
	read_field(answer, line, (size_t)(colon - line), value,
		   (size_t)(line + len - value));
	return 0;
}

static void fail(struct judgement *ret, struct err *err, enum fetch_class class,
		 const char *text)
{
	ret->action = ANSWER_FAIL;
	ret->class = class;
	err_set(err, EIO, "%s", text);
}

static enum fetch_class class_of_status(unsigned status)
{
	switch (status) {
	case 404:
	case 410:
		return FETCH_ABSENT;
	case 401:
	case 403:
	case 407:
		return FETCH_REFUSED;
	case 408:
	case 425:
	case 429:
		return FETCH_BUSY;
	}
	return status >= 500 ? FETCH_BUSY : FETCH_WRONG;
}

static void judge_part(const struct answer *answer, const struct asked *asked,
		       struct judgement *ret, struct err *err)
{
	const struct content_range *range = &answer->range;

	if (!asked->has_range) {
		fail(ret, err, FETCH_WRONG, "part of the file instead of all");
	} else if (!answer->has_range || range->first != asked->offset ||
		   range->last - range->first != asked->length - 1) {
		fail(ret, err, FETCH_WRONG, "another range than asked");
	} else if (asked->expected_total &&
		   (!range->has_total ||
		    range->total != asked->expected_total)) {
		fail(ret, err, FETCH_WRONG, "file of another size");
	} else if (answer->has_length && answer->length != asked->length) {
		fail(ret, err, FETCH_WRONG, "length and range disagree");
	} else {
		ret->has_want = true;
		ret->want = asked->length;
		ret->body_max = asked->length;
		ret->has_body_bytes = true;
		ret->total = range->has_total ? range->total : 0;
	}
}

/* A range was asked, the server sends everything: skip up to it. */
static void judge_cut(const struct answer *answer, const struct asked *asked,
		      struct judgement *ret, struct err *err)
{
	uint64_t total =
		answer->has_length ? answer->length : asked->expected_total;
	uint64_t end;

	if (!add_checked(asked->offset, asked->length, &end) ||
	    end > ANSWER_WHOLE_BYTES_MAX || total > ANSWER_WHOLE_BYTES_MAX) {
		fail(ret, err, FETCH_WRONG,
		     "all of a large file instead of a range");
	} else if (total && total < end) {
		fail(ret, err, FETCH_WRONG, "file shorter than expected");
	} else {
		ret->skip = asked->offset;
		ret->has_want = true;
		ret->want = asked->length;
		ret->body_max = total ? total : ANSWER_WHOLE_BYTES_MAX;
		ret->has_body_bytes = total != 0;
		ret->total = total;
	}
}

static void judge_whole(const struct answer *answer, const struct asked *asked,
			struct judgement *ret, struct err *err)
{
	uint64_t expected = asked->expected_total;

	if (expected && answer->has_length && answer->length != expected) {
		fail(ret, err, FETCH_WRONG, "file of another size");
	} else if (asked->has_range && answer->has_length &&
		   answer->length == 0) {
		fail(ret, err, FETCH_WRONG, "file shorter than expected");
	} else if (asked->has_range) {
		judge_cut(answer, asked, ret, err);
	} else if ((answer->has_length ? answer->length : expected) >
		   asked->limit_bytes) {
		fail(ret, err, FETCH_WRONG, "file larger than allowed");
	} else {
		bool is_known = answer->has_length || expected;

		ret->has_want = is_known;
		ret->want = answer->has_length ? answer->length : expected;
		ret->has_body_bytes = is_known;
		ret->body_max = is_known ? ret->want : asked->limit_bytes;
		ret->total = ret->want;
	}
}

void answer_judge(const struct answer *answer, const struct asked *asked,
		  struct judgement *ret, struct err *err)
{
	unsigned status = answer->status;

	*ret = (struct judgement){.action = ANSWER_TAKE};
	if (status == 0 || answer->is_broken) {
		fail(ret, err, FETCH_WRONG, "broken header of the answer");
	} else if (asked->is_write && (status == 201 || status == 204)) {
		judge_whole(answer, asked, ret, err);
	} else if (status == 200 || status == 206) {
		if (answer->is_encoded)
			fail(ret, err, FETCH_WRONG, "encoded content");
		else if (status == 206)
			judge_part(answer, asked, ret, err);
		else
			judge_whole(answer, asked, ret, err);
	} else if (status == 304 && asked->is_conditional) {
		ret->action = ANSWER_NOT_MODIFIED;
	} else if (status == 301 || status == 302 || status == 303 ||
		   status == 307 || status == 308) {
		ret->action = ANSWER_REDIRECT;
	} else {
		ret->action = ANSWER_FAIL;
		ret->class = class_of_status(status);
		err_set(err, EIO, "HTTP %u", status);
	}
}
