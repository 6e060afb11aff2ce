/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetch stands still for readers, but not for ever. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "fetch/hold.h"

#include "fetch-env.h"

#define MAX 1000
/* Longer than any test takes. */
#define LONG_MS 600000
#define LEN (64u << 10)
#define TRICKLE "add=trickle&n=32768&path=/large"
#define DEADLINE_MS 3000

/* ---- when: pure */

static void test_rows(void **state)
{
	static const struct {
		uint64_t now, wanted;
		bool is_on;
		uint64_t next;
	} rows[] = {
		{1000, 0, false, UINT64_MAX},
		{1000, 1250, true, 1250},
		{1200, 1450, true, 1450},
		{1449, 1450, true, 1450},
		{1450, 1450, false, UINT64_MAX},
		/* Back before a free time has passed: the same stretch. */
		{1500, 2100, true, 2000},
		{1999, 2249, true, 2000},
		{2000, 2250, false, 2100},
		{2099, 2349, false, 2100},
		{2100, 2350, true, 2350},
		{3099, 3349, true, 3100},
		{3100, 3100, false, 3200},
		/* A free time: a new stretch. */
		{5000, 9000, true, 6000},
	};
	struct hold hold = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_on = hold_look(&hold, rows[i].wanted, MAX, rows[i].now);

		if (is_on != rows[i].is_on || hold.next_ms != rows[i].next)
			fail_msg("row %zu: %d, next %llu", i, is_on,
				 (unsigned long long)hold.next_ms);
	}
}

/* Whatever readers do, a tenth of the time is free. */
static void test_never_for_ever(void **state)
{
	struct hold hold = {0};
	uint64_t free_ms = 0, seed = 1;

	(void)state;
	for (uint64_t now = 1; now <= 100000; now++) {
		seed = seed * 6364136223846793005u + 1;
		if (!hold_look(&hold, now + (seed >> 33) % 3, MAX, now))
			free_ms++;
	}
	assert_in_range(free_ms, 100000 / 11, 100000);
}

/* ---- transfers */

struct moving {
	struct fetch_request request;
	_Atomic size_t len;
	_Atomic bool is_done;
};

static void on_progress(struct fetch_request *request, const uint8_t *body,
			size_t len)
{
	(void)body;
	((struct moving *)request->arg)->len = len;
}

static void on_done(struct fetch_request *request)
{
	((struct moving *)request->arg)->is_done = true;
}

static void start_prefetch(struct moving *moving, uint64_t deadline_ms)
{
	*moving = (struct moving){
		.request = {.origin = origin,
			    .path = "large",
			    .has_range = true,
			    .length = LEN,
			    .deadline_ms = deadline_ms,
			    .priority = FETCH_PREFETCH,
			    .holds_prefetch = true,
			    .progress = on_progress,
			    .done = on_done,
			    .arg = moving},
	};
	fetch_start(fetcher, &moving->request);
}

static void wait_done(struct moving *moving)
{
	while (!moving->is_done)
		usleep(1000);
}

static void end(struct moving *moving)
{
	wait_done(moving);
	if (moving->request.result < 0)
		fail_msg("%s", moving->request.err.text);
	assert_int_equal(moving->request.body_len, LEN);
	assert_true(stamps_right(moving->request.body, LEN, TAG, 0));
	free(moving->request.body);
}

static void ask_for_one(bool is_read)
{
	struct waiting demand;

	prepare_range(&demand, "five", 0, 100);
	demand.request.holds_prefetch = is_read;
	run(&demand);
	assert_stamps(&demand, 0, 100);
}

static void read_one(void)
{
	ask_for_one(true);
}

static void open_with(uint32_t hold_max_ms)
{
	const struct fetcher_options options = {
		.proxy = "",
		.silence_timeout_ms = SILENCE_MS,
		.hold_ms = LONG_MS,
		.hold_max_ms = hold_max_ms,
	};

	reopen(&options);
	origin_server_control(&server, TRICKLE);
}

