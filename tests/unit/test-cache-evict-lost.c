/* SPDX-License-Identifier: Apache-2.0 */
/* The limit holds though the index is lost, or cannot be had at all: by the
 * times of the files, those first that are oldest, never what is pinned or
 * open. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cache-env.h"
#include "cache/files.h"

#define BLOB_UNITS 16u /* 1 MiB */
#define OLD_BLOBS 24u
#define LIMIT (UINT64_C(16) << 20)
#define HIGH (UINT64_C(1) << 30)
#define PINNED 0u
#define OPEN 1u

static bool has_file(const char *dir, unsigned int number)
{
	char path[512];

	return env_blob_file(dir, number, path, sizeof(path));
}

/* Blobs 0, 1, ..., the oldest first; the first is pinned, the second open. */
static int fill(const char *dir)
{
	struct cache *cache = env_open_limited(dir, HIGH);
	struct digest id = env_id(PINNED);
	const struct cache_pin pin = {
		.source = "m#d",
		.path = "",
		.blobs = &id,
		.blob_count = 1,
		.snapshot = id,
	};
	char path[512];
	int fd;

	for (unsigned int i = 0; i < OLD_BLOBS; i++)
		env_put_blob(cache, i, BLOB_UNITS);
	assert_int_equal(cache_pin_add(cache, &pin, NULL), 0);
	cache_close(cache);
	/* After all that reads and writes them. */
	for (unsigned int i = 0; i < OLD_BLOBS; i++) {
		struct timespec times[2] = {0};

		times[0].tv_sec = times[1].tv_sec = 1000000000 + i * 1000;
		assert_true(env_blob_file(dir, i, path, sizeof(path)));
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	}
	assert_true(env_blob_file(dir, OPEN, path, sizeof(path)));
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ofd_lock(fd, F_RDLCK, 0, 1), 0);
	return fd;
}

static void wait_within(const char *dir, uint64_t limit)
{
	for (int i = 0; i < 3000 && env_disk_bytes(dir) > limit; i++)
		usleep(20000);
	assert_true(env_disk_bytes(dir) <= limit);
}

/* Of the others those that are left are younger than those that went. */
static void check_order(const char *dir)
{
	bool is_left = false;
	unsigned int left = 0;

	assert_true(has_file(dir, PINNED));
	assert_true(has_file(dir, OPEN));
	for (unsigned int i = OPEN + 1; i < OLD_BLOBS; i++) {
		left += has_file(dir, i);
		if (is_left)
			assert_true(has_file(dir, i));
		is_left |= has_file(dir, i);
	}
	/* Down to nine tenths, not to nothing. */
	assert_in_range(left, 8, OLD_BLOBS - 8);
}

static void test_lost_index(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache_usage usage;
	struct cache *cache;
	int fd = fill(dir);

	(void)state;
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, path), 0);
	cache = env_open_limited(dir, LIMIT);
	wait_within(dir, LIMIT);
	check_order(dir);
	/* What it holds is counted, and what is new makes older ones go. */
	cache_usage(cache, &usage);
	assert_true(usage.records && usage.blobs_evicted > 0);
	for (unsigned int i = 100; i < 108; i++)
		env_put_blob(cache, i, BLOB_UNITS);
	wait_within(dir, LIMIT + LIMIT / 4);
	assert_true(has_file(dir, 107));
	assert_true(has_file(dir, PINNED));
	assert_true(has_file(dir, OPEN));
	cache_close(cache);
	close(fd);
	env_remove(dir);
}

static void test_no_index(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache_usage usage;
	struct cache_blob *blob;
	struct cache *cache;
	int fd = fill(dir), file, r;

	(void)state;
	/* Something that no index can be made of, and that stays. */
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, path), 0);
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	close(file);
	cache = env_open_limited(dir, LIMIT);
	cache_usage(cache, &usage);
	assert_false(usage.records);
	wait_within(dir, LIMIT);
	check_order(dir);
	/* What is stored now lives as long as it is open, and counts. */
	blob = env_blob(cache, 100, BLOB_UNITS);
	/* refused until the eviction has ended */
	while ((r = env_put(blob, 100, 0, NULL)) == -ENOSPC)
		usleep(20000);
	assert_int_equal(r, 0);
	assert_int_equal(env_check(blob, 100, 0), 1);
	cache_blob_close(blob);
	cache_close(cache);
	close(fd);
	env_remove(dir);
}

static void test_lost_while_running(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache_usage usage = {0};

	(void)state;
	for (unsigned int i = 0; i < 12; i++)
		env_put_blob(cache, i, BLOB_UNITS);
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, path), 0);
	snprintf(path, sizeof(path), "%s/index/data.mdb", dir);
	for (int i = 0; i < 3000 && access(path, F_OK) < 0; i++)
		usleep(20000);
	for (int i = 0; i < 3000 && !usage.records; i++) {
		usleep(20000);
		cache_usage(cache, &usage);
	}
	assert_true(usage.records);
	for (unsigned int i = 100; i < 112; i++)
		env_put_blob(cache, i, BLOB_UNITS);
	wait_within(dir, LIMIT);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_index),
		cmocka_unit_test(test_no_index),
		cmocka_unit_test(test_lost_while_running),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
