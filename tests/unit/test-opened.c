/* SPDX-License-Identifier: Apache-2.0 */
/* Which inodes are open and how: the rule of one way, and what the memfd says
 * to whoever comes after a killed process. */
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

#include "mount/opened.h"

#define RESENT (UINT64_C(1) << 63)

static int held_a, held_b;

static struct opened *new_table(void)
{
	struct opened *opened;

	assert_int_equal(opened_new(&opened, NULL), 0);
	return opened;
}

static const struct open_way cached = {.mode = OPEN_CACHED};
static const struct open_way passed = {.mode = OPEN_PASSTHROUGH,
				       .backing_id = 7,
				       .held = &held_a};

static void test_first_open_decides(void **state)
{
	struct opened *opened = new_table();
	struct open_way way;
	uint64_t first, second, third;

	assert_int_equal(opened_mode(opened, 5), 0);
	assert_int_equal(opened_join(opened, 5, 1, &way, &first), 0);
	assert_int_equal(opened_add(opened, 5, 1, &cached, &way, &first), 1);
	assert_int_equal(opened_mode(opened, 5), OPEN_CACHED);
	/* completed meanwhile, but it is open */
	assert_int_equal(opened_add(opened, 5, 2, &passed, &way, &second), 0);
	assert_int_equal(way.mode, OPEN_CACHED);
	assert_int_equal(opened_join(opened, 5, 3, &way, &third), 1);
	assert_int_equal(way.mode, OPEN_CACHED);
	assert_int_not_equal(first, second);
	assert_int_not_equal(first, third);
	assert_int_equal(opened_remove(opened, first, &way), 0);
	assert_int_equal(opened_remove(opened, first, &way), 0);
	assert_int_equal(opened_remove(opened, third, &way), 0);
	assert_int_equal(opened_remove(opened, second, &way), 1);
	assert_int_equal(way.mode, OPEN_CACHED);
	assert_int_equal(opened_mode(opened, 5), 0);

	assert_int_equal(opened_add(opened, 5, 4, &passed, &way, &first), 1);
	assert_int_equal(opened_mode(opened, 5), OPEN_PASSTHROUGH);
	assert_int_equal(opened_passed_count(opened), 1);
	assert_int_equal(opened_join(opened, 5, 5, &way, &second), 1);
	assert_int_equal(way.backing_id, 7);
	assert_int_equal(opened_passed_count(opened), 1);
	assert_int_equal(opened_remove(opened, first, &way), 0);
	assert_int_equal(opened_remove(opened, second, &way), 1);
	assert_ptr_equal(way.held, &held_a);
	assert_int_equal(opened_passed_count(opened), 0);
	opened_free(opened);
}

static void test_inodes_do_not_meet(void **state)
{
	struct opened *opened = new_table();
	struct open_way way, mine;
	uint64_t handles[3000];

	for (uint64_t i = 0; i < 3000; i++) {
		mine = (struct open_way){.mode = OPEN_PASSTHROUGH,
					 .backing_id = (int32_t)i + 1,
					 .held = &held_b};
		assert_int_equal(opened_add(opened, i << 40 | 3, i + 1, &mine,
					    &way, &handles[i]),
				 1);
	}
	assert_int_equal(opened_passed_count(opened), 3000);
	for (uint64_t i = 0; i < 2000; i++) {
		assert_int_equal(opened_remove(opened, handles[i], &way), 1);
		assert_int_equal(way.backing_id, i + 1);
	}
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(opened_take(opened, &way), 1);
		assert_ptr_equal(way.held, &held_b);
	}
	assert_int_equal(opened_take(opened, &way), 0);
	opened_free(opened);
}

static void test_handles_are_not_mistaken(void **state)
{
	struct opened *opened = new_table();
	struct open_way way;
	uint64_t old, new;

	assert_int_equal(opened_remove(opened, 0, &way), 0);
	assert_int_equal(opened_remove(opened, UINT64_MAX, &way), 0);
	assert_int_equal(opened_add(opened, 5, 1, &passed, &way, &old), 1);
	assert_int_not_equal(old, 0);
	assert_int_equal(opened_remove(opened, old, &way), 1);
	/* a release that comes twice finds another open in its place */
	assert_int_equal(opened_add(opened, 5, 2, &cached, &way, &new), 1);
	assert_int_equal(opened_remove(opened, old, &way), 0);
	assert_int_equal(opened_mode(opened, 5), OPEN_CACHED);
	assert_int_equal(opened_remove(opened, new, &way), 1);
	opened_free(opened);
}

static void test_a_request_sent_again_opens_once(void **state)
{
	struct opened *opened = new_table();
	struct open_way way;
	uint64_t first, again, other;

	assert_int_equal(opened_add(opened, 5, 10, &passed, &way, &first), 1);
	assert_int_equal(opened_join(opened, 5, 10 | RESENT, &way, &again), 1);
	assert_int_equal(again, first);
	assert_int_equal(
		opened_add(opened, 5, 10 | RESENT, &cached, &way, &again), 0);
	assert_int_equal(again, first);
	assert_int_equal(way.backing_id, 7);
	/* it never came here the first time */
	assert_int_equal(opened_join(opened, 5, 12 | RESENT, &way, &other), 1);
	assert_int_not_equal(other, first);
	assert_int_equal(opened_remove(opened, first, &way), 0);
	assert_int_equal(opened_remove(opened, other, &way), 1);
	opened_free(opened);
}

static void test_records_outlive_the_process(void **state)
{
	struct opened *opened = new_table();
	const struct opened_header *header;
	const struct opened_record *record;
	struct open_way way;
	uint64_t a, b, c;
	struct stat st;

	opened_add(opened, 5, 1, &passed, &way, &a);
	opened_add(opened, 6, 2, &cached, &way, &b);
	opened_join(opened, 5, 3, &way, &c);
	opened_remove(opened, a, &way);
	assert_int_equal(fstat(opened_fd(opened), &st), 0);
	header = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED,
		      opened_fd(opened), 0);
	assert_ptr_not_equal(header, MAP_FAILED);
	assert_true(header->magic == OPENED_MAGIC);
	assert_int_equal(header->record_bytes, sizeof(*record));
	record = (const struct opened_record *)(header + 1);
	assert_int_equal(record[0].unique, 0);
	assert_int_equal(record[1].unique, 2);
	assert_int_equal(record[1].ino, 6);
	assert_int_equal(record[1].mode, OPEN_CACHED);
	assert_int_equal(record[1].backing_id, 0);
	assert_int_equal(record[2].unique, 3);
	assert_int_equal(record[2].ino, 5);
	assert_int_equal(record[2].mode, OPEN_PASSTHROUGH);
	assert_int_equal(record[2].backing_id, 7);
	assert_int_equal(record[3].unique, 0);
	/* little is in memory whatever the table could hold */
	assert_true(st.st_blocks <= 64);
	munmap((void *)header, (size_t)st.st_size);
	opened_free(opened);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_open_decides),
		cmocka_unit_test(test_inodes_do_not_meet),
		cmocka_unit_test(test_handles_are_not_mistaken),
		cmocka_unit_test(test_a_request_sent_again_opens_once),
		cmocka_unit_test(test_records_outlive_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
