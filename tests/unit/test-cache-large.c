/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of many files whose last user was killed: it opens at once, and in
 * the background the count becomes what is on the disk, leftovers go, and the
 * limit holds. LARDER_TEST_FULL: a million files. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "cache-env.h"
#include "base/buf.h"
#include "cache/internal.h"
#include "cache/measure.h"
#include "own-time.h"

#define FILE_BYTES 4096u
#define TEMPORARIES 1000u

static unsigned int file_count = 6000;

/* Blob `number` of one unit: its file, and what the index shall say. */
static void seed_file(struct cache *cache, unsigned int number,
		      struct index_op *op)
{
	static uint8_t data[2 * FILE_BYTES];
	/* every 20th was longer when its process was killed */
	size_t len = number % 20 == 0 ? sizeof(data) : FILE_BYTES;
	struct digest id = env_id(number);
	char path[BLOB_PATH_MAX];
	int fd;

	blob_path(&id, number + 1, 0, 0, path);
	fd = openat(cache->blobs.dirfd, path, O_WRONLY | O_CREAT | O_CLOEXEC,
		    0600);
	if (fd < 0) {
		path[2] = '\0';
		assert(mkdirat(cache->blobs.dirfd, path, 0700) == 0);
		path[2] = '/';
		fd = openat(cache->blobs.dirfd, path,
			    O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	}
	assert(fd >= 0);
	env_fill(number, 0, data, FILE_BYTES);
	assert(write_full(fd, data, len) == 0);
	close(fd);
	*op = (struct index_op){
		/* every 50th was not recorded */
		.kind = number % 50 == 1 ? INDEX_NOTHING : INDEX_RECORD,
		.may_create = true,
		.id = id,
		.gen = number + 1,
		.length = FILE_BYTES,
		.checksum = checksum_xxh3(data, FILE_BYTES),
		.blob_bytes = FILE_BYTES,
		.unit_count = 1,
		.disk_bytes = FILE_BYTES,
		.last_use = 1000 + number,
	};
}

static void seed_temporaries(struct cache *cache)
{
	static const char *const where[] = {
		".", "heads", "pins", "objects/00", "objects/a7", "blobs/17",
	};
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

	(void)mkdirat(cache->dirfd, "objects/00", 0700);
	(void)mkdirat(cache->dirfd, "objects/a7", 0700);
	for (unsigned int i = 0; i < TEMPORARIES; i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "%s/.tmp-%u", where[i % 6], i);
		fd = openat(cache->dirfd, path, O_WRONLY | O_CREAT | O_CLOEXEC,
			    0600);
		assert(fd >= 0 && write_full(fd, path, sizeof(path)) == 0);
		assert(futimens(fd, old) == 0);
		close(fd);
	}
}

/* Ends as if killed: nothing is closed. */
static void seed(const char *dir)
{
	struct cache *cache = env_open(dir);
	struct index_op *ops = calloc(INDEX_OPS_MAX, sizeof(*ops));
	unsigned int number = 0;

	assert(ops);
	keeper_stop(&cache->keeper);
	while (number < file_count) {
		uint64_t used;
		size_t n = 0;

		while (n < INDEX_OPS_MAX && number < file_count)
			seed_file(cache, number++, &ops[n++]);
		assert(index_write(cache->index, ops, n, &used) == 0);
	}
	seed_temporaries(cache);
	_exit(0);
}

static uint64_t disk_bytes;
static unsigned int temporaries;

static int on_file(const char *path, const struct stat *st, int type,
		   struct FTW *at)
{
	if (type != FTW_F)
		return 0;
	temporaries += !strncmp(path + at->base, ".tmp-", 5);
	if (strstr(path, "/blobs/") || strstr(path, "/objects/"))
		disk_bytes += (uint64_t)st->st_blocks * 512;
	return 0;
}

static void measure(const char *dir)
{
	disk_bytes = temporaries = 0;
	assert_int_equal(nftw(dir, on_file, 16, FTW_PHYS), 0);
}

static bool is_close(uint64_t used)
{
	return used <= disk_bytes + disk_bytes / 100 &&
	       used >= disk_bytes - disk_bytes / 100;
}

