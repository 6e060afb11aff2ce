/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers come back for the next use, within the bound, and what is not in use
 * is no one's. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/pool.h"

static void buffers_come_back(void **state)
{
	struct pool *pool = pool_new(4u << 20);
	uint8_t *a = pool_get(pool, 1000000), *b;

	(void)state;
	memset(a, 1, 1000000);
	pool_put(pool, a, 1000000);
	b = pool_get(pool, 900000);
	assert_ptr_equal(a, b);
	pool_put(pool, b, 900000);
	for (size_t len = 1; len <= POOL_BYTES_MAX; len = len * 3 + 1) {
		a = pool_get(pool, len);
		memset(a, 2, len);
		pool_put(pool, a, len);
	}
	a = pool_get(pool, POOL_BYTES_MAX);
	a[POOL_BYTES_MAX - 1] = 1;
	pool_put(pool, a, POOL_BYTES_MAX);
	pool_trim(pool);
	pool_free(pool);
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
/* What is read after it was given back, or behind its end, is reported. */
static void the_sanitizer_knows_what_is_in_use(void **state)
{
	struct pool *pool = pool_new(4u << 20);
	uint8_t *data = pool_get(pool, 1000000);

	(void)state;
	assert_null(__asan_region_is_poisoned(data, 1000000));
	assert_true(__asan_address_is_poisoned(data + 1000000));
	pool_put(pool, data, 1000000);
	assert_true(__asan_address_is_poisoned(data + 500));
	assert_ptr_equal(pool_get(pool, 1000001), data);
	assert_null(__asan_region_is_poisoned(data, 1000001));
	pool_put(pool, data, 1000001);
	pool_free(pool);
}
#endif

/* Whether the pages of an address are mapped. */
static bool is_mapped(const uint8_t *page)
{
	unsigned char in_core;

	return mincore((void *)page, 1, &in_core) == 0;
}

/* What is in use counts as well: both together stay within the bound. */
static void no_more_is_kept_than_was_agreed(void **state)
{
	struct pool *pool = pool_new(5000000);
	uint8_t *buffers[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		buffers[i] = pool_get(pool, 2000000);
	pool_put(pool, buffers[0], 2000000); /* 6 MB are in use */
	assert_false(is_mapped(buffers[0]));
	pool_put(pool, buffers[1], 2000000); /* 4 MB are */
	assert_false(is_mapped(buffers[1]));
	pool_put(pool, buffers[2], 2000000);
	assert_true(is_mapped(buffers[2]));
	pool_put(pool, buffers[3], 2000000);
	assert_true(is_mapped(buffers[3]));
	assert_ptr_equal(pool_get(pool, 2000000), buffers[3]);
	pool_put(pool, buffers[3], 2000000);
	pool_trim(pool);
	assert_false(is_mapped(buffers[2]));
	assert_false(is_mapped(buffers[3]));
	pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_come_back),
#if defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(the_sanitizer_knows_what_is_in_use),
#endif
		cmocka_unit_test(no_more_is_kept_than_was_agreed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
