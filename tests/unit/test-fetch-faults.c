/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching over HTTP from a server that fails on demand: each fault gives its
 * class in bounded time, and no byte that was not promised.
 */
#include <config.h>

#undef NDEBUG
#include <dirent.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"

#include "fetch-env.h"

/* ---- what fails */

static const struct fault {
	const char *rule;
	enum fetch_class class;
	const char *text;
	bool is_whole; /* also asked without a range */
} faults[] = {
	{"add=status&n=404", FETCH_ABSENT, "HTTP 404", true},
	{"add=status&n=410", FETCH_ABSENT, "HTTP 410", true},
	{"add=status&n=401", FETCH_REFUSED, "HTTP 401", true},
	{"add=status&n=403", FETCH_REFUSED, "HTTP 403", true},
	{"add=status&n=429", FETCH_BUSY, "HTTP 429", true},
	{"add=status&n=500", FETCH_BUSY, "HTTP 500", true},
	{"add=status&n=503", FETCH_BUSY, "HTTP 503", true},
	{"add=status&n=204", FETCH_WRONG, "HTTP 204", true},
	{"add=status&n=416", FETCH_WRONG, "HTTP 416", true},
	{"add=bad_content_range", FETCH_WRONG, "another range than asked",
	 false},
	{"add=strip&target=content-range", FETCH_WRONG,
	 "another range than asked", false},
	{"add=bad_total", FETCH_WRONG, "file of another size", false},
	{"add=html200", FETCH_WRONG, "a page of HTML", true},
	{"add=gzip&n=1", FETCH_WRONG, "encoded content", true},
	{"add=short_body&n=0", FETCH_WRONG, "body shorter than promised", true},
	{"add=short_body&n=5000", FETCH_WRONG, "body shorter than promised",
	 true},
	{"add=long_body", FETCH_WRONG, "body longer than promised", true},
	{"add=endless", FETCH_WRONG, "body longer than promised", true},
	{"add=drop_after&n=0", FETCH_UNREACHABLE, "connection lost after 0 ",
	 true},
	{"add=drop_after&n=5000", FETCH_UNREACHABLE,
	 "connection lost after 5000 ", true},
	{"add=close", FETCH_UNREACHABLE, "connection lost", true},
	{"add=garbage", FETCH_WRONG, "not an answer of HTTP", true},
	{"add=long_header&n=70000", FETCH_WRONG,
	 "header of the answer too long", true},
	{"add=long_header&n=1000000", FETCH_WRONG,
	 "header of the answer too long", true},
	{"add=silent", FETCH_SLOW, "silent for 1 s", true},
	{"add=stall_after&n=0", FETCH_SLOW, "s" /* silent or slower, by a ms */,
	 true},
	{"add=stall_after&n=5000", FETCH_SLOW, "silent for 1 s", true},
	{"add=trickle&n=100", FETCH_SLOW, "slower than 1 KiB/s for 1 s", true},
	{"add=redirect&target=/five", FETCH_WRONG, "more than 5 redirects",
	 true},
	{"add=redirect&target=ftp://127.0.0.1/", FETCH_WRONG,
	 "redirect to another protocol", true},
	{"add=redirect&target=file:///etc/hostname", FETCH_WRONG,
	 "redirect to another protocol", true},
	{"add=redirect&target=http://u:sesame@127.0.0.1/", FETCH_WRONG,
	 "redirect with a password in it", true},
	{"add=redirect", FETCH_WRONG, "redirect to nonsense", true},
	{"add=redirect&target=http://127.0.0.1:1/", FETCH_UNREACHABLE,
	 "connection refused", true},
};

static void assert_fails(struct waiting *waiting, const struct fault *fault)
{
	struct fetch_request *request = &waiting->request;
	uint64_t begun = now_ms();

	waiting->request.expected_total = SIZE;
	run(waiting);
	if (request->class != fault->class ||
	    strncmp(request->err.text, fault->text, strlen(fault->text)))
		fail_msg("%s: %s '%s'", fault->rule,
			 fetch_class_name(request->class), request->err.text);
	if (now_ms() - begun > 3 * SILENCE_MS + GRACE_MS)
		fail_msg("%s: took too long", fault->rule);
	assert_true(request->result < 0);
	assert_int_equal(request->result == -ENOENT,
			 fault->class == FETCH_ABSENT);
	/* What came before the failure is right, and never too much. */
	assert_in_range(request->body_len, 0, SIZE);
	free(request->body);
}

