/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: parse, print, and judge a new one against the one we hold.
 *
 * A head is the one thing of a mirror that changes, and people look at it, so
 * it is text. But it is also what trust hangs on, so the text has one
 * form only: fields in table order, each at most once, no control bytes.
 * Unknown keys may stand between them, for later versions.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "format/head.h"

#define FIRST_LINE "larder head 1"
#define FIRST_LINE_ANY_VERSION "larder head "

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* One part, up to '/' or the end; returns what follows, NULL if it is bad. */
static const char *skip_part(const char *name)
{
	if (*name == '.' || !is_name_byte(*name))
		return NULL;
	while (is_name_byte(*name))
		name++;
	return name;
}

bool dataset_name_valid(const char *name)
{
	const char *at = name;

	if (strnlen(name, LIMIT_DATASET_NAME_BYTES + 1) >
	    LIMIT_DATASET_NAME_BYTES)
		return false;
	for (;;) {
		at = skip_part(at);
		if (!at)
			return false;
		if (*at == '\0')
			return true;
		if (*at++ != '/')
			return false;
	}
}

bool tag_name_valid(const char *tag)
{
	return dataset_name_valid(tag) && !strchr(tag, '/');
}

/* Setters take a value without control bytes. -EINVAL if it is malformed. */

static int set_dataset(struct head *head, const char *value)
{
	if (!dataset_name_valid(value))
		return -EINVAL;
	snprintf(head->dataset, sizeof(head->dataset), "%s", value);
	return 0;
}

static int set_tag(struct head *head, const char *value)
{
	if (!tag_name_valid(value))
		return -EINVAL;
	snprintf(head->tag, sizeof(head->tag), "%s", value);
	return 0;
}

static int set_catalog(struct head *head, const char *value)
{
	char text[DIGEST_TEXT_MAX];
	const char *space = strchr(value, ' ');

	if (!space || (size_t)(space - value) >= sizeof(text))
		return -EINVAL;
	memcpy(text, value, (size_t)(space - value));
	text[space - value] = '\0';
	if (digest_parse(text, &head->catalog) < 0 ||
	    head->catalog.type != DIGEST_SHA256 ||
	    parse_u64(space + 1, &head->catalog_bytes) < 0)
		return -EINVAL;
	return head->catalog_bytes > 0 &&
			       head->catalog_bytes <= LIMIT_CATALOG_BYTES ?
		       0 :
		       -EINVAL;
}

static int set_entries(struct head *head, const char *value)
{
	int r = parse_u64(value, &head->entry_count);

	return r == 0 && head->entry_count > LIMIT_ENTRY_NUMBER ? -EINVAL : r;
}

static int set_bytes(struct head *head, const char *value)
{
	return parse_u64(value, &head->total_bytes);
}

static int set_serial(struct head *head, const char *value)
{
	return parse_u64(value, &head->serial);
}

static int set_time(struct head *head, const char *value)
{
	int r = parse_time(value, &head->time);

	return r == 0 && head->time < 0 ? -EINVAL : r;
}

static int set_expires(struct head *head, const char *value)
{
	int r = parse_time(value, &head->expires);

	return r == 0 && head->expires <= 0 ? -EINVAL : r;
}

static int set_previous(struct head *head, const char *value)
{
	int r = digest_parse(value, &head->previous);

	return r == 0 && head->previous.type != DIGEST_SHA256 ? -EINVAL : r;
}

