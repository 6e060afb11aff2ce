/* SPDX-License-Identifier: Apache-2.0 */
/* Limits hold under load; what was used last and what is open stays; files
 * nobody knows are swept. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cache-env.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/layout.h"

#define UNITS 16u /* blobs of 1 MiB */
#define LIMIT (UINT64_C(32) << 20)

static bool is_here(struct cache *cache, unsigned int number)
{
	struct cache_blob *blob = env_blob(cache, number, UNITS);
	bool is_complete = cache_blob_complete(blob);

	cache_blob_close(blob);
	return is_complete;
}

static void set_clock(struct cache *cache, int64_t now_s)
{
	atomic_store(&cache->now_s, now_s);
}

static void test_longest_unused_goes(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache *other = env_open_limited(dir, LIMIT);
	struct cache_blob *kept, *foreign;
	struct cache_usage usage;
	int64_t now_s = wall_seconds();

	(void)state;
	keeper_stop(&cache->keeper); /* the test is the keeper */
	keeper_stop(&other->keeper);
	for (unsigned int i = 0; i < 34; i++) {
		set_clock(cache, now_s + i * 10);
		env_put_blob(cache, i, UNITS);
	}
	kept = env_blob(cache, 0, UNITS);    /* open here */
	foreign = env_blob(other, 1, UNITS); /* open in another process */
	assert_int_equal(env_check(foreign, 1, 0), 1);
	set_clock(cache, now_s + 1000);
	assert_true(env_blob_file(dir, 2, path, sizeof(path)));
	{ /* used again */
		struct cache_blob *used = env_blob(cache, 3, UNITS);

		assert_int_equal(env_check(used, 3, 0), 1);
		cache_blob_close(used);
		blob_table_trim(&cache->blobs, INT64_MAX);
		recorder_flush(&cache->recorder, 5000);
	}
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_true(usage.used_bytes <= LIMIT / 10 * 9);
	assert_true(usage.used_bytes >= LIMIT / 10 * 8);
	assert_int_equal(usage.blob_files, 34 - usage.blobs_evicted);
	assert_int_equal(env_check(kept, 0, 5), 1);
	assert_int_equal(env_check(foreign, 1, 5), 1);
	assert_false(is_here(cache, 2));
	assert_false(env_blob_file(dir, 2, path, sizeof(path)));
	assert_true(is_here(cache, 3));
	assert_true(is_here(cache, 33));
	/* within limits: nothing more goes */
	evictor_run(cache);
	assert_true(is_here(cache, 33));
	cache_blob_close(kept);
	cache_blob_close(foreign);
	cache_close(other);
	cache_close(cache);
	env_remove(dir);
}

static void test_limit_holds_under_load(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache_usage usage;
	uint64_t worst = 0;

	(void)state;
	for (unsigned int i = 0; i < 300; i++) {
		env_put_blob(cache, i, UNITS);
		if (i % 10 == 0 && env_disk_bytes(dir) > worst)
			worst = env_disk_bytes(dir);
	}
	assert_true(worst <= LIMIT + LIMIT / 4 + (4 << 20));
	for (int i = 0; i < 100; i++) {
		cache_usage(cache, &usage);
		if (usage.used_bytes <= LIMIT)
			break;
		usleep(50000);
	}
	assert_true(usage.used_bytes <= LIMIT);
	assert_true(usage.blobs_evicted > 100);
	cache_close(cache);
	env_remove(dir);
}

static void test_open_blobs_make_puts_fail(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache_blob *blobs[48];
	struct cache_usage usage;
	unsigned int refused = 0;

	(void)state;
	for (unsigned int i = 0; i < 48; i++) {
		blobs[i] = env_blob(cache, i, UNITS);
		for (uint64_t unit = 0; unit < UNITS; unit++)
			if (env_put(blobs[i], i, unit, NULL) == -ENOSPC)
				refused++;
	}
	assert_true(refused >= 8 * UNITS - 16);
	cache_usage(cache, &usage);
	assert_int_equal(usage.puts_failed, refused);
	assert_int_equal(env_check(blobs[0], 0, 0), 1);
	for (unsigned int i = 0; i < 48; i++)
		cache_blob_close(blobs[i]);
	cache_close(cache);
	env_remove(dir);
}

/* What is stored while a stopped process keeps the index from being written
 * counts all the same, whoever of four has stored it; when it goes on, so does
 * storing. */
