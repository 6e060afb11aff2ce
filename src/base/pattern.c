/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shell-style patterns. fnmatch() knows no "**" and depends on the locale.
 * Backtracking keeps only the last '*' and the last "**": what came before
 * either need not be tried again, so time is bounded by the product of both
 * lengths, whatever the pattern.
 */
#include <config.h>

#include <ctype.h>
#include <string.h>

#include "base/text.h"

/* Where to go on after a mismatch: take one more byte with the star. */
struct star {
	const char *pattern; /* after the star; NULL: none */
	const char *text;
	bool whole_parts; /* a star that swallows "part/" only */
};

/* Match [..] at *pattern against c; false leaves *pattern alone. */
static bool set_matches(const char **pattern, char c, bool *ret_is_set)
{
	const char *p = *pattern + 1;
	bool is_negated = *p == '!' || *p == '^';
	bool is_found = false;
	const char *first;

	p += is_negated;
	for (first = p; *p && (*p != ']' || p == first); p++) {
		unsigned char low = (unsigned char)*p, high = low;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			high = (unsigned char)p[2];
			p += 2;
		}
		if ((unsigned char)c >= low && (unsigned char)c <= high)
			is_found = true;
	}
	*ret_is_set = *p == ']';
	if (!*ret_is_set || is_found == is_negated || c == '/')
		return false;
	*pattern = p + 1;
	return true;
}

/* Match one byte of text (not a star); moves *pattern past its part. */
static bool byte_matches(const char **pattern, char c)
{
	const char *p = *pattern;

	if (*p == '?') {
		*pattern = p + 1;
		return c != '/';
	}
	if (*p == '[') {
		bool is_set;

		if (set_matches(pattern, c, &is_set))
			return true;
		if (is_set)
			return false;
	}
	if (*p == '\\' && p[1])
		p++;
	if (*p != c)
		return false;
	*pattern = p + 1;
	return true;
}

/* In whatever case the byte might be written. */
static bool letter_matches(const char **pattern, char c)
{
	return byte_matches(pattern, c) ||
	       byte_matches(pattern, (char)tolower((unsigned char)c)) ||
	       byte_matches(pattern, (char)toupper((unsigned char)c));
}

/* Let the star take more of the text; false when it cannot. */
static bool star_grows(struct star *star, bool is_deep)
{
	const char *text = star->text;

	if (!star->pattern || !*text || (!is_deep && *text == '/'))
		return false;
	if (star->whole_parts) {
		text = strchr(text, '/');
		if (!text)
			return false;
	}
	star->text = text + 1;
	return true;
}

static bool matches(const char *pattern, const char *text,
		    bool (*one)(const char **pattern, char c))
{
	const char *pattern_start = pattern, *text_start = text;
	struct star shallow = { 0 }, deep = { 0 };

	for (;;) {
		if (pattern[0] == '*' && pattern[1] == '*') {
			bool starts_part =
				(pattern == pattern_start ||
				 pattern[-1] == '/') &&
				(text == text_start || text[-1] == '/');

			while (*pattern == '*')
				pattern++;
			deep = (struct star){ pattern, text, false };
			if (starts_part && *pattern == '/')
				deep = (struct star){ ++pattern, text, true };
			shallow.pattern = NULL;
			continue;
		}
		if (*pattern == '*') {
			shallow = (struct star){ ++pattern, text, false };
			continue;
		}
		if (!*text && !*pattern)
			return true;
		if (*text && *pattern && one(&pattern, *text)) {
			text++;
			continue;
		}
		if (star_grows(&shallow, false)) {
			pattern = shallow.pattern;
			text = shallow.text;
		} else if (star_grows(&deep, true)) {
			pattern = deep.pattern;
			text = deep.text;
			shallow.pattern = NULL;
		} else {
			return false;
		}
	}
}

bool pattern_matches(const char *pattern, const char *text)
{
	return matches(pattern, text, byte_matches);
}

bool pattern_matches_any_case(const char *pattern, const char *text)
{
	return matches(pattern, text, letter_matches);
}

bool pattern_list_matches(const char *const *patterns, size_t count, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < count; i++) {
		const char *pattern = patterns[i];

		if (strchr(pattern, '/') ?
			    pattern_matches(pattern + (*pattern == '/'), path) :
			    pattern_matches(pattern, name))
			return true;
	}
	return false;
}
