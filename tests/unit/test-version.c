/* SPDX-License-Identifier: Apache-2.0 */
/* Which ETags belong to the bytes that came first. */
#undef NDEBUG
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataset/version.h"

struct row {
	bool is_elsewhere; /* the other origin */
	const char *path;
	bool is_escaped;
	const char *etag;
	bool is_same;
	const char *known; /* afterwards, at this place */
};

static const struct row rows[] = {
	/* What proves nothing is not remembered. */
	{false, "a/file", true, "", true, ""},
	{false, "a/file", true, "W/\"1\"", true, ""},
	{false, "a/file?signature=1", true, "\"1\"", true, "\"1\""},
	/* Another signature is the same place. */
	{false, "a/file?signature=2", true, "\"1\"", true, "\"1\""},
	{false, "a/file", true, "\"2\"", false, "\"1\""},
	{false, "a/file", true, "", true, "\"1\""},
	{false, "a/file", true, "W/\"2\"", true, "\"1\""},
	{false, "a/file", true, "\"1\"", true, "\"1\""},
	/* Not escaped, it is a part of the name. */
	{false, "a/file?signature=1", false, "\"3\"", true, "\"3\""},
	/* Another path, another host: its own. */
	{false, "b/file", true, "\"4\"", true, "\"4\""},
	{true, "b/file", true, "\"5\"", true, "\"5\""},
	{true, "b/file", true, "\"4\"", false, "\"5\""},
};

static void test_rows(void **state)
{
	struct version *version = version_new();
	struct origin *origins[2];
	struct fetcher *fetcher;
	char known[FETCH_ETAG_MAX];

	(void)state;
	assert_int_equal(fetcher_open(NULL, &fetcher, NULL), 0);
	assert_int_equal(
		origin_open(fetcher, "http://a.invalid", &origins[0], NULL), 0);
	assert_int_equal(
		origin_open(fetcher, "http://b.invalid", &origins[1], NULL), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const struct fetch_request request = {
			.origin = origins[row->is_elsewhere],
			.path = row->path,
			.is_escaped = row->is_escaped,
		};

		assert_int_equal(version_is_same(version, &request, row->etag),
				 row->is_same);
		version_known(version, &request, known);
		assert_string_equal(known, row->known);
	}
	origin_close(origins[0]);
	origin_close(origins[1]);
	fetcher_close(fetcher);
	version_free(version);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
