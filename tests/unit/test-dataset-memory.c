/* SPDX-License-Identifier: Apache-2.0 */
/* What readers are given from memory: before the cache file is written, and
 * instead of one that fails; and what is not fetched ahead where memory is
 * short. The cache's disk is delayed and fails by wrapping (--wrap). */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "cache/cache.h"
#include "dataset/read.h"
#include "dataset/snapshot.h"

#include "small-mirror.h"

/* Only ever waited for in full by code that is broken. */
#define GIVE_UP_MS 20000u

enum writes { WRITES_GO, WRITES_WAIT_FOR_READER, WRITES_ARE_REFUSED };

static _Atomic enum writes writes;
static atomic_bool is_answered, was_too_late;
static atomic_uint failing_reads;

int __real_cache_blob_put_chunk(struct cache_blob *blob, uint64_t unit,
				uint64_t offset, const void *data,
				uint32_t length, const struct digest *chunk,
				void (*recorded)(void *arg), void *arg);
int __wrap_cache_blob_put_chunk(struct cache_blob *blob, uint64_t unit,
				uint64_t offset, const void *data,
				uint32_t length, const struct digest *chunk,
				void (*recorded)(void *arg), void *arg);
ssize_t __real_pread_full(int fd, void *data, size_t len, uint64_t offset);
ssize_t __wrap_pread_full(int fd, void *data, size_t len, uint64_t offset);

int __wrap_cache_blob_put_chunk(struct cache_blob *blob, uint64_t unit,
				uint64_t offset, const void *data,
				uint32_t length, const struct digest *chunk,
				void (*recorded)(void *arg), void *arg)
{
	uint64_t end_ms = now_ms() + GIVE_UP_MS;

	if (writes == WRITES_ARE_REFUSED)
		return -EROFS;
	while (writes == WRITES_WAIT_FOR_READER && !is_answered &&
	       !was_too_late) {
		usleep(1000);
		if (now_ms() >= end_ms)
			was_too_late = true;
	}
	return __real_cache_blob_put_chunk(blob, unit, offset, data, length,
					   chunk, recorded, arg);
}

ssize_t __wrap_pread_full(int fd, void *data, size_t len, uint64_t offset)
{
	unsigned left = failing_reads;

	if (left &&
	    atomic_compare_exchange_strong(&failing_reads, &left, left - 1))
		return -EIO;
	return __real_pread_full(fd, data, len, offset);
}

struct fixture {
	struct small_mirror *mirror;
	char *dir;
	struct node *node;
	struct dataset *dataset;
	struct snapshot *snapshot;
	struct entry_attr attr;
	const struct small_file *file;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const char *mirrors[1];

	assert_non_null(f);
	f->mirror = small_mirror_new(7, 1, SMALL_PLAIN, NULL);
	f->dir = scratch_directory();
	mirrors[0] = f->mirror->dir;
	f->node = small_node(f->dir, 30000);
	f->dataset = small_dataset(f->node, f->mirror, mirrors, 1);
	f->snapshot = small_snapshot(f->dataset);
	writes = WRITES_GO;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	snapshot_unref(f->snapshot);
	node_close(f->node);
	small_mirror_free(f->mirror);
	small_directory_remove(f->dir);
	free(f);
	return 0;
}

static void use_file(struct fixture *f, const char *path)
{
	f->file = small_file(f->mirror, path);
	assert_int_equal(small_resolve(f->snapshot, path, &f->attr, NULL), 0);
}

static void read_result_of(struct fixture *f, size_t len,
			   struct read_result *ret)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct err err = {""};
	int r;

	while ((r = snapshot_read(f->snapshot, f->attr.number, 0, len,
				  blocking_waiter_get(waiter), ret, &err)) ==
	       DATASET_PARKED)
		waiter_block(waiter);
	if (r < 0)
		print_error("%s\n", err.text);
	assert_int_equal(r, 0);
	assert_int_equal(ret->len, len);
	blocking_waiter_free(waiter);
}

