/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of origins: parse, join, follow, redact. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/url.h"

static void test_bases(void **state)
{
	static const struct {
		const char *text, *base;
		bool is_local;
		const char *user, *password;
	} rows[] = {
		{"/srv/m", "/srv/m", true, NULL, NULL},
		{"/srv/m///", "/srv/m", true, NULL, NULL},
		{"/", "/", true, NULL, NULL},
		{"file:///srv/a%20b", "/srv/a b", true, NULL, NULL},
		{"FILE://localhost/srv", "/srv", true, NULL, NULL},
		{"http://h/m/", "http://h/m", false, NULL, NULL},
		{"http://h", "http://h", false, NULL, NULL},
		{"HTTPS://h:8443/a%20b", "https://h:8443/a%20b", false, NULL,
		 NULL},
		{"http://u:p%40x@h/m", "http://h/m", false, "u", "p@x"},
		{"http://[::1]:80/m", "http://[::1]:80/m", false, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct url_base base;
		struct err err;
		int r = url_base_parse(rows[i].text, &base, &err);

		if (r < 0)
			fail_msg("'%s': %s", rows[i].text, err.text);
		assert_string_equal(base.base, rows[i].base);
		assert_int_equal(base.is_local, rows[i].is_local);
		assert_int_equal(!base.user, !rows[i].user);
		if (rows[i].user) {
			assert_string_equal(base.user, rows[i].user);
			assert_string_equal(base.password, rows[i].password);
		}
		url_base_release(&base);
	}
}

static void test_relative_paths_become_absolute(void **state)
{
	struct url_base base;
	char cwd[4096], want[4200];

	(void)state;
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	snprintf(want, sizeof(want), "%s/a/b", cwd);
	assert_int_equal(url_base_parse("a/b/", &base, NULL), 0);
	assert_string_equal(base.base, want);
	url_base_release(&base);
}

static void test_refused_bases(void **state)
{
	static const char *const rows[] = {
		"",
		"ftp://h/m",
		"gopher://h",
		"http://",
		"http:///m",
		"http://h/m?token=1",
		"http://h/m#f",
		"http://h o/m",
		"file://host/srv",
		"file:///a%00b",
		"file://",
		"http://h:x/",
		"http://h:99999/m",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct url_base base;
		struct err err = {0};

		if (url_base_parse(rows[i], &base, &err) != -EINVAL)
			fail_msg("'%s' was taken", rows[i]);
		assert_true(err.text[0]);
	}
	assert_int_equal(
		url_base_parse("hf://o/n", &(struct url_base){0}, NULL),
		-EINVAL);
}

static void test_errors_hold_no_secret(void **state)
{
	struct url_base base;
	struct err err = {0};

	(void)state;
	assert_true(url_base_parse("http://u:sesame@h/?sesame", &base, &err) <
		    0);
	assert_null(strstr(err.text, "sesame"));
}

static void test_paths_below(void **state)
{
	static const struct {
		const char *path;
		bool is_valid;
	} rows[] = {
		{"", true},	 {"a", true},	   {"a/b", true},
		{"...", true},	 {"a/..b", true},  {".hidden", true},
		{".", false},	 {"..", false},	   {"a/../b", false},
		{"a/..", false}, {"../a", false},  {"/a", false},
		{"a//b", false}, {"a/./b", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (path_below_valid(rows[i].path) != rows[i].is_valid)
			fail_msg("'%s'", rows[i].path);
	/* A slash at the end has an empty part behind it. */
	assert_false(path_below_valid("a/"));
}

static void test_names_that_urls_dislike(void **state)
{
	static const struct {
		const char *path, *joined;
	} rows[] = {
		{"", "http://h/m"},
		{"packs/ab/cdef", "http://h/m/packs/ab/cdef"},
		{"100% sure", "http://h/m/100%25%20sure"},
		{"%41", "http://h/m/%2541"},
		{"%2e%2e", "http://h/m/%252e%252e"},
		{"a+b", "http://h/m/a%2Bb"},
		{"a#b", "http://h/m/a%23b"},
		{"a?b=c", "http://h/m/a%3Fb%3Dc"},
		{"a&b;c", "http://h/m/a%26b%3Bc"},
		{"http:x", "http://h/m/http%3Ax"},
		{"C:\\x", "http://h/m/C%3A%5Cx"},
		{"[x]{y}~*", "http://h/m/%5Bx%5D%7By%7D~%2A"},
		{"\xc3\xa9", "http://h/m/%C3%A9"},
		{"e\xcc\x81", "http://h/m/e%CC%81"},
		{"\n\t\xff", "http://h/m/%0A%09%FF"},
		{"@TAG", "http://h/m/%40TAG"},
	};
	struct url_base base = {.base = (char *)"http://h/m"};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *joined = url_join(&base, rows[i].path);

		assert_string_equal(joined, rows[i].joined);
		free(joined);
	}
}

static void test_join_of_directories(void **state)
{
	struct url_base base = {.is_local = true, .base = (char *)"/"};
	char *joined = url_join(&base, "a b%41");

	(void)state;
	assert_string_equal(joined, "/a b%41");
	free(joined);
}

static void test_redirects(void **state)
{
	static const struct {
		const char *from, *location, *to; /* to NULL: refused */
		bool is_same;
	} rows[] = {
		{"http://h/a/b", "http://h/c", "http://h/c", true},
		{"http://h/a/b", "/c?x=1", "http://h/c?x=1", true},
		{"http://h/a/b", "c", "http://h/a/c", true},
		{"http://h/a/b", "//other/c", "http://other/c", false},
		{"http://h/a", "http://h:80/c", "http://h:80/c", true},
		{"http://h/a", "http://H/c", "http://H/c", true},
		{"http://h/a", "http://h:81/c", "http://h:81/c", false},
		{"http://h/a", "https://h/c", "https://h/c", false},
		{"http://h:443/a", "https://h/c", "https://h/c", false},
		{"https://h/a", "https://h:443/c", "https://h:443/c", true},
		{"http://h/a", "/c#part", "http://h/c", true},
		{"https://h/a", "http://h/c", NULL, false},
		{"http://h/a", "file:///etc/hostname", NULL, false},
		{"http://h/a", "ftp://h/a", NULL, false},
		{"http://h/a", "gopher://h/a", NULL, false},
		{"http://h/a", "http://u:p@h/a", NULL, false},
		{"http://h/a", "http://u@other/a", NULL, false},
		{"http://h/a", "", NULL, false},
		{"http://h/a", "http://", NULL, false},
		{"http://h/a", "/a\r\nX: y", NULL, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = {0};
		bool is_same = !rows[i].is_same;
		char *to = NULL;
		int r = url_redirect(rows[i].from, rows[i].location, &to,
				     &is_same, &err);

		if (!rows[i].to) {
			if (r != -EPROTO)
				fail_msg("'%s' was followed", rows[i].location);
			continue;
		}
		if (r < 0)
			fail_msg("'%s': %s", rows[i].location, err.text);
		assert_string_equal(to, rows[i].to);
		assert_int_equal(is_same, rows[i].is_same);
		free(to);
	}
}

static void test_redact(void **state)
{
	static const struct {
		const char *url, *text;
	} rows[] = {
		{"http://h/m", "http://h/m"},
		{"http://u:p@h/m", "http://h/m"},
		{"http://u:p@q@h/m", "http://h/m"},
		{"http://h/m?sig=abc", "http://h/m"},
		{"https://u@h?x#y", "https://h"},
		{"http://h/a@b", "http://h/a@b"},
		{"/srv/a?b", "/srv/a?b"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = url_redact(rows[i].url);

		assert_string_equal(text, rows[i].text);
		free(text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bases),
		cmocka_unit_test(test_relative_paths_become_absolute),
		cmocka_unit_test(test_refused_bases),
		cmocka_unit_test(test_errors_hold_no_secret),
		cmocka_unit_test(test_paths_below),
		cmocka_unit_test(test_names_that_urls_dislike),
		cmocka_unit_test(test_join_of_directories),
		cmocka_unit_test(test_redirects),
		cmocka_unit_test(test_redact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