static void test_faults(void **state)
{
	struct waiting waiting;

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		origin_server_control(&server, "clear");
		origin_server_control(&server, faults[i].rule);
		prepare_range(&waiting, "five", C, 2 * C);
		assert_fails(&waiting, &faults[i]);
		if (!faults[i].is_whole)
			continue;
		prepare(&waiting, "five");
		assert_fails(&waiting, &faults[i]);
	}
	/* And the fetcher is none the worse. */
	origin_server_control(&server, "clear");
	prepare_range(&waiting, "five", C, 2 * C);
	run(&waiting);
	assert_stamps(&waiting, C, 2 * C);
}

static void test_absent(void **state)
{
	struct waiting waiting;

	(void)state;
	prepare(&waiting, "not-there");
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_ABSENT);
	assert_int_equal(waiting.request.result, -ENOENT);
}

/* Each try asks for what the caller asks, from its own start. */
static void test_broken_off_and_again(void **state)
{
	static const char *const rules[] = {
		"add=drop_after&n=87381&times=1",
		"add=drop_after&n=87381&times=3",
		"add=drop_after&n=1&times=1",
		"add=drop_after&n=262143&times=1",
	};
	static const unsigned tries[] = {2, 4, 2, 2};
	struct waiting waiting;
	char *log;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		unsigned count = 0;

		origin_server_control(&server, "clear");
		origin_server_control(&server, rules[i]);
		do {
			prepare_range(&waiting, "five", C, C);
			run(&waiting);
			count++;
			if (waiting.request.result < 0)
				free(waiting.request.body);
		} while (waiting.request.class == FETCH_UNREACHABLE);
		assert_stamps(&waiting, C, C);
		assert_int_equal(count, tries[i]);
		log = origin_server_log(&server);
		assert_int_equal(log_count(log, "bytes=262144-524287"), count);
		assert_int_equal(log_count(log, "\"range\""), count);
		free(log);
	}
}

/* What is wrong inside is the caller's to see; the second try is new. */
static void test_a_flipped_byte(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=flip&n=262151&times=1");
	prepare_range(&waiting, "five", C, C);
	run(&waiting);
	assert_int_equal(waiting.request.result, 0);
	assert_false(stamps_right(waiting.request.body, C, TAG, C));
	free(waiting.request.body);
	prepare_range(&waiting, "five", C, C);
	waiting.request.no_cache = true;
	run(&waiting);
	assert_stamps(&waiting, C, C);
}

static void test_retry_after(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=status&n=503");
	origin_server_control(&server, "add=retry_after&n=7");
	prepare_range(&waiting, "five", 0, 10);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_BUSY);
	assert_int_equal(waiting.request.retry_after_ms, 7000);
}

static void test_never_more_than_promised(void **state)
{
	struct waiting waiting;
	char *log;

	(void)state;
	origin_server_control(&server, "add=endless");
	prepare_range(&waiting, "five", 0, C);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	assert_in_range(waiting.request.body_len, 0, C);
	free(waiting.request.body);
	prepare(&waiting, "five");
	waiting.request.limit_bytes = C;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	assert_in_range(waiting.request.body_len, 0, C);
	free(waiting.request.body);
	log = origin_server_log(&server);
	assert_true(log_bytes(log) < 32u << 20); /* sockets hold some */
	free(log);
}

static void test_bad_requests(void **state)
{
	static const char *const paths[] = {"../five", "/five", "a/../five",
					    "a//b", "."};
	struct waiting waiting;
	char *log;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		prepare(&waiting, paths[i]);
		run(&waiting);
		assert_int_equal(waiting.request.class, FETCH_LOCAL);
		assert_int_equal(waiting.request.result, -EINVAL);
	}
	prepare_range(&waiting, "five", 0, 0);
	run(&waiting);
	assert_int_equal(waiting.request.result, -EINVAL);
	prepare_range(&waiting, "five", UINT64_MAX, 2);
	run(&waiting);
	assert_int_equal(waiting.request.result, -EINVAL);
	prepare(&waiting, "five");
	waiting.request.if_none_match = "\"a\"\r\nX: y";
	run(&waiting);
	assert_int_equal(waiting.request.result, -EINVAL);
	log = origin_server_log(&server);
	assert_string_equal(log, "");
	free(log);
}

