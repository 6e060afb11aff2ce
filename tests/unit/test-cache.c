/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's door in one process: blobs, objects, heads, reopening. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/buf.h"
#include "cache-env.h"

static void test_put_is_visible_and_survives(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 1, 300);
	_Atomic int recorded = 0;

	(void)state;
	assert_int_equal(cache_blob_has(blob, 0, 0, UNIT), 0);
	assert_int_equal(cache_blob_recheck(blob, 0), 0);
	for (uint64_t unit = 0; unit < 300; unit += 2) {
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
		assert_int_equal(env_check(blob, 1, unit), 1);
	}
	env_wait(&recorded, 150);
	assert_int_equal(cache_blob_bytes_present(blob), 150 * UNIT);
	assert_false(cache_blob_complete(blob));
	cache_blob_close(blob);
	cache_close(cache);

	cache = env_open(dir);
	blob = env_blob(cache, 1, 300);
	for (uint64_t unit = 0; unit < 300; unit++)
		assert_int_equal(env_check(blob, 1, unit), unit % 2 == 0);
	for (uint64_t unit = 1; unit < 300; unit += 2)
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
	env_wait(&recorded, 300);
	assert_true(cache_blob_complete(blob));
	assert_int_equal(cache_blob_bytes_present(blob), 300 * UNIT);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static void test_layout(void **state)
{
	static const char *const names[] = {
		"larder-cache", "CACHEDIR.TAG", "ballast", "index/data.mdb",
		"blobs", "objects", "heads", "pins",
	};
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct stat st;
	char path[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		assert_int_equal(stat(path, &st), 0);
	}
	snprintf(path, sizeof(path), "%s/ballast", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 8 << 20);
	assert_string_equal(cache_dir(cache), dir);
	cache_close(cache);
	env_remove(dir);
}

static void test_zero_unit_is_a_hole(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 2, 4);
	uint8_t data[UNIT], zeros[UNIT] = { 0 };
	_Atomic int recorded = 0;
	uint64_t at, len;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(cache_blob_put(blob, 1, UNIT, NULL, UNIT, env_count,
					&recorded), 0);
	/* over other bytes zeros are written */
	assert_int_equal(env_put(blob, 2, 2, &recorded), 0);
	assert_int_equal(cache_blob_put(blob, 2, 2 * UNIT, NULL, UNIT,
					env_count, &recorded), 0);
	env_wait(&recorded, 3);
	cache_blob_close(blob);
	cache_close(cache);
	cache = env_open(dir);
	blob = env_blob(cache, 2, 4);
	for (uint64_t unit = 1; unit < 3; unit++) {
		assert_int_equal(cache_blob_has(blob, unit, unit * UNIT, UNIT),
				 1);
		assert_int_equal(cache_blob_fd(blob, unit * UNIT, &fd, &at,
					       &len), 0);
		assert_int_equal(pread_full(fd, data, UNIT, at), UNIT);
		assert_memory_equal(data, zeros, UNIT);
	}
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 4 * UNIT);
	assert_true(st.st_blocks * 512 <= UNIT + 4096);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

/* Units share pages with their neighbours: that is no reason to read what
 * lies there before writing, which fills the page cache with zeros. */
