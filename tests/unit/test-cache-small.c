/* SPDX-License-Identifier: Apache-2.0 */
/* A cache that is small against what is read through it by several at a time,
 * of one process and of another: the limit holds, what is refused for want of
 * room finds room soon, and what is read again is often still there. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "cache-env.h"

#define LIMIT (UINT64_C(32) << 20)
#define BLOBS 50u /* of 2 MiB: 100 MiB */
#define UNITS 32u
#define THREADS 3u
#define VISITS 40u
/* A small set that all come back to: half of what is read. */
#define HOT_BLOBS 5u

struct reader {
	struct cache *cache;
	unsigned int seed;
	uint64_t hits, misses, refusals, longest_ms;
};

/* Until there is room: it is refused for moments. */
static void store(struct reader *reader, struct cache_blob *blob,
		  unsigned int number, uint64_t unit)
{
	uint64_t start_ms = now_ms();
	int r;

	while ((r = env_put(blob, number, unit, NULL)) == -ENOSPC) {
		reader->refusals++;
		assert(now_ms() - start_ms < 60000);
		usleep(2000);
	}
	/* Evicted meanwhile: the next visit opens it again. */
	assert(r == 0 || r == -ESTALE);
	if (now_ms() - start_ms > reader->longest_ms)
		reader->longest_ms = now_ms() - start_ms;
}

static void visit(struct reader *reader, unsigned int number)
{
	struct cache_blob *blob = env_blob(reader->cache, number, UNITS);

	for (uint64_t unit = 0; unit < UNITS; unit++) {
		if (env_check(blob, number, unit) == 1) {
			reader->hits++;
			continue;
		}
		reader->misses++;
		store(reader, blob, number, unit);
	}
	cache_blob_close(blob);
}

static void *read_on(void *arg)
{
	struct reader *reader = arg;

	for (unsigned int i = 0; i < VISITS; i++) {
		unsigned int number = (unsigned int)rand_r(&reader->seed);

		number = number % 2 ?
				 number / 2 % HOT_BLOBS :
				 HOT_BLOBS + number / 2 % (BLOBS - HOT_BLOBS);
		visit(reader, number);
	}
	return NULL;
}

static void read_with_threads(const char *dir, struct reader *sum)
{
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct reader readers[THREADS] = {0};
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){
			.cache = cache, .seed = (unsigned int)getpid() + i};
		assert(pthread_create(&threads[i], NULL, read_on,
				      &readers[i]) == 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		assert(pthread_join(threads[i], NULL) == 0);
		sum->hits += readers[i].hits;
		sum->misses += readers[i].misses;
		sum->refusals += readers[i].refusals;
		if (readers[i].longest_ms > sum->longest_ms)
			sum->longest_ms = readers[i].longest_ms;
	}
	cache_close(cache);
}

static void test_small_cache_keeps_what_it_can(void **state)
{
	char *dir = scratch_directory();
	uint64_t worst = 0;
	int status = 0;
	pid_t pids[2];

	(void)state;
	cache_close(env_open_limited(dir, LIMIT));
	for (int i = 0; i < 2; i++) {
		struct reader sum = {0};

		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] > 0)
			continue;
		read_with_threads(dir, &sum);
		fprintf(stderr,
			"hits %llu misses %llu refusals %llu longest "
			"%llu ms\n",
			(unsigned long long)sum.hits,
			(unsigned long long)sum.misses,
			(unsigned long long)sum.refusals,
			(unsigned long long)sum.longest_ms);
		/* Far more than the share of the set that fits. */
		_exit(sum.hits * 3 < sum.hits + sum.misses);
	}
	for (int left = 2; left > 0;) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		assert_true(pid >= 0);
		if (pid > 0) {
			assert_int_equal(status, 0);
			left--;
		}
		if (env_disk_bytes(dir) > worst)
			worst = env_blocks;
		usleep(5000);
	}
	fprintf(stderr, "worst %llu\n", (unsigned long long)worst);
	/* A quarter above it while eviction runs, and what is being written. */
	assert_in_range(worst, LIMIT / 2, LIMIT + LIMIT / 4 + (4 << 20));
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_cache_keeps_what_it_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
