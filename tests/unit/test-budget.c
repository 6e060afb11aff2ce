/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in flight stay within the budget, no dataset has more than its share of
 * them, and nobody who waits is forgotten. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dataset/node.h"

#define MIB (UINT64_C(1) << 20)
#define LIMIT (256 * MIB)
#define SMALL MIB

struct waiting {
	struct task task; /* first */
	struct budget_entry entry;
	atomic_bool is_admitted;
};

struct fixture {
	struct node node;
	struct budget_share one, two;
	struct waiting waiting[1024];
	size_t count;
};

static void admitted(struct task *task, struct worker *worker)
{
	(void)worker;
	atomic_store(&((struct waiting *)task)->is_admitted, true);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	budget_init(&fixture->node.budget, LIMIT);
	*state = fixture;
	return work_start("test", 1, false, &fixture->node.verify, NULL);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	if (fixture->node.verify)
		work_stop(fixture->node.verify);
	budget_release(&fixture->node.budget);
	free(fixture);
	return 0;
}

/* true: in at once. */
static bool enter(struct fixture *fixture, struct budget_share *share,
		  uint64_t bytes)
{
	struct waiting *waiting = &fixture->waiting[fixture->count++];

	waiting->task.run = admitted;
	waiting->entry.task = &waiting->task;
	waiting->entry.bytes = bytes;
	return budget_enter(&fixture->node, share, &waiting->entry);
}

/* Bytes that get in at once. */
static uint64_t fill(struct fixture *fixture, struct budget_share *share)
{
	uint64_t bytes = 0;

	while (bytes < 2 * LIMIT && enter(fixture, share, SMALL))
		bytes += SMALL;
	return bytes;
}

/* All tasks that were added have run. */
static unsigned int admitted_count(struct fixture *fixture)
{
	unsigned int count = 0;

	work_stop(fixture->node.verify);
	fixture->node.verify = NULL;
	for (size_t i = 0; i < fixture->count; i++)
		count += atomic_load(&fixture->waiting[i].is_admitted);
	return count;
}

static void test_alone_it_has_all(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(fill(fixture, &fixture->one), LIMIT);
	assert_int_equal(fixture->node.budget.used, LIMIT);
	/* Who has nothing running gets in, and has a small part for sure. */
	assert_true(enter(fixture, &fixture->two, 8 * MIB));
	assert_true(enter(fixture, &fixture->two, 8 * MIB));
	assert_false(enter(fixture, &fixture->two, 16 * MIB));
	assert_int_equal(admitted_count(fixture), 0);
}

static void test_two_have_half_each(void **state)
{
	struct fixture *fixture = *state;

	assert_true(enter(fixture, &fixture->one, SMALL));
	assert_true(enter(fixture, &fixture->two, SMALL));
	assert_int_equal(SMALL + fill(fixture, &fixture->one), LIMIT / 2);
	assert_int_equal(SMALL + fill(fixture, &fixture->two), LIMIT / 2);
	assert_int_equal(admitted_count(fixture), 0);
}

static void test_a_small_one_does_not_overtake(void **state)
{
	struct fixture *fixture = *state;

	assert_true(enter(fixture, &fixture->one, LIMIT - 2 * SMALL));
	assert_false(enter(fixture, &fixture->one, 8 * SMALL));
	assert_false(enter(fixture, &fixture->one, SMALL));
	assert_int_equal(admitted_count(fixture), 0);
}

/* In the order of their coming, as room is made; none overtakes. */
static void test_who_waits_gets_in(void **state)
{
	struct fixture *fixture = *state;
	size_t first;

	fill(fixture, &fixture->one);
	first = fixture->count - 1;
	assert_false(enter(fixture, &fixture->one, SMALL));
	budget_leave(&fixture->node, &fixture->one, SMALL, SMALL);
	assert_false(enter(fixture, &fixture->one, SMALL));
	assert_int_equal(fixture->node.budget.used, LIMIT);
	/* What has ended and is still held makes no room ... */
	budget_leave(&fixture->node, &fixture->one, SMALL, 0);
	assert_int_equal(fixture->node.budget.used, LIMIT);
	assert_int_equal(admitted_count(fixture), 1);
	assert_true(atomic_load(&fixture->waiting[first].is_admitted));
}

/* ... unless nothing runs: they may hold it who wait for this. */
static void test_nobody_waits_for_ever(void **state)
{
	struct fixture *fixture = *state;

	fill(fixture, &fixture->one);
	budget_leave(&fixture->node, &fixture->one, LIMIT, 0);
	assert_int_equal(fixture->node.budget.used, LIMIT + SMALL);
	assert_int_equal(admitted_count(fixture), 1);
}

static void test_what_nobody_waits_for_leaves_room(void **state)
{
	struct fixture *fixture = *state;
	uint64_t bytes = 0;

	while (bytes < 2 * LIMIT &&
	       budget_try(&fixture->node, &fixture->one, SMALL, FETCH_PREFETCH))
		bytes += SMALL;
	assert_int_equal(bytes, LIMIT / 2);
	while (bytes < 2 * LIMIT && budget_try(&fixture->node, &fixture->one,
					       SMALL, FETCH_READAHEAD))
		bytes += SMALL;
	assert_int_equal(bytes, LIMIT / 4 * 3);
	assert_int_equal(fill(fixture, &fixture->one), LIMIT / 4);
	/* Not past those who wait. */
	assert_false(
		budget_try(&fixture->node, &fixture->one, 0, FETCH_READAHEAD));
	assert_int_equal(admitted_count(fixture), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_alone_it_has_all, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_two_have_half_each, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_who_waits_gets_in, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_a_small_one_does_not_overtake, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody_waits_for_ever,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_what_nobody_waits_for_leaves_room, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
