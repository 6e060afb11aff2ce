/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on few blobs: puts, checks, claims, opening and closing. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache-env.h"
#include "own-time.h"

#define THREADS 8
#define BLOBS 4u
#define UNITS 100u

struct shared {
	struct cache *cache;
	_Atomic int put, recorded;
	bool drops; /* some threads forget what others have put */
};

static void *run_thread(void *arg)
{
	struct shared *shared = arg;
	unsigned int seed = (unsigned int)(uintptr_t)pthread_self();

	for (int i = 0; i < 400; i++) {
		unsigned int number = (unsigned int)rand_r(&seed) % BLOBS;
		uint64_t unit = (uint64_t)rand_r(&seed) % UNITS;
		struct cache_blob *blob = env_blob(shared->cache, number,
						   UNITS);

		if (!env_check(blob, number, unit)) {
			atomic_fetch_add(&shared->put, 1);
			assert(env_put(blob, number, unit,
				       &shared->recorded) == 0);
			assert(shared->drops ||
			       env_check(blob, number, unit) == 1);
		}
		(void)cache_blob_recheck(blob, unit);
		(void)cache_blob_bytes_present(blob);
		if (shared->drops && i % 50 == 0)
			cache_blob_drop(blob, unit, UNIT);
		cache_blob_close(blob);
	}
	return NULL;
}

static void run_all(struct shared *shared, void *(*run)(void *arg))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, shared),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void test_threads_share(void **state)
{
	char *dir = scratch_directory();
	struct shared shared = { .cache = env_open(dir) };

	(void)state;
	run_all(&shared, run_thread);
	env_wait(&shared.recorded, atomic_load(&shared.put));
	cache_close(shared.cache);
	shared.cache = env_open(dir);
	shared.drops = true;
	run_all(&shared, run_thread);
	env_wait(&shared.recorded, atomic_load(&shared.put));
	cache_close(shared.cache);
	env_remove(dir);
}

static void *run_wait(void *arg)
{
	struct shared *shared = arg;

	for (int i = 0; i < 20; i++)
		cache_wait(shared->cache, 20);
	return NULL;
}

static void test_wait_and_wake(void **state)
{
	char *dir = scratch_directory();
	struct shared shared = { .cache = env_open(dir) };
	struct digest unit = env_id(1);
	int64_t own_begun;
	uint64_t begun;
	int tries = 0;

	(void)state;
	run_all(&shared, run_wait);
	/* What happened between two waits is not missed. */
	cache_wait(shared.cache, 1);
	cache_unclaim(shared.cache, &unit);
	own_begun = own_ms();
	cache_wait(shared.cache, 5000);
	assert_true(is_within(own_begun, 2000));
	/* The wake-up that goes with what was seen just now may come late. */
	do {
		begun = now_ms();
		cache_wait(shared.cache, 100);
	} while (now_ms() - begun < 90 && ++tries < 10);
	assert_int_not_equal(tries, 10);
	cache_close(shared.cache);
	env_remove(dir);
}

static void test_close_calls_back(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 1, UNITS);
	_Atomic int recorded = 0;

	(void)state;
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(atomic_load(&recorded), UNITS);
	cache = env_open(dir);
	blob = env_blob(cache, 1, UNITS);
	assert_true(cache_blob_complete(blob));
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_share),
		cmocka_unit_test(test_wait_and_wake),
		cmocka_unit_test(test_close_calls_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