static void test_limit_holds_without_recording(void **state)
{
	char *dir = scratch_directory();
	struct cache *caches[4];
	unsigned int stored = 0, number;
	struct cache_usage usage;
	int fd;

	(void)state;
	for (int i = 0; i < 4; i++)
		caches[i] = env_open_limited(dir, LIMIT);
	fd = openat(caches[0]->dirfd, LAYOUT_GATE, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(gate_enter(fd, GATE_WRITER, 10000), 0);
	for (number = 0; number < 4; number++) {
		/* called back when the gate is given up */
		env_put_blob(caches[number], number, UNITS);
		cache_usage(caches[number], &usage);
		assert_false(usage.records);
	}
	for (; number < 128; number++)
		env_put_blob(caches[number % 4], number, UNITS);
	assert_true(env_disk_bytes(dir) <= LIMIT + LIMIT / 4 + (4 << 20));
	for (int i = 0; i < 4; i++) {
		cache_usage(caches[i], &usage);
		assert_true(usage.puts_failed > 0);
	}
	gate_leave(fd, GATE_WRITER);
	close(fd);
	for (int i = 0; i < 6000 && stored == 0; i++, number++) {
		env_put_blob(caches[0], number, UNITS);
		stored += is_here(caches[0], number);
		usleep(10000);
	}
	assert_int_equal(stored, 1);
	for (int i = 0; i < 4; i++)
		cache_close(caches[i]);
	env_remove(dir);
}

/* The limit is kept, but a unit does not fit below it: what was used before
 * makes room, or no such unit would ever be stored again. */
static void test_what_is_refused_makes_room(void **state)
{
	const uint64_t limit = 3 * UNIT + UNIT / 8;
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, limit);
	int r = -ENOSPC;

	(void)state;
	for (unsigned int number = 0; number < 3; number++) {
		struct cache_blob *blob = env_blob(cache, number, 1);

		assert_int_equal(env_put(blob, number, 0, NULL), 0);
		cache_blob_close(blob);
		recorder_flush(&cache->recorder, 5000);
	}
	for (int i = 0; i < 6000 && r == -ENOSPC; i++) {
		struct cache_blob *blob = env_blob(cache, 3, 1);

		r = env_put(blob, 3, 0, NULL);
		cache_blob_close(blob);
		if (i == 0)
			assert_int_equal(r, -ENOSPC);
		usleep(10000);
	}
	assert_int_equal(r, 0);
	cache_close(cache);
	env_remove(dir);
}

static void touch_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* Without an index files have no names: they count while they are open. */
static void test_unnamed_files_count(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache_blob *blobs[48];
	struct cache_usage usage;
	struct cache *cache;
	unsigned int refused = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/index", dir);
	touch_file(path); /* where the directory should be */
	snprintf(path, sizeof(path), "%s/larder-cache", dir);
	assert_int_equal(
		file_write(AT_FDCWD, path, "larder-cache 1\n", 15, 0600, 0), 0);
	cache = env_open_limited(dir, LIMIT);
	keeper_stop(&cache->keeper);
	for (unsigned int i = 0; i < 48; i++) {
		blobs[i] = env_blob(cache, i, UNITS);
		for (uint64_t unit = 0; unit < UNITS; unit++)
			refused += env_put(blobs[i], i, unit, NULL) == -ENOSPC;
	}
	recorder_flush(&cache->recorder, 5000);
	assert_int_equal(refused, 8 * UNITS);
	cache_usage(cache, &usage);
	assert_int_equal(usage.used_bytes, LIMIT + LIMIT / 4);
	for (unsigned int i = 0; i < 48; i++)
		cache_blob_close(blobs[i]);
	recorder_flush(&cache->recorder, 5000);
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_int_equal(usage.used_bytes, 0);
	cache_close(cache);
	env_remove(dir);
}

/* ---- a blob in four segments */

#define BIG_UNITS (4 * SEGMENT_BYTES / UNIT)
#define PER_SEGMENT 160u /* units put into each: 10 MiB */

static uint64_t big_unit(unsigned int segment, unsigned int i)
{
	return segment * (SEGMENT_BYTES / UNIT) + i;
}

static unsigned int count_here(struct cache_blob *blob, unsigned int segment)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < PER_SEGMENT; i++)
		count += env_check(blob, 7, big_unit(segment, i));
	return count;
}

/* Up to the very limit: what has been recorded a moment ago may count twice. */
static void put_segment(struct cache_blob *blob, unsigned int segment)
{
	_Atomic int recorded = 0;

	for (unsigned int i = 0; i < PER_SEGMENT; i++) {
		int r = -ENOSPC;

		for (int try = 0; try < 10 && r == -ENOSPC; try++) {
			if (try > 0)
				recorder_flush(&blob->cache->recorder, 5000);
			r = env_put(blob, 7, big_unit(segment, i), &recorded);
		}
		assert_int_equal(r, 0);
	}
	env_wait(&recorded, PER_SEGMENT);
}

