/* SPDX-License-Identifier: Apache-2.0 */
/* Where shared blobs end: limits, and a mean that holds in bytes. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include <cmocka.h>

#include "publish/shared-cut.h"

static const struct catalog_params params = {
	.small_file_bytes = 128 << 10,
	.shared_min_bytes = 8 << 20,
	.shared_mean_bytes = 24 << 20,
	.shared_max_bytes = 64 << 20,
};

static void test_limits(void **state)
{
	(void)state;
	assert_false(shared_blob_ends_before(&params, 0, 0, 100));
	assert_false(
		shared_blob_ends_before(&params, (64 << 20) - 100, 9, 100));
	assert_true(shared_blob_ends_before(&params, (64 << 20) - 100, 9, 101));
	assert_false(
		shared_blob_ends_before(&params, 5, SHARED_FILES_MAX - 1, 1));
	assert_true(shared_blob_ends_before(&params, 5, SHARED_FILES_MAX, 1));
	/* below the minimum never, whatever the path */
	for (int i = 0; i < 1000; i++) {
		char path[32];
		int len = snprintf(path, sizeof(path), "%d", i);

		assert_false(shared_blob_ends_after(
			&params, (8 << 20) - 1, path, (size_t)len, 128 << 10));
	}
	/* a file as large as the gap always */
	assert_true(shared_blob_ends_after(&params, 8 << 20, "x", 1, 16 << 20));
}

static void check_mean(uint64_t file_bytes)
{
	uint64_t blob = 0, total = 0, blobs = 0;

	for (int i = 0; blobs < 200; i++) {
		char path[32];
		int len = snprintf(path, sizeof(path), "dir/%d", i);

		if (shared_blob_ends_before(&params, blob, 1, file_bytes)) {
			blobs++;
			blob = 0;
		}
		blob += file_bytes;
		total += file_bytes;
		if (shared_blob_ends_after(&params, blob, path, (size_t)len,
					   file_bytes)) {
			blobs++;
			blob = 0;
		}
	}
	/* the maximum cuts the tail of the distribution: a little less */
	assert_in_range(total / blobs, 20 << 20, 27 << 20);
}

static void test_mean_holds_for_all_sizes(void **state)
{
	(void)state;
	check_mean(2000);
	check_mean(30000);
	check_mean(128 << 10);
}

/* The rule of larder-format(5) in other words. */
static void test_threshold(void **state)
{
	const long double gap = 16 << 20;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char path[32];
		int len = snprintf(path, sizeof(path), "p%d", i);
		uint64_t size = 1 + (uint64_t)i * 7 % (128 << 10);
		uint64_t hash = checksum_xxh3(path, (size_t)len);
		long double limit = (long double)size / gap * 0x1p64L;

		if (hash > limit - 2 && hash < limit + 2)
			continue;
		assert_int_equal(shared_blob_ends_after(&params, 9 << 20, path,
							(size_t)len, size),
				 (long double)hash < limit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_mean_holds_for_all_sizes),
		cmocka_unit_test(test_threshold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
