/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait, what is worth another round, and who has fallen silent. */
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
#include "fetch/pace.h"

#define CRAWL PACE_CRAWL_BYTES_PER_S

static void test_delays(void **state)
{
	static const struct {
		uint32_t round, retry_after_ms;
		uint64_t random;
		uint32_t delay_ms;
	} rows[] = {
		/* half fixed, half random */
		{0, 0, 0, 100},
		{0, 0, 100, 200},
		{0, 0, 101, 100},
		{1, 0, 0, 200},
		{1, 0, 200, 400},
		{4, 0, 1600, 3200},
		{5, 0, 0, 2500},
		{5, 0, 2500, 5000},
		{1000, 0, 2500, 5000},
		{UINT32_MAX, 0, UINT64_MAX, 0}, /* bounds below */
		/* the server's wish, within reason */
		{0, 3000, 0, 3000},
		{0, 50, 0, 100},
		{0, 3600000, 0, 60000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t delay = retry_delay_ms(
			rows[i].round, rows[i].retry_after_ms, rows[i].random);

		if (rows[i].delay_ms)
			assert_int_equal(delay, rows[i].delay_ms);
		assert_in_range(delay, 100, 60000);
	}
}

static void test_another_round(void **state)
{
	(void)state;
	assert_true(retry_worth(FETCH_UNREACHABLE));
	assert_true(retry_worth(FETCH_BUSY));
	assert_true(retry_worth(FETCH_SLOW));
	assert_true(retry_worth(FETCH_WRONG));
	assert_true(retry_worth(FETCH_LOCAL));
	assert_false(retry_worth(FETCH_OK));
	assert_false(retry_worth(FETCH_ABSENT));
	assert_false(retry_worth(FETCH_REFUSED));
	assert_false(retry_worth(FETCH_CANCELED));
}

static void test_silence(void **state)
{
	struct pace pace = {0};
	uint64_t next;

	(void)state;
	/* Connecting is not silence. */
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 50000, &next),
			 PACE_FINE);
	pace_begin(&pace, 50000);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 50999, &next),
			 PACE_FINE);
	assert_int_equal(next, 51000);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 51000, &next),
			 PACE_SILENT);
	pace_bytes(&pace, 100000, 50900);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 51000, &next),
			 PACE_FINE);
	assert_int_equal(next, 51900);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 51900, &next),
			 PACE_SILENT);
}

static void test_crawl(void **state)
{
	struct pace pace = {0};
	uint64_t next;

	(void)state;
	/* A late first byte does not count. */
	pace_begin(&pace, 0);
	pace_bytes(&pace, 100, 900);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 1000, &next), PACE_FINE);
	assert_int_equal(next, 1900);
	/* 100 bytes each 100 ms: never silent, below 1 KiB/s */
	pace_begin(&pace, 0);
	for (uint64_t now = 0; now < 1000; now += 100) {
		pace_bytes(&pace, 100, now);
		assert_int_equal(pace_look(&pace, 1000, CRAWL, now, &next),
				 PACE_FINE);
	}
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 1000, &next),
			 PACE_CRAWLS);
	/* just enough */
	pace_begin(&pace, 0);
	pace_bytes(&pace, 1, 0);
	pace_bytes(&pace, 1023, 990);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 1000, &next), PACE_FINE);
	/* and the next window is judged by itself */
	pace_bytes(&pace, 10, 1900);
	assert_int_equal(pace_look(&pace, 1000, CRAWL, 2000, &next),
			 PACE_CRAWLS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delays),
		cmocka_unit_test(test_another_round),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_crawl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