/* ---- servers that are not there */

static void test_refused_connection(void **state)
{
	struct origin *none;
	struct waiting waiting;
	uint64_t begun = now_ms();

	(void)state;
	assert_int_equal(
		origin_open(fetcher, "http://127.0.0.1:1", &none, NULL), 0);
	prepare(&waiting, "five");
	waiting.request.origin = none;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_UNREACHABLE);
	assert_int_equal(waiting.request.result, -EIO);
	assert_string_equal(waiting.request.err.text, "connection refused");
	assert_true(now_ms() - begun < GRACE_MS);
	origin_close(none);
}

static void test_unknown_name(void **state)
{
	struct origin *none;
	struct waiting waiting;

	(void)state;
	assert_int_equal(
		origin_open(fetcher, "http://mirror.invalid", &none, NULL), 0);
	prepare(&waiting, "five");
	waiting.request.origin = none;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_UNREACHABLE);
	assert_null(strstr(waiting.request.err.text, "mirror"));
	origin_close(none);
}

/* A listener whose queue is full drops what comes, like a dead host. */
static void test_no_connection(void **state)
{
	static const struct fetcher_options options = {
		.connect_timeout_ms = 300,
		.proxy = "",
	};
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	int fds[8], listener = socket(AF_INET, SOCK_STREAM, 0);
	struct waiting waiting;
	struct origin *dead;
	char url[64];
	uint64_t begun;

	(void)state;
	reopen(&options);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(
		getsockname(listener, (struct sockaddr *)&address, &len), 0);
	for (int i = 0; i < 8; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fds[i], (struct sockaddr *)&address, len);
	}
	usleep(50000);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u",
		 ntohs(address.sin_port));
	assert_int_equal(origin_open(fetcher, url, &dead, NULL), 0);
	begun = now_ms();
	prepare(&waiting, "five");
	waiting.request.origin = dead;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_UNREACHABLE);
	assert_string_equal(waiting.request.err.text,
			    "no connection within 0.3 s");
	assert_in_range(now_ms() - begun, 290, 300 + GRACE_MS);
	origin_close(dead);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	close(listener);
}

/* ---- time */

static void test_deadlines_are_exact(void **state)
{
	struct waiting running, queued[40];
	uint64_t begun, took;

	(void)state;
	origin_server_control(&server, "add=silent");
	prepare(&running, "five");
	begun = now_ms();
	running.request.deadline_ms = begun + 200;
	run(&running);
	took = now_ms() - begun;
	assert_int_equal(running.request.class, FETCH_SLOW);
	assert_int_equal(running.request.result, -ETIMEDOUT);
	assert_memory_equal(running.request.err.text, "timed out after 0.", 18);
	assert_in_range(took, 200, 200 + GRACE_MS);
	/* Also for those that no connection is free for. */
	begun = now_ms();
	for (int i = 0; i < 40; i++) {
		prepare(&queued[i], "five");
		queued[i].request.deadline_ms = begun + 200;
		start(&queued[i]);
	}
	for (int i = 0; i < 40; i++) {
		wait_for(&queued[i]);
		assert_int_equal(queued[i].request.class, FETCH_SLOW);
	}
	assert_in_range(now_ms() - begun, 200, 200 + GRACE_MS);
	/* And in the past. */
	prepare(&running, "five");
	running.request.deadline_ms = now_ms() - 1;
	run(&running);
	assert_int_equal(running.request.class, FETCH_SLOW);
}

/* Those that are queued do not wait for a dead server one after the other. */
static void test_a_queue_for_a_dead_server(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 2,
		.silence_timeout_ms = 1000,
		.proxy = "",
	};
	struct waiting waiting[20];
	uint64_t begun = now_ms();

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=silent");
	for (int i = 0; i < 20; i++) {
		prepare(&waiting[i], "five");
		start(&waiting[i]);
	}
	for (int i = 0; i < 20; i++) {
		wait_for(&waiting[i]);
		assert_int_equal(waiting[i].request.class, FETCH_SLOW);
	}
	assert_in_range(now_ms() - begun, 1000, 1000 + GRACE_MS);
	/* It is asked again as soon as somebody wants to. */
	origin_server_control(&server, "clear");
	prepare_range(&waiting[0], "five", 0, 10);
	run(&waiting[0]);
	assert_stamps(&waiting[0], 0, 10);
}

