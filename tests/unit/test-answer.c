/* SPDX-License-Identifier: Apache-2.0 */
/* What an HTTP answer is worth, row by row. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/answer.h"

/* A whole answer's header, lines separated by '|'. */
static int read_answer(const char *text, struct answer *ret)
{
	int r = 0;

	*ret = (struct answer){0};
	while (r == 0 && *text) {
		size_t len = strcspn(text, "|");
		char line[4096];

		memcpy(line, text, len);
		memcpy(line + len, "\r\n", 2);
		r = answer_line(ret, line, len + 2);
		text += len + (text[len] == '|');
	}
	return r == 0 ? answer_line(ret, "\r\n", 2) : r;
}

static void test_content_range(void **state)
{
	static const struct {
		const char *text;
		int result;
		struct content_range range;
	} rows[] = {
		{"bytes 0-0/1", 0, {0, 0, 1, true}},
		{"bytes 5-9/10", 0, {5, 9, 10, true}},
		{"BYTES 5-9/*", 0, {5, 9, 0, false}},
		{"bytes 0-18446744073709551614/18446744073709551615",
		 0,
		 {0, UINT64_MAX - 1, UINT64_MAX, true}},
		{"bytes 0-18446744073709551616/18446744073709551617",
		 -EINVAL,
		 {0}},
		{"bytes 9-5/10", -EINVAL, {0}},
		{"bytes 5-10/10", -EINVAL, {0}},
		{"bytes */10", -EINVAL, {0}},
		{"bytes 5-9", -EINVAL, {0}},
		{"bytes 5-9/", -EINVAL, {0}},
		{"bytes 5-/10", -EINVAL, {0}},
		{"bytes -9/10", -EINVAL, {0}},
		{"bytes +5-9/10", -EINVAL, {0}},
		{"bytes 5-9/10 ", -EINVAL, {0}},
		{"bytes 5-9/10,11-12/13", -EINVAL, {0}},
		{"bytes 5 -9/10", -EINVAL, {0}},
		{"bytes=5-9/10", -EINVAL, {0}},
		{"items 5-9/10", -EINVAL, {0}},
		{"bytes", -EINVAL, {0}},
		{"", -EINVAL, {0}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct content_range range = {0};
		int r = content_range_parse(rows[i].text, strlen(rows[i].text),
					    &range);

		if (r != rows[i].result)
			fail_msg("'%s': %d", rows[i].text, r);
		assert_int_equal(range.first, rows[i].range.first);
		assert_int_equal(range.last, rows[i].range.last);
		assert_int_equal(range.total, rows[i].range.total);
		assert_int_equal(range.has_total, rows[i].range.has_total);
	}
}

/* 100 bytes from 1000 on, of a file of 5000 bytes where its size is known. */
#define RANGE                                                                  \
	{                                                                      \
		.has_range = true, .offset = 1000, .length = 100               \
	}
#define RANGE_OF_5000                                                          \
	{                                                                      \
		.has_range = true, .offset = 1000, .length = 100,              \
		.expected_total = 5000                                         \
	}
#define ALL                                                                    \
	{                                                                      \
		.limit_bytes = 5000                                            \
	}
#define ALL_OF_5000                                                            \
	{                                                                      \
		.limit_bytes = 9000, .expected_total = 5000                    \
	}
#define CONDITIONAL                                                            \
	{                                                                      \
		.limit_bytes = 5000, .is_conditional = true                    \
	}
#define WRITE                                                                  \
	{                                                                      \
		.limit_bytes = 5000, .is_write = true                          \
	}
#define FAR                                                                    \
	{                                                                      \
		.has_range = true, .offset = 512u << 20, .length = 1           \
	}

static const struct {
	const char *what;
	struct asked asked;
	const char *answer;
	enum answer_action action;
	enum fetch_class class;
	uint64_t skip, want, body_max, total;
} rows[] = {
	{"what was asked", RANGE,
	 "HTTP/1.1 206 Partial Content|Content-Range: bytes 1000-1099/5000|"
	 "Content-Length: 100",
	 ANSWER_TAKE, FETCH_OK, 0, 100, 100, 5000},
	{"written, nothing to say", WRITE, "HTTP/1.1 204 No Content",
	 ANSWER_TAKE, FETCH_OK, 0, 0, 5000, 0},
	{"written anew", WRITE, "HTTP/1.1 201 Created|Content-Length: 0",
	 ANSWER_TAKE, FETCH_OK, 0, 0, 0, 0},
	{"a condition did not hold", WRITE, "HTTP/1.1 412 Precondition Failed",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"nothing where something was asked", ALL, "HTTP/1.1 204 No Content",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"HTTP/2, no length, unknown total", RANGE,
	 "HTTP/2 206 |content-range: bytes 1000-1099/*", ANSWER_TAKE, FETCH_OK,
	 0, 100, 100, 0},
	{"the size known before", RANGE_OF_5000,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000", ANSWER_TAKE,
	 FETCH_OK, 0, 100, 100, 5000},
	{"another size", RANGE_OF_5000,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5001", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"size not said", RANGE_OF_5000,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/*", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"shifted range", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1001-1100/5000", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"shorter range", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1098/5000", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"longer range", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1100/5000", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"no range named", RANGE, "HTTP/1.1 206 x|Content-Length: 100",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"two ranges named", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000|"
	 "Content-Range: bytes 1000-1099/5000",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"range in a trailing line of an interim answer", RANGE,
	 "HTTP/1.1 103 x|Content-Range: bytes 1000-1099/5000||"
	 "HTTP/1.1 206 x",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"length and range disagree", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000|"
	 "Content-Length: 99",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"two lengths", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000|"
	 "Content-Length: 100|Content-Length: 99",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"the same length twice", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000|"
	 "Content-Length: 100|Content-Length: 100",
	 ANSWER_TAKE, FETCH_OK, 0, 100, 100, 5000},
	{"encoded range", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000|"
	 "Content-Encoding: gzip",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"identity is no encoding", RANGE,
	 "HTTP/1.1 206 x|Content-Range: bytes 1000-1099/5000|"
	 "Content-Encoding: identity",
	 ANSWER_TAKE, FETCH_OK, 0, 100, 100, 5000},
	{"range not asked", ALL, "HTTP/1.1 206 x|Content-Range: bytes 0-99/100",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},

	{"all instead of a range", RANGE,
	 "HTTP/1.1 200 OK|Content-Length: 5000", ANSWER_TAKE, FETCH_OK, 1000,
	 100, 5000, 5000},
	{"all, of the size known before", RANGE_OF_5000,
	 "HTTP/1.1 200 OK|Content-Length: 5000", ANSWER_TAKE, FETCH_OK, 1000,
	 100, 5000, 5000},
	{"all, of another size", RANGE_OF_5000,
	 "HTTP/1.1 200 OK|Content-Length: 4999", ANSWER_FAIL, FETCH_WRONG, 0, 0,
	 0, 0},
	{"a login page, too short", RANGE,
	 "HTTP/1.1 200 OK|Content-Type: text/html|Content-Length: 1099",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"an empty page", RANGE, "HTTP/1.1 200 OK|Content-Length: 0",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"all without length", RANGE, "HTTP/1.1 200 OK", ANSWER_TAKE, FETCH_OK,
	 1000, 100, 512u << 20, 0},
	{"all without length, size known", RANGE_OF_5000, "HTTP/1.1 200 OK",
	 ANSWER_TAKE, FETCH_OK, 1000, 100, 5000, 5000},
	{"all of 512 MiB", RANGE, "HTTP/1.1 200 OK|Content-Length: 536870912",
	 ANSWER_TAKE, FETCH_OK, 1000, 100, 536870912, 536870912},
	{"all of more", RANGE, "HTTP/1.1 200 OK|Content-Length: 536870913",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"all, and a range behind 512 MiB", FAR, "HTTP/1.1 200 OK", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"all, encoded", RANGE,
	 "HTTP/1.1 200 OK|Content-Length: 5000|content-encoding: br",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},

	{"all", ALL, "HTTP/1.1 200 OK|Content-Length: 5000", ANSWER_TAKE,
	 FETCH_OK, 0, 5000, 5000, 5000},
	{"all, empty", ALL, "HTTP/1.1 200 OK|Content-Length: 0", ANSWER_TAKE,
	 FETCH_OK, 0, 0, 0, 0},
	{"all, length unknown", ALL, "HTTP/1.1 200 OK", ANSWER_TAKE, FETCH_OK,
	 0, 0, 5000, 0},
	{"all, length unknown, size known", ALL_OF_5000, "HTTP/1.1 200 OK",
	 ANSWER_TAKE, FETCH_OK, 0, 5000, 5000, 5000},
	{"too much", ALL, "HTTP/1.1 200 OK|Content-Length: 5001", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"not the size known before", ALL_OF_5000,
	 "HTTP/1.1 200 OK|Content-Length: 4999", ANSWER_FAIL, FETCH_WRONG, 0, 0,
	 0, 0},
	{"length is nonsense", ALL, "HTTP/1.1 200 OK|Content-Length: -1",
	 ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"length overflows", ALL,
	 "HTTP/1.1 200 OK|Content-Length: 18446744073709551616", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"not modified", CONDITIONAL, "HTTP/1.1 304 x", ANSWER_NOT_MODIFIED,
	 FETCH_OK, 0, 0, 0, 0},
	{"not modified, not asked", ALL, "HTTP/1.1 304 x", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},

	{"moved", ALL, "HTTP/1.1 301 x|Location: /b", ANSWER_REDIRECT, FETCH_OK,
	 0, 0, 0, 0},
	{"found", RANGE, "HTTP/1.1 302 x|Location: /b", ANSWER_REDIRECT,
	 FETCH_OK, 0, 0, 0, 0},
	{"temporary", RANGE, "HTTP/1.1 307 x|Location: /b", ANSWER_REDIRECT,
	 FETCH_OK, 0, 0, 0, 0},
	{"permanent", RANGE, "HTTP/1.1 308 x|Location: /b", ANSWER_REDIRECT,
	 FETCH_OK, 0, 0, 0, 0},
	{"choices", RANGE, "HTTP/1.1 300 x", ANSWER_FAIL, FETCH_WRONG, 0, 0, 0,
	 0},

	{"404", RANGE, "HTTP/1.1 404 x", ANSWER_FAIL, FETCH_ABSENT, 0, 0, 0, 0},
	{"410", RANGE, "HTTP/1.1 410 x", ANSWER_FAIL, FETCH_ABSENT, 0, 0, 0, 0},
	{"401", RANGE, "HTTP/1.1 401 x", ANSWER_FAIL, FETCH_REFUSED, 0, 0, 0,
	 0},
	{"403", RANGE, "HTTP/1.1 403 x", ANSWER_FAIL, FETCH_REFUSED, 0, 0, 0,
	 0},
	{"407", RANGE, "HTTP/1.1 407 x", ANSWER_FAIL, FETCH_REFUSED, 0, 0, 0,
	 0},
	{"408", RANGE, "HTTP/1.1 408 x", ANSWER_FAIL, FETCH_BUSY, 0, 0, 0, 0},
	{"425", RANGE, "HTTP/1.1 425 x", ANSWER_FAIL, FETCH_BUSY, 0, 0, 0, 0},
	{"429", RANGE, "HTTP/1.1 429 x", ANSWER_FAIL, FETCH_BUSY, 0, 0, 0, 0},
	{"500", RANGE, "HTTP/1.1 500 x", ANSWER_FAIL, FETCH_BUSY, 0, 0, 0, 0},
	{"503", RANGE, "HTTP/1.1 503 x", ANSWER_FAIL, FETCH_BUSY, 0, 0, 0, 0},
	{"400", RANGE, "HTTP/1.1 400 x", ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"416", RANGE, "HTTP/1.1 416 x|Content-Range: bytes */50", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"204", RANGE, "HTTP/1.1 204 x", ANSWER_FAIL, FETCH_WRONG, 0, 0, 0, 0},
	{"a status that is none", RANGE, "HTTP/1.1 abc", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
	{"a status of two digits", RANGE, "HTTP/1.1 20", ANSWER_FAIL,
	 FETCH_WRONG, 0, 0, 0, 0},
};

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct judgement judgement;
		struct answer answer;
		struct err err = {0};

		assert_int_equal(read_answer(rows[i].answer, &answer), 0);
		assert_true(answer.is_complete);
		answer_judge(&answer, &rows[i].asked, &judgement, &err);
		if (judgement.action != rows[i].action ||
		    judgement.class != rows[i].class ||
		    judgement.skip != rows[i].skip ||
		    judgement.want != rows[i].want ||
		    judgement.body_max != rows[i].body_max ||
		    judgement.total != rows[i].total)
			fail_msg("%s: action %d class %d '%s'", rows[i].what,
				 judgement.action, judgement.class, err.text);
		assert_int_equal(judgement.action == ANSWER_FAIL,
				 err.text[0] != '\0');
	}
}

