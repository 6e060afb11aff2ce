/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML that buckets answer: lists of objects, of uploads and of what was
 * deleted, the id of a new upload, errors. One reader for all, by the names of
 * elements: an element that is not known is passed over, as S3 has added many.
 *
 * Document types are refused before they can declare an entity, and depth,
 * text and the number of items are bounded.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <expat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "source/source.h"

#define DEPTH_MAX 8
/* Keys have 1024 bytes at most, three times that escaped; tokens are short. */
#define TEXT_BYTES_MAX 8192u
/* Servers stop at 1000. */
#define ITEMS_MAX 100000u

struct reading {
	XML_Parser parser;
	struct s3_answer answer;
	struct buf text;
	unsigned depth;
	bool is_item;	 /* inside one */
	bool is_escaped; /* keys are */
	int result;
};

static void stop(struct reading *reading, int result)
{
	if (reading->result == 0)
		reading->result = result;
	XML_StopParser(reading->parser, XML_FALSE);
}

static bool is_item(const char *name)
{
	return !strcmp(name, "Contents") || !strcmp(name, "Upload") ||
	       !strcmp(name, "Deleted") || !strcmp(name, "Error");
}

static void XMLCALL on_start(void *arg, const XML_Char *name,
			     const XML_Char **attributes)
{
	struct reading *reading = arg;
	struct s3_item *item;

	(void)attributes;
	buf_clear(&reading->text);
	if (++reading->depth > DEPTH_MAX) {
		stop(reading, -EBADMSG);
	} else if (reading->depth == 2 && is_item(name)) {
		item = reading->answer.items.count < ITEMS_MAX ?
			       vec_push(&reading->answer.items) :
			       NULL;
		if (item)
			*item = (struct s3_item){0};
		else
			stop(reading, -ENOMEM);
		reading->is_item = item != NULL;
	}
}

static void XMLCALL on_text(void *arg, const XML_Char *text, int len)
{
	struct reading *reading = arg;
	int r = buf_append(&reading->text, text, (size_t)len);

	if (r < 0)
		stop(reading, r == -EFBIG ? -EBADMSG : r);
}

static void XMLCALL on_doctype(void *arg, const XML_Char *name,
			       const XML_Char *system, const XML_Char *public,
			       int has_subset)
{
	(void)name;
	(void)system;
	(void)public;
	(void)has_subset;
	stop(arg, -EBADMSG);
}

static int keep(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to ? 0 : -ENOMEM;
}

/* "2026-11-30T12:00:00.000Z"; what cannot be read counts as new. */
static int64_t read_time(const char *text)
{
	char whole[32];
	size_t len = strcspn(text, ".Z");
	int64_t time;

	if (len + 2 > sizeof(whole))
		return INT64_MAX;
	memcpy(whole, text, len);
	memcpy(whole + len, "Z", 2);
	return parse_time(whole, &time) == 0 ? time : INT64_MAX;
}

static int take_item(struct reading *reading, const char *name,
		     const char *text)
{
	struct s3_item *item =
		&reading->answer.items.items[reading->answer.items.count - 1];

	if (!strcmp(name, "Key"))
		return keep(&item->key, text);
	if (!strcmp(name, "UploadId"))
		return keep(&item->upload_id, text);
	if (!strcmp(name, "Code"))
		return keep(&item->code, text);
	if (!strcmp(name, "Size"))
		return parse_u64(text, &item->size) < 0 ? -EBADMSG : 0;
	if (!strcmp(name, "LastModified"))
		item->mtime = read_time(text);
	return 0;
}

