/* SPDX-License-Identifier: Apache-2.0 */
/* What is damaged, replaced or missing on disk is a miss: never wrong bytes,
 * never followed, never a hang. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cache-env.h"
#include "cache/internal.h"

#define UNITS 8

struct fixture {
	char *dir, path[512];
};

/* A closed cache with one complete blob; path is its file. */
static void fixture_make(struct fixture *fixture)
{
	struct cache_blob *blob;
	struct cache *cache;
	_Atomic int recorded = 0;

	fixture->dir = scratch_directory();
	cache = env_open(fixture->dir);
	blob = env_blob(cache, 1, UNITS);
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
	env_wait(&recorded, UNITS);
	cache_blob_close(blob);
	cache_close(cache);
	assert_true(env_blob_file(fixture->dir, 1, fixture->path,
				  sizeof(fixture->path)));
}

/* Nobody checks the file behind the test's back, for the complete mark. */
static struct cache *open_alone(const char *dir)
{
	struct cache *cache = env_open(dir);

	sealer_stop(&cache->sealer);
	return cache;
}

/* Units present now; those that are not are put again, and all are right. */
static unsigned int count_and_repair(struct fixture *fixture,
				     struct cache_usage *ret_usage)
{
	struct cache *cache = env_open(fixture->dir);
	struct cache_blob *blob = env_blob(cache, 1, UNITS);
	unsigned int present = 0, put = 0;
	_Atomic int recorded = 0;

	for (uint64_t unit = 0; unit < UNITS; unit++)
		present += (unsigned int)env_check(blob, 1, unit);
	for (uint64_t unit = 0; unit < UNITS; unit++) {
		if (env_check(blob, 1, unit))
			continue;
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
		put++;
	}
	env_wait(&recorded, (int)put);
	cache_usage(cache, ret_usage);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(present + put, UNITS);

	cache = env_open(fixture->dir);
	blob = env_blob(cache, 1, UNITS);
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_check(blob, 1, unit), 1);
	assert_true(cache_blob_complete(blob));
	cache_blob_close(blob);
	cache_close(cache);
	return present;
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void test_flipped_bytes(void **state)
{
	struct cache_usage usage;
	struct fixture fixture;

	(void)state;
	fixture_make(&fixture);
	flip(fixture.path, 0);
	flip(fixture.path, 3 * UNIT + 100);
	flip(fixture.path, UNITS * UNIT - 1);
	assert_int_equal(count_and_repair(&fixture, &usage), UNITS - 3);
	assert_int_equal(usage.units_dropped_corrupt, 3);
	assert_int_equal(usage.blobs_lost, 0);
	env_remove(fixture.dir);
}

/* One that was put again since somebody saw it bad is neither counted nor
 * dropped. */
static void test_suspected_too_late(void **state)
{
	struct cache_usage usage;
	struct cache_blob *blob;
	struct fixture fixture;
	struct cache *cache;

	(void)state;
	fixture_make(&fixture);
	cache = open_alone(fixture.dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_check(blob, 1, 3), 1);
	blob_unit_suspect(blob, 3, UNIT);
	assert_int_equal(env_check(blob, 1, 3), 1);
	cache_usage(cache, &usage);
	assert_int_equal(usage.units_dropped_corrupt, 0);
	flip(fixture.path, 3 * UNIT);
	blob_unit_suspect(blob, 3, UNIT);
	blob_unit_suspect(blob, 3, UNIT);
	cache_usage(cache, &usage);
	assert_int_equal(usage.units_dropped_corrupt, 1);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(fixture.dir);
}

static void test_truncated(void **state)
{
	struct cache_usage usage;
	struct fixture fixture;

	(void)state;
	fixture_make(&fixture);
	assert_int_equal(truncate(fixture.path, 5 * UNIT + 1), 0);
	assert_int_equal(count_and_repair(&fixture, &usage), 5);
	assert_int_equal(usage.units_dropped_corrupt, 3);
	env_remove(fixture.dir);
}

