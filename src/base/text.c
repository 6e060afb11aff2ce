/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to numbers and back. Every parser takes the whole string or fails:
 * "10 potatoes" is an error, not ten. Numbers are scanned by hand, since
 * strtoull() skips blanks and accepts a minus sign. Calendar arithmetic is
 * done here as well, so that no time zone and no 32-bit time_t gets in.
 */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/text.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits at *text; moves it past them. -EINVAL if there is none. */
static int scan_digits(const char **text, uint64_t *ret)
{
	const char *p = *text;
	uint64_t value = 0;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++)
		if (!mul_checked(value, 10, &value) ||
		    !add_checked(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	*text = p;
	*ret = value;
	return 0;
}

int parse_u64(const char *text, uint64_t *ret)
{
	uint64_t value;
	int r = scan_digits(&text, &value);

	if (r < 0)
		return r;
	if (*text)
		return -EINVAL;
	*ret = value;
	return 0;
}

struct unit {
	const char *name;
	uint64_t scale;
};

/*
 * NUMBER[.FRACTION][ ]UNIT. Four decimals at most: times the largest unit
 * (2^50) that still fits 64 bits, so the result is exact.
 */
static int parse_scaled(const char *text, const struct unit *units,
			uint64_t *ret)
{
	uint64_t whole, part = 0, power = 1, value;
	int r = scan_digits(&text, &whole);

	if (r < 0)
		return r;
	if (*text == '.') {
		for (text++; is_digit(*text) && power < 10000; text++) {
			part = part * 10 + (uint64_t)(*text - '0');
			power *= 10;
		}
		if (power == 1)
			return -EINVAL;
	}
	if (*text == ' ' && text[1])
		text++;
	while (units->name && strcasecmp(units->name, text))
		units++;
	if (!units->name || (power > 1 && units->scale == 1))
		return -EINVAL;
	if (!mul_checked(whole, units->scale, &value) ||
	    !add_checked(value, part * units->scale / power, &value))
		return -ERANGE;
	*ret = value;
	return 0;
}

#define SIZE_UNIT(letter, bits)                                               \
	{ letter, 1ULL << (bits) }, { letter "B", 1ULL << (bits) },           \
	{ letter "iB", 1ULL << (bits) }

int parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{ "", 1 },	    { "B", 1 },
		SIZE_UNIT("K", 10), SIZE_UNIT("M", 20),
		SIZE_UNIT("G", 30), SIZE_UNIT("T", 40),
		SIZE_UNIT("P", 50), { NULL, 0 },
	};

	return parse_scaled(text, units, ret_bytes);
}

int parse_duration(const char *text, uint64_t *ret_ms)
{
	static const struct unit units[] = {
		{ "", 1000 },	 { "ms", 1 },	     { "s", 1000 },
		{ "m", 60000 },	 { "h", 3600000 },   { "d", 86400000 },
		{ NULL, 0 },
	};

	return parse_scaled(text, units, ret_ms);
}

int parse_bool(const char *text, bool *ret)
{
	static const char *const words[] = { "no",   "yes", "false", "true",
					     "off",  "on",  "0",     "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]))
			continue;
		*ret = i % 2 == 1;
		return 0;
	}
	return -EINVAL;
}

/*
 * Days since 1970-01-01 of a date of the Gregorian calendar, and back. The
 * year starts in March, so that the leap day is its last; 400 years are
 * 146097 days.
 */
static int64_t days_from_date(int64_t year, int month, int day)
{
	int64_t era, year_of_era, day_of_year;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	year_of_era = year - era * 400;
	day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 +
		      day - 1;
	return era * 146097 + year_of_era * 365 + year_of_era / 4 -
	       year_of_era / 100 + day_of_year - 719468;
}

static void date_from_days(int64_t days, int64_t *ret_year, int *ret_month,
			   int *ret_day)
{
	int64_t era, day_of_era, year_of_era, day_of_year, month;

	days += 719468;
	era = (days >= 0 ? days : days - 146096) / 146097;
	day_of_era = days - era * 146097;
	year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
		       day_of_era / 146096) / 365;
	day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 -
				    year_of_era / 100);
	month = (5 * day_of_year + 2) / 153;
	*ret_day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (int)(month < 10 ? month + 3 : month - 9);
	*ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

static int days_of_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30,
				    31, 31, 30, 31, 30, 31 };
	bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && is_leap);
}

static int two_digits(const char *text)
{
	return (text[0] - '0') * 10 + text[1] - '0';
}

int parse_time(const char *text, int64_t *ret_seconds)
{
	static const char shape[] = "0000-00-00T00:00:00Z";
	int year, month, day, hour, minute, second;

	if (strlen(text) != sizeof(shape) - 1)
		return -EINVAL;
	for (size_t i = 0; shape[i]; i++)
		if (shape[i] == '0' ? !is_digit(text[i]) : text[i] != shape[i])
			return -EINVAL;
	year = two_digits(text) * 100 + two_digits(text + 2);
	month = two_digits(text + 5);
	day = two_digits(text + 8);
	hour = two_digits(text + 11);
	minute = two_digits(text + 14);
	second = two_digits(text + 17);
	if (month < 1 || month > 12 || day < 1 ||
	    day > days_of_month(year, month) || hour > 23 || minute > 59 ||
	    second > 59)
		return -EINVAL;
	*ret_seconds = days_from_date(year, month, day) * 86400 +
		       hour * 3600 + minute * 60 + second;
	return 0;
}

