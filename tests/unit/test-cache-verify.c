/* SPDX-License-Identifier: Apache-2.0 */
/* What is evicted while somebody verifies is not called missing. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache-env.h"

#define BLOBS 60u
#define ROUNDS 12

static void fill(struct cache *cache)
{
	_Atomic int recorded = 0;

	for (unsigned int i = 0; i < BLOBS; i++) {
		struct cache_blob *blob = env_blob(cache, i, 1);

		assert_int_equal(env_put(blob, i, 0, &recorded), 0);
		cache_blob_close(blob);
	}
	env_wait(&recorded, BLOBS);
}

static void *evict_all(void *arg)
{
	struct digest ids[BLOBS];
	struct cache_evicted evicted;

	for (unsigned int i = 0; i < BLOBS; i++)
		ids[i] = env_id(i);
	assert(cache_evict(arg, ids, BLOBS, false, &evicted, NULL) == 0);
	return NULL;
}

static void on_fault(void *arg, const char *path, const char *text)
{
	(void)arg;
	print_message("%s: %s\n", path, text);
}

static void test_evicted_is_not_missing(void **state)
{
	const struct cache_verify_options options = {
		.threads = 2,
		.report = on_fault,
	};
	char *dir = env_directory();
	struct cache *cache = env_open(dir), *other = env_open(dir);
	struct cache_verify_result result;
	pthread_t thread;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		fill(cache);
		assert_int_equal(
			pthread_create(&thread, NULL, evict_all, cache), 0);
		do
			assert_int_equal(
				cache_verify(other, &options, &result, NULL),
				0);
		while (result.blobs == BLOBS && result.left == 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(result.left, 0);
	}
	cache_close(other);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_evicted_is_not_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