static void a_reader_does_not_wait_for_the_cache_file(void **state)
{
	struct fixture *f = *state;
	uint8_t data[1000];

	use_file(f, SMALL_BIG);
	writes = WRITES_WAIT_FOR_READER;
	is_answered = was_too_late = false;
	assert_int_equal(small_read(f->snapshot, f->attr.number, 0,
				    sizeof(data), data, NULL),
			 sizeof(data));
	is_answered = true;
	assert_memory_equal(data, f->file->data, sizeof(data));
	assert_false(was_too_late);
}

static bool is_in_a_file(struct fixture *f)
{
	struct read_result result;
	bool is_file;

	read_result_of(f, 40, &result);
	is_file = result.pieces[0].fd >= 0;
	read_result_release(&result);
	return is_file;
}

/* More pieces than a result has room for are copied into one, and the file
 * that the first of them lies in cannot be read just then. */
static void what_cannot_be_gathered_is_read_again(void **state)
{
	struct fixture *f = *state;
	struct read_result result;

	use_file(f, "paged.bin");
	for (int i = 0; i < 3000 && !is_in_a_file(f); i++)
		usleep(10000);
	assert_true(is_in_a_file(f));
	writes = WRITES_ARE_REFUSED;
	/* All that lies beyond the first 40 bytes is in memory alone. */
	read_result_of(f, 4000, &result);
	assert_true(result.count > 1);
	read_result_release(&result);
	failing_reads = 1;
	read_result_of(f, 4000, &result);
	assert_int_equal(failing_reads, 0);
	for (unsigned i = 0, at = 0; i < result.count; i++) {
		assert_int_equal(result.pieces[i].fd, -1);
		assert_memory_equal(result.pieces[i].memory, f->file->data + at,
				    result.pieces[i].len);
		at += (unsigned)result.pieces[i].len;
	}
	read_result_release(&result);
}

static void charge(struct node *node, int64_t bytes)
{
	pthread_mutex_lock(&node->budget.lock);
	node->budget.used += (uint64_t)bytes;
	pthread_mutex_unlock(&node->budget.lock);
}

static uint64_t fetched_bytes(struct node *node)
{
	struct node_stats stats;

	node_stats(node, &stats);
	return stats.fetched_plain_bytes;
}

/* Ask for the file's bytes and wait until nothing is done any more. */
static void ahead(struct fixture *f)
{
	struct waiter unused = {0};
	struct blob_source source;
	struct catalog_entry entry;
	struct blob *blob;
	struct part part;

	assert_int_equal(
		part_find(f->snapshot, f->attr.number, &unused, &part, NULL),
		0);
	catalog_get(part.catalog, part.local, &entry);
	assert_int_equal(blob_open(f->dataset, part.object, entry.blob, &unused,
				   &blob, &source, NULL),
			 0);
	readahead_start(f->dataset, blob, &source, 0, 2u << 20);
	for (int i = 0; i < 3000 && atomic_load(&f->node->jobs); i++)
		usleep(10000);
	assert_int_equal(atomic_load(&f->node->jobs), 0);
	blob_unref(blob);
	part_release(&part);
	waiter_release(&unused);
}

static void nothing_is_fetched_ahead_where_memory_is_short(void **state)
{
	struct fixture *f = *state;
	uint64_t limit = f->node->budget.limit, before;
	uint8_t byte;

	use_file(f, SMALL_BIG);
	/* Its recipe is here from now on. */
	assert_int_equal(small_read(f->snapshot, f->attr.number,
				    f->attr.size - 1, 1, &byte, NULL),
			 1);
	before = fetched_bytes(f->node);
	charge(f->node, (int64_t)(limit / 4 * 3));
	ahead(f);
	assert_int_equal(fetched_bytes(f->node), before);
	charge(f->node, -(int64_t)(limit / 4 * 3));
	ahead(f);
	assert_true(fetched_bytes(f->node) >= before + (2u << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_reader_does_not_wait_for_the_cache_file, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			what_cannot_be_gathered_is_read_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			nothing_is_fetched_ahead_where_memory_is_short, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
