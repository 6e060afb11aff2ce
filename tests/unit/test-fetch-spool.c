/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that ignore ranges: what is right, and how much they are asked. */
#include <config.h>

#undef NDEBUG
#include <fcntl.h>
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

#define RANGES 40
#define RANGE_BYTES 65536u

static uint64_t sent_bytes(void)
{
	char *log = origin_server_log(&server);
	uint64_t bytes = log_bytes(log);

	free(log);
	return bytes;
}

/* In no order, many at once. */
static void read_five(void)
{
	static struct waiting waiting[RANGES];

	for (unsigned i = 0; i < RANGES; i++) {
		uint64_t at = i * 7919u * 16 % (SIZE - RANGE_BYTES);

		prepare_range(&waiting[i], "five", at, RANGE_BYTES);
		waiting[i].request.priority = (enum fetch_priority)(i % 3);
		start(&waiting[i]);
	}
	for (unsigned i = 0; i < RANGES; i++) {
		wait_for(&waiting[i]);
		assert_int_equal(waiting[i].request.total, SIZE);
		assert_false(waiting[i].has_moved);
		assert_int_equal(waiting[i].len, RANGE_BYTES);
		assert_stamps(&waiting[i], waiting[i].request.offset,
			      RANGE_BYTES);
	}
}

static void test_one_pass_serves_all(void **state)
{
	(void)state;
	origin_server_control(&server, "add=ignore_range");
	read_five();
	assert_int_equal(sent_bytes(), SIZE);
	read_five();
	assert_int_equal(sent_bytes(), 0);
}

static void test_ranges_that_end(void **state)
{
	(void)state;
	origin_server_control(&server, "add=ignore_range&from=3");
	read_five();
	assert_in_range(sent_bytes(), SIZE, SIZE + 2 * RANGE_BYTES);
}

/* A server that is trusted already has many requests when it changes. */
static void test_ranges_that_end_late(void **state)
{
	(void)state;
	read_five();
	free(origin_server_log(&server));
	origin_server_control(&server, "add=ignore_range");
	read_five();
	/* Bodies that were cut off may have filled the sockets before. */
	assert_true(sent_bytes() <= 16 * (uint64_t)SIZE);
	read_five();
	assert_int_equal(sent_bytes(), 0);
}

static void test_without_length(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	origin_server_control(&server, "add=chunked");
	prepare_range(&waiting, "five", SIZE - 10, 10);
	run(&waiting);
	assert_stamps(&waiting, SIZE - 10, 10);
	prepare_range(&waiting, "five", SIZE - 10, 11);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	prepare_range(&waiting, "empty", 0, 1);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
}

static void test_another_size(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	prepare_range(&waiting, "five", 0, 10);
	run(&waiting);
	assert_stamps(&waiting, 0, 10);
	prepare_range(&waiting, "five", 0, 10);
	waiting.request.expected_total = SIZE + 1;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	prepare_range(&waiting, "five", SIZE - 1, 2);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
}

/* Who loses patience leaves; those who stay get theirs. */
static void test_riders_leave(void **state)
{
	static struct waiting first, hasty, last;

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	origin_server_control(&server, "add=trickle&n=700000");
	prepare_range(&first, "five", SIZE - 100, 100);
	first.request.deadline_ms = now_ms() + 300;
	prepare_range(&hasty, "five", SIZE - 100, 100);
	prepare_range(&last, "five", SIZE - 100, 100);
	start(&first);
	start(&hasty);
	start(&last);
	wait_for(&first);
	assert_int_equal(first.request.class, FETCH_SLOW);
	fetch_cancel(fetcher, &hasty.request);
	wait_for(&hasty);
	assert_int_equal(hasty.request.class, FETCH_CANCELED);
	wait_for(&last);
	assert_stamps(&last, SIZE - 100, 100);
	assert_int_equal(sent_bytes(), SIZE);
}

static void test_broken_off(void **state)
{
	static struct waiting waiting[3];

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	origin_server_control(&server, "add=trickle&n=700000&times=1");
	origin_server_control(&server, "add=drop_after&n=700000&times=1");
	for (int i = 0; i < 3; i++) {
		prepare_range(&waiting[i], "five", (uint64_t)i * 524288, 16);
		start(&waiting[i]);
	}
	wait_for(&waiting[0]);
	wait_for(&waiting[1]);
	wait_for(&waiting[2]);
	assert_stamps(&waiting[0], 0, 16);
	assert_stamps(&waiting[1], 524288, 16);
	assert_int_equal(waiting[2].request.class, FETCH_UNREACHABLE);
	run((prepare_range(&waiting[2], "five", 1048576, 16), &waiting[2]));
	assert_stamps(&waiting[2], 1048576, 16);
}

