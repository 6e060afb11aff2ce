/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot through its door: names, attributes and bytes, cold and warm,
 * with a cache and without, by one reader and by many. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "format/catalog.h"
#include "small-mirror.h"

static struct small_mirror *mirror;

struct fixture {
	char *cache_dir;
	struct node *node;
	struct dataset *dataset;
	struct snapshot *snapshot;
};

static void open_fixture(struct fixture *fixture, const char *cache_dir)
{
	const char *mirrors[] = {mirror->dir};

	fixture->node = small_node(cache_dir, 20000);
	fixture->dataset = small_dataset(fixture->node, mirror, mirrors, 1);
	fixture->snapshot = small_snapshot(fixture->dataset);
}

static void close_fixture(struct fixture *fixture)
{
	snapshot_unref(fixture->snapshot);
	node_close(fixture->node);
}

static void names_are_found(void **state)
{
	struct fixture f = {0};
	struct entry_attr attr, sub;
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct err err;
	uint64_t parent;
	char path[64], *text;
	int r;

	(void)state;
	open_fixture(&f, NULL);
	assert_int_equal(small_resolve(f.snapshot, "", &attr, &err), 0);
	assert_int_equal(attr.number, 0);
	assert_int_equal(attr.type, ENTRY_DIRECTORY);
	assert_int_equal(small_resolve(f.snapshot, "/dir/sub/", &sub, &err), 0);
	assert_int_equal(
		small_resolve(f.snapshot, "dir/sub/004.txt", &attr, &err), 0);
	assert_int_equal(attr.size, 19991);
	assert_int_equal(attr.mtime_ns, 123456789);
	while ((r = snapshot_parent(f.snapshot, attr.number,
				    blocking_waiter_get(waiter), &parent,
				    &err)) == DATASET_PARKED)
		waiter_block(waiter);
	assert_int_equal(r, 0);
	assert_int_equal(parent, sub.number);
	assert_int_equal(small_resolve(f.snapshot, "nothing", &attr, &err),
			 -ENOENT);
	assert_int_equal(small_resolve(f.snapshot, "big.bin/x", &attr, &err),
			 -ENOTDIR);
	for (int i = 0; i < SMALL_MANY; i += 37) {
		struct entry_attr again;

		snprintf(path, sizeof(path), "many/%05d", i);
		assert_int_equal(small_resolve(f.snapshot, path, &attr, &err),
				 0);
		while ((r = snapshot_getattr(f.snapshot, attr.number,
					     blocking_waiter_get(waiter),
					     &again, &err)) == DATASET_PARKED)
			waiter_block(waiter);
		assert_int_equal(r, 0);
		assert_int_equal(again.number, attr.number);
		assert_int_equal(again.type, attr.type);
		assert_int_equal(again.mtime_ns, attr.mtime_ns);
	}
	assert_int_equal(small_resolve(f.snapshot, "dir/link", &attr, &err), 0);
	assert_int_equal(snapshot_readlink(f.snapshot, attr.number,
					   blocking_waiter_get(waiter), &text,
					   &err),
			 0);
	assert_string_equal(text, "../big.bin");
	free(text);
	blocking_waiter_free(waiter);
	close_fixture(&f);
}

struct names {
	unsigned count, limit;
	uint64_t next;
};

static bool take_name(void *arg, const char *name, size_t len,
		      const struct entry_attr *attr, uint64_t index)
{
	struct names *names = arg;
	char wanted[16];

	if (names->count == names->limit)
		return false;
	snprintf(wanted, sizeof(wanted), "%05u", (unsigned)index);
	assert_int_equal(len, 5);
	assert_memory_equal(name, wanted, 5);
	assert_int_equal(attr->type, ENTRY_FILE);
	assert_int_equal(index, names->next);
	names->next++;
	names->count++;
	return true;
}

