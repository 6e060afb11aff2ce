/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of text: lists of options, paths of mountinfo, what a terminal may be
 * shown, the word that somebody meant. Numbers and bytes are read and written
 * in text-numbers.c and text-encoding.c.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

bool ends_with(const char *text, const char *suffix)
{
	size_t len = strlen(text), suffix_len = strlen(suffix);

	return len >= suffix_len && !strcmp(text + len - suffix_len, suffix);
}

int list_next(const char **cursor, char **ret_element)
{
	const char *p = *cursor;
	bool is_quoted = false;
	char *element, *out;

	if (!p)
		return 0;
	element = out = malloc(strlen(p) + 1);
	if (!element)
		return -ENOMEM;
	for (; *p && (is_quoted || *p != ','); p++) {
		if (*p == '"') {
			is_quoted = !is_quoted;
			continue;
		}
		if (*p == '\\' && p[1])
			p++;
		*out++ = *p;
	}
	*out = '\0';
	if (is_quoted) {
		free(element);
		return -EINVAL;
	}
	/* NULL is the end: "" would be one more, empty, element. */
	*cursor = *p ? p + 1 : NULL;
	*ret_element = element;
	return 1;
}

void mountinfo_unescape(char *text)
{
	static const struct {
		const char *code;
		char byte;
	} escapes[] = {
		{ "\\040", ' ' },  { "\\011", '\t' }, { "\\012", '\n' },
		{ "\\043", '#' },  { "\\134", '\\' },
	};
	char *out = text;

	while (*text) {
		size_t i = 0;

		while (i < 5 && strncmp(text, escapes[i].code, 4))
			i++;
		if (i < 5) {
			*out++ = escapes[i].byte;
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
}

/* Length of the well-formed, printable UTF-8 sequence at p, or 0. */
static size_t printable_length(const uint8_t *p, size_t len)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t rune;
	size_t n;

	if (p[0] < 0x80)
		return p[0] >= 0x20 && p[0] != 0x7f;
	n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || n > len)
		return 0;
	rune = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		rune = rune << 6 | (p[i] & 0x3fu);
	}
	if (rune < smallest[n] || rune > 0x10ffff ||
	    (rune >= 0xd800 && rune <= 0xdfff) || rune < 0xa0)
		return 0;
	/* Marks that reorder a line can make a name look like another. */
	if ((rune >= 0x202a && rune <= 0x202e) ||
	    (rune >= 0x2066 && rune <= 0x2069) || rune == 0x2028 ||
	    rune == 0x2029)
		return 0;
	return n;
}

void text_printable_cut(const char *text, size_t len, char *ret_text,
			size_t size)
{
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		const uint8_t *p = (const uint8_t *)text + i;
		size_t n = printable_length(p, len - i);

		if (out + (n ? n : 4) >= size)
			break;
		if (n) {
			memcpy(ret_text + out, p, n);
			out += n;
			i += n;
		} else {
			snprintf(ret_text + out, size - out, "\\x%02x", *p);
			out += 4;
			i++;
		}
	}
	ret_text[out] = '\0';
}

char *text_printable(const char *text, size_t len)
{
	size_t size;
	char *printable;

	if (len > (SIZE_MAX - 1) / 4)
		return NULL;
	size = 4 * len + 1; /* each byte as \xNN */
	printable = malloc(size);
	if (printable)
		text_printable_cut(text, len, printable, size);
	return printable;
}

/* Longer words are never compared; options and commands are short. */
#define WORD_MAX 64

/* Levenshtein's distance, one row at a time. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1];
	size_t a_len = strlen(a), b_len = strlen(b);

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[b_len];
}

const char *nearest_word(const char *text, const char *const *words)
{
	size_t best = 1 + strlen(text) / 4 + 1;
	const char *nearest = NULL;

	for (; *words; words++) {
		size_t distance;

		if (strlen(*words) > WORD_MAX)
			continue;
		distance = edit_distance(text, *words);
		if (distance < best && distance < strlen(*words)) {
			best = distance;
			nearest = *words;
		}
	}
	return nearest;
}