/* Wrong bytes are kept like right ones: asking past caches asks the server,
 * and whoever comes then gets what it said last. */
static void test_wrong_bytes_are_asked_again(void **state)
{
	static struct waiting waiting[3];
	char *log;

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	origin_server_control(&server, "add=flip&n=3&times=1");
	prepare_range(&waiting[0], "five", 0, 16);
	run(&waiting[0]);
	assert_false(stamps_right(waiting[0].request.body, 16, TAG, 0));
	free(waiting[0].request.body);
	free(origin_server_log(&server));
	for (int i = 0; i < 3; i++) {
		prepare_range(&waiting[i], "five", 0, 16);
		waiting[i].request.no_cache = i < 2;
		if (i < 2)
			start(&waiting[i]);
	}
	wait_for(&waiting[0]);
	wait_for(&waiting[1]);
	run(&waiting[2]);
	for (int i = 0; i < 3; i++)
		assert_stamps(&waiting[i], 0, 16);
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"cache_control\":\"no-cache\""), 1);
	assert_int_equal(log_count(log, "\"path\""), 1);
	free(log);
}

/* No disk to keep it: cut out of a body of its own, where that is short. */
static void test_no_disk(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = SILENCE_MS,
		.spool_dir = "/nonexistent",
		.proxy = "",
	};
	struct waiting waiting;

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=ignore_range");
	for (uint64_t at = 0; at < SIZE; at += C + 11) {
		uint64_t len = SIZE - at < 65536 ? SIZE - at : 65536;

		prepare_range(&waiting, "five", at, len);
		run(&waiting);
		assert_stamps(&waiting, at, len);
		assert_int_equal(waiting.request.total, SIZE);
		assert_false(waiting.has_moved);
	}
	prepare_range(&waiting, "large", 0, 65536);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	assert_null(waiting.request.body);
}

static void test_too_large(void **state)
{
	struct waiting waiting;
	char path[128];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/huge", server.root);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)600 << 20), 0);
	close(fd);
	origin_server_control(&server, "add=ignore_range");
	prepare_range(&waiting, "huge", 0, 65536);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	/* What the sockets held, not the file. */
	assert_true(sent_bytes() < 32u << 20);
}

static void test_close_meanwhile(void **state)
{
	static struct waiting waiting[3];

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	origin_server_control(&server, "add=stall_after&n=100000");
	for (int i = 0; i < 3; i++) {
		prepare_range(&waiting[i], "five", (uint64_t)i * 65536, 16);
		start(&waiting[i]);
	}
	wait_for(&waiting[0]);
	assert_stamps(&waiting[0], 0, 16);
	fetcher_close(fetcher);
	fetcher = NULL;
	for (int i = 2; i < 3; i++) {
		wait_for(&waiting[i]);
		assert_int_equal(waiting[i].request.class, FETCH_CANCELED);
	}
	wait_for(&waiting[1]);
	free(waiting[1].request.body);
}

/* The first request, which is to find out, is not answered: the others do not
 * wait for it. */
static void test_silence_at_the_start(void **state)
{
	static struct waiting silent, other;

	(void)state;
	origin_server_control(&server, "add=silent&times=1");
	prepare_range(&silent, "five", 0, 16);
	start(&silent);
	prepare_range(&other, "five", 0, 16);
	start(&other);
	wait_for(&other);
	assert_stamps(&other, 0, 16);
	pthread_mutex_lock(&silent.lock);
	assert_false(silent.is_done);
	pthread_mutex_unlock(&silent.lock);
	wait_for(&silent);
	assert_int_equal(silent.request.class, FETCH_SLOW);
}

/* All of a small file is no range to a server that has none, and no reason to
 * ask for one after the other. */
static void test_all_of_a_file(void **state)
{
	static struct waiting waiting[8];
	char *log;

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	for (int i = 0; i < 8; i++) {
		prepare_range(&waiting[i], "five", 0, SIZE);
		waiting[i].request.expected_total = SIZE;
		start(&waiting[i]);
	}
	for (int i = 0; i < 8; i++) {
		wait_for(&waiting[i]);
		assert_stamps(&waiting[i], 0, SIZE);
	}
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"status\":200"), 8);
	free(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_pass_serves_all),
		TEST(test_ranges_that_end),
		TEST(test_ranges_that_end_late),
		TEST(test_without_length),
		TEST(test_another_size),
		TEST(test_riders_leave),
		TEST(test_broken_off),
		TEST(test_wrong_bytes_are_asked_again),
		TEST(test_no_disk),
		TEST(test_too_large),
		TEST(test_close_meanwhile),
		TEST(test_silence_at_the_start),
		TEST(test_all_of_a_file),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_files, stop_server);
}