/* From any position on, in any order, in steps of any size. */
static void a_cut_directory_is_listed(void **state)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	static const unsigned limits[] = {1, 7, 199, 100000};
	struct fixture f = {0};
	struct entry_attr dir;
	struct err err;

	(void)state;
	open_fixture(&f, NULL);
	assert_int_equal(small_resolve(f.snapshot, "many", &dir, &err), 0);
	assert_int_equal(dir.entries_below, SMALL_MANY);
	for (int start = SMALL_MANY; start >= 0; start -= 35) {
		unsigned limit = limits[start % 4];
		uint64_t at = (uint64_t)start;
		bool is_end = false;

		while (!is_end) {
			struct names names = {0, limit, at};
			int r = snapshot_list(f.snapshot, dir.number, at,
					      blocking_waiter_get(waiter),
					      take_name, &names, &is_end, &err);

			if (r == DATASET_PARKED) {
				waiter_block(waiter);
				continue;
			}
			assert_int_equal(r, 0);
			assert_true(is_end || names.count > 0);
			at = names.next;
		}
		assert_int_equal(at, SMALL_MANY);
	}
	blocking_waiter_free(waiter);
	close_fixture(&f);
}

static void files_read_right(const char *cache_dir, unsigned rounds)
{
	struct node_stats stats, warm;
	struct fixture f = {0};

	open_fixture(&f, cache_dir);
	small_check_all(f.snapshot, mirror);
	node_stats(f.node, &stats);
	assert_int_equal(stats.chunks_corrupt, 0);
	if (cache_dir)
		assert_int_equal(stats.fetched_plain_bytes,
				 mirror->chunk_bytes);
	while (rounds-- > 0)
		small_check_all(f.snapshot, mirror);
	node_stats(f.node, &warm);
	if (cache_dir)
		assert_int_equal(warm.fetched_wire_bytes,
				 stats.fetched_wire_bytes);
	close_fixture(&f);
}

static void files_read_right_without_a_cache(void **state)
{
	(void)state;
	files_read_right(NULL, 1);
}

static void files_read_right_with_a_cache(void **state)
{
	char *dir = scratch_directory();
	struct node_stats stats;
	struct fixture f = {0};

	(void)state;
	files_read_right(dir, 2);
	/* Another process: nothing but the head is asked for. */
	open_fixture(&f, dir);
	small_check_all(f.snapshot, mirror);
	node_stats(f.node, &stats);
	assert_int_equal(stats.fetched_wire_bytes, 0);
	close_fixture(&f);
	small_directory_remove(dir);
}

static void read_part(struct fixture *f, uint64_t number,
		      struct blocking_waiter *waiter, struct read_result *ret)
{
	struct err err = {""};
	int r;

	while ((r = snapshot_read(f->snapshot, number, 0, 8192,
				  blocking_waiter_get(waiter), ret, &err)) ==
	       DATASET_PARKED)
		waiter_block(waiter);
	assert_int_equal(r, 0);
	assert_int_equal(ret->len, 8192);
}

static void read_again_from_memory(struct fixture *f, uint64_t number,
				   struct blocking_waiter *waiter,
				   struct read_result *result)
{
	read_result_failed(result, blocking_waiter_get(waiter));
	read_part(f, number, waiter, result);
	assert_int_equal(result->pieces[0].fd, -1);
	assert_memory_equal(result->pieces[0].memory,
			    small_file(mirror, SMALL_BIG)->data,
			    result->pieces[0].len);
}

/* What is said to lie in a cache file and then does not come from it. */
static void a_failed_file_is_done_without(void **state)
{
	char *dir = scratch_directory();
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct read_result result;
	struct node_stats stats;
	struct entry_attr attr;
	struct fixture f = {0};
	struct err err = {""};

	(void)state;
	files_read_right(dir, 1);
	open_fixture(&f, dir);
	assert_int_equal(small_resolve(f.snapshot, SMALL_BIG, &attr, &err), 0);
	read_part(&f, attr.number, waiter, &result);
	assert_true(result.pieces[0].fd >= 0);
	/* It can be read after all: from there, as memory. */
	read_again_from_memory(&f, attr.number, waiter, &result);
	node_stats(f.node, &stats);
	assert_int_equal(stats.fetched_wire_bytes, 0);
	read_result_release(&result);
	/* It is cut short between the result and its use: from the mirror. */
	read_part(&f, attr.number, waiter, &result);
	assert_true(result.pieces[0].fd >= 0);
	assert_int_equal(ftruncate(result.pieces[0].fd, 0), 0);
	read_again_from_memory(&f, attr.number, waiter, &result);
	node_stats(f.node, &stats);
	assert_int_not_equal(stats.fetched_wire_bytes, 0);
	read_result_release(&result);
	blocking_waiter_free(waiter);
	close_fixture(&f);
	small_directory_remove(dir);
}