static void test_put_reads_no_hole(void **state)
{
	static uint8_t data[UNIT - 1000];
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 3, 64);
	unsigned char in_core[UNIT / 4096];
	uint8_t *there = malloc(sizeof(data)), *map;
	int fd;

	(void)state;
	env_fill(3, 0, data, sizeof(data));
	for (uint64_t unit = 0; unit < 2; unit++) {
		uint64_t at = unit * sizeof(data);

		assert_int_equal(cache_blob_candidate(blob, unit, at,
						      sizeof(data), there), 0);
		assert_int_equal(cache_blob_put(blob, unit, at, data,
						sizeof(data), NULL, NULL), 0);
	}
	assert_true(env_blob_file(dir, 3, path, sizeof(path)));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	map = mmap(NULL, 64 * UNIT, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(fd >= 0 && map != MAP_FAILED);
	for (uint64_t unit = 2; unit < 64; unit++) {
		assert_int_equal(mincore(map + unit * UNIT, UNIT, in_core), 0);
		for (size_t i = 0; i < sizeof(in_core); i++)
			assert_false(in_core[i] & 1);
	}
	munmap(map, 64 * UNIT);
	close(fd);
	free(there);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static void test_refuses_bad_ranges(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 3, 4), *other;
	struct digest id = env_id(3), none = { 0 };
	uint8_t data[16] = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(cache_blob_put(blob, 4, 0, data, 16, NULL, NULL),
			 -EINVAL);
	assert_int_equal(cache_blob_put(blob, 0, 4 * UNIT - 8, data, 16, NULL,
					NULL), -EINVAL);
	assert_int_equal(cache_blob_put(blob, 0, UINT64_MAX - 8, data, 16,
					NULL, NULL), -EINVAL);
	assert_int_equal(cache_blob_put(blob, 0, 0, data, 0, NULL, NULL),
			 -EINVAL);
	assert_int_equal(cache_blob_has(blob, 4, 0, 16), 0);
	assert_int_equal(cache_blob_open(cache, &id, 4 * UNIT, 5, &other, &err),
			 -EINVAL);
	assert_int_equal(cache_blob_open(cache, &none, 1, 1, &other, &err),
			 -EINVAL);
	assert_int_equal(cache_blob_open(cache, &id, 1, 2, &other, &err),
			 -EINVAL);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

/* What was stored of it was cut otherwise: nothing of that is taken for what is
 * asked now. */
static void test_other_units_are_a_miss(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 5, 4), *other;
	_Atomic int recorded = 0;

	(void)state;
	for (uint64_t unit = 0; unit < 4; unit++)
		assert_int_equal(env_put(blob, 5, unit, &recorded), 0);
	env_wait(&recorded, 4);
	cache_blob_close(blob);
	cache_close(cache);
	cache = env_open(dir);
	blob = env_blob(cache, 5, 4);
	assert_int_equal(cache_blob_has(blob, 1, UNIT, UNIT / 2), 0);
	assert_int_equal(cache_blob_has(blob, 1, UNIT - 16, UNIT), 0);
	assert_int_equal(cache_blob_has(blob, 1, UNIT, UNIT), 1);
	cache_blob_close(blob);
	cache_close(cache);
	cache = env_open(dir);
	other = env_blob(cache, 5, 8);
	assert_int_equal(cache_blob_has(other, 1, UNIT, UNIT), 0);
	assert_int_equal(env_put(other, 5, 7, &recorded), 0);
	env_wait(&recorded, 5);
	assert_int_equal(env_check(other, 5, 7), 1);
	cache_blob_close(other);
	cache_close(cache);
	env_remove(dir);
}