static void test_interim_answers_are_forgotten(void **state)
{
	struct answer answer;

	(void)state;
	assert_int_equal(read_answer("HTTP/1.1 100 Continue||"
				     "HTTP/1.1 103 Hints|ETag: \"no\"||"
				     "HTTP/1.1 200 OK|ETag: \"yes\"",
				     &answer),
			 0);
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.etag, "\"yes\"");
}

static void test_trailers_are_ignored(void **state)
{
	static const char late[] = "ETag: \"late\"\r\n",
			  again[] = "HTTP/1.1 404 x\r\n";
	struct answer answer;

	(void)state;
	assert_int_equal(read_answer("HTTP/1.1 200 OK|ETag: \"a\"", &answer),
			 0);
	assert_int_equal(answer_line(&answer, late, strlen(late)), 0);
	assert_int_equal(answer_line(&answer, again, strlen(again)), 0);
	assert_string_equal(answer.etag, "\"a\"");
	assert_int_equal(answer.status, 200);
}

static void test_values_are_printable_and_short(void **state)
{
	char line[300];
	struct answer answer;

	(void)state;
	assert_int_equal(read_answer("HTTP/1.1 200 OK|ETag: \"a\x01\"|"
				     "Location: /a\x7f",
				     &answer),
			 0);
	assert_string_equal(answer.etag, "");
	assert_string_equal(answer.location, "");
	memset(line, 'x', sizeof(line));
	memcpy(line, "HTTP/1.1 200 OK|ETag: ", 22);
	line[22 + 128] = '\0';
	assert_int_equal(read_answer(line, &answer), 0);
	assert_string_equal(answer.etag, "");
	line[22 + 127] = '\0';
	assert_int_equal(read_answer(line, &answer), 0);
	assert_int_equal(strlen(answer.etag), 127);
}

static void test_headers_are_bounded(void **state)
{
	static char line[ANSWER_HEADER_BYTES_MAX + 2];
	struct answer answer = {0};
	size_t lines = 0;

	(void)state;
	memset(line, 'x', sizeof(line));
	assert_int_equal(answer_line(&answer, line, sizeof(line)), -EFBIG);
	/* Also as many short lines, and interim answers do not reset it. */
	answer = (struct answer){0};
	while (answer_line(&answer, "HTTP/1.1 100 Continue\r\n", 23) == 0 &&
	       answer_line(&answer, "\r\n", 2) == 0)
		assert_in_range(++lines, 1, ANSWER_HEADER_BYTES_MAX / 25);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_content_range),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_interim_answers_are_forgotten),
		cmocka_unit_test(test_trailers_are_ignored),
		cmocka_unit_test(test_values_are_printable_and_short),
		cmocka_unit_test(test_headers_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