/* A minute, and for a million as many as it takes: no speed is promised. */
static void wait_for_sweep(struct cache *cache)
{
	unsigned int swept = 0, patience = 0;

	while (swept < 256 && patience++ < 600) {
		unsigned int now = atomic_load(&cache->keeper.swept);

		patience = now == swept ? patience : 0;
		swept = now;
		usleep(100000);
	}
	assert_true(swept >= 256);
	recorder_flush(&cache->recorder, 60000);
}

static void test_killed_and_opened_again(void **state)
{
	char *dir = scratch_directory();
	struct cache_usage usage;
	struct cache_blob *blob;
	struct digest id = env_id(2);
	struct cache *cache;
	uint64_t last = UINT64_MAX;
	int64_t start_ms;
	int status;

	(void)state;
	if (fork() == 0)
		seed(dir);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
	measure(dir);
	start_ms = own_ms();
	cache = env_open(dir);
	assert_true(is_within(start_ms, 5000));
	assert_int_equal(
		cache_blob_open(cache, &id, FILE_BYTES, 1, &blob, NULL), 0);
	assert_int_equal(cache_blob_has(blob, 0, 0, FILE_BYTES), 1);
	cache_blob_close(blob);
	cache_usage(cache, &usage);
	assert_false(is_close(usage.used_bytes)); /* or nothing is tested */
	wait_for_sweep(cache);
	measure(dir);
	assert_int_equal(temporaries, 0);
	cache_usage(cache, &usage);
	assert_true(is_close(usage.used_bytes));
	/* and the limit holds, strays included */
	cache_close(cache);
	cache = env_open_limited(dir, disk_bytes / 2);
	/* as long as it goes down */
	for (int patience = 0; patience < 600; patience++) {
		cache_usage(cache, &usage);
		if (usage.used_bytes <= disk_bytes / 2)
			break;
		if (usage.used_bytes < last)
			patience = 0;
		last = usage.used_bytes;
		usleep(100000);
	}
	assert_true(usage.used_bytes <= disk_bytes / 2);
	assert_true(usage.used_bytes >= disk_bytes / 3);
	cache_close(cache);
	env_remove(dir);
}

static void put_object(struct cache *cache, unsigned int number)
{
	static const char text[20000];
	struct digest name = env_id(number);

	assert_int_equal(cache_object_put(cache, CACHE_OBJECT, &name, text,
					  sizeof(text)),
			 0);
}

static bool has_object(struct cache *cache, unsigned int number)
{
	struct digest name = env_id(number);
	struct buf text;
	int r;

	buf_init(&text, 1 << 20);
	r = cache_object_get(cache, CACHE_OBJECT, &name, &text);
	buf_release(&text);
	return r == 0;
}

static void age_object(struct cache *cache, unsigned int number)
{
	const struct timespec old[2] = {
		{.tv_sec = 1000 + number},
		{.tv_sec = 1000 + number},
	};
	struct digest name = env_id(number);
	char path[DIGEST_PATH_MAX];

	digest_path("objects", &name, path);
	assert_int_equal(utimensat(cache->dirfd, path, old, 0), 0);
}

/* Catalogs and recipes have a share of the cache; what is pinned or was used
 * lately stays. */
static void test_objects_are_bounded(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct digest pinned = env_id(0);
	const struct cache_pin pin = {
		.source = "m#d",
		.path = "",
		.objects = &pinned,
		.object_count = 1,
	};

	(void)state;
	keeper_stop(&cache->keeper); /* the test is the keeper */
	for (unsigned int i = 0; i < 20; i++) {
		put_object(cache, i);
		if (i < 15)
			age_object(cache, i);
	}
	assert_int_equal(cache_pin_add(cache, &pin, NULL), 0);
	/* used again: not the oldest any more */
	assert_true(has_object(cache, 1));
	assert_true(measure_evict_objects(cache, 5 * 20000, 3600) >= 5 * 20000);
	assert_true(has_object(cache, 0));
	assert_true(has_object(cache, 1));
	assert_false(has_object(cache, 2));
	assert_false(has_object(cache, 5));
	assert_true(has_object(cache, 8));
	measure_evict_objects(cache, UINT64_MAX, 3600);
	assert_true(has_object(cache, 0));
	assert_true(has_object(cache, 1));
	assert_false(has_object(cache, 14));
	assert_true(has_object(cache, 15));
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_and_opened_again),
		cmocka_unit_test(test_objects_are_bounded),
	};

	if (getenv("LARDER_TEST_FULL"))
		file_count = 1000000;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
