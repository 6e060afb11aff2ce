/* SPDX-License-Identifier: Apache-2.0 */
/* What is pinned is never evicted: by whoever it was pinned, without index, and
 * until it is unpinned. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "cache-env.h"
#include "cache/internal.h"

#define UNITS 16u /* blobs of 1 MiB */
#define LIMIT (UINT64_C(32) << 20)

static const char *const globs[] = {"*.npy", "a b\\c\n"};

static void put_blob(struct cache *cache, unsigned int number)
{
	struct cache_blob *blob = env_blob(cache, number, UNITS);
	_Atomic int recorded = 0;

	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_put(blob, number, unit, &recorded), 0);
	env_wait(&recorded, UNITS);
	cache_blob_close(blob);
}

/* Above the limit, everything idle and closed, the same last use. */
static void fill(struct cache *cache)
{
	keeper_stop(&cache->keeper); /* the test is the keeper */
	sealer_stop(&cache->sealer); /* it opens what is complete */
	for (unsigned int i = 0; i < 34; i++)
		put_blob(cache, i);
	recorder_flush(&cache->recorder, 5000);
}

static bool has_file(const char *dir, unsigned int number)
{
	char path[512];

	return env_blob_file(dir, number, path, sizeof(path));
}

static struct cache_pin pin_of(struct digest *ids, unsigned int first,
			       unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ids[i] = env_id(first + i);
	return (struct cache_pin){
		.source = "mirror#d",
		.path = "train",
		.globs = globs,
		.glob_count = 2,
		.snapshot = env_id(1000),
		.made_s = 1700000000,
		.bytes = 123456,
		.blobs = ids,
		.blob_count = count,
		.objects = ids,
		.object_count = 1,
	};
}

static void test_pinned_stays(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache *other = env_open_limited(dir, LIMIT);
	struct digest ids[32];
	struct cache_pin pin = pin_of(ids, 0, 32);
	struct cache_usage usage;
	struct err err = {""};

	(void)state;
	keeper_stop(&other->keeper); /* nor does that one evict */
	fill(cache);
	/* from elsewhere, after this one has looked at the pins */
	assert_false(pin_set_has(&cache->evictor.pins, &ids[0]));
	assert_int_equal(cache_pin_add(other, &pin, &err), 0);
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_int_equal(usage.blobs_evicted, 2);
	for (unsigned int i = 0; i < 32; i++)
		assert_true(has_file(dir, i));
	assert_false(has_file(dir, 32));
	assert_false(has_file(dir, 33));
	/* a smaller one in its place */
	pin.blob_count = 1;
	assert_int_equal(cache_pin_add(other, &pin, &err), 0);
	for (unsigned int i = 40; i < 43; i++)
		put_blob(cache, i);
	recorder_flush(&cache->recorder, 5000);
	atomic_store(&cache->evictor.quiet_until_ms, 0);
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_true(usage.used_bytes <= LIMIT / 10 * 9);
	assert_true(has_file(dir, 0));
	/* none */
	assert_int_equal(cache_pin_remove(other, &pin, &err), 0);
	assert_int_equal(cache_pin_remove(other, &pin, &err), -ENOENT);
	assert_false(pin_set_has(&cache->evictor.pins, &ids[0]));
	cache_close(other);
	cache_close(cache);
	env_remove(dir);
}

/* A process per pin, all at once. */
static void test_processes_pin(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache;
	int status;

	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		if (fork() == 0) {
			struct cache *own = env_open(dir);
			struct digest id;
			struct cache_pin pin = pin_of(&id, i, 1);
			char source[16];

			snprintf(source, sizeof(source), "m#%u", i);
			pin.source = source;
			for (int j = 0; j < 20; j++)
				if (cache_pin_add(own, &pin, NULL) < 0 ||
				    (j < 19 &&
				     cache_pin_remove(own, &pin, NULL) < 0))
					_exit(1);
			cache_close(own);
			_exit(0);
		}
	}
	for (unsigned int i = 0; i < 8; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	cache = env_open(dir); /* no threads before the forks */
	for (unsigned int i = 0; i < 8; i++) {
		struct digest id = env_id(i);

		assert_true(pin_set_has(&cache->evictor.pins, &id));
	}
	struct digest id = env_id(8);
	assert_false(pin_set_has(&cache->evictor.pins, &id));
	cache_close(cache);
	env_remove(dir);
}

static void on_pin(void *arg, const struct cache_pin *pin)
{
	struct digest snapshot = env_id(1000), id = env_id(0);

	assert_string_equal(pin->source, "mirror#d");
	assert_string_equal(pin->path, "train");
	assert_int_equal(pin->glob_count, 2);
	assert_string_equal(pin->globs[0], globs[0]);
	assert_string_equal(pin->globs[1], globs[1]);
	assert_true(digest_equal(&pin->snapshot, &snapshot));
	assert_int_equal(pin->made_s, 1700000000);
	assert_int_equal(pin->bytes, 123456);
	assert_int_equal(pin->blob_count, 3);
	assert_true(digest_equal(&pin->blobs[0], &id));
	assert_int_equal(pin->object_count, 1);
	(*(int *)arg)++;
}

static void write_pin(const char *dir, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/pins/%s", dir, name);
	assert_int_equal(
		file_write(AT_FDCWD, path, text, strlen(text), 0600, 0), 0);
}

/* It comes back as it was, after the index has gone; other files in pins/ and
 * lines of later versions do no harm. */
static void test_pins_are_files(void **state)
{
	char *dir = scratch_directory(), path[600];
	struct cache *cache = env_open(dir);
	struct digest ids[3], late = env_id(7);
	struct cache_pin pin = pin_of(ids, 0, 3);
	char hex[DIGEST_TEXT_MAX], text[512];
	int seen = 0;

	(void)state;
	assert_int_equal(cache_pin_add(cache, &pin, NULL), 0);
	cache_close(cache);
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, path), 0);
	write_pin(dir, "README", "blob sha256:00\n");
	memset(text, 'a', 64);
	text[64] = '\0';
	snprintf(path, sizeof(path), "%s/pins/%s", dir, text);
	snprintf(text, sizeof(text),
		 "larder-pin 9\n\nblob\nblob \nblob x:y\n"
		 "shape round\nblob %s",
		 digest_text(&late, hex));
	assert_int_equal(
		file_write(AT_FDCWD, path, text, strlen(text), 0600, 0), 0);
	cache = env_open(dir);
	assert_int_equal(cache_pin_list(cache, on_pin, &seen, NULL), 0);
	assert_int_equal(seen, 1);
	assert_true(pin_set_has(&cache->evictor.pins, &ids[2]));
	assert_true(pin_set_has(&cache->evictor.pins, &pin.snapshot));
	assert_true(pin_set_has(&cache->evictor.pins, &late));
	cache_close(cache);
	env_remove(dir);
}

/* A pin that cannot be read: nothing goes. */
static void test_unreadable_pins_keep_all(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	struct cache_usage usage;

	(void)state;
	fill(cache);
	pin_set_release(&cache->evictor.pins);
	evictor_run(cache);
	cache_usage(cache, &usage);
	assert_int_equal(usage.blobs_evicted, 0);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pinned_stays),
		cmocka_unit_test(test_processes_pin),
		cmocka_unit_test(test_pins_are_files),
		cmocka_unit_test(test_unreadable_pins_keep_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
