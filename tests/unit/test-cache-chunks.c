/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks by digest: found in whichever blob has them, also by another
 * process's cache; a place that means nothing any more is a miss. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cache/internal.h"
#include "cache/layout.h"
#include "cache/rows.h"
#include "cache-env.h"

static int put_chunk(struct cache_blob *blob, unsigned int number,
		     uint64_t unit, struct digest *ret_digest,
		     _Atomic int *recorded)
{
	static uint8_t data[UNIT];

	env_fill(number, unit, data, UNIT);
	digest_sha256(data, UNIT, ret_digest);
	return cache_blob_put_chunk(blob, unit, unit * UNIT, data, UNIT,
				    ret_digest, env_count, recorded);
}

static int get_chunk(struct cache *cache, const struct digest *digest,
		     unsigned int number, uint64_t unit)
{
	static uint8_t data[UNIT], expected[UNIT];

	if (cache_chunk_get(cache, digest, UNIT, data) != 1)
		return 0;
	env_fill(number, unit, expected, UNIT);
	assert_memory_equal(data, expected, UNIT);
	return 1;
}

static void a_chunk_is_found_by_its_digest(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir), *other;
	struct cache_blob *blob = env_blob(cache, 1, 8);
	_Atomic int recorded = 0;
	struct digest digests[8], unknown = env_id(99);
	uint8_t byte;

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(put_chunk(blob, 1, i, &digests[i], &recorded),
				 0);
	/* By the callback it can be found. */
	env_wait(&recorded, 8);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(get_chunk(cache, &digests[i], 1, i), 1);
	assert_int_equal(cache_chunk_get(cache, &unknown, 1, &byte), 0);
	assert_int_equal(cache_chunk_get(cache, &digests[0], 1, &byte), 0);
	other = env_open(dir);
	assert_int_equal(get_chunk(other, &digests[3], 1, 3), 1);
	cache_close(other);
	cache_blob_close(blob);
	cache_close(cache);
	cache = env_open(dir);
	assert_int_equal(get_chunk(cache, &digests[7], 1, 7), 1);
	cache_close(cache);
	env_remove(dir);
}

/* A commit may take seconds. */
static void a_chunk_is_found_before_it_is_recorded(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 3, 4);
	_Atomic int recorded = 0;
	struct digest digests[4];
	int fd = openat(cache->dirfd, LAYOUT_GATE, O_RDWR | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(gate_enter(fd, GATE_WRITER, 10000), 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(put_chunk(blob, 3, i, &digests[i], &recorded),
				 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(get_chunk(cache, &digests[i], 3, i), 1);
	gate_leave(fd, GATE_WRITER);
	close(fd);
	env_wait(&recorded, 4);
	assert_int_equal(get_chunk(cache, &digests[0], 3, 0), 1);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static void a_dropped_unit_or_lost_file_is_a_miss(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 2, 4);
	_Atomic int recorded = 0;
	struct digest digests[2];

	(void)state;
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(put_chunk(blob, 2, i, &digests[i], &recorded),
				 0);
	env_wait(&recorded, 2);
	cache_blob_drop(blob, 0, UNIT);
	assert_int_equal(get_chunk(cache, &digests[0], 2, 0), 0);
	assert_int_equal(get_chunk(cache, &digests[1], 2, 1), 1);
	cache_blob_close(blob);
	assert_true(env_blob_file(dir, 2, path, sizeof(path)));
	cache_close(cache);
	assert_int_equal(unlink(path), 0);
	cache = env_open(dir);
	assert_int_equal(get_chunk(cache, &digests[1], 2, 1), 0);
	cache_close(cache);
	env_remove(dir);
}

static void rows_that_make_no_sense_are_refused(void **state)
{
	struct chunk_row row =
				 {
					 .id = env_id(3),
					 .gen = 7,
					 .unit = 1,
					 .offset = UNIT,
					 .length = UNIT,
				 },
			 again;
	uint8_t bytes[ROW_CHUNK_BYTES];

	(void)state;
	chunk_row_encode(&row, bytes);
	assert_int_equal(chunk_row_decode(bytes, sizeof(bytes), &again), 0);
	assert_true(digest_equal(&again.id, &row.id));
	assert_int_equal(again.offset, UNIT);
	assert_int_equal(chunk_row_decode(bytes, 63, &again), -EINVAL);
	row.gen = 0;
	chunk_row_encode(&row, bytes);
	assert_int_equal(chunk_row_decode(bytes, 64, &again), -EINVAL);
	row.gen = 7;
	row.length = (4u << 20) + 1;
	chunk_row_encode(&row, bytes);
	assert_int_equal(chunk_row_decode(bytes, 64, &again), -EINVAL);
	row.length = 1;
	row.id.type = 77;
	chunk_row_encode(&row, bytes);
	assert_int_equal(chunk_row_decode(bytes, 64, &again), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_is_found_by_its_digest),
		cmocka_unit_test(a_chunk_is_found_before_it_is_recorded),
		cmocka_unit_test(a_dropped_unit_or_lost_file_is_a_miss),
		cmocka_unit_test(rows_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