/* One path that hangs does not condemn the server. */
static void test_a_queue_for_a_server_that_lives(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 3,
		.silence_timeout_ms = 500,
		.proxy = "",
	};
	static struct waiting waiting[40];

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=silent&path=/large");
	origin_server_control(&server, "add=delay&n=50&path=/five");
	for (int i = 0; i < 40; i++) {
		prepare_range(&waiting[i], i < 2 ? "large" : "five", 0, 10);
		start(&waiting[i]);
	}
	for (int i = 0; i < 2; i++) {
		wait_for(&waiting[i]);
		assert_int_equal(waiting[i].request.class, FETCH_SLOW);
	}
	for (int i = 2; i < 40; i++) {
		wait_for(&waiting[i]);
		assert_stamps(&waiting[i], 0, 10);
	}
}

static unsigned open_sockets(void)
{
	char path[300], text[64];
	struct dirent *entry;
	unsigned count = 0;
	DIR *dir = opendir("/proc/self/fd");

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		len = readlink(path, text, sizeof(text));
		count += len > 7 && !memcmp(text, "socket:", 7);
	}
	closedir(dir);
	return count;
}

/* Five servers that hang are asked by no more than so many; the sixth is
 * asked all the same. */
static void test_connections_in_all(void **state)
{
	enum { HUNG = 5, EACH = 16, ALL = 64 };
	static const struct fetcher_options options = {
		.silence_timeout_ms = 60000,
		.proxy = "",
	};
	static struct waiting hung[HUNG * EACH], fine;
	struct origin *origins[HUNG];
	unsigned before = open_sockets();
	char url[100];

	(void)state;
	reopen(&options);
	/* These are all there before the first is answered. */
	origin_server_control(&server, "add=silent&path=/hung*");
	for (int i = 0; i < HUNG; i++) {
		snprintf(url, sizeof(url), "%s/hung%d", server.url, i);
		assert_int_equal(origin_open(fetcher, url, &origins[i], NULL),
				 0);
	}
	for (int i = 0; i < HUNG * EACH; i++) {
		prepare(&hung[i], "file");
		hung[i].request.origin = origins[i % HUNG];
		start(&hung[i]);
	}
	prepare_range(&fine, "five", 0, 10);
	run(&fine);
	assert_stamps(&fine, 0, 10);
	assert_in_range(open_sockets() - before, ALL / 2, ALL + 6);
	for (int i = 0; i < HUNG * EACH; i++)
		fetch_cancel(fetcher, &hung[i].request);
	for (int i = 0; i < HUNG * EACH; i++)
		wait_for(&hung[i]);
	for (int i = 0; i < HUNG; i++)
		origin_close(origins[i]);
}

/* Who is in haste is told before others, unless the server always takes long;
 * it says nothing about the server's other requests. */
static void test_haste(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = 8000,
		.proxy = "",
	};
	static struct waiting patient, hasty;

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=silent&path=/large");
	prepare(&patient, "large");
	prepare(&hasty, "large");
	hasty.request.is_hasty = true;
	start(&patient);
	start(&hasty);
	wait_for(&hasty);
	assert_int_equal(hasty.request.class, FETCH_SLOW);
	pthread_mutex_lock(&patient.lock);
	assert_false(patient.is_done);
	pthread_mutex_unlock(&patient.lock);
	fetch_cancel(fetcher, &patient.request);
	wait_for(&patient);

	/* Slower than a quarter of the time, but so it always is. */
	origin_server_control(&server, "clear");
	origin_server_control(&server, "add=delay&n=3000&path=/five");
	prepare_range(&patient, "five", 0, 10);
	run(&patient);
	assert_stamps(&patient, 0, 10);
	prepare_range(&hasty, "five", 0, 10);
	hasty.request.is_hasty = true;
	run(&hasty);
	assert_stamps(&hasty, 0, 10);
}

static void test_a_pace_that_is_asked_for(void **state)
{
	struct waiting waiting;

	(void)state;
	origin_server_control(&server, "add=trickle&n=50000");
	prepare(&waiting, "five");
	waiting.request.min_bytes_per_s = 200000;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_SLOW);
	assert_non_null(strstr(waiting.request.err.text, "slower than"));
	free(waiting.request.body);
}

