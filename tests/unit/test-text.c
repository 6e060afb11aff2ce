/* SPDX-License-Identifier: Apache-2.0 */
#undef NDEBUG
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct number_case {
	const char *text;
	int result;
	uint64_t value;
};

typedef int(parse_fn)(const char *text, uint64_t *ret);

static void check_numbers(parse_fn *parse, const struct number_case *cases,
			  size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value = 4711;
		int r = parse(cases[i].text, &value);

		if (r != cases[i].result ||
		    value != (r < 0 ? 4711 : cases[i].value))
			fail_msg("'%s': %d, %llu", cases[i].text, r,
				 (unsigned long long)value);
	}
}

static void parses_whole_numbers(void **state)
{
	static const struct number_case cases[] = {
		{ "0", 0, 0 },
		{ "007", 0, 7 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
	};

	check_numbers(parse_u64, cases, COUNT(cases));
}

static void parses_sizes(void **state)
{
	static const struct number_case cases[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "12 B", 0, 12 },
		{ "10G", 0, 10ULL << 30 },
		{ "10g", 0, 10ULL << 30 },
		{ "10GB", 0, 10ULL << 30 },
		{ "1.5TiB", 0, 3ULL << 39 },
		{ "64 MiB", 0, 64ULL << 20 },
		{ "412.0 GiB", 0, 412ULL << 30 },
		{ "0.5K", 0, 512 },
		{ "0.0001K", 0, 0 },
		{ "16383P", 0, 16383ULL << 50 },
		{ "16383.9999P", 0, (16383ULL << 50) + 1125787316851939 },
		{ "16384P", -ERANGE, 0 },
		{ "1.23456G", -EINVAL, 0 },
		{ "1.5", -EINVAL, 0 },
		{ "1.G", -EINVAL, 0 },
		{ ".5G", -EINVAL, 0 },
		{ "G", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "10 ", -EINVAL, 0 },
		{ "10  G", -EINVAL, 0 },
		{ "10GG", -EINVAL, 0 },
		{ "10 potatoes", -EINVAL, 0 },
		{ "-1G", -EINVAL, 0 },
		{ "5%", -EINVAL, 0 },
	};

	check_numbers(parse_size, cases, COUNT(cases));
}

static void parses_durations(void **state)
{
	static const struct number_case cases[] = {
		{ "30", 0, 30000 },
		{ "30s", 0, 30000 },
		{ "500ms", 0, 500 },
		{ "1.5s", 0, 1500 },
		{ "5m", 0, 300000 },
		{ "2h", 0, 7200000 },
		{ "14d", 0, 1209600000 },
		{ "0", 0, 0 },
		{ "0.5", 0, 500 },
		{ "1.5ms", -EINVAL, 0 },
		{ "5min", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "18446744073709551615d", -ERANGE, 0 },
	};

	check_numbers(parse_duration, cases, COUNT(cases));
}

static void parses_truth(void **state)
{
	static const char *const yes[] = { "yes", "true", "on", "1", "YES" };
	static const char *const no[] = { "no", "false", "off", "0", "Off" };
	static const char *const bad[] = { "", "y", "2", "yes ", "maybe" };
	bool value;

	for (size_t i = 0; i < COUNT(yes); i++) {
		value = false;
		assert_int_equal(parse_bool(yes[i], &value), 0);
		assert_true(value);
		assert_int_equal(parse_bool(no[i], &value), 0);
		assert_false(value);
		assert_int_equal(parse_bool(bad[i], &value), -EINVAL);
	}
}