static void odd_ends_are_answered(void **state)
{
	struct fixture f = {0};
	struct entry_attr attr;
	struct err err = {""};
	uint8_t data[16];

	(void)state;
	open_fixture(&f, NULL);
	assert_int_equal(small_resolve(f.snapshot, "empty", &attr, &err), 0);
	assert_int_equal(small_read(f.snapshot, attr.number, 0, 16, data, &err),
			 0);
	assert_int_equal(
		small_read(f.snapshot, attr.number, 10, 16, data, &err), 0);
	assert_int_equal(small_resolve(f.snapshot, SMALL_BIG, &attr, &err), 0);
	assert_int_equal(
		small_read(f.snapshot, attr.number, attr.size, 16, data, &err),
		0);
	assert_int_equal(
		small_read(f.snapshot, attr.number, UINT64_MAX, 16, data, &err),
		0);
	assert_int_equal(small_read(f.snapshot, attr.number, attr.size - 3, 16,
				    data, &err),
			 3);
	assert_int_equal(small_read(f.snapshot, 0, 0, 16, data, &err), -EISDIR);
	assert_int_equal(small_resolve(f.snapshot, "dir/hole", &attr, &err), 0);
	assert_int_equal(small_read(f.snapshot, attr.number, 0, 16, data, &err),
			 -EIO);
	assert_non_null(strstr(err.text, "small/dir/hole"));
	assert_non_null(strstr(err.text, "never uploaded"));
	assert_int_equal(small_resolve(f.snapshot, "dir/gone", &attr, &err), 0);
	assert_int_equal(small_read(f.snapshot, attr.number, 0, 16, data, &err),
			 -EACCES);
	assert_non_null(strstr(err.text, "asked for by its author"));
	close_fixture(&f);
}

static void *xattr(struct fixture *f, uint64_t number, const char *name,
		   size_t *ret_len)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	void *value = NULL;
	int r;

	while ((r = snapshot_xattr_get(f->snapshot, number, name,
				       blocking_waiter_get(waiter), &value,
				       ret_len, NULL)) == DATASET_PARKED)
		waiter_block(waiter);
	blocking_waiter_free(waiter);
	assert_int_equal(r, 0);
	((char *)value)[*ret_len] = '\0';
	return value;
}

static void expect_xattr(struct fixture *f, uint64_t number, const char *name,
			 const char *wanted)
{
	size_t len;
	char *value = xattr(f, number, name, &len);

	assert_string_equal(value, wanted);
	free(value);
}

/* Readers are answered before the cache has it. */
static void wait_for_xattr(struct fixture *f, uint64_t number, const char *name,
			   const char *wanted)
{
	for (int i = 0; i < 500; i++) {
		size_t len;
		char *value = xattr(f, number, name, &len);
		bool is_there = strcmp(value, wanted) == 0;

		free(value);
		if (is_there)
			return;
		usleep(10000);
	}
	expect_xattr(f, number, name, wanted);
}

