/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying: what has the right checksums is compared with its digest as well,
 * whether the list of its chunks is here or not; what is evicted meanwhile is
 * not called missing. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "cache-env.h"
#include "format/places.h"
#include "format/recipe.h"

#define BLOBS 60u
#define ROUNDS 12

/* The name of a blob of env_fill's units; last is another one's, if not i. */
static struct digest id_of(unsigned int number, uint32_t units,
			   unsigned int last)
{
	static uint8_t data[UNIT];
	struct recipe_record *records = calloc(units, sizeof(*records));
	struct digest id;

	assert_non_null(records);
	for (uint32_t i = 0; i < units; i++) {
		env_fill(i + 1 == units ? last : number, i, data, UNIT);
		digest_sha256(data, UNIT, &records[i].digest);
		records[i].length = UNIT;
	}
	assert_int_equal(recipe_inline_id(records, units, &id), 0);
	free(records);
	return id;
}

static struct cache_blob *open_blob(struct cache *cache,
				    const struct digest *id, uint64_t units)
{
	struct cache_blob *blob = NULL;

	assert_int_equal(
		cache_blob_open(cache, id, units * UNIT, units, &blob, NULL),
		0);
	return blob;
}

static void fill(struct cache *cache)
{
	_Atomic int recorded = 0;

	for (unsigned int i = 0; i < BLOBS; i++) {
		struct digest id = id_of(i, 1, i);
		struct cache_blob *blob = open_blob(cache, &id, 1);

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
		ids[i] = id_of(i, 1, i);
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
	char *dir = scratch_directory();
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

static void put_units(struct cache_blob *blob, unsigned int number,
		      uint64_t units)
{
	_Atomic int recorded = 0;

	for (uint64_t i = 0; i < units; i++)
		assert_int_equal(env_put(blob, number, i, &recorded), 0);
	env_wait(&recorded, (int)units);
}

static struct cache_verify_result verify(struct cache *cache, bool is_repair)
{
	const struct cache_verify_options options = {
		.threads = 2,
		.report = on_fault,
		.is_repair = is_repair,
	};
	struct cache_verify_result result;

	assert_int_equal(cache_verify(cache, &options, &result, NULL), 0);
	return result;
}

/* Of one unit, of a few, of more than a row of the index has. */
static void test_blobs_are_what_they_are_named_by(void **state)
{
	static const uint32_t units[] = {1, 3, 150};
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct cache_verify_result result;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		struct digest id = id_of(i, units[i], i);
		struct cache_blob *blob = open_blob(cache, &id, units[i]);

		put_units(blob, i, units[i]);
		cache_blob_close(blob);
	}
	result = verify(cache, false);
	assert_int_equal(result.left, 0);
	assert_int_equal(result.units, 154);
	assert_int_equal(result.proven_units, 154);

	/* Checksums are made of what is put: these are right, the last unit
	 * is not what the name says. */
	for (unsigned int i = 0; i < 3; i++) {
		struct digest id = id_of(10 + i, units[i], 99);
		struct cache_blob *blob = open_blob(cache, &id, units[i]);

		put_units(blob, 10 + i, units[i]);
		cache_blob_close(blob);
	}
	result = verify(cache, false);
	assert_int_equal(result.left, 3);
	assert_int_equal(result.bad_units, 154);
	assert_int_equal(result.proven_units, 154);
	result = verify(cache, true);
	assert_int_equal(result.repaired, 3);
	result = verify(cache, false);
	assert_int_equal(result.left, 0);
	assert_int_equal(result.units, 154);
	cache_close(cache);
	env_remove(dir);
}

/* By reference: the digest of the bytes is the name. */
static void test_files_are_what_they_are_named_by(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct hasher *hasher = hasher_new();
	struct cache_verify_result result;
	static uint8_t data[UNIT];
	struct cache_blob *blob;
	struct digest id;

	(void)state;
	assert_int_equal(hasher_start(hasher, DIGEST_SHA256, 100 * UNIT), 0);
	for (uint64_t i = 0; i < 100; i++) {
		env_fill(1, i, data, UNIT);
		hasher_add(hasher, data, UNIT);
	}
	hasher_finish(hasher, &id);
	hasher_free(hasher);
	blob = open_blob(cache, &id, 100);
	cache_blob_expect(blob);
	put_units(blob, 1, 100);
	cache_blob_close(blob);
	result = verify(cache, false);
	assert_int_equal(result.left, 0);
	assert_int_equal(result.proven_units, 100);

	/* Of which nothing is known but a name, and an incomplete one. */
	id.type = DIGEST_REFERENCE;
	blob = open_blob(cache, &id, 1);
	put_units(blob, 2, 1);
	cache_blob_close(blob);
	id = id_of(3, 3, 99);
	blob = open_blob(cache, &id, 3);
	put_units(blob, 3, 2);
	cache_blob_close(blob);
	result = verify(cache, false);
	assert_int_equal(result.left, 0);
	assert_int_equal(result.units, 103);
	assert_int_equal(result.proven_units, 100);
	cache_close(cache);
	env_remove(dir);
}

/* Places that cannot be read are a fault; so is something in their place. */
static void test_places_are_read(void **state)
{
	static const char nonsense[] = "these are no places at all";
	char *dir = scratch_directory();
	struct cache *cache = env_open(dir);
	struct places_pack pack = {.size = 1000};
	struct place place = {.stored_bytes = 100};
	struct digest name = id_of(1, 1, 1);
	struct cache_verify_result result;
	struct buf file;

	(void)state;
	buf_init(&file, 65536);
	digest_sha256("pack", 4, &pack.id);
	assert_int_equal(places_write(&pack, 1, &place, 1, &file), 0);
	assert_int_equal(cache_object_put(cache, CACHE_PLACES, &name, file.data,
					  file.len),
			 0);
	result = verify(cache, false);
	assert_int_equal(result.objects, 1);
	assert_int_equal(result.bad_objects, 0);
	/* its fixed part, its head, its page */
	for (int i = 0; i < 3; i++) {
		struct places_head *head;

		assert_int_equal(
			places_head_parse(file.data, file.len, &head, NULL), 0);
		name.bytes[0] = (uint8_t)i;
		assert_int_equal(
			cache_object_put(cache, CACHE_PLACES, &name,
					 i < 2 ? file.data :
						 file.data +
							 head->pages[0].offset,
					 i == 0 ? PLACES_FIXED_BYTES :
					 i == 1 ? head->head_bytes :
						  head->pages[0].stored_bytes),
			0);
		places_head_free(head);
	}
	result = verify(cache, false);
	assert_int_equal(result.objects, 4);
	assert_int_equal(result.bad_objects, 0);
	name.bytes[0] = 77;
	assert_int_equal(cache_object_put(cache, CACHE_PLACES, &name, nonsense,
					  sizeof(nonsense)),
			 0);
	name.bytes[0] = 78;
	assert_int_equal(cache_object_put(cache, CACHE_PLACES, &name, file.data,
					  file.len - 1),
			 0);
	result = verify(cache, false);
	assert_int_equal(result.bad_objects, 2);
	assert_int_equal(result.left, 2);
	result = verify(cache, true);
	assert_int_equal(result.repaired, 2);
	result = verify(cache, false);
	assert_int_equal(result.objects, 4);
	assert_int_equal(result.bad_objects, 0);
	buf_release(&file);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blobs_are_what_they_are_named_by),
		cmocka_unit_test(test_files_are_what_they_are_named_by),
		cmocka_unit_test(test_places_are_read),
		cmocka_unit_test(test_evicted_is_not_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
