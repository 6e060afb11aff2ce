/* SPDX-License-Identifier: Apache-2.0 */
/* How a request goes over two mirrors, row by row of larder.conf(5). */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/io.h"
#include "dataset/tries.h"
#include "small-mirror.h"

static struct small_mirror *key;

static struct dataset *two_mirrors(struct node **ret_node)
{
	const char *mirrors[] = {"/nonexistent/first", "/nonexistent/second"};

	*ret_node = small_node(NULL, 8000);
	return small_dataset(*ret_node, key, mirrors, 2);
}

static void test_two_mirrors_that_fail(void **state)
{
	static const struct {
		enum fetch_class first, second;
		int errnum;
		bool is_over; /* no use in asking again */
	} rows[] = {
		{FETCH_ABSENT, FETCH_ABSENT, EIO, true},
		{FETCH_REFUSED, FETCH_REFUSED, EACCES, true},
		{FETCH_REFUSED, FETCH_ABSENT, EIO, true},
		{FETCH_UNREACHABLE, FETCH_UNREACHABLE, EIO, false},
		{FETCH_BUSY, FETCH_BUSY, EIO, false},
		{FETCH_SLOW, FETCH_SLOW, ETIMEDOUT, false},
		{FETCH_SLOW, FETCH_BUSY, EIO, false},
		{FETCH_WRONG, FETCH_WRONG, EIO, false},
		{FETCH_ABSENT, FETCH_BUSY, EIO, false},
		{FETCH_REFUSED, FETCH_SLOW, EIO, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct node *node;
		struct dataset *dataset = two_mirrors(&node);
		struct tries tries;
		struct err err = {""};
		uint32_t delay_ms;
		int mirror, r;

		tries_init(&tries, dataset, -1, FETCH_DEMAND);
		assert_int_equal(tries_next(&tries, &mirror, &delay_ms, &err),
				 0);
		assert_int_equal(mirror, 0);
		tries_note(&tries, 0, rows[i].first, "one reason", 0);
		assert_int_equal(tries_next(&tries, &mirror, &delay_ms, &err),
				 0);
		assert_int_equal(mirror, 1);
		tries_note(&tries, 1, rows[i].second, "another", 0);
		assert_int_equal(tries_errnum(&tries), rows[i].errnum);
		r = tries_next(&tries, &mirror, &delay_ms, &err);
		if (rows[i].is_over) {
			assert_int_equal(r, -rows[i].errnum);
			assert_non_null(strstr(err.text, "first: one reason"));
			assert_non_null(strstr(err.text, "second: another"));
		} else {
			assert_int_equal(r, -EAGAIN);
			assert_in_range(delay_ms, 100, 200);
		}
		node_close(node);
	}
}

/* Closed doors for ten seconds are enough; a server that is busy may go on for
 * as long as the reader waits. */
static void test_closed_doors(void **state)
{
	static const struct {
		enum fetch_class first, second;
		uint32_t ago_ms;
		bool is_over;
	} rows[] = {
		{FETCH_UNREACHABLE, FETCH_UNREACHABLE, 9000, false},
		{FETCH_UNREACHABLE, FETCH_UNREACHABLE, 10000, true},
		{FETCH_UNREACHABLE, FETCH_BUSY, 10000, false},
		{FETCH_BUSY, FETCH_BUSY, 20000, false},
		{FETCH_BUSY, FETCH_BUSY, 60000, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *mirrors[] = {"/nonexistent/first",
					 "/nonexistent/second"};
		struct node *node = small_node(NULL, 60000);
		struct dataset *dataset = small_dataset(node, key, mirrors, 2);
		struct tries tries;
		uint32_t delay_ms;
		struct err err;
		int mirror, r;

		tries_init(&tries, dataset, -1, FETCH_DEMAND);
		tries_note(&tries, 0, rows[i].first, "one reason", 0);
		tries_note(&tries, 1, rows[i].second, "another", 0);
		assert_int_equal(tries_next(&tries, &mirror, &delay_ms, &err),
				 -EAGAIN);
		tries.started_ms -= rows[i].ago_ms;
		tries.give_up_ms -= rows[i].ago_ms;
		r = tries_next(&tries, &mirror, &delay_ms, &err);
		if (r != (rows[i].is_over ? -EIO : -EAGAIN))
			fail_msg("row %zu: %d", i, r);
		node_close(node);
	}
}

/* Twice, as far as is told here: the second try at a mirror, past caches, is
 * the caller's. */
static void test_wrong_bytes_end_a_mirror(void **state)
{
	struct node *node;
	struct dataset *dataset = two_mirrors(&node);
	struct tries tries;

	(void)state;
	tries_init(&tries, dataset, -1, FETCH_DEMAND);
	tries_note(&tries, 0, FETCH_WRONG, "wrong bytes", 0);
	assert_false(tries.mirrors[0].is_out);
	tries_note(&tries, 0, FETCH_WRONG, "wrong bytes", 0);
	assert_true(tries.mirrors[0].is_out);
	assert_false(tries.mirrors[1].is_out);
	node_close(node);
}

static void test_haste(void **state)
{
	struct fetch_request request = {0};
	struct node *node;
	struct dataset *dataset = two_mirrors(&node);
	struct tries tries;

	(void)state;
	tries_init(&tries, dataset, -1, FETCH_DEMAND);
	tries_haste(&tries, 0, 8 << 20, 1 << 20, &request);
	assert_true(request.is_hasty);
	/* Twice as fast as the reader's time asks for. */
	assert_int_equal(request.min_bytes_per_s, 2 << 20);
	assert_in_range(request.demand_bytes_per_s, 3 << 17, (3 << 17) + 200);
	assert_int_equal(request.whole_within_ms, 0);
	assert_int_equal(request.patience_ms, 0);
	assert_int_equal(request.other_count, 1);
	assert_ptr_equal(request.others[0], dataset->mirrors[1].origin);
	/* A second try has what time is left, not all of it for silence. */
	tries_note(&tries, 0, FETCH_SLOW, "", 0);
	request = (struct fetch_request){0};
	tries.give_up_ms = now_ms() + 4000;
	tries_haste(&tries, 0, 8 << 20, 1 << 20, &request);
	assert_false(request.is_hasty);
	assert_in_range(request.patience_ms, 1, 2001);
	assert_in_range(request.min_bytes_per_s, 2 << 20, 200 << 20);
	assert_in_range(request.demand_bytes_per_s, 1 << 18, 25 << 20);
	/* Another that is bad now may be good in a moment. */
	request = (struct fetch_request){0};
	tries_haste(&tries, 1, 0, 0, &request);
	assert_true(request.is_hasty);
	assert_int_equal(request.min_bytes_per_s, 0);
	assert_int_equal(request.demand_bytes_per_s, 0);
	assert_in_range(request.whole_within_ms, 2666, 2667);
	assert_int_equal(request.other_count, 1);
	/* But not one that cannot heal; of a job about one mirror the caller
	 * has others. */
	tries_note(&tries, 0, FETCH_REFUSED, "", 0);
	request = (struct fetch_request){0};
	tries_haste(&tries, 1, 0, 0, &request);
	assert_int_equal(request.other_count, 0);
	tries_init(&tries, dataset, 0, FETCH_DEMAND);
	tries_haste(&tries, 0, 0, 0, &request);
	assert_int_equal(request.other_count, 1);
	node_close(node);
}

static int make_key(void **state)
{
	(void)state;
	key = small_mirror_new(40, 1, SMALL_PLAIN, NULL);
	return 0;
}

static int free_key(void **state)
{
	(void)state;
	small_mirror_free(key);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_mirrors_that_fail),
		cmocka_unit_test(test_closed_doors),
		cmocka_unit_test(test_wrong_bytes_end_a_mirror),
		cmocka_unit_test(test_haste),
	};

	return cmocka_run_group_tests(tests, make_key, free_key);
}