static const struct {
	const char *key;
	bool is_required;
	int (*set)(struct head *head, const char *value);
} fields[] = {
	{"dataset", true, set_dataset},	   {"tag", false, set_tag},
	{"catalog", true, set_catalog},	   {"entries", true, set_entries},
	{"bytes", true, set_bytes},	   {"serial", true, set_serial},
	{"time", true, set_time},	   {"expires", false, set_expires},
	{"previous", false, set_previous},
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* "KEYID BASE64" */
static int add_signature(struct head *head, const char *value)
{
	struct signature *signature;
	char id[2 * sizeof(signature->key_id) + 1];
	size_t len;

	if (head->signature_count == LIMIT_HEAD_SIGNATURES ||
	    strlen(value) < sizeof(id) || value[sizeof(id) - 1] != ' ')
		return -EINVAL;
	signature = &head->signatures[head->signature_count];
	memcpy(id, value, sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	value += sizeof(id);
	if (hex_decode(id, signature->key_id, sizeof(signature->key_id)) < 0 ||
	    base64_decode(value, strlen(value), signature->value,
			  sizeof(signature->value), &len) < 0 ||
	    len != sizeof(signature->value))
		return -EINVAL;
	head->signature_count++;
	return 0;
}

struct parser {
	char *at; /* into a copy that may be written */
	unsigned int line;
	size_t next_field;
	bool in_signatures;
	struct head *head;
};

/* Ends the line with a NUL; the caller moves on. NULL if it is not one. */
static char *take_line(struct parser *parser, const char *end)
{
	char *line = parser->at;
	char *newline = memchr(line, '\n', (size_t)(end - line));

	if (!newline)
		return NULL;
	for (char *c = line; c < newline; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return NULL;
	*newline = '\0';
	parser->at = newline + 1;
	parser->line++;
	return line;
}

static bool is_key(const char *key)
{
	if (*key < 'a' || *key > 'z')
		return false;
	for (; *key; key++)
		if (!(*key >= 'a' && *key <= 'z') &&
		    !(*key >= '0' && *key <= '9') && *key != '-')
			return false;
	return true;
}

static int parse_field(struct parser *parser, const char *key,
		       const char *value, struct err *err)
{
	size_t field = 0;

	while (field < FIELD_COUNT && strcmp(fields[field].key, key) != 0)
		field++;
	if (field == FIELD_COUNT)
		return 0; /* from a later version; may be ignored */
	if (field < parser->next_field)
		return err_set(err, EBADMSG,
			       "head line %u: '%s' stands twice or too late",
			       parser->line, key);
	for (size_t i = parser->next_field; i < field; i++)
		if (fields[i].is_required)
			return err_set(err, EBADMSG,
				       "head line %u: no '%s' before '%s'",
				       parser->line, fields[i].key, key);
	if (fields[field].set(parser->head, value) < 0)
		return err_set(err, EBADMSG, "head line %u: malformed '%s'",
			       parser->line, key);
	parser->next_field = field + 1;
	return 0;
}

static int parse_line(struct parser *parser, char *line, struct err *err)
{
	char *colon = strstr(line, ": ");

	if (*line == '!')
		return err_set(err, EPROTONOSUPPORT,
			       "head needs a newer larder (line %u)",
			       parser->line);
	if (!colon)
		return err_set(err, EBADMSG, "head line %u is no 'key: value'",
			       parser->line);
	*colon = '\0';
	if (!is_key(line))
		return err_set(err, EBADMSG, "head line %u has a malformed key",
			       parser->line);
	if (starts_with(line, "signature"))
		parser->in_signatures = true;
	else if (parser->in_signatures)
		return err_set(err, EBADMSG,
			       "head line %u: '%s' after the signature",
			       parser->line, line);
	if (strcmp(line, "signature") == 0 &&
	    add_signature(parser->head, colon + 2) < 0)
		return err_set(err, EBADMSG,
			       "head line %u: malformed or one too many "
			       "'signature'",
			       parser->line);
	if (parser->in_signatures)
		return 0; /* signature-ALGORITHM of a later version */
	return parse_field(parser, line, colon + 2, err);
}

static int check_first_line(const char *line, struct err *err)
{
	if (line && strcmp(line, FIRST_LINE) == 0)
		return 0;
	if (line && starts_with(line, FIRST_LINE_ANY_VERSION))
		return err_set(err, EPROTONOSUPPORT,
			       "head needs a newer larder ('%.40s')", line);
	return err_set(err, EBADMSG, "not a larder head");
}

static int parse_lines(struct parser *parser, const char *copy, size_t len,
		       struct err *err)
{
	const char *end = copy + len;
	int r = check_first_line(take_line(parser, end), err);

	while (r == 0 && parser->at < end) {
		char *line;

		if (!parser->in_signatures)
			parser->head->signed_bytes =
				(size_t)(parser->at - copy);
		line = take_line(parser, end);
		if (!line)
			return err_set(err, EBADMSG,
				       "head line %u is cut short or has "
				       "control bytes",
				       parser->line + 1);
		r = parse_line(parser, line, err);
	}
	if (!parser->in_signatures)
		parser->head->signed_bytes = len;
	return r;
}

int head_parse(const void *text, size_t len, struct head *ret, struct err *err)
{
	char copy[LIMIT_HEAD_BYTES + 1];
	struct head head = {0};
	struct parser parser = {.at = copy, .head = &head};
	int r;

	if (len > LIMIT_HEAD_BYTES)
		return err_set(err, EBADMSG,
			       "not a larder head: longer than %u bytes",
			       LIMIT_HEAD_BYTES);
	if (len > 0) /* text may be NULL then */
		memcpy(copy, text, len);
	copy[len] = '\0';
	r = parse_lines(&parser, copy, len, err);
	if (r < 0)
		return r;
	for (size_t i = parser.next_field; i < FIELD_COUNT; i++)
		if (fields[i].is_required)
			return err_set(err, EBADMSG, "head has no '%s'",
				       fields[i].key);
	*ret = head;
	return 0;
}

static int print_fields(const struct head *head, struct buf *text)
{
	char digest[DIGEST_TEXT_MAX], time[FORMAT_MAX];
	int r;

	r = buf_printf(text, FIRST_LINE "\ndataset: %s\n", head->dataset);
	if (r == 0 && head->tag[0])
		r = buf_printf(text, "tag: %s\n", head->tag);
	if (r == 0)
		r = buf_printf(text,
			       "catalog: %s %" PRIu64 "\nentries: %" PRIu64
			       "\nbytes: %" PRIu64 "\nserial: %" PRIu64
			       "\ntime: %s\n",
			       digest_text(&head->catalog, digest),
			       head->catalog_bytes, head->entry_count,
			       head->total_bytes, head->serial,
			       format_time(head->time, time));
	if (r == 0 && head->expires)
		r = buf_printf(text, "expires: %s\n",
			       format_time(head->expires, time));
	if (r == 0 && !digest_is_none(&head->previous))
		r = buf_printf(text, "previous: %s\n",
			       digest_text(&head->previous, digest));
	return r;
}

int head_print(const struct head *head, struct buf *ret_text)
{
	size_t before = ret_text->len;
	struct head check;
	int r = print_fields(head, ret_text);

	if (r == 0 && head_parse(ret_text->data + before,
				 ret_text->len - before, &check, NULL) < 0)
		r = -EINVAL;
	if (r < 0)
		ret_text->len = before;
	return r;
}

/* name is DATASET or DATASET@TAG. */
static bool is_head_of(const struct head *head, const char *name)
{
	size_t len = strlen(head->dataset);

	if (strncmp(name, head->dataset, len) != 0)
		return false;
	if (head->tag[0] == '\0')
		return name[len] == '\0';
	return name[len] == '@' && strcmp(name + len + 1, head->tag) == 0;
}

static bool is_expired(const struct head *head, int64_t now)
{
	return head->expires != 0 && now >= head->time && now >= head->expires;
}

int head_accept(const struct head *offered, const struct head *current,
		const char *name, int64_t now, struct err *err)
{
	char time[FORMAT_MAX];
	bool is_same;

	if (!is_head_of(offered, name))
		return err_set(err, EINVAL, "head is of '%s%s%s', not of '%s'",
			       offered->dataset, offered->tag[0] ? "@" : "",
			       offered->tag, name);
	if (current && offered->serial < current->serial)
		return err_set(err, ESTALE,
			       "head of '%s' has serial %" PRIu64
			       ", older than %" PRIu64 " seen before",
			       name, offered->serial, current->serial);
	is_same = current && offered->serial == current->serial;
	if (is_same && !digest_equal(&offered->catalog, &current->catalog))
		return err_set(err, ESTALE,
			       "head of '%s' has serial %" PRIu64
			       " as before but another catalog",
			       name, offered->serial);
	if (!is_same && is_expired(offered, now))
		return err_set(err, EKEYEXPIRED, "head of '%s' expired at %s",
			       name, format_time(offered->expires, time));
	return 0;
}