static void lost(struct fixture *fixture)
{
	struct cache_usage usage;

	assert_int_equal(count_and_repair(fixture, &usage), 0);
	assert_int_equal(usage.units_dropped_corrupt, 0);
	assert_int_equal(usage.blobs_lost, 1);
	env_remove(fixture->dir);
}

static void test_deleted(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_make(&fixture);
	assert_int_equal(unlink(fixture.path), 0);
	lost(&fixture);
}

static void test_replaced_by_symlink(void **state)
{
	struct fixture fixture;
	char target[600];
	struct stat before, after;

	(void)state;
	fixture_make(&fixture);
	snprintf(target, sizeof(target), "%s/elsewhere", fixture.dir);
	assert_int_equal(rename(fixture.path, target), 0);
	assert_int_equal(symlink(target, fixture.path), 0);
	assert_int_equal(stat(target, &before), 0);
	assert_int_equal(unlink(target), 0);
	assert_int_equal(file_write(AT_FDCWD, target, "precious", 8, 0600, 0),
			 0);
	assert_int_equal(stat(target, &before), 0);
	{
		struct cache_usage usage;

		assert_int_equal(count_and_repair(&fixture, &usage), 0);
		assert_int_equal(usage.blobs_lost, 1);
	}
	assert_int_equal(stat(target, &after), 0);
	assert_int_equal(after.st_size, 8);
	assert_int_equal(before.st_ino, after.st_ino);
	env_remove(fixture.dir);
}

static void test_replaced_by_fifo(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_make(&fixture);
	assert_int_equal(unlink(fixture.path), 0);
	assert_int_equal(mkfifo(fixture.path, 0600), 0);
	lost(&fixture);
}

static void test_replaced_by_directory(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_make(&fixture);
	assert_int_equal(unlink(fixture.path), 0);
	assert_int_equal(mkdir(fixture.path, 0700), 0);
	lost(&fixture);
}

static void test_changed_while_open(void **state)
{
	struct cache_blob *blob;
	struct cache_usage usage;
	struct fixture fixture;
	struct cache *cache;
	_Atomic int recorded = 0;

	(void)state;
	fixture_make(&fixture);
	cache = open_alone(fixture.dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_check(blob, 1, 0), 1);
	flip(fixture.path, UNIT); /* unit 1 was not looked at yet */
	assert_int_equal(env_check(blob, 1, 1), 0);
	assert_int_equal(env_check(blob, 1, 1), 0); /* counted once */
	/* a reader found another digest, and says so */
	cache_blob_drop(blob, 0, UNIT);
	assert_int_equal(env_check(blob, 1, 0), 0);
	assert_int_equal(env_put(blob, 1, 0, &recorded), 0);
	assert_int_equal(env_put(blob, 1, 1, &recorded), 0);
	/* The change is noticed only now, perhaps: then what counts is what
	 * is recorded. */
	env_wait(&recorded, 2);
	assert_int_equal(env_check(blob, 1, 0), 1);
	assert_int_equal(env_check(blob, 1, 1), 1);
	/* deleted: what is open stays readable */
	assert_int_equal(unlink(fixture.path), 0);
	assert_int_equal(env_check(blob, 1, 0), 1);
	assert_int_equal(env_check(blob, 1, 1), 1);
	cache_usage(cache, &usage);
	assert_int_equal(usage.units_dropped_corrupt, 2);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(count_and_repair(&fixture, &usage), 0);
	env_remove(fixture.dir);
}