static void times_go_both_ways(void **state)
{
	static const struct {
		const char *text;
		int64_t seconds;
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2000-02-29T12:34:56Z", 951827696 },
		{ "2026-11-30T09:00:00Z", 1796029200 },
		{ "2038-01-19T03:14:08Z", 2147483648 },
		{ "1969-12-31T23:59:59Z", -1 },
		{ "1900-03-01T00:00:00Z", -2203891200 },
		{ "0000-01-01T00:00:00Z", -62167219200 },
		{ "9999-12-31T23:59:59Z", 253402300799 },
	};
	static const char *const bad[] = {
		"",
		"2026-11-30",
		"2026-11-30 09:00:00Z",
		"2026-11-30T09:00:00",
		"2026-11-30T09:00:00z",
		"2026-11-30T09:00:00+01:00",
		"2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z",
		"2026-02-29T00:00:00Z",
		"1900-02-29T00:00:00Z",
		"2026-04-31T00:00:00Z",
		"2026-04-00T00:00:00Z",
		"2026-04-01T24:00:00Z",
		"2026-04-01T00:60:00Z",
		"2026-04-01T00:00:60Z",
		"2026-04-01T00:00:0 Z",
		"-026-04-01T00:00:00Z",
	};
	char text[FORMAT_MAX];
	int64_t seconds;

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(parse_time(cases[i].text, &seconds), 0);
		assert_int_equal(seconds, cases[i].seconds);
		assert_string_equal(format_time(seconds, text), cases[i].text);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		if (parse_time(bad[i], &seconds) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
	/* Every day of 400 years has one name. */
	for (int64_t day = 0; day < 146097; day++) {
		format_time(day * 86400 - 62167219200, text);
		assert_int_equal(parse_time(text, &seconds), 0);
		assert_int_equal(seconds, day * 86400 - 62167219200);
	}
	format_time(INT64_MAX, text);
	format_time(INT64_MIN, text);
}

static void hex_has_one_spelling(void **state)
{
	uint8_t bytes[2] = { 9, 9 };
	char text[5];

	hex_encode("\x00\xfa", 2, text);
	assert_string_equal(text, "00fa");
	assert_int_equal(hex_decode("00fa", bytes, 2), 0);
	assert_memory_equal(bytes, "\x00\xfa", 2);
	assert_int_equal(hex_decode("00FB", bytes, 2), -EINVAL);
	assert_int_equal(hex_decode("00f", bytes, 2), -EINVAL);
	assert_int_equal(hex_decode("00fbc", bytes, 2), -EINVAL);
	assert_int_equal(hex_decode("", bytes, 2), -EINVAL);
	assert_int_equal(hex_decode("0x11", bytes, 2), -EINVAL);
	assert_memory_equal(bytes, "\x00\xfa", 2);
	assert_int_equal(hex_decode("", bytes, 0), 0);
}

static void base64_has_one_spelling(void **state)
{
	static const struct {
		const char *plain, *text;
	} cases[] = {
		{ "", "" },		{ "f", "Zg==" },
		{ "fo", "Zm8=" },	{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" },
		{ "\xff\xfb", "//s=" },
	};
	static const char *const bad[] = { "Z",	    "Zg",   "Zg=",   "Zh==",
					   "Zm9=",  "=Zg=", "Zg=v",  "Zg== ",
					   "Zm9v=", "====", "Z===", "Zm-v",
					   "Zg==Zg==" };
	uint8_t bytes[16];
	size_t len;

	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t plain_len = strlen(cases[i].plain);
		_cleanup_free_ char *text =
			base64_encode(cases[i].plain, plain_len);

		assert_string_equal(text, cases[i].text);
		assert_int_equal(base64_decode(text, strlen(text), bytes,
					       plain_len, &len), 0);
		assert_int_equal(len, plain_len);
		assert_memory_equal(bytes, cases[i].plain, plain_len);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		if (base64_decode(bad[i], strlen(bad[i]), bytes, sizeof(bytes),
				  &len) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
	assert_int_equal(base64_decode("Zm9v", 4, bytes, 2, &len), -ERANGE);
	assert_int_equal(base64_decode("Z\0==", 4, bytes, 2, &len), -EINVAL);
}

static void numbers_are_printed_for_people(void **state)
{
	static const struct {
		uint64_t value;
		const char *size, *duration, *count;
	} cases[] = {
		{ 0, "0 B", "0 ms", "0" },
		{ 999, "999 B", "999 ms", "999" },
		{ 1023, "1023 B", "1 s", "1,023" },
		{ 1024, "1.0 KiB", "1 s", "1,024" },
		{ 147000, "143.6 KiB", "2 min 27 s", "147,000" },
		{ 1048575, "1.0 MiB", "17 min 28 s", "1,048,575" },
		{ 3660000, "3.5 MiB", "1 h 1 min", "3,660,000" },
		{ 90000000, "85.8 MiB", "1 d 1 h", "90,000,000" },
		{ 412ULL << 30, "412.0 GiB", "5120 d 3 h",
		  "442,381,631,488" },
		{ UINT64_MAX, "16.0 EiB", "213503982334 d 14 h",
		  "18,446,744,073,709,551,615" },
	};
	char text[FORMAT_MAX];

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_string_equal(format_size(cases[i].value, text),
				    cases[i].size);
		assert_string_equal(format_duration(cases[i].value, text),
				    cases[i].duration);
		assert_string_equal(format_count(cases[i].value, text),
				    cases[i].count);
	}
}

static void lists_split_at_bare_commas(void **state)
{
	/* '|' separates what must come out; NULL: refused. */
	static const struct {
		const char *list, *elements;
	} cases[] = {
		{ "", "" },
		{ ",", "|" },
		{ "ro", "ro" },
		{ "rw,nosuid,", "rw|nosuid|" },
		{ ",,ro", "||ro" },
		{ "mirrors=\"u,v\",ro", "mirrors=u,v|ro" },
		{ "\"a,b\"c,d", "a,bc|d" },
		{ "x=a\\,b,y", "x=a,b|y" },
		{ "x=a\\\\,b", "x=a\\|b" },
		{ "x=\\\"a,b", "x=\"a|b" },
		{ "\"a\\\"b,c\",d", "a\"b,c|d" },
		{ "\"\"", "" },
		{ "a\\", "a\\" },
		{ "source=/m#a b", "source=/m#a b" },
		{ "x=\"a,b", NULL },
		{ "\"", NULL },
		{ "\"a\\\"", NULL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *cursor = cases[i].list;
		char joined[64] = "", *element;
		int r, count = 0;

		while ((r = list_next(&cursor, &element)) > 0) {
			size_t used = strlen(joined);

			snprintf(joined + used, sizeof(joined) - used, "%s%s",
				 count++ ? "|" : "", element);
			free(element);
		}
		if (!cases[i].elements) {
			assert_int_equal(r, -EINVAL);
			continue;
		}
		assert_int_equal(r, 0);
		assert_string_equal(joined, cases[i].elements);
	}
}

static void mountinfo_is_unescaped(void **state)
{
	static const struct {
		const char *escaped, *plain;
	} cases[] = {
		{ "", "" },
		{ "/mnt/a\\040b", "/mnt/a b" },
		{ "\\011\\012\\043\\134", "\t\n#\\" },
		{ "/m\\043pile", "/m#pile" },
		{ "\\134040", "\\040" },
		{ "\\04", "\\04" },
		{ "\\041", "\\041" },
		{ "\\", "\\" },
		{ "a\\\\040", "a\\ " },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		_cleanup_free_ char *text = strdup(cases[i].escaped);

		mountinfo_unescape(text);
		assert_string_equal(text, cases[i].plain);
	}
}

static void text_is_made_printable(void **state)
{
	static const struct {
		const char *raw, *printable;
	} cases[] = {
		{ "plain", "plain" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xf0\x9f\x90\x88", "\xf0\x9f\x90\x88" },
		{ "a\nb\x1b[2J\x7f", "a\\x0ab\\x1b[2J\\x7f" },
		{ "\xc3", "\\xc3" },		 /* cut */
		{ "\xc0\xaf", "\\xc0\\xaf" },	 /* overlong */
		{ "\xe0\x80\x80", "\\xe0\\x80\\x80" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xc2\x9b", "\\xc2\\x9b" },	       /* C1: CSI */
		{ "\xe2\x80\xae", "\\xe2\\x80\\xae" }, /* right to left */
		{ "\xff\xfe", "\\xff\\xfe" },
	};
	char cut[8];

	for (size_t i = 0; i < COUNT(cases); i++) {
		_cleanup_free_ char *text =
			text_printable(cases[i].raw, strlen(cases[i].raw));

		assert_string_equal(text, cases[i].printable);
	}
	text_printable_cut("abcdef\xc3\xbc", 8, cut, sizeof(cut));
	assert_string_equal(cut, "abcdef");
	text_printable_cut("abcdefg\n", 8, cut, sizeof(cut));
	assert_string_equal(cut, "abcdefg");
}

static void the_nearest_word_is_named(void **state)
{
	static const char *const words[] = { "mount",	"umount", "publish",
					     "ls",	"cat",	  "size",
					     "min-free", NULL };
	static const struct {
		const char *text, *nearest;
	} cases[] = {
		{ "mnout", "mount" },	 { "publsh", "publish" },
		{ "publish", "publish" }, { "minfree", "min-free" },
		{ "lss", "ls" },	 { "xyzzy", NULL },
		{ "", NULL },		 { "q", NULL },
		{ "frobnicate", NULL }, { "lsab", NULL },
	};
	char long_word[300];

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *nearest = nearest_word(cases[i].text, words);

		if (!cases[i].nearest)
			assert_null(nearest);
		else
			assert_string_equal(nearest, cases[i].nearest);
	}
	memset(long_word, 'a', sizeof(long_word) - 1);
	long_word[sizeof(long_word) - 1] = '\0';
	assert_null(nearest_word(long_word, words));
}

static void patterns_match(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "a", "a", true },
		{ "a", "ab", false },
		{ "*", "", true },
		{ "*", "abc", true },
		{ "*", "a/b", false },
		{ "*.tar", "x.tar", true },
		{ "*.tar", "x.tar.gz", false },
		{ "*.tar", "d/x.tar", false },
		{ "a?c", "abc", true },
		{ "a?c", "a/c", false },
		{ "a?c", "ac", false },
		{ "shard-00*", "shard-0012", true },
		{ "*a*b*c", "xaybzc", true },
		{ "*a*b*c", "xaybz", false },
		{ "*ab", "aab", true },
		{ "**", "a/b/c", true },
		{ "**", "", true },
		{ "**/x", "x", true },
		{ "**/x", "a/b/x", true },
		{ "**/x", "ax", false },
		{ "**/x", "a/bx", false },
		{ "a/**/b", "a/b", true },
		{ "a/**/b", "a/x/y/b", true },
		{ "a/**/b", "ab", false },
		{ "a/**", "a/b/c", true },
		{ "a/**", "a", false },
		{ "a**b", "a/x/b", true },
		{ "**/*.c", "src/base/x.c", true },
		{ "**/*.c", "src/base/x.h", false },
		{ "**/a*/x", "b/aa/x", true },
		{ "**/a*/x", "a/b/aq/x", true },
		{ "Qwen/*", "Qwen/Qwen2.5", true },
		{ "Qwen/*", "Qwen/a/b", false },
		{ "[a-c]x", "bx", true },
		{ "[a-c]x", "dx", false },
		{ "[!a-c]x", "dx", true },
		{ "[^a-c]x", "ax", false },
		{ "[!a]x", "/x", false },
		{ "[]]", "]", true },
		{ "[a-]", "-", true },
		{ "[a-c]x", "[a-c]x", false },
		{ "[abc", "[abc", true },
		{ "[", "[", true },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "a\\", "a\\", true },
		{ "[\xc0-\xff]", "\xe0", true },
	};
	char text[4001];

	for (size_t i = 0; i < COUNT(cases); i++)
		if (pattern_matches(cases[i].pattern, cases[i].text) !=
		    cases[i].matches)
			fail_msg("'%s' and '%s'", cases[i].pattern,
				 cases[i].text);
	/* Time is bounded by the product, not by the number of stars. */
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_false(pattern_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
	assert_false(pattern_matches("**a**a**a**a**a**a**a**a**a**b", text));
}

static void ends_are_compared(void **state)
{
	assert_true(starts_with("file:///m", "file://"));
	assert_false(starts_with("file", "file://"));
	assert_true(starts_with("", ""));
	assert_true(ends_with("key.pub", ".pub"));
	assert_false(ends_with("pub", ".pub"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_whole_numbers),
		cmocka_unit_test(parses_sizes),
		cmocka_unit_test(parses_durations),
		cmocka_unit_test(parses_truth),
		cmocka_unit_test(times_go_both_ways),
		cmocka_unit_test(hex_has_one_spelling),
		cmocka_unit_test(base64_has_one_spelling),
		cmocka_unit_test(numbers_are_printed_for_people),
		cmocka_unit_test(lists_split_at_bare_commas),
		cmocka_unit_test(mountinfo_is_unescaped),
		cmocka_unit_test(text_is_made_printable),
		cmocka_unit_test(the_nearest_word_is_named),
		cmocka_unit_test(patterns_match),
		cmocka_unit_test(ends_are_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
