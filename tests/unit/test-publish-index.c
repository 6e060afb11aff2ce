/* SPDX-License-Identifier: Apache-2.0 */
/* The index of chunks: claims, hits proven by tables, threads, packs that are
 * damaged or gone. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "publish/chunk-index.h"
#include "publish/mirror-store.h"
#include "publish/pack-tables.h"
#include "publish/pack-writer.h"
#include "source/source.h"

#include "publish-env.h"

struct fixture {
	struct mirror *mirror;
	struct pack_tables *tables;
	struct chunk_index *index;
};

static void fixture_open(struct fixture *f, const struct publish_env *env)
{
	assert_int_equal(
		mirror_open(env->mirror, NULL, MIRROR_OPEN_CREATE, &f->mirror, NULL),
		0);
	f->tables = pack_tables_new(f->mirror);
	f->index = chunk_index_new(f->tables);
}

static void fixture_close(struct fixture *f)
{
	chunk_index_free(f->index);
	pack_tables_free(f->tables);
	mirror_close(f->mirror);
}

static uint64_t fixture_load(struct fixture *f)
{
	struct stored_files packs;
	uint64_t damaged;

	assert_int_equal(mirror_list(f->mirror, "packs", &packs, NULL), 0);
	assert_int_equal(chunk_index_load(f->index, f->mirror, &packs, 3,
					  &damaged, NULL),
			 0);
	stored_files_release(&packs);
	return damaged;
}

static struct digest digest_of(uint64_t number)
{
	struct digest digest;
	uint8_t bytes[8];

	store_le64(bytes, number);
	digest_sha256(bytes, sizeof(bytes), &digest);
	return digest;
}

/* A pack with the chunks [first, first + count), their frames "frame". */
static void write_pack(struct fixture *f, uint64_t first, uint64_t count)
{
	struct pack_writer *writer;

	assert_int_equal(
		pack_writer_open(f->mirror, f->tables, false, &writer, NULL),
		0);
	for (uint64_t i = first; i < first + count; i++) {
		const struct pack_frame frame = {
			.digest = digest_of(i),
			.data = "frame",
			.stored_bytes = 5,
			.plain_bytes = (uint32_t)i + 1,
		};
		uint32_t record, pack, position;

		assert_int_equal(
			chunk_index_claim(f->index, &frame.digest, &record), 0);
		assert_int_equal(pack_writer_append(writer, &frame, &pack,
						    &position, NULL),
				 0);
		chunk_index_stored(f->index, record, pack, position);
	}
	assert_int_equal(pack_writer_finish(writer, NULL), 0);
}

static void expect_known(struct fixture *f, uint64_t number)
{
	struct digest digest = digest_of(number);
	struct pack_record record;
	uint32_t found, pack;

	assert_int_equal(chunk_index_claim(f->index, &digest, &found), 1);
	assert_int_equal(chunk_index_place(f->index, found, &pack, &record), 0);
	assert_true(digest_equal(&record.digest, &digest));
	assert_int_equal(record.plain_bytes, number + 1);
}

static void test_claims(void **state)
{
	struct digest a = digest_of(1), b = digest_of(2);
	struct fixture f;
	uint32_t first, second, other, pack;
	struct pack_record record;

	fixture_open(&f, *state);
	assert_int_equal(chunk_index_claim(f.index, &a, &first), 0);
	assert_int_equal(chunk_index_claim(f.index, &a, &second), 1);
	assert_int_equal(first, second);
	assert_int_equal(chunk_index_claim(f.index, &b, &other), 0);
	assert_int_not_equal(first, other);
	assert_int_equal(chunk_index_place(f.index, first, &pack, &record),
			 -ENOENT);
	fixture_close(&f);
}

/* The same first eight bytes are not enough. */
static void test_equal_tags_are_told_apart(void **state)
{
	struct digest a = digest_of(1), b = a;
	struct fixture f;
	uint32_t first, second;

	b.bytes[31] ^= 1;
	fixture_open(&f, *state);
	assert_int_equal(chunk_index_claim(f.index, &a, &first), 0);
	assert_int_equal(chunk_index_claim(f.index, &b, &second), 0);
	assert_int_not_equal(first, second);
	fixture_close(&f);
}

/* Nor for one that is in a pack. */
static void test_equal_tags_of_stored_chunks(void **state)
{
	struct digest digest = digest_of(7);
	struct fixture f;
	uint32_t record;

	fixture_open(&f, *state);
	write_pack(&f, 0, 10);
	digest.bytes[8] ^= 1;
	assert_int_equal(chunk_index_claim(f.index, &digest, &record), 0);
	fixture_close(&f);
}

