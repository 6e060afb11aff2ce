/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to numbers and back. Every parser takes the whole string or fails:
 * "10 potatoes" is an error, not ten. Numbers are scanned by hand, since
 * strtoull() skips blanks and accepts a minus sign. Calendar arithmetic is
 * done here as well, so that no time zone and no 32-bit time_t gets in.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
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

#define SIZE_UNIT(letter, bits)                                                \
	{letter, 1ULL << (bits)}, {letter "B", 1ULL << (bits)},                \
	{                                                                      \
		letter "iB", 1ULL << (bits)                                    \
	}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"B", 1},
		SIZE_UNIT("K", 10),
		SIZE_UNIT("M", 20),
		SIZE_UNIT("G", 30),
		SIZE_UNIT("T", 40),
		SIZE_UNIT("P", 50),
		{NULL, 0},
	};

	return parse_scaled(text, units, ret_bytes);
}

int parse_duration(const char *text, uint64_t *ret_ms)
{
	static const struct unit units[] = {
		{"", 1000},	{"ms", 1},	 {"s", 1000}, {"m", 60000},
		{"h", 3600000}, {"d", 86400000}, {NULL, 0},
	};

	return parse_scaled(text, units, ret_ms);
}

int parse_bool(const char *text, bool *ret)
{
	static const char *const words[] = {"no",  "yes", "false", "true",
					    "off", "on",  "0",	   "1"};

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
	day_of_year =
		(153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
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
		       day_of_era / 146096) /
		      365;
	day_of_year = day_of_era -
		      (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	month = (5 * day_of_year + 2) / 153;
	*ret_day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (int)(month < 10 ? month + 3 : month - 9);
	*ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

static int days_of_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30,
				   31, 31, 30, 31, 30, 31};
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
	*ret_seconds = days_from_date(year, month, day) * 86400 + hour * 3600 +
		       minute * 60 + second;
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
