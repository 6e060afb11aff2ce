/* SPDX-License-Identifier: Apache-2.0 */
/* The window of a prefetch on links of every kind, and its rate limit. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dataset/prefetch-pace.h"

/* A link that carries bytes in order: a batch takes a round trip, and what is
 * under way before it. Returns the window after so many batches. */
static uint64_t run_link(struct prefetch_pace *pace, double bytes_per_ms,
			 uint64_t trip_ms, int batches)
{
	for (int i = 0; i < batches; i++) {
		uint64_t queue = prefetch_window(pace);
		uint64_t took = (uint64_t)((double)queue / bytes_per_ms);

		prefetch_pace_note(pace, took > trip_ms ? took : trip_ms);
	}
	return prefetch_window(pace);
}

static void window_fills_the_link_and_no_more(void **state)
{
	static const struct {
		double mb_per_s;
		uint64_t trip_ms;
	} links[] = {
		{10, 1}, {100, 0}, {100, 20}, {100, 200}, {1000, 0}, {1000, 50},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct prefetch_pace pace = {0};
		double bytes_per_ms = links[i].mb_per_s * 1000;
		uint64_t full =
			(uint64_t)(bytes_per_ms * (double)links[i].trip_ms);
		uint64_t window =
			run_link(&pace, bytes_per_ms, links[i].trip_ms, 300);
		/* twice the time that may queue, the best time forgotten a
		 * little, or the least window */
		uint64_t most =
			full + (uint64_t)(bytes_per_ms * 4 * PREFETCH_QUEUE_MS);

		if (full > PREFETCH_WINDOW_MAX)
			full = PREFETCH_WINDOW_MAX;
		if (most < 2 * PREFETCH_WINDOW_MIN)
			most = 2 * PREFETCH_WINDOW_MIN;
		if (window < full || window > most)
			fail_msg("link %zu: window %llu, wanted %llu to %llu",
				 i, (unsigned long long)window,
				 (unsigned long long)full,
				 (unsigned long long)most);
	}
}

static void window_follows_a_link_that_slows_down(void **state)
{
	struct prefetch_pace pace = {0};
	uint64_t wide = run_link(&pace, 1e6, 1, 100);
	uint64_t narrow = run_link(&pace, 1e4, 1, 200);

	(void)state;
	assert_true(wide > 32u << 20);
	assert_true(narrow <= 8u << 20);
	assert_true(narrow >= PREFETCH_WINDOW_MIN);
	assert_true(run_link(&pace, 1e6, 1, 200) > 32u << 20);
}

static void batches_are_small_where_little_may_come(void **state)
{
	struct prefetch_pace pace = {0};

	(void)state;
	assert_int_equal(prefetch_batch(&pace, 0), PREFETCH_WINDOW_MIN / 4);
	pace.window = PREFETCH_WINDOW_MAX;
	assert_int_equal(prefetch_batch(&pace, 0), PREFETCH_BATCH_MAX);
	assert_int_equal(prefetch_batch(&pace, 4u << 20), 1u << 20);
	assert_int_equal(prefetch_batch(&pace, 1000), PREFETCH_BATCH_MIN);
}

static void the_limit_is_kept(void **state)
{
	(void)state;
	assert_int_equal(prefetch_wait_ms(0, 1u << 30, 1u << 30, 0), 0);
	assert_int_equal(prefetch_wait_ms(1000, 0, 0, 0), 0);
	assert_int_equal(prefetch_wait_ms(1000, 500, 500, 1000), 0);
	assert_int_equal(prefetch_wait_ms(1000, 1500, 500, 1000), 1001);
	assert_int_equal(prefetch_wait_ms(1, UINT64_MAX / 2, 0, 0) > 1000, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_fills_the_link_and_no_more),
		cmocka_unit_test(window_follows_a_link_that_slows_down),
		cmocka_unit_test(batches_are_small_where_little_may_come),
		cmocka_unit_test(the_limit_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