void hex_encode(const void *data, size_t len, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_text[2 * len] = '\0';
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hex_decode(const char *text, void *ret_data, size_t len)
{
	uint8_t *bytes = ret_data;

	/* Checked first: the output is written only on success. */
	for (size_t i = 0; i < 2 * len; i++)
		if (hex_value(text[i]) < 0)
			return -EINVAL;
	if (text[2 * len])
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(hex_value(text[2 * i]) << 4 |
				     hex_value(text[2 * i + 1]));
	return 0;
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len)
{
	const uint8_t *in = data;
	char *text, *out;

	if (len > SIZE_MAX / 2)
		return NULL;
	text = out = malloc((len + 2) / 3 * 4 + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i += 3) {
		uint32_t group = (uint32_t)in[i] << 16;

		if (i + 1 < len)
			group |= (uint32_t)in[i + 1] << 8;
		if (i + 2 < len)
			group |= in[i + 2];
		*out++ = base64_digits[group >> 18];
		*out++ = base64_digits[group >> 12 & 63];
		*out++ = i + 1 < len ? base64_digits[group >> 6 & 63] : '=';
		*out++ = i + 2 < len ? base64_digits[group & 63] : '=';
	}
	*out = '\0';
	return text;
}

/* Four digits to 24 bits; digits after the padding started are refused. */
static int base64_group(const char *text, size_t padding, uint32_t *ret)
{
	uint32_t group = 0;

	for (size_t i = 0; i < 4; i++) {
		const char *digit = base64_digits;

		if (i < 4 - padding)
			digit = text[i] ? strchr(base64_digits, text[i]) : NULL;
		if (!digit)
			return -EINVAL;
		group = group << 6 | (uint32_t)(digit - base64_digits);
	}
	/* Bits under the padding must be zero: one text for one value. */
	if (padding && (group & ((1u << (8 * padding)) - 1)))
		return -EINVAL;
	*ret = group;
	return 0;
}

int base64_decode(const char *text, size_t text_len, void *ret_data,
		  size_t size, size_t *ret_len)
{
	uint8_t *out = ret_data;
	size_t padding = 0, len;

	if (text_len % 4)
		return -EINVAL;
	if (text_len && text[text_len - 1] == '=')
		padding = text[text_len - 2] == '=' ? 2 : 1;
	len = text_len / 4 * 3 - padding;
	if (len > size)
		return -ERANGE;
	for (size_t i = 0; i < text_len; i += 4) {
		bool is_last = i + 4 == text_len;
		size_t unused = is_last ? padding : 0;
		uint32_t group;
		int r = base64_group(text + i, unused, &group);

		if (r < 0)
			return r;
		for (size_t j = 0; j < 3 - unused; j++)
			*out++ = (uint8_t)(group >> (16 - 8 * j));
	}
	*ret_len = len;
	return 0;
}

char *format_size(uint64_t bytes, char ret_text[FORMAT_MAX])
{
	static const char letters[] = "KMGTPE";
	int unit = 0;
	uint64_t scaled = bytes, tenths;

	if (bytes < 1024) {
		snprintf(ret_text, FORMAT_MAX, "%" PRIu64 " B", bytes);
		return ret_text;
	}
	while (scaled >= 1024 * 1024) {
		scaled >>= 10;
		unit++;
	}
	tenths = (scaled * 10 + 512) >> 10;
	if (tenths >= 10240) { /* 1023.96 is printed in the next unit */
		tenths = 10;
		unit++;
	}
	snprintf(ret_text, FORMAT_MAX, "%" PRIu64 ".%" PRIu64 " %ciB",
		 tenths / 10, tenths % 10, letters[unit]);
	return ret_text;
}

char *format_duration(uint64_t ms, char ret_text[FORMAT_MAX])
{
	uint64_t s = ms / 1000;

	if (ms < 1000)
		snprintf(ret_text, FORMAT_MAX, "%" PRIu64 " ms", ms);
	else if (s < 60)
		snprintf(ret_text, FORMAT_MAX, "%" PRIu64 " s", s);
	else if (s < 3600)
		snprintf(ret_text, FORMAT_MAX, "%" PRIu64 " min %" PRIu64 " s",
			 s / 60, s % 60);
	else if (s < 86400)
		snprintf(ret_text, FORMAT_MAX, "%" PRIu64 " h %" PRIu64 " min",
			 s / 3600, s / 60 % 60);
	else
		snprintf(ret_text, FORMAT_MAX, "%" PRIu64 " d %" PRIu64 " h",
			 s / 86400, s / 3600 % 24);
	return ret_text;
}

char *format_time(int64_t seconds, char ret_text[FORMAT_MAX])
{
	int64_t days = seconds / 86400, year;
	int rest = (int)(seconds % 86400);
	int month, day;

	if (rest < 0) {
		rest += 86400;
		days--;
	}
	date_from_days(days, &year, &month, &day);
	snprintf(ret_text, FORMAT_MAX,
		 "%04" PRId64 "-%02d-%02dT%02d:%02d:%02dZ", year, month, day,
		 rest / 3600, rest / 60 % 60, rest % 60);
	return ret_text;
}

char *format_count(uint64_t n, char ret_text[FORMAT_MAX])
{
	char digits[FORMAT_MAX];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	char *out = ret_text;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return ret_text;
}

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
