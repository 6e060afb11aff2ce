/* SPDX-License-Identifier: Apache-2.0 */
/* Names of datasets on mirrors, paths below a mirror, the marker file. */
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

#include "base/buf.h"
#include "source/source.h"

static void test_names(void **state)
{
	static const struct {
		const char *text, *mirror, *dataset, *tag;
	} rows[] = {
		{"/srv/m#pile", "/srv/m", "pile", NULL},
		{"http://h/m#a/b", "http://h/m", "a/b", NULL},
		{"file:///srv/m#pile@v1.0", "file:///srv/m", "pile", "v1.0"},
		{"a#b/c#pile", "a#b/c", "pile", NULL},
		{"http://u:p@h/m#pile", "http://u:p@h/m", "pile", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct source_name name;

		assert_int_equal(source_parse(rows[i].text, &name, NULL), 0);
		assert_string_equal(name.mirror, rows[i].mirror);
		assert_string_equal(name.dataset, rows[i].dataset);
		assert_int_equal(!name.tag, !rows[i].tag);
		if (name.tag)
			assert_string_equal(name.tag, rows[i].tag);
		source_name_release(&name);
	}
}

static void test_refused_names(void **state)
{
	static const char *const rows[] = {
		"",
		"pile",
		"/srv/m",
		"#pile",
		"/srv/m#",
		"/srv/m#.x",
		"/srv/m#../x",
		"/srv/m#a//b",
		"/srv/m#a b",
		"/srv/m#a@",
		"/srv/m#@t",
		"/srv/m#a@b@c",
		"/srv/m#a@b/c",
		"/srv/m#/a",
		"/srv/m#a/",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct source_name name = {0};
		struct err err = {0};

		if (source_parse(rows[i], &name, &err) != -EINVAL)
			fail_msg("'%s' was taken", rows[i]);
		assert_true(err.text[0]);
		assert_null(name.mirror);
	}
	assert_int_equal(
		source_parse("hf://a/b", &(struct source_name){0}, NULL),
		-EINVAL);
}

static void test_paths(void **state)
{
	struct digest digest;
	char path[SOURCE_PATH_MAX], name[256];

	(void)state;
	assert_string_equal(mirror_head_path("a/b", NULL, path), "heads/a/b");
	assert_string_equal(mirror_head_path("pile", "v1", path),
			    "heads/pile@v1");
	memset(name, 'n', 255);
	name[255] = '\0';
	mirror_head_path(name, name, path);
	assert_int_equal(strlen(path), 6 + 255 + 1 + 255);
	digest_sha256("", 0, &digest);
	assert_string_equal(
		mirror_object_path(&digest, path),
		"objects/e3/b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495"
		"991b7852b855");
	assert_memory_equal(mirror_places_path(&digest, path), "places/e3/b0c4",
			    14);
	assert_memory_equal(mirror_pack_path(&digest, path), "packs/e3/b0c4",
			    13);
}

static void test_marker(void **state)
{
	static const struct {
		const char *text;
		int result;
	} rows[] = {
		{"larder mirror 1\ncreated: 2026-11-30T09:00:00Z\n", 0},
		{"larder mirror 1\n", 0},
		{"larder mirror 1\nlater: more\n", 0},
		{"larder mirror 2\n", -EPROTONOSUPPORT},
		{"larder mirror 12345678901\n", -EPROTONOSUPPORT},
		{"larder mirror 1", -EBADMSG},
		{"larder mirror \n", -EBADMSG},
		{"larder mirror x\n", -EBADMSG},
		{"larder mirror 99999999999999999999999999999\n", -EBADMSG},
		{"<html>login</html>", -EBADMSG},
		{"", -EBADMSG},
	};
	struct buf text;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = {0};
		int r = mirror_marker_check(rows[i].text, strlen(rows[i].text),
					    &err);

		if (r != rows[i].result)
			fail_msg("'%s': %d", rows[i].text, r);
		assert_int_equal(r < 0, err.text[0] != '\0');
	}
	buf_init(&text, 4096);
	assert_int_equal(mirror_marker_print(1796029200, &text), 0);
	assert_int_equal(mirror_marker_check(text.data, text.len, NULL), 0);
	buf_release(&text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_refused_names),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_marker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