static void attributes_tell_the_story(void **state)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	char *dir = scratch_directory(), *list, text[32];
	struct fixture f = {0};
	struct entry_attr attr;
	uint8_t data[16];
	struct err err;
	size_t len;

	(void)state;
	open_fixture(&f, dir);
	assert_int_equal(small_resolve(f.snapshot, SMALL_BIG, &attr, &err), 0);
	expect_xattr(&f, attr.number, "user.colour", "blue");
	expect_xattr(&f, attr.number, "user.larder.state", "cold");
	assert_int_equal(small_read(f.snapshot, attr.number, 0, 16, data, &err),
			 16);
	wait_for_xattr(&f, attr.number, "user.larder.state", "partial");
	small_check_all(f.snapshot, mirror);
	wait_for_xattr(&f, attr.number, "user.larder.state", "complete");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)attr.size);
	expect_xattr(&f, attr.number, "user.larder.cached", text);
	assert_int_equal(snapshot_xattr_list(f.snapshot, attr.number,
					     blocking_waiter_get(waiter), &list,
					     &len, &err),
			 0);
	assert_memory_equal(list, "user.colour\0user.larder.snapshot", 33);
	assert_non_null(memmem(list, len, "sha256", 6));
	assert_null(memmem(list, len, "error", 5));
	free(list);
	blocking_waiter_free(waiter);
	close_fixture(&f);
	small_directory_remove(dir);
}

/* ---- many readers */

struct reader {
	struct fixture *fixture;
	unsigned seed;
	unsigned rounds;
};

static void *read_at_random(void *arg)
{
	struct reader *reader = arg;
	uint64_t random = reader->seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	uint8_t *data = malloc(2u << 20);

	for (unsigned i = 0; i < reader->rounds; i++) {
		const struct small_file *file;
		struct entry_attr attr;
		struct err err = {""};
		uint64_t offset;
		size_t len;
		long n;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		file = &mirror->files[random % 3 ? random % mirror->file_count :
						   0];
		offset = (random >> 8) % (file->size + 10);
		len = (random >> 40) % (1u << (10 + random % 11)) + 1;
		assert_int_equal(small_resolve(reader->fixture->snapshot,
					       file->path, &attr, &err),
				 0);
		n = small_read(reader->fixture->snapshot, attr.number, offset,
			       len, data, &err);
		if (n < 0)
			print_error("%s\n", err.text);
		assert_true(n >= 0);
		if (offset >= file->size)
			assert_int_equal(n, 0);
		else
			assert_int_equal(n, len < file->size - offset ?
						    len :
						    file->size - offset);
		assert_memory_equal(data, file->data + offset,
				    offset < file->size ? (size_t)n : 0);
	}
	free(data);
	return NULL;
}

static void many_read(const char *cache_dir)
{
	struct reader readers[64];
	pthread_t threads[64];
	struct fixture f = {0};
	struct node_stats stats;

	open_fixture(&f, cache_dir);
	for (unsigned i = 0; i < 64; i++) {
		readers[i] = (struct reader){&f, i + 1, 20};
		assert_int_equal(pthread_create(&threads[i], NULL,
						read_at_random, &readers[i]),
				 0);
	}
	for (unsigned i = 0; i < 64; i++)
		pthread_join(threads[i], NULL);
	node_stats(f.node, &stats);
	if (cache_dir)
		assert_true(stats.fetched_plain_bytes <= mirror->chunk_bytes);
	close_fixture(&f);
}

static void many_read_without_a_cache(void **state)
{
	(void)state;
	many_read(NULL);
}

static void many_read_with_a_cache(void **state)
{
	char *dir = scratch_directory();

	(void)state;
	many_read(dir);
	many_read(dir);
	small_directory_remove(dir);
}

static int make_mirror(void **state)
{
	(void)state;
	mirror = small_mirror_new(1, 1, SMALL_PLAIN, NULL);
	return 0;
}

static int remove_mirror(void **state)
{
	(void)state;
	small_mirror_free(mirror);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(a_cut_directory_is_listed),
		cmocka_unit_test(files_read_right_without_a_cache),
		cmocka_unit_test(files_read_right_with_a_cache),
		cmocka_unit_test(a_failed_file_is_done_without),
		cmocka_unit_test(odd_ends_are_answered),
		cmocka_unit_test(attributes_tell_the_story),
		cmocka_unit_test(many_read_without_a_cache),
		cmocka_unit_test(many_read_with_a_cache),
	};

	return cmocka_run_group_tests(tests, make_mirror, remove_mirror);
}
