/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of buckets, and what they answer. */
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

#include "base/buf.h"
#include "source/source.h"

static int parse(const char *xml, struct s3_answer *ret)
{
	return s3_answer_parse(xml, strlen(xml), ret, NULL);
}

static void test_objects(void **state)
{
	struct s3_answer answer;

	(void)state;
	assert_int_equal(
		parse("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<ListBucketResult xmlns=\"x\"><Name>b</Name>"
		      "<Contents><Key>a%2Fb+c%25</Key><Size>12</Size>"
		      "<LastModified>1970-01-01T00:01:00.000Z</LastModified>"
		      "<Owner><Key>other</Key></Owner></Contents>"
		      "<EncodingType>url</EncodingType>"
		      "<IsTruncated>true</IsTruncated><Contents><Key>d</Key>"
		      "<LastModified>soon</LastModified></Contents>"
		      "<NextContinuationToken>t&amp;1</NextContinuationToken>"
		      "</ListBucketResult>",
		      &answer),
		0);
	assert_int_equal(answer.items.count, 2);
	assert_string_equal(answer.items.items[0].key, "a/b c%");
	assert_int_equal(answer.items.items[0].size, 12);
	assert_int_equal(answer.items.items[0].mtime, 60);
	assert_string_equal(answer.items.items[1].key, "d");
	assert_true(answer.items.items[1].mtime > INT64_C(1) << 60);
	assert_true(answer.is_truncated);
	assert_string_equal(answer.next, "t&1");
	s3_answer_release(&answer);
}

static void test_uploads(void **state)
{
	struct s3_answer answer;

	(void)state;
	assert_int_equal(
		parse("<ListMultipartUploadsResult><Upload><Key>a+b</Key>"
		      "<UploadId>u1</UploadId></Upload>"
		      "<IsTruncated>false</IsTruncated>"
		      "<NextUploadIdMarker/></ListMultipartUploadsResult>",
		      &answer),
		0);
	assert_int_equal(answer.items.count, 1);
	assert_string_equal(answer.items.items[0].key, "a+b");
	assert_string_equal(answer.items.items[0].upload_id, "u1");
	assert_string_equal(answer.next_id, "");
	assert_null(answer.upload_id);
	s3_answer_release(&answer);
	assert_int_equal(parse("<InitiateMultipartUploadResult><UploadId>u2"
			       "</UploadId></InitiateMultipartUploadResult>",
			       &answer),
			 0);
	assert_string_equal(answer.upload_id, "u2");
	s3_answer_release(&answer);
	assert_int_equal(
		parse("<Error><Code>InternalError</Code></Error>", &answer), 0);
	assert_string_equal(answer.code, "InternalError");
	s3_answer_release(&answer);
}

static void test_deleted(void **state)
{
	struct s3_answer answer;

	(void)state;
	assert_int_equal(
		parse("<DeleteResult><Deleted><Key>a&amp;b</Key></Deleted>"
		      "<Error><Key>c</Key><Code>AccessDenied</Code>"
		      "<Message>no</Message></Error></DeleteResult>",
		      &answer),
		0);
	assert_int_equal(answer.items.count, 2);
	assert_string_equal(answer.items.items[0].key, "a&b");
	assert_null(answer.items.items[0].code);
	assert_string_equal(answer.items.items[1].key, "c");
	assert_string_equal(answer.items.items[1].code, "AccessDenied");
	assert_null(answer.code);
	s3_answer_release(&answer);
}

static void test_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"hello",
		"<html><p>login</html>",
		"<a><b></a></b>",
		"<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
		"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
		"<a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a>",
		"<L><Contents><Size>1</Size></Contents></L>",
		"<L><Contents><Key>a</Key><Size>-1</Size></Contents></L>",
		"<L><EncodingType>url</EncodingType>"
		"<Contents><Key>a%0</Key></Contents></L>",
		"<L><EncodingType>url</EncodingType>"
		"<Contents><Key>a%00</Key></Contents></L>",
		"<L><IsTruncated>true</IsTruncated></L>",
		"<L>",
	};
	char *long_key = malloc(20001);
	struct s3_answer answer;
	struct buf xml;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (parse(rows[i], &answer) != -EBADMSG)
			fail_msg("'%s' was taken", rows[i]);
	memset(long_key, 'k', 20000);
	long_key[20000] = '\0';
	buf_init(&xml, 1 << 20);
	buf_printf(&xml, "<L><Contents><Key>%s</Key></Contents></L>", long_key);
	assert_int_equal(s3_answer_parse(xml.data, xml.len, &answer, NULL),
			 -EBADMSG);
	buf_release(&xml);
	free(long_key);
}

static void check_text(struct buf *buf, int result, const char *text)
{
	assert_int_equal(result, 0);
	assert_string_equal((char *)buf->data, text);
	buf_clear(buf);
}

static void test_queries(void **state)
{
	static const char *const etags[] = {"\"a\"", "b&c"};
	static const char *const paths[] = {"a<", "b"};
	struct buf buf;

	(void)state;
	buf_init(&buf, 4096);
	check_text(&buf, s3_list_query("a b/", NULL, &buf),
		   "encoding-type=url&list-type=2&prefix=a%20b%2F");
	check_text(&buf, s3_list_query("", "t=+", &buf),
		   "continuation-token=t%3D%2B&encoding-type=url&list-type=2"
		   "&prefix=");
	check_text(&buf, s3_uploads_query("p/", NULL, NULL, &buf),
		   "encoding-type=url&prefix=p%2F&uploads=");
	check_text(&buf, s3_uploads_query("p/", "k", "i", &buf),
		   "encoding-type=url&key-marker=k&prefix=p%2F"
		   "&upload-id-marker=i&uploads=");
	check_text(&buf, s3_part_query("i/", 7, &buf),
		   "partNumber=7&uploadId=i%2F");
	check_text(&buf, s3_upload_query("i", &buf), "uploadId=i");
	assert_int_equal(s3_complete_body(etags, 2, &buf), 0);
	check_text(&buf, buf_append(&buf, "", 1),
		   "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
		   "<ETag>&#34;a&#34;</ETag></Part><Part><PartNumber>2"
		   "</PartNumber><ETag>b&#38;c</ETag></Part>"
		   "</CompleteMultipartUpload>");
	assert_int_equal(s3_delete_body("p/", paths, 2, &buf), 0);
	check_text(&buf, buf_append(&buf, "", 1),
		   "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
		   "<Object><Key>p/a&#60;</Key></Object>"
		   "<Object><Key>p/b</Key></Object></Delete>");
	buf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_uploads),
		cmocka_unit_test(test_deleted),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