/* The mtime of a segment is what tells which goes first. */
static void age_segment(struct cache *cache, struct cache_blob *blob,
			unsigned int segment)
{
	const struct timespec times[2] = {
		{.tv_sec = 1000 + segment},
		{.tv_sec = 1000 + segment},
	};
	char path[BLOB_PATH_MAX];

	blob_path(&blob->id, blob->gen, blob->segment_bytes, segment, path);
	assert_int_equal(utimensat(cache->blobs.dirfd, path, times, 0), 0);
}

static void test_segments_go_one_by_one(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache *other = env_open_limited(dir, LIMIT);
	struct cache_blob *blob = env_blob(cache, 7, BIG_UNITS);
	struct cache_blob *reader;
	struct cache_usage usage;

	(void)state;
	keeper_stop(&cache->keeper); /* the test is the keeper */
	keeper_stop(&other->keeper);
	for (unsigned int segment = 0; segment < 3; segment++)
		put_segment(blob, segment);
	assert_true(blob->segment_bytes == SEGMENT_BYTES);
	for (unsigned int segment = 0; segment < 3; segment++)
		age_segment(cache, blob, segment);
	put_segment(blob, 3);
	cache_blob_close(blob);
	recorder_flush(&cache->recorder, 5000);
	blob_table_trim(&cache->blobs, INT64_MAX);
	/* another process reads the oldest */
	reader = env_blob(other, 7, BIG_UNITS);
	assert_int_equal(env_check(reader, 7, big_unit(0, 3)), 1);
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_int_equal(usage.blobs_evicted, 2);
	assert_int_equal(usage.units_dropped_corrupt, 0);
	assert_true(usage.used_bytes <= LIMIT / 10 * 9);
	assert_int_equal(count_here(reader, 0), PER_SEGMENT);
	assert_int_equal(count_here(reader, 1), 0);
	assert_int_equal(count_here(reader, 2), 0);
	assert_int_equal(count_here(reader, 3), PER_SEGMENT);
	assert_int_equal(cache_blob_bytes_present(reader),
			 2 * PER_SEGMENT * UNIT);
	/* a segment comes back in its place */
	assert_int_equal(env_put(reader, 7, big_unit(1, 5), NULL), 0);
	recorder_flush(&other->recorder, 5000);
	assert_int_equal(env_check(reader, 7, big_unit(1, 5)), 1);
	assert_int_equal(count_here(reader, 1), 1);
	cache_blob_close(reader);
	cache_usage(other, &usage);
	assert_int_equal(usage.units_dropped_corrupt, 0);
	cache_close(other);
	cache_close(cache);
	env_remove(dir);
}

/* A stream through a blob larger than the cache: it never lets go of the blob,
 * but what it has left behind can be had. */