/* Others that run there are no excuse while a reader waits. */
static void test_a_pace_while_a_reader_waits(void **state)
{
	struct waiting waiting[4];

	(void)state;
	origin_server_control(&server, "add=trickle&n=50000");
	for (int i = 0; i < 4; i++) {
		prepare_range(&waiting[i], "five", i * C, C);
		waiting[i].request.priority = FETCH_READAHEAD;
		waiting[i].request.min_bytes_per_s = 150000;
		waiting[i].request.demand_bytes_per_s = 100000;
		start(&waiting[i]);
	}
	/* The others keep going: a quarter of 150,000 for each. */
	fetch_raise(fetcher, &waiting[3].request, FETCH_DEMAND);
	wait_for(&waiting[3]);
	assert_int_equal(waiting[3].request.class, FETCH_SLOW);
	assert_non_null(strstr(waiting[3].request.err.text, "slower than 97"));
	for (int i = 0; i < 3; i++)
		fetch_cancel(fetcher, &waiting[i].request);
	for (int i = 0; i < 4; i++) {
		if (i < 3)
			wait_for(&waiting[i]);
		free(waiting[i].request.body);
	}
}

static void test_slow_is_not_silent(void **state)
{
	struct waiting waiting;

	(void)state;
	/* 10,000 bytes a second for longer than the silence time-out. */
	origin_server_control(&server, "add=trickle&n=10000");
	prepare_range(&waiting, "five", 0, 15000);
	run(&waiting);
	assert_stamps(&waiting, 0, 15000);
	assert_true(waiting.calls > 5);
}

static void test_early_probe_has_a_second(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = 8000,
		.proxy = "",
	};
	struct origin_health health;
	struct waiting waiting;
	uint64_t begun;

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=silent");
	/* Bad for 60 s: whoever asks is an early probe. */
	begun = now_ms();
	for (int i = 0; i < 8; i++) {
		origin_note(origin, FETCH_SLOW, begun);
		origin_health(origin, &health);
		begun = health.bad_until_ms;
	}
	begun = now_ms();
	prepare(&waiting, "five");
	start(&waiting);
	origin_health(origin, &health);
	assert_true(health.probe_until_ms > now_ms());
	wait_for(&waiting);
	assert_int_equal(waiting.request.class, FETCH_SLOW);
	assert_string_equal(waiting.request.err.text, "no answer within 1 s");
	assert_in_range(now_ms() - begun, 1000, 1000 + GRACE_MS);
	usleep(50000);
	origin_health(origin, &health);
	assert_int_equal(health.probe_until_ms, 0);
	/* One that answers, if not well, has its usual time. */
	origin_note(origin, FETCH_WRONG, now_ms());
	origin_server_control(&server, "clear");
	origin_server_control(&server, "add=delay&n=1200");
	prepare_range(&waiting, "five", 0, 100);
	run(&waiting);
	assert_stamps(&waiting, 0, 100);
	origin_note(origin, FETCH_SLOW, now_ms());
	/* It is back: bytes say so before the caller does. */
	origin_server_control(&server, "clear");
	prepare_range(&waiting, "five", 0, 100);
	run(&waiting);
	assert_stamps(&waiting, 0, 100);
	origin_health(origin, &health);
	assert_true(health.failures > 0); /* silence may come back: not yet */
	origin_note(origin, FETCH_UNREACHABLE, now_ms());
	prepare_range(&waiting, "five", 0, 100);
	run(&waiting);
	assert_stamps(&waiting, 0, 100);
	origin_health(origin, &health);
	assert_int_equal(health.failures, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_faults),
		TEST(test_absent),
		TEST(test_broken_off_and_again),
		TEST(test_a_flipped_byte),
		TEST(test_retry_after),
		TEST(test_never_more_than_promised),
		TEST(test_bad_requests),
		TEST(test_refused_connection),
		TEST(test_unknown_name),
		TEST(test_no_connection),
		TEST(test_deadlines_are_exact),
		TEST(test_a_queue_for_a_dead_server),
		TEST(test_a_queue_for_a_server_that_lives),
		TEST(test_connections_in_all),
		TEST(test_haste),
		TEST(test_a_pace_that_is_asked_for),
		TEST(test_a_pace_while_a_reader_waits),
		TEST(test_slow_is_not_silent),
		TEST(test_early_probe_has_a_second),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_files, stop_server);
}
