/* SPDX-License-Identifier: Apache-2.0 */
/* Health of origins and the choice of the next, row by row. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/fetch.h"

#define NOW 100000

/* good; bad and waiting; bad and due; probes under way */
#define GOOD                                                                   \
	{                                                                      \
		0                                                              \
	}
#define WAITING(since)                                                         \
	{                                                                      \
		.failures = 1, .failed_ms = NOW - (since),                     \
		.bad_until_ms = NOW + 500, .last = FETCH_SLOW                  \
	}
#define DUE                                                                    \
	{                                                                      \
		.failures = 1, .failed_ms = NOW - 1000, .bad_until_ms = NOW,   \
		.last = FETCH_SLOW                                             \
	}
#define DUE_PROBED                                                             \
	{                                                                      \
		.failures = 1, .failed_ms = NOW - 1000, .bad_until_ms = NOW,   \
		.probe_until_ms = NOW + 1                                      \
	}
#define WAITING_PROBED                                                         \
	{                                                                      \
		.failures = 3, .failed_ms = NOW - 2000,                        \
		.bad_until_ms = NOW + 500, .probe_until_ms = NOW + 1           \
	}

static void test_choice(void **state)
{
	static const struct {
		const char *what;
		size_t count;
		struct origin_health healths[3];
		uint32_t tried[3];
		uint64_t deadline_ms;
		int chosen;
	} rows[] = {
		{"none", 0, {GOOD}, {0}, 0, -1},
		{"list order", 3, {GOOD, GOOD, GOOD}, {0}, 0, 0},
		{"least tried", 3, {GOOD, GOOD, GOOD}, {1, 0, 0}, 0, 1},
		{"next round", 3, {GOOD, GOOD, GOOD}, {1, 1, 1}, 0, 0},
		{"waiting is skipped", 2, {WAITING(5000), GOOD}, {0}, 0, 1},
		{"even if the good one was tried",
		 2,
		 {WAITING(5000), GOOD},
		 {0, 3},
		 0,
		 1},
		{"due is asked in its order", 2, {DUE, GOOD}, {0}, 0, 0},
		{"one probe at a time", 2, {DUE_PROBED, GOOD}, {0}, 0, 1},
		{"due and alone", 1, {DUE}, {0}, 0, 0},
		{"due, probed and alone", 1, {DUE_PROBED}, {0}, 0, -1},
		{"known dead", 1, {WAITING(10)}, {0}, 0, -1},
		{"all known dead", 2, {WAITING(10), WAITING(999)}, {0}, 0, -1},
		{"dead for over a second", 1, {WAITING(1000)}, {0}, 0, 0},
		{"left alone for longest",
		 3,
		 {WAITING(10), WAITING(2000), WAITING(3000)},
		 {0},
		 0,
		 2},
		{"early probe under way",
		 2,
		 {WAITING_PROBED, WAITING(10)},
		 {0},
		 0,
		 -1},
		{"other than the probed",
		 2,
		 {WAITING_PROBED, WAITING(1500)},
		 {0},
		 0,
		 1},
		{"before the deadline", 1, {GOOD}, {0}, NOW + 1, 0},
		{"at the deadline", 1, {GOOD}, {0}, NOW, -1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int chosen =
			origins_choose(rows[i].healths, rows[i].tried,
				       rows[i].count, NOW, rows[i].deadline_ms);

		if (chosen != rows[i].chosen)
			fail_msg("%s: %d, not %d", rows[i].what, chosen,
				 rows[i].chosen);
	}
}

static void test_health_after_one_outcome(void **state)
{
	static const struct {
		enum fetch_class class;
		uint32_t failures;
		uint64_t bad_for_ms;
	} rows[] = {
		{FETCH_OK, 0, 0},
		{FETCH_ABSENT, 0, 0}, /* it answered */
		{FETCH_REFUSED, 1, 1000},
		{FETCH_UNREACHABLE, 1, 1000},
		{FETCH_BUSY, 1, 1000},
		{FETCH_SLOW, 1, 1000},
		{FETCH_WRONG, 1, 4000},
		{FETCH_CANCELED, 0, 0}, /* says nothing */
		{FETCH_LOCAL, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct origin_health health = {0};

		health_next(&health, rows[i].class, NOW);
		assert_int_equal(health.failures, rows[i].failures);
		assert_int_equal(health.bad_until_ms,
				 rows[i].failures ? NOW + rows[i].bad_for_ms :
						    0);
	}
}

static void test_back_off_doubles_to_a_minute(void **state)
{
	static const uint64_t waits[] = {1000,	2000,  4000,  8000, 16000,
					 32000, 60000, 60000, 60000};
	struct origin_health health = {0};
	uint64_t now = NOW;

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		health_next(&health, FETCH_SLOW, now);
		assert_int_equal(health.bad_until_ms, now + waits[i]);
		now = health.bad_until_ms;
	}
	for (int i = 0; i < 100; i++) {
		health_next(&health, FETCH_WRONG, health.bad_until_ms);
		assert_int_equal(health.bad_until_ms - health.failed_ms, 60000);
	}
	health_next(&health, FETCH_OK, now);
	assert_int_equal(health.failures, 0);
	assert_int_equal(health.bad_until_ms, 0);
}

/* Coming back and failing again is no way to be asked more often. */
static void test_a_recovery_is_not_forgotten_trouble(void **state)
{
	static const uint64_t waits[] = {1000, 2000, 4000, 8000};
	struct origin_health health = {0};
	uint64_t now = NOW;

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		health_next(&health, FETCH_SLOW, now);
		assert_int_equal(health.failures, 1);
		assert_int_equal(health.bad_until_ms, now + waits[i]);
		now = health.bad_until_ms;
		health_next(&health, FETCH_OK, now);
		assert_int_equal(health.failures, 0);
		assert_int_equal(health.bad_until_ms, 0);
		health_next(&health, FETCH_OK, now + 1000);
		now += 59999;
	}
	/* A good minute forgives. */
	now += 60001;
	health_next(&health, FETCH_SLOW, now);
	assert_int_equal(health.bad_until_ms, now + 1000);
}