static int take(struct reading *reading, const char *name, const char *text)
{
	struct s3_answer *answer = &reading->answer;

	if (!strcmp(name, "IsTruncated"))
		answer->is_truncated = !strcmp(text, "true");
	else if (!strcmp(name, "EncodingType"))
		reading->is_escaped = !strcmp(text, "url");
	else if (!strcmp(name, "NextContinuationToken") ||
		 !strcmp(name, "NextKeyMarker"))
		return keep(&answer->next, text);
	else if (!strcmp(name, "NextUploadIdMarker"))
		return keep(&answer->next_id, text);
	else if (!strcmp(name, "UploadId"))
		return keep(&answer->upload_id, text);
	else if (!strcmp(name, "Code"))
		return keep(&answer->code, text);
	return 0;
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
	struct reading *reading = arg;
	int r = buf_append(&reading->text, "", 1);

	if (r == 0 && reading->depth == 2 && !reading->is_item)
		r = take(reading, name, (char *)reading->text.data);
	else if (r == 0 && reading->depth == 3 && reading->is_item)
		r = take_item(reading, name, (char *)reading->text.data);
	if (reading->depth == 2)
		reading->is_item = false;
	reading->depth--;
	buf_clear(&reading->text);
	if (r < 0)
		stop(reading, r);
}

/* As in a form: '+' is a space. */
static int unescape(char *text)
{
	char *to = text;

	while (*text) {
		char digits[3] = {0};

		if (*text != '%') {
			*to++ = *text == '+' ? ' ' : *text;
			text++;
			continue;
		}
		memccpy(digits, text + 1, '\0', 2);
		for (char *c = digits; *c; c++)
			if (*c >= 'A' && *c <= 'F')
				*c = (char)(*c - 'A' + 'a');
		if (hex_decode(digits, to, 1) < 0 || *to == '\0')
			return -EBADMSG;
		to++;
		text += 3;
	}
	*to = '\0';
	return 0;
}

static int finish(struct reading *reading)
{
	struct s3_answer *answer = &reading->answer;
	int r = 0;

	for (size_t i = 0; i < answer->items.count && r == 0; i++) {
		struct s3_item *item = &answer->items.items[i];

		if (!item->key)
			return -EBADMSG;
		if (reading->is_escaped)
			r = unescape(item->key);
	}
	/* Or the same would be asked for ever. */
	if (r == 0 && answer->is_truncated && !answer->next)
		r = -EBADMSG;
	return r;
}

void s3_answer_release(struct s3_answer *answer)
{
	for (size_t i = 0; i < answer->items.count; i++) {
		free(answer->items.items[i].key);
		free(answer->items.items[i].upload_id);
		free(answer->items.items[i].code);
	}
	vec_release(&answer->items);
	free(answer->next);
	free(answer->next_id);
	free(answer->upload_id);
	free(answer->code);
	*answer = (struct s3_answer){0};
}

int s3_answer_parse(const void *xml, size_t len, struct s3_answer *ret,
		    struct err *err)
{
	struct reading reading = {.parser = XML_ParserCreate(NULL)};
	int r;

	if (!reading.parser || len > INT32_MAX) {
		XML_ParserFree(reading.parser);
		return err_set(err, ENOMEM, "out of memory");
	}
	buf_init(&reading.text, TEXT_BYTES_MAX);
	XML_SetUserData(reading.parser, &reading);
	XML_SetElementHandler(reading.parser, on_start, on_end);
	XML_SetCharacterDataHandler(reading.parser, on_text);
	XML_SetStartDoctypeDeclHandler(reading.parser, on_doctype);
	if (XML_Parse(reading.parser, xml, (int)len, XML_TRUE) ==
		    XML_STATUS_ERROR &&
	    reading.result == 0)
		reading.result = -EBADMSG;
	r = reading.result == 0 ? finish(&reading) : reading.result;
	XML_ParserFree(reading.parser);
	buf_release(&reading.text);
	if (r < 0) {
		s3_answer_release(&reading.answer);
		return r == -ENOMEM ?
			       err_set(err, ENOMEM, "out of memory") :
			       err_set(err, EBADMSG, "not an answer of S3");
	}
	*ret = reading.answer;
	return 0;
}