static void test_truncated_while_open(void **state)
{
	struct cache_blob *blob, *again;
	struct cache_usage usage;
	struct fixture fixture;
	uint64_t at, len;
	struct cache *cache;
	_Atomic int recorded = 0;
	int fd;

	(void)state;
	fixture_make(&fixture);
	cache = open_alone(fixture.dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_check(blob, 1, 0), 1);
	assert_int_equal(env_check(blob, 1, 7), 1);
	assert_int_equal(truncate(fixture.path, UNIT), 0);
	assert_int_equal(cache_blob_has(blob, 7, 7 * UNIT, UNIT), 1);
	assert_int_equal(cache_blob_fd(blob, 7 * UNIT, &fd, &at, &len), -ENOENT);
	assert_int_equal(env_check(blob, 1, 7), 0);
	assert_int_equal(cache_blob_fd(blob, 0, &fd, &at, &len), -ENOENT);
	assert_int_equal(env_put(blob, 1, 7, &recorded), -ESTALE);
	cache_usage(cache, &usage);
	assert_int_equal(usage.blobs_lost, 1);
	/* The next to open it begins anew. */
	again = env_blob(cache, 1, UNITS);
	assert_ptr_not_equal(again, blob);
	assert_int_equal(env_check(again, 1, 0), 0);
	assert_int_equal(env_put(again, 1, 7, &recorded), 0);
	assert_int_equal(env_check(again, 1, 7), 1);
	env_wait(&recorded, 1);
	cache_blob_close(blob);
	cache_blob_close(again);
	cache_close(cache);
	assert_int_equal(count_and_repair(&fixture, &usage), 1);
	env_remove(fixture.dir);
}

/* Bytes that the kernel had and could not bring to the disk are a hole when they
 * are read again; no call has said so. */
static void test_lost_by_the_kernel(void **state)
{
	struct fixture fixture = {.dir = scratch_directory()};
	struct cache *cache = env_open(fixture.dir);
	struct cache_blob *blob = env_blob(cache, 1, UNITS);
	_Atomic int recorded = 0;
	int fd;

	(void)state;
	for (uint64_t unit = 0; unit < 2; unit++)
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
	env_wait(&recorded, 2);
	assert_true(env_blob_file(fixture.dir, 1, fixture.path,
				  sizeof(fixture.path)));
	fd = open(fixture.path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fallocate(fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, UNIT),
			 0);
	close(fd);
	assert_int_equal(cache_blob_has(blob, 0, 0, UNIT), 0);
	assert_int_equal(cache_blob_has(blob, 1, UNIT, UNIT), 1);
	assert_int_equal(env_put(blob, 1, 0, &recorded), 0);
	env_wait(&recorded, 3);
	assert_int_equal(env_check(blob, 1, 0), 1);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(fixture.dir);
}

static void test_swapped(void **state)
{
	char other[512], third[520];
	struct cache_usage usage;
	struct cache_blob *blob;
	struct fixture fixture;
	struct cache *cache;
	_Atomic int recorded = 0;

	(void)state;
	fixture_make(&fixture);
	cache = env_open(fixture.dir);
	blob = env_blob(cache, 2, UNITS);
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_put(blob, 2, unit, &recorded), 0);
	env_wait(&recorded, UNITS);
	cache_blob_close(blob);
	cache_close(cache);
	assert_true(env_blob_file(fixture.dir, 2, other, sizeof(other)));
	snprintf(third, sizeof(third), "%s-3", other);
	assert_int_equal(rename(other, third), 0);
	assert_int_equal(rename(fixture.path, other), 0);
	assert_int_equal(rename(third, fixture.path), 0);
	assert_int_equal(count_and_repair(&fixture, &usage), 0);
	assert_int_equal(usage.units_dropped_corrupt, UNITS);
	env_remove(fixture.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flipped_bytes),
		cmocka_unit_test(test_suspected_too_late),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_deleted),
		cmocka_unit_test(test_replaced_by_symlink),
		cmocka_unit_test(test_replaced_by_fifo),
		cmocka_unit_test(test_replaced_by_directory),
		cmocka_unit_test(test_changed_while_open),
		cmocka_unit_test(test_truncated_while_open),
		cmocka_unit_test(test_lost_by_the_kernel),
		cmocka_unit_test(test_swapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