static void test_stored_packs_are_found_again(void **state)
{
	struct fixture f;

	fixture_open(&f, *state);
	write_pack(&f, 0, 3000);
	write_pack(&f, 3000, 1);
	for (uint64_t i = 0; i < 3001; i++)
		expect_known(&f, i);
	fixture_close(&f);

	fixture_open(&f, *state);
	assert_int_equal(fixture_load(&f), 0);
	for (uint64_t i = 0; i < 3001; i++)
		expect_known(&f, i);
	fixture_close(&f);
}

static void for_each_pack(struct fixture *f,
			  void (*change)(int mirror_fd, const char *path))
{
	struct stored_files packs;
	char path[SOURCE_PATH_MAX];

	assert_int_equal(mirror_list(f->mirror, "packs", &packs, NULL), 0);
	for (size_t i = 0; i < packs.list.count; i++)
		change(f->mirror->fd,
		       mirror_pack_path(&packs.list.items[i].digest, path));
	stored_files_release(&packs);
}

static void cut_pack(int mirror_fd, const char *path)
{
	int fd = openat(mirror_fd, path, O_WRONLY);

	assert_int_equal(ftruncate(fd, 100), 0);
	close(fd);
}

static void remove_pack(int mirror_fd, const char *path)
{
	assert_int_equal(unlinkat(mirror_fd, path, 0), 0);
}

static void test_damaged_packs_are_left_out(void **state)
{
	struct digest digest = digest_of(7);
	struct fixture f;
	uint32_t record;

	fixture_open(&f, *state);
	write_pack(&f, 0, 100);
	for_each_pack(&f, cut_pack);
	fixture_close(&f);
	fixture_open(&f, *state);
	assert_int_equal(fixture_load(&f), 1);
	assert_int_equal(chunk_index_claim(f.index, &digest, &record), 0);
	fixture_close(&f);
}

/* Removed after the index was read: stored once more. */
static void test_a_vanished_pack_is_a_miss(void **state)
{
	struct digest digest = digest_of(7);
	struct fixture f;
	uint32_t record;

	fixture_open(&f, *state);
	write_pack(&f, 0, 100);
	fixture_close(&f);
	fixture_open(&f, *state);
	assert_int_equal(fixture_load(&f), 0);
	for_each_pack(&f, remove_pack);
	assert_int_equal(chunk_index_claim(f.index, &digest, &record), 0);
	fixture_close(&f);
}

/* Of many packs the tables used last are in memory: a quarter of a million
 * records. */
static void test_tables_are_bounded(void **state)
{
	struct pack_record record;
	struct fixture f;

	fixture_open(&f, *state);
	for (uint64_t i = 0; i < 5; i++)
		write_pack(&f, i * 60000, 60000);
	assert_int_equal(pack_tables_get(f.tables, 4, 60000, &record),
			 -EBADMSG);
	for_each_pack(&f, remove_pack);
	assert_int_equal(pack_tables_get(f.tables, 4, 59999, &record), 0);
	assert_int_equal(pack_tables_get(f.tables, 0, 0, &record), -ENOENT);
	fixture_close(&f);
}

#define THREADS 4
#define CHUNKS 20000u
struct racer {
	struct chunk_index *index;
	uint32_t claimed;
};

static void *race(void *arg)
{
	struct racer *racer = arg;

	for (uint64_t i = 0; i < CHUNKS; i++) {
		struct digest digest = digest_of(i);
		uint32_t record;
		int r = chunk_index_claim(racer->index, &digest, &record);

		if (r == 0) {
			racer->claimed++;
			chunk_index_stored(racer->index, record, 0,
					   (uint32_t)i);
		}
	}
	return NULL;
}

/* Each chunk is claimed once, whoever comes. */
static void test_threads(void **state)
{
	struct racer racers[THREADS];
	pthread_t threads[THREADS];
	uint32_t claimed = 0;
	struct fixture f;
	int64_t pack;

	fixture_open(&f, *state);
	pack = pack_tables_add_open(f.tables);
	assert_int_equal(pack, 0);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		struct pack_record record = {.digest = digest_of(i)};
		uint32_t position;

		pack_tables_append(f.tables, 0, &record, &position);
	}
	for (int i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){.index = f.index};
		assert_int_equal(
			pthread_create(&threads[i], NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		claimed += racers[i].claimed;
	}
	assert_int_equal(claimed, CHUNKS);
	fixture_close(&f);
}

#define TEST(function)                                                         \
	cmocka_unit_test_setup_teardown(function, publish_env_setup,           \
					publish_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_claims),
		TEST(test_equal_tags_are_told_apart),
		TEST(test_equal_tags_of_stored_chunks),
		TEST(test_stored_packs_are_found_again),
		TEST(test_damaged_packs_are_left_out),
		TEST(test_a_vanished_pack_is_a_miss),
		TEST(test_tables_are_bounded),
		TEST(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
