/* SPDX-License-Identifier: Apache-2.0 */
/* s3:// URLs, files of keys, and what errors of S3 say. */
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

#include <cmocka.h>

#include "fetch/s3.h"

static void test_urls(void **state)
{
	static const struct {
		const char *url, *endpoint, *region;
		enum s3_path_style style;
		const char *base;
	} rows[] = {
		{"s3://b", NULL, NULL, 0,
		 "https://b.s3.us-east-1.amazonaws.com"},
		{"S3://b/", NULL, "eu-west-1", 0,
		 "https://b.s3.eu-west-1.amazonaws.com"},
		{"s3://b/p/q//", NULL, "cn-north-1", 0,
		 "https://b.s3.cn-north-1.amazonaws.com.cn/p/q"},
		/* no certificate has two labels before the host's name */
		{"s3://a.b/p", NULL, NULL, 0,
		 "https://s3.us-east-1.amazonaws.com/a.b/p"},
		{"s3://Old_one", NULL, NULL, 0,
		 "https://s3.us-east-1.amazonaws.com/Old_one"},
		{"s3://b", NULL, NULL, S3_PATH_STYLE_YES,
		 "https://s3.us-east-1.amazonaws.com/b"},
		{"s3://b/p", "http://h:9000/", NULL, 0, "http://h:9000/b/p"},
		{"s3://b/p", "http://h:9000/", NULL, S3_PATH_STYLE_NO,
		 "http://b.h:9000/p"},
		{"s3://b/p", "https://h/gate", NULL, 0, "https://h/gate/b/p"},
		/* escaped once */
		{"s3://b/a b%20+\xc3\xa9?=&", "http://h", NULL, 0,
		 "http://h/b/a%20b%2520%2B%C3%A9%3F%3D%26"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct origin_options options = {
			.s3_endpoint = rows[i].endpoint,
			.s3_region = rows[i].region,
			.s3_credentials = "none",
			.s3_path_style = rows[i].style,
		};
		struct url_base base;
		struct s3 *s3;
		struct err err;

		if (s3_parse(rows[i].url, &options, &base, &s3, &err) < 0)
			fail_msg("'%s': %s", rows[i].url, err.text);
		assert_string_equal(base.base, rows[i].base);
		assert_false(base.is_local);
		assert_string_equal(s3->keys.id, "");
		assert_true(s3_equal(s3, s3));
		assert_false(s3_equal(s3, NULL));
		url_base_release(&base);
		s3_free(s3);
	}
}

static void test_refused_urls(void **state)
{
	static const struct {
		const char *url, *endpoint, *region, *file;
	} rows[] = {
		{"s3://", NULL, NULL, NULL},
		{"s3:///p", NULL, NULL, NULL},
		{"s3://k:s@b/p", NULL, NULL, NULL},
		{"s3://..", NULL, NULL, NULL},
		{"s3://b c", NULL, NULL, NULL},
		{"s3://b?x", NULL, NULL, NULL},
		{"s3://b/a//b", NULL, NULL, NULL},
		{"s3://b/../c", NULL, NULL, NULL},
		{"s3://b", "h:9000", NULL, NULL},
		{"s3://b", "ftp://h", NULL, NULL},
		{"s3://b", "http://k:s@h", NULL, NULL},
		{"s3://b", "http://h/?x", NULL, NULL},
		{"s3://b", NULL, "eu:west", NULL},
		{"s3://b", NULL, "EU", NULL},
		{"s3://b", NULL, NULL, "/nonexistent/keys"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct origin_options options = {
			.s3_endpoint = rows[i].endpoint,
			.s3_region = rows[i].region,
			.s3_credentials = rows[i].file ? rows[i].file : "none",
		};
		struct url_base base;
		struct s3 *s3;
		struct err err = {0};

		if (s3_parse(rows[i].url, &options, &base, &s3, &err) == 0)
			fail_msg("'%s' was taken", rows[i].url);
		assert_true(err.text[0]);
		assert_null(strstr(err.text, "k:s"));
	}
}

static int parse_keys(const char *file, const char *profile,
		      struct s3_keys *ret)
{
	char text[512];

	snprintf(text, sizeof(text), "%s", file);
	return s3_keys_parse(text, profile, ret, NULL);
}

static void test_keys(void **state)
{
	static const char file[] = "# comment\r\n"
				   "aws_access_key_id = outside\n"
				   "[default]\r\n"
				   "aws_access_key_id=A\r\n"
				   "  aws_secret_access_key   =  s/e=c+  \r\n"
				   "[ work ]\n"
				   "region = x\n"
				   ";aws_access_key_id = no\n"
				   "aws_secret_access_key = t\n"
				   "aws_session_token = u==\n"
				   "aws_access_key_id = B\n"
				   "[broken]\n"
				   "aws_access_key_id = C";
	struct s3_keys keys;

	(void)state;
	assert_int_equal(parse_keys(file, "default", &keys), 0);
	assert_string_equal(keys.id, "A");
	assert_string_equal(keys.secret, "s/e=c+");
	assert_string_equal(keys.token, "");
	assert_int_equal(parse_keys(file, "work", &keys), 0);
	assert_string_equal(keys.id, "B");
	assert_string_equal(keys.secret, "t");
	assert_string_equal(keys.token, "u==");
	assert_int_equal(parse_keys(file, "broken", &keys), -EACCES);
	assert_int_equal(parse_keys(file, "none", &keys), -ENOENT);
	assert_int_equal(parse_keys("", "default", &keys), -ENOENT);
	assert_int_equal(parse_keys("[default]\naws_access_key_id=a b\n"
				    "aws_secret_access_key=c\n",
				    "default", &keys),
			 -EACCES);
	assert_string_equal(keys.id, "B"); /* as it was */
}

static void test_answers(void **state)
{
	static const struct {
		unsigned status;
		const char *region, *body;
		enum fetch_class class;
		const char *word;
	} rows[] = {
		{404, "", "<Error><Code>NoSuchKey</Code></Error>", FETCH_ABSENT,
		 "NoSuchKey"},
		{404, "", "", FETCH_ABSENT, "HTTP 404"},
		{404, "", "<html>not here</html>", FETCH_WRONG, "endpoint"},
		{404, "", "<Error><Code>NoSuchBucket</Code></Error>",
		 FETCH_REFUSED, "no bucket 'b'"},
		{403, "", "<Error><Code>AccessDenied</Code></Error>",
		 FETCH_REFUSED, "key id 'ID'"},
		{403, "", "<Error><Code>SignatureDoesNotMatch</Code>",
		 FETCH_REFUSED, "key id 'ID'"},
		{403, "", "", FETCH_REFUSED, "HTTP 403 for key id 'ID'"},
		{403, "", "<Code>RequestTimeTooSkewed</Code>", FETCH_REFUSED,
		 "clock"},
		{400, "", "<Code>ExpiredToken</Code>", FETCH_REFUSED, "renew"},
		{400, "", "<Code>RequestTimeout</Code>", FETCH_BUSY,
		 "RequestTimeout"},
		{400, "",
		 "<Code>AuthorizationHeaderMalformed</Code><Region>x-1</Region>",
		 FETCH_REFUSED, "s3-region=x-1"},
		{301, "y-2", "<Code>PermanentRedirect</Code>", FETCH_REFUSED,
		 "s3-region=y-2"},
		{307, "", "<Code>TemporaryRedirect</Code>", FETCH_REFUSED,
		 "elsewhere"},
		{503, "", "<Code>SlowDown</Code>", FETCH_BUSY, "503 SlowDown"},
		{500, "", "", FETCH_BUSY, "HTTP 500"},
		{429, "", "", FETCH_BUSY, "HTTP 429"},
		{412, "", "<Code>PreconditionFailed</Code>", FETCH_WRONG,
		 "PreconditionFailed"},
		/* what is no word is not shown */
		{403, "", "<Code>a\033b</Code>", FETCH_REFUSED, "HTTP 403"},
		{403, "", "<Code>no end", FETCH_REFUSED, "HTTP 403"},
	};
	struct s3 s3 = {
		.bucket = (char[]){"b"},
		.region = (char[]){"us-east-1"},
		.keys = {.id = "ID", .secret = "SECRET", .token = "TOKEN"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum fetch_class class;
		struct err err;

		s3_judge(&s3, rows[i].status, rows[i].region, rows[i].body,
			 strlen(rows[i].body), &class, &err);
		if (class != rows[i].class || !strstr(err.text, rows[i].word))
			fail_msg("%u '%s': %s, '%s'", rows[i].status,
				 rows[i].body, fetch_class_name(class),
				 err.text);
		assert_null(strstr(err.text, "SECRET"));
		assert_null(strstr(err.text, "TOKEN"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_refused_urls),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