/* A prefetch of which a part has come, and a reader; what is left of it is
 * here, if not taken, when this returns. */
static void begin(struct moving *moving)
{
	for (int i = 0; i < 20; i++) {
		start_prefetch(moving, now_ms() + DEADLINE_MS);
		while (moving->len == 0 && !moving->is_done)
			usleep(1000);
		read_one();
		if (!moving->is_done && moving->len < LEN)
			break;
		/* A busy machine: it was over before the reader came. */
		wait_done(moving);
		free(moving->request.body);
		open_with(LONG_MS);
	}
	origin_server_control(&server, "sync");
	for (int i = 0; i < 20; i++)
		read_one();
}

static void test_a_reader_goes_first(void **state)
{
	struct moving moving;

	(void)state;
	open_with(LONG_MS);
	begin(&moving);
	assert_false(moving.is_done);
	assert_in_range(moving.len, 1, LEN - 1);
	/* Neither silent nor late: its time stands still. */
	while (now_ms() < moving.request.deadline_ms + SILENCE_MS)
		read_one();
	assert_false(moving.is_done);
	/* Somebody waits for it by now. */
	fetch_raise(fetcher, &moving.request, FETCH_DEMAND);
	end(&moving);
}

static void test_a_held_one_is_canceled(void **state)
{
	struct moving moving;

	(void)state;
	open_with(LONG_MS);
	for (int i = 0; i < 2; i++) {
		begin(&moving);
		assert_false(moving.is_done);
		fetch_cancel(fetcher, &moving.request);
		wait_done(&moving);
		assert_int_equal(moving.request.class, FETCH_CANCELED);
		free(moving.request.body);
		/* Its handle is not used again as it is. */
		for (int n = 0; n < 5; n++)
			read_one();
		open_with(LONG_MS);
	}
}

/* However long readers go on. */
static void test_it_moves_again(void **state)
{
	struct moving moving;

	(void)state;
	open_with(2 * SILENCE_MS);
	start_prefetch(&moving, 0);
	while (moving.len == 0)
		usleep(1000);
	while (!moving.is_done)
		read_one();
	end(&moving);
}

/* Recipes and places are no reader's: a prefetch asks for them too. */
static void test_what_a_prefetch_needs(void **state)
{
	struct moving moving;

	(void)state;
	open_with(LONG_MS);
	start_prefetch(&moving, 0);
	while (moving.len == 0)
		usleep(1000);
	while (!moving.is_done)
		ask_for_one(false);
	end(&moving);
}

/* Told of readers elsewhere: nothing new is begun for a prefetch, and it is in
 * the end. */
static void test_readers_elsewhere(void **state)
{
	struct moving moving;

	(void)state;
	open_with(SILENCE_MS);
	origin_server_control(&server, "clear");
	fetch_hold(fetcher, now_ms() + LONG_MS);
	start_prefetch(&moving, 0);
	end(&moving);
	open_with(LONG_MS);
	origin_server_control(&server, "clear");
	free(origin_server_log(&server));
	fetch_hold(fetcher, now_ms() + LONG_MS);
	start_prefetch(&moving, 0);
	for (int i = 0; i < 20; i++)
		read_one();
	assert_false(moving.is_done);
	/* its line comes after the answer */
	for (int i = 0; i < 1000 && origin_server_asked(&server) < 20; i++)
		usleep(10000);
	assert_int_equal(origin_server_asked(&server), 20);
	fetch_raise(fetcher, &moving.request, FETCH_DEMAND);
	end(&moving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_never_for_ever),
		TEST(test_a_reader_goes_first),
		TEST(test_a_held_one_is_canceled),
		TEST(test_it_moves_again),
		TEST(test_what_a_prefetch_needs),
		TEST(test_readers_elsewhere),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_files, stop_server);
}