static void test_dead(void **state)
{
	static const struct {
		uint32_t failures;
		enum fetch_class last;
		bool is_dead;
	} rows[] = {
		{0, FETCH_OK, false},	      {2, FETCH_UNREACHABLE, false},
		{3, FETCH_UNREACHABLE, true}, {3, FETCH_SLOW, true},
		{9, FETCH_BUSY, false},	      {9, FETCH_REFUSED, false},
		{9, FETCH_WRONG, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct origin_health health = {
			.failures = rows[i].failures,
			.last = rows[i].last,
		};

		assert_int_equal(health_is_dead(&health), rows[i].is_dead);
	}
}

static void test_failures_side_by_side_are_one(void **state)
{
	struct origin_health health = {0};

	(void)state;
	for (uint64_t i = 0; i < 16; i++)
		health_next(&health, FETCH_UNREACHABLE, NOW + i);
	assert_int_equal(health.failures, 1);
	assert_int_equal(health.bad_until_ms, NOW + 1000);
	assert_int_equal(health.failed_ms, NOW + 15);
}

static void test_saying_nothing_changes_nothing(void **state)
{
	struct origin_health health = DUE, before = health;

	(void)state;
	health_next(&health, FETCH_CANCELED, NOW);
	health_next(&health, FETCH_LOCAL, NOW);
	assert_memory_equal(&health, &before, sizeof(health));
}

static void test_notes_are_kept(void **state)
{
	struct fetcher *fetcher;
	struct origin *one, *same, *other;
	struct origin_health health;

	(void)state;
	assert_int_equal(fetcher_open(NULL, &fetcher, NULL), 0);
	assert_int_equal(
		origin_open(fetcher, "http://127.0.0.1:1/m", &one, NULL), 0);
	assert_int_equal(
		origin_open(fetcher, "http://127.0.0.1:1/m/", &same, NULL), 0);
	assert_int_equal(
		origin_open(fetcher, "http://u:p@127.0.0.1:1/m", &other, NULL),
		0);
	assert_ptr_equal(one, same);
	assert_ptr_not_equal(one, other);
	assert_string_equal(origin_name(other), "http://127.0.0.1:1/m");
	assert_false(origin_is_local(one));
	origin_note(one, FETCH_BUSY, NOW);
	origin_health(same, &health);
	assert_int_equal(health.failures, 1);
	assert_int_equal(health.last, FETCH_BUSY);
	origin_health(other, &health);
	assert_int_equal(health.failures, 0);
	origin_close(one);
	fetcher_close(fetcher);
	/* In any order. */
	origin_close(same);
	origin_close(other);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_health_after_one_outcome),
		cmocka_unit_test(test_back_off_doubles_to_a_minute),
		cmocka_unit_test(test_a_recovery_is_not_forgotten_trouble),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_failures_side_by_side_are_one),
		cmocka_unit_test(test_saying_nothing_changes_nothing),
		cmocka_unit_test(test_notes_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
