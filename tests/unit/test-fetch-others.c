/* SPDX-License-Identifier: Apache-2.0 */
/* A request that could be had elsewhere is not left at a server that stalls,
 * be the other there from the start or only later. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"

#include "fetch-env.h"

/* Nobody's time is over before a test has seen what it wants. */
static const struct fetcher_options patient = {
	.silence_timeout_ms = 600000,
	.connect_timeout_ms = 600000,
	.max_connections = 2,
	.proxy = "",
};

static struct origin *other;
static struct origin *others[1];
static _Atomic unsigned told;

static void note_told(struct fetch_request *request)
{
	assert_ptr_equal(request->others, others);
	told++;
}

static int set_up(void **state)
{
	setup(state);
	reopen(&patient);
	assert_int_equal(
		origin_open(fetcher, "/nonexistent/other", &other, NULL), 0);
	others[0] = other;
	told = 0;
	return 0;
}

static int tear_down(void **state)
{
	origin_close(other);
	return teardown(state);
}

static void ask(struct waiting *waiting, const char *path)
{
	prepare_range(waiting, path, 0, C);
	waiting->request.others = others;
	waiting->request.other_count = 1;
	waiting->request.patience_ms = 100;
	waiting->request.demand_bytes_per_s = 1 << 20;
	waiting->request.about_others = note_told;
	start(waiting);
}

static bool has_ended(struct waiting *waiting)
{
	bool is_done;

	pthread_mutex_lock(&waiting->lock);
	is_done = waiting->is_done;
	pthread_mutex_unlock(&waiting->lock);
	return is_done;
}

static void is_left(struct waiting *waiting, const char *text)
{
	wait_for(waiting);
	assert_int_equal(waiting->request.class, FETCH_SLOW);
	if (!strstr(waiting->request.err.text, text))
		fail_msg("'%s' for '%s'", waiting->request.err.text, text);
	free(waiting->request.body);
}

static void test_silent_and_another_is_good(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=silent&path=/large");
	ask(&waiting, "large");
	is_left(&waiting, "silent for 0.1 s");
	assert_int_equal(told, 0);
}

static void test_stalled_and_another_is_good(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=stall_after&n=1000&path=/large");
	ask(&waiting, "large");
	is_left(&waiting, " for 0.1 s");
}

/* Nowhere else: it waits on, and is asked about now and then; the other comes
 * back in the middle. */
static void comes_back(const char *fault, const char *text)
{
	struct waiting waiting;

	origin_note(other, FETCH_UNREACHABLE, now_ms());
	origin_server_control(&server, fault);
	ask(&waiting, "large");
	while (told < 2)
		usleep(1000);
	assert_false(has_ended(&waiting));
	origin_note(other, FETCH_OK, now_ms());
	is_left(&waiting, text);
}

static void test_silent_and_another_comes_back(void **state)
{
	(void)state;
	comes_back("add=silent&path=/large", "silent for 0.1 s");
}

static void test_stalled_and_another_comes_back(void **state)
{
	(void)state;
	comes_back("add=stall_after&n=1000&path=/large", " for 0.1 s");
}

/* Bytes every tenth of a second, and a patience that is no limit: the pace. */
static void test_crawling_and_another_comes_back(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = 2000,
		.proxy = "",
	};
	struct waiting waiting;

	(void)state;
	tear_down(NULL);
	setup(NULL);
	reopen(&options);
	assert_int_equal(
		origin_open(fetcher, "/nonexistent/other", &other, NULL), 0);
	others[0] = other;
	origin_note(other, FETCH_UNREACHABLE, now_ms());
	origin_server_control(&server, "add=trickle&n=5000&path=/large");
	ask(&waiting, "large");
	waiting.request.patience_ms = 0;
	while (told < 4)
		usleep(1000);
	assert_false(has_ended(&waiting));
	origin_note(other, FETCH_OK, now_ms());
	is_left(&waiting, "slower than 1024 KiB/s");
}

/* Fast enough: left alone, whatever else there is. */
static void test_what_comes_in_time_is_left_alone(void **state)
{
	struct waiting waiting;

	(void)state;
	prepare_range(&waiting, "large", 0, C);
	waiting.request.others = others;
	waiting.request.other_count = 1;
	waiting.request.patience_ms = GRACE_MS;
	waiting.request.demand_bytes_per_s = 1024;
	origin_server_control(&server, "add=trickle&n=262144&path=/large");
	run(&waiting);
	assert_stamps(&waiting, 0, C);
	assert_int_equal(told, 0);
}

/* Two hang, the third waits for one of their connections. */
static void test_the_queue_is_left(void **state)
{
	struct waiting hanging[2], waiting;

	(void)state;
	origin_server_control(&server, "add=silent&path=/large");
	for (int i = 0; i < 2; i++) {
		prepare(&hanging[i], "large");
		start(&hanging[i]);
	}
	while (origin_server_asked(&server) < 2)
		usleep(1000);
	ask(&waiting, "five");
	origin_note(other, FETCH_UNREACHABLE, now_ms());
	origin_note(origin, FETCH_SLOW, now_ms());
	while (told < 1)
		usleep(1000);
	assert_false(has_ended(&waiting));
	origin_note(other, FETCH_OK, now_ms());
	is_left(&waiting, "what was asked before failed there");
	/* What has others is not kept because these have none. */
	for (int i = 0; i < 2; i++) {
		assert_false(has_ended(&hanging[i]));
		fetch_cancel(fetcher, &hanging[i].request);
		wait_for(&hanging[i]);
		free(hanging[i].request.body);
	}
}

/* Its size is not known before its header is here. */
static void test_a_size_that_is_announced(void **state)
{
	struct waiting waiting;

	(void)state;
	tear_down(NULL);
	setup(NULL);
	assert_int_equal(
		origin_open(fetcher, "/nonexistent/other", &other, NULL), 0);
	others[0] = other;
	origin_server_control(&server, "add=trickle&n=50000&path=/five");
	prepare(&waiting, "five");
	waiting.request.others = others;
	waiting.request.other_count = 1;
	waiting.request.whole_within_ms = 1000;
	start(&waiting);
	is_left(&waiting, "slower than 1280 KiB/s");
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_silent_and_another_is_good),
		TEST(test_stalled_and_another_is_good),
		TEST(test_silent_and_another_comes_back),
		TEST(test_stalled_and_another_comes_back),
		TEST(test_crawling_and_another_comes_back),
		TEST(test_what_comes_in_time_is_left_alone),
		TEST(test_the_queue_is_left),
		TEST(test_a_size_that_is_announced),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_files, stop_server);
}