static void test_empty_blob_is_complete(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct digest id = env_id(4);
	struct cache_blob *blob;
	struct err err;

	(void)state;
	assert_int_equal(cache_blob_open(cache, &id, 0, 0, &blob, &err), 0);
	assert_true(cache_blob_complete(blob));
	assert_int_equal(cache_blob_bytes_present(blob), 0);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static void test_large_blob_lies_in_segments(void **state)
{
	enum { UNITS = 16 };
	const uint64_t size = UINT64_C(520) << 20, length = 1 << 20;
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open_limited(dir, UINT64_C(2) << 30);
	uint8_t *data = malloc(length), *read_back = malloc(length);
	struct digest id = env_id(5);
	_Atomic int recorded = 0;
	struct cache_blob *blob;
	uint64_t at, len, seam = (UINT64_C(256) << 20) - length / 2;
	int fd;

	(void)state;
	assert_int_equal(cache_blob_open(cache, &id, size, UNITS, &blob, NULL),
			 0);
	env_fill(5, 0, data, length);
	assert_int_equal(cache_blob_put(blob, 7, seam, data, (uint32_t)length,
					env_count, &recorded), 0);
	assert_int_equal(cache_blob_put(blob, 15, size - length, data,
					(uint32_t)length, env_count, &recorded),
			 0);
	env_wait(&recorded, 2);
	cache_blob_close(blob);
	cache_close(cache);
	assert_true(env_blob_file(dir, 5, path, sizeof(path)));

	cache = env_open_limited(dir, UINT64_C(100) << 30);
	assert_int_equal(cache_blob_open(cache, &id, size, UNITS, &blob, NULL),
			 0);
	assert_int_equal(cache_blob_has(blob, 7, seam, (uint32_t)length), 1);
	assert_int_equal(cache_blob_has(blob, 15, size - length,
					(uint32_t)length), 1);
	assert_int_equal(cache_blob_has(blob, 8, seam + length,
					(uint32_t)length), 0);
	assert_int_equal(cache_blob_fd(blob, seam, &fd, &at, &len), 0);
	assert_int_equal(len, length / 2); /* to the segment's end */
	assert_int_equal(pread_full(fd, read_back, len, at), len);
	assert_int_equal(cache_blob_fd(blob, seam + len, &fd, &at, &len), 0);
	assert_int_equal(at, 0);
	assert_int_equal(pread_full(fd, read_back + length / 2, length / 2, 0),
			 length / 2);
	assert_memory_equal(data, read_back, length);
	cache_blob_close(blob);
	cache_close(cache);
	free(data);
	free(read_back);
	env_remove(dir);
}

static void test_objects_and_heads(void **state)
{
	char *dir = scratch_directory(), path[512], hex[DIGEST_HEX_MAX];
	struct cache *cache = env_open(dir);
	struct digest name = env_id(6);
	struct buf buf;

	(void)state;
	buf_init(&buf, 1000);
	assert_int_equal(cache_object_get(cache, CACHE_OBJECT, &name, &buf),
			 -ENOENT);
	assert_int_equal(cache_object_put(cache, CACHE_OBJECT, &name, "object",
					  6), 0);
	assert_int_equal(cache_object_put(cache, CACHE_PLACES, &name, "place",
					  5), 0);
	assert_int_equal(cache_object_get(cache, CACHE_OBJECT, &name, &buf), 0);
	assert_int_equal(buf.len, 6);
	assert_memory_equal(buf.data, "object", 6);
	buf_clear(&buf);
	assert_int_equal(cache_object_get(cache, CACHE_PLACES, &name, &buf), 0);
	assert_memory_equal(buf.data, "place", 5);
	assert_int_equal(cache_object_drop(cache, CACHE_OBJECT, &name), 0);
	assert_int_equal(cache_object_get(cache, CACHE_OBJECT, &name, &buf),
			 -ENOENT);

	/* A directory or a FIFO in an object's place is a miss and yields. */
	digest_hex(&name, hex);
	snprintf(path, sizeof(path), "%s/objects/%.2s/%s", dir, hex, hex + 2);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(cache_object_get(cache, CACHE_OBJECT, &name, &buf),
			 -ENOENT);
	assert_int_equal(cache_object_put(cache, CACHE_OBJECT, &name, "again",
					  5), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(cache_object_get(cache, CACHE_OBJECT, &name, &buf),
			 -ENOENT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(cache_object_get(cache, CACHE_OBJECT, &name, &buf),
			 -ENOENT);

	buf_clear(&buf);
	assert_int_equal(cache_head_get(cache, "pile http://a/", &buf), -ENOENT);
	assert_int_equal(cache_head_put(cache, "pile http://a/", "head", 4), 0);
	assert_int_equal(cache_head_put(cache, "pile http://a/", "newer", 5), 0);
	assert_int_equal(cache_head_get(cache, "pile http://b/", &buf), -ENOENT);
	assert_int_equal(cache_head_get(cache, "pile http://a/", &buf), 0);
	assert_memory_equal(buf.data, "newer", 5);
	buf_release(&buf);
	buf_init(&buf, 3);
	assert_int_equal(cache_head_get(cache, "pile http://a/", &buf), -EFBIG);
	buf_release(&buf);
	cache_close(cache);
	env_remove(dir);
}

static void test_two_caches_of_one_process(void **state)
{
	char *dir = scratch_directory();
	struct cache *first = env_open(dir), *second = env_open(dir);
	struct cache_blob *a = env_blob(first, 7, 8);
	struct cache_blob *b = env_blob(second, 7, 8);
	struct digest unit = env_id(70);
	_Atomic int recorded = 0;

	(void)state;
	assert_int_equal(env_put(a, 7, 0, &recorded), 0);
	assert_int_equal(env_put(b, 7, 1, &recorded), 0);
	env_wait(&recorded, 2);
	assert_int_equal(cache_blob_recheck(b, 0), 1);
	assert_int_equal(env_check(b, 7, 0), 1);
	assert_int_equal(env_check(a, 7, 1), 1);

	assert_int_equal(cache_claim(first, &unit), 1);
	assert_int_equal(cache_claim(second, &unit), 0);
	cache_unclaim(first, &unit);
	assert_int_equal(cache_claim(second, &unit), 1);
	cache_blob_close(a);
	cache_close(first);
	assert_int_equal(env_put(b, 7, 2, &recorded), 0);
	env_wait(&recorded, 3);
	cache_blob_close(b);
	cache_close(second);
	env_remove(dir);
}

static void test_usage_counts_blocks(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 8, 64);
	struct cache_usage usage;
	_Atomic int recorded = 0;

	(void)state;
	for (uint64_t unit = 0; unit < 64; unit++)
		assert_int_equal(env_put(blob, 8, unit, &recorded), 0);
	env_wait(&recorded, 64);
	cache_usage(cache, &usage);
	assert_true(usage.used_bytes >= 64 * UNIT);
	assert_true(usage.used_bytes < 70 * UNIT);
	assert_int_equal(usage.limit_bytes, UINT64_C(4) << 30);
	assert_int_equal(usage.blob_files, 1);
	assert_true(usage.disk_free_bytes > 0);
	assert_true(usage.records);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_is_visible_and_survives),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_zero_unit_is_a_hole),
		cmocka_unit_test(test_put_reads_no_hole),
		cmocka_unit_test(test_refuses_bad_ranges),
		cmocka_unit_test(test_other_units_are_a_miss),
		cmocka_unit_test(test_empty_blob_is_complete),
		cmocka_unit_test(test_large_blob_lies_in_segments),
		cmocka_unit_test(test_objects_and_heads),
		cmocka_unit_test(test_two_caches_of_one_process),
		cmocka_unit_test(test_usage_counts_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
