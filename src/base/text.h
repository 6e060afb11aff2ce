/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_TEXT_H
#define LARDER_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Text to numbers and back. Parsers take the whole string or fail with
 * -EINVAL (-ERANGE when it does not fit); they never accept trailing bytes.
 */
int parse_u64(const char *text, uint64_t *ret);
/* "0", "4096", "10G", "1.5TiB", "64 MiB": binary units K M G T P, optional iB/B. */
int parse_size(const char *text, uint64_t *ret_bytes);
/* "30", "30s", "500ms", "5m", "2h", "14d"; a bare number is seconds. */
int parse_duration(const char *text, uint64_t *ret_ms);
int parse_bool(const char *text, bool *ret); /* yes/no/true/false/on/off/1/0 */
/* RFC 3339 UTC, "2026-11-30T09:00:00Z". */
int parse_time(const char *text, int64_t *ret_seconds);

void hex_encode(const void *data, size_t len, char *ret_text); /* 2*len+1 */
/* Exactly 2*len digits, lower case: one value has one spelling. */
int hex_decode(const char *text, void *ret_data, size_t len);
/* Standard base64 with padding; the caller frees. NULL on ENOMEM. */
char *base64_encode(const void *data, size_t len);
int base64_decode(const char *text, size_t text_len, void *ret_data,
		  size_t size, size_t *ret_len);

/* "412.0 GiB", "12 B". All format_ functions return ret_text. */
#define FORMAT_MAX 32
char *format_size(uint64_t bytes, char ret_text[FORMAT_MAX]);
char *format_duration(uint64_t ms, char ret_text[FORMAT_MAX]); /* "2 min 27 s" */
char *format_time(int64_t seconds, char ret_text[FORMAT_MAX]); /* RFC 3339 */
static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}
char *format_count(uint64_t n, char ret_text[FORMAT_MAX]); /* "12,411" */

bool starts_with(const char *text, const char *prefix);
bool ends_with(const char *text, const char *suffix);

/*
 * One element of a comma-separated option list as mount(8) passes it. A
 * comma does not split inside double quotes or after a backslash; quotes
 * and backslashes are removed. Empty elements are returned as "". Returns
 * 1 and an element for the caller to free, 0 at the end, or a negative
 * errno (-EINVAL: quote not closed). *cursor starts as the list.
 */
int list_next(const char **cursor, char **ret_element);

/* Undo mountinfo's \040 \011 \012 \043 \134 in place; other bytes stay. */
void mountinfo_unescape(char *text);

/* For terminals and logs: control bytes and invalid UTF-8 as \xNN. The
 * caller frees; NULL on ENOMEM. */
char *text_printable(const char *text, size_t len);

/* The same into ret_text of size bytes, cut between characters. */
void text_printable_cut(const char *text, size_t len, char *ret_text,
			size_t size);

/* The word of a NULL-terminated list nearest to text (edit distance at
 * most 1 + strlen/4), or NULL: for "did you mean". */
const char *nearest_word(const char *text, const char *const *words);

/* Shell-style pattern: * and ? do not match '/', ** does and may stand for
 * no directory at all where it is a whole part ("**" "/x" matches "x");
 * [a-z] and [!a-z] sets, a backslash takes the next byte literally. */
bool pattern_matches(const char *pattern, const char *text);
/* Whether some way to write text in small and capital letters matches. */
bool pattern_matches_any_case(const char *pattern, const char *text);
/* Whether one of them does: without a '/' it is compared with the path's last
 * part, with one (a leading one does not count) with the whole path. */
bool pattern_list_matches(const char *const *patterns, size_t count,
		    const char *path);

#endif