static void test_a_stream_leaves_segments_behind(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache_blob *blob = env_blob(cache, 7, BIG_UNITS), *before;
	struct cache_usage usage;

	(void)state;
	keeper_stop(&cache->keeper); /* the test is the keeper */
	for (unsigned int segment = 0; segment < 3; segment++)
		put_segment(blob, segment);
	for (unsigned int segment = 0; segment < 3; segment++)
		age_segment(cache, blob, segment);
	put_segment(blob, 3);
	recorder_flush(&cache->recorder, 5000);
	evictor_run(cache); /* all is open: it asks */
	cache_usage(cache, &usage);
	assert_int_equal(usage.blobs_evicted, 0);
	before = blob;
	blob = env_blob(cache, 7, BIG_UNITS);
	assert_true(blob != before);
	assert_int_equal(env_check(blob, 7, big_unit(3, 0)), 1);
	assert_int_equal(env_check(before, 7, big_unit(0, 0)), 1);
	cache_blob_close(before);
	atomic_store(&cache->evictor.quiet_until_ms, 0);
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_int_equal(usage.blobs_evicted, 2);
	assert_int_equal(count_here(blob, 3), PER_SEGMENT);
	assert_int_equal(count_here(blob, 2), PER_SEGMENT);
	assert_int_equal(count_here(blob, 0), 0);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

/* The file goes first: until the index hears of it, it is no damage. */
static void test_a_lost_segment_is_no_damage(void **state)
{
	char *dir = scratch_directory(), path[BLOB_PATH_MAX];
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache_blob *blob = env_blob(cache, 7, BIG_UNITS);
	struct cache_usage usage;

	(void)state;
	put_segment(blob, 0);
	put_segment(blob, 2);
	blob_path(&blob->id, blob->gen, blob->segment_bytes, 2, path);
	assert_int_equal(unlinkat(cache->blobs.dirfd, path, 0), 0);
	cache_blob_close(blob);
	recorder_flush(&cache->recorder, 5000);
	blob_table_trim(&cache->blobs, INT64_MAX);
	blob = env_blob(cache, 7, BIG_UNITS);
	assert_int_equal(count_here(blob, 0), PER_SEGMENT);
	assert_int_equal(count_here(blob, 2), 0);
	recorder_flush(&cache->recorder, 5000);
	assert_int_equal(cache_blob_bytes_present(blob), PER_SEGMENT * UNIT);
	cache_usage(cache, &usage);
	assert_int_equal(usage.units_dropped_corrupt, 0);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void sweep(struct cache *cache, int64_t age_s)
{
	for (unsigned int i = 0; i < 256; i++)
		keeper_sweep(cache, i, age_s);
}

static void test_leftovers_are_swept(void **state)
{
	char *dir = scratch_directory(), path[512], orphan[600], link[600];
	struct cache *cache = env_open_limited(dir, LIMIT);
	char *dot;
	int fd;

	(void)state;
	env_put_blob(cache, 1, UNITS);
	blob_table_trim(&cache->blobs, INT64_MAX);
	assert_true(env_blob_file(dir, 1, path, sizeof(path)));
	snprintf(orphan, sizeof(orphan), "%s", path);
	dot = strrchr(orphan, '.');
	memcpy(dot + 1, "00000000deadbeef", 16);
	touch_file(orphan);
	snprintf(link, sizeof(link), "%.*s.new", (int)(dot - orphan), orphan);
	assert_int_equal(symlink("00000000deadbeef-0000000000000000", link), 0);
	sweep(cache, 3600);
	assert_true(exists(orphan)); /* too young */
	fd = open(orphan, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ofd_lock(fd, F_RDLCK, 0, 1), 0);
	sweep(cache, 0);
	assert_true(exists(orphan)); /* in use */
	assert_true(exists(link));
	close(fd);
	sweep(cache, 0);
	assert_false(exists(orphan));
	assert_false(exists(link));
	assert_true(exists(path));
	assert_true(is_here(cache, 1));
	cache_close(cache);
	env_remove(dir);
}

/* When the index was lost they may be asked for, however old they are; but not
 * while space is short. */
static void test_files_of_a_lost_index_stay(void **state)
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char *dir = scratch_directory(), path[512], index[512];
	struct cache *cache = env_open_limited(dir, LIMIT);

	(void)state;
	env_put_blob(cache, 1, UNITS);
	assert_true(env_blob_file(dir, 1, path, sizeof(path)));
	cache_close(cache);
	snprintf(index, sizeof(index), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, index), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	cache = env_open_limited(dir, LIMIT);
	sweep(cache, LEFTOVER_AGE_S);
	assert_true(exists(path));
	sweep(cache, 60);
	assert_false(exists(path));
	cache_close(cache);
	env_remove(dir);
}

static _Atomic bool is_removing;

/* Eviction at its quickest. */
static void *remove_directories(void *arg)
{
	const char *dir = arg;
	char path[512];

	for (unsigned int i = 0; atomic_load(&is_removing); i++) {
		snprintf(path, sizeof(path), "%s/blobs/%02x", dir, i % 256);
		rmdir(path);
	}
	return NULL;
}

static void test_empty_directories_go(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct digest id = env_id(1);
	struct cache_evicted evicted;
	pthread_t thread;

	(void)state;
	env_put_blob(cache, 1, UNITS);
	assert_true(env_blob_file(dir, 1, path, sizeof(path)));
	*strrchr(path, '/') = '\0';
	assert_int_equal(cache_evict(cache, &id, 1, false, &evicted, NULL), 0);
	assert_int_equal(evicted.blobs, 1);
	assert_false(exists(path));
	atomic_store(&is_removing, true);
	assert_int_equal(pthread_create(&thread, NULL, remove_directories, dir),
			 0);
	for (unsigned int i = 0; i < 100; i++) {
		struct cache_blob *blob = env_blob(cache, i, UNITS);
		_Atomic int recorded = 0;

		assert_int_equal(env_put(blob, i, 0, &recorded), 0);
		env_wait(&recorded, 1);
		cache_blob_close(blob);
	}
	atomic_store(&is_removing, false);
	pthread_join(thread, NULL);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_longest_unused_goes),
		cmocka_unit_test(test_limit_holds_under_load),
		cmocka_unit_test(test_open_blobs_make_puts_fail),
		cmocka_unit_test(test_limit_holds_without_recording),
		cmocka_unit_test(test_what_is_refused_makes_room),
		cmocka_unit_test(test_unnamed_files_count),
		cmocka_unit_test(test_segments_go_one_by_one),
		cmocka_unit_test(test_a_stream_leaves_segments_behind),
		cmocka_unit_test(test_a_lost_segment_is_no_damage),
		cmocka_unit_test(test_leftovers_are_swept),
		cmocka_unit_test(test_files_of_a_lost_index_stay),
		cmocka_unit_test(test_empty_directories_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
