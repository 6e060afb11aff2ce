/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching over HTTP: what works, redirects, order, cancel and close. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"

#include "fetch-env.h"

/* ---- what works */

static void test_ranges(void **state)
{
	static const uint64_t offsets[] = {0,	  1,	     C - 1,   C,
					   C + 1, 2 * C - 1, SIZE - 1};
	static const uint64_t lengths[] = {1, 4096, C, C + 1};
	struct waiting waiting;
	char *log;

	(void)state;
	for (size_t i = 0; i < 7; i++)
		for (size_t j = 0; j < 4; j++) {
			uint64_t len = lengths[j];

			if (len > SIZE - offsets[i])
				len = SIZE - offsets[i];
			prepare_range(&waiting, "five", offsets[i], len);
			waiting.request.expected_total = SIZE;
			run(&waiting);
			assert_stamps(&waiting, offsets[i], len);
			assert_int_equal(waiting.request.total, SIZE);
			assert_true(waiting.calls > 0);
			assert_false(waiting.has_moved);
			assert_ptr_equal(waiting.body, waiting.request.body);
			assert_int_equal(waiting.len, len);
			assert_true(waiting.request.etag[0]);
		}
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"status\":206"), 28);
	/* Nothing but identity is ever asked for. */
	assert_int_equal(log_count(log, "\"accept_encoding\":\"identity\""),
			 28);
	assert_int_equal(log_count(log, "\"cache_control\":null"), 28);
	free(log);
}

static void test_whole_files(void **state)
{
	struct waiting waiting;

	(void)state;
	prepare(&waiting, "five");
	run(&waiting);
	assert_stamps(&waiting, 0, SIZE);
	assert_int_equal(waiting.request.total, SIZE);
	/* Without a length, too. */
	origin_server_control(&server, "add=chunked");
	prepare(&waiting, "five");
	waiting.request.limit_bytes = SIZE;
	run(&waiting);
	assert_stamps(&waiting, 0, SIZE);
	assert_int_equal(waiting.request.total, SIZE);
	prepare(&waiting, "five");
	waiting.request.limit_bytes = SIZE - 1;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	free(waiting.request.body);
	prepare_range(&waiting, "five", C, C);
	run(&waiting);
	assert_stamps(&waiting, C, C);
}

static void test_an_empty_file(void **state)
{
	struct waiting waiting;

	(void)state;
	for (int i = 0; i < 2; i++) {
		prepare(&waiting, "empty");
		run(&waiting);
		assert_stamps(&waiting, 0, 0);
		origin_server_control(&server, "add=chunked");
	}
}

static void test_names_are_escaped(void **state)
{
	struct waiting waiting;

	(void)state;
	prepare_range(&waiting, "a b%41+#?", 10, 20);
	run(&waiting);
	assert_stamps(&waiting, 10, 20);
}

static void test_not_modified(void **state)
{
	struct waiting waiting;
	char etag[128];

	(void)state;
	prepare(&waiting, "five");
	run(&waiting);
	snprintf(etag, sizeof(etag), "%s", waiting.request.etag);
	assert_stamps(&waiting, 0, SIZE);
	prepare(&waiting, "five");
	waiting.request.if_none_match = etag;
	run(&waiting);
	assert_int_equal(waiting.request.result, 0);
	assert_true(waiting.request.not_modified);
	assert_null(waiting.request.body);
	prepare(&waiting, "five");
	waiting.request.if_none_match = "\"other\"";
	run(&waiting);
	assert_false(waiting.request.not_modified);
	assert_stamps(&waiting, 0, SIZE);
}

static void test_going_past_caches(void **state)
{
	struct waiting waiting;
	char *log;

	(void)state;
	prepare_range(&waiting, "five", 0, 10);
	waiting.request.no_cache = true;
	run(&waiting);
	assert_stamps(&waiting, 0, 10);
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"cache_control\":\"no-cache\""), 1);
	free(log);
}

static char first_etag[128];

static bool is_as_first(struct fetch_request *request, const char *etag)
{
	(void)request;
	if (!first_etag[0])
		snprintf(first_etag, sizeof(first_etag), "%s", etag);
	return !strcmp(first_etag, etag);
}

/* The server sends all of the new file, or a range that is not of the old. */
static void test_a_file_is_replaced(void **state)
{
	static const char *const rules[] = {"clear", "add=strip&target=etag",
					    "clear"};
	struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	struct waiting waiting;
	char path[128], *log;

	(void)state;
	first_etag[0] = '\0';
	stamp_file(server.root, "changing", TAG, SIZE);
	snprintf(path, sizeof(path), "%s/changing", server.root);
	for (int i = 0; i < 3; i++) {
		origin_server_control(&server, rules[i]);
		/* An answer without an ETag proves nothing, here. */
		prepare_range(&waiting, "changing", C, 100);
		waiting.request.is_same = i == 1 ? NULL : is_as_first;
		waiting.request.if_range = first_etag;
		run(&waiting);
		assert_stamps(&waiting, C, 100);
	}
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"status\":206"), 3);
	assert_int_equal(log_count(log, "\"if_range\":null"), 1);
	free(log);

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	for (int i = 0; i < 2; i++) {
		prepare_range(&waiting, "changing", C, 100);
		waiting.request.is_same = is_as_first;
		waiting.request.if_range = i ? NULL : first_etag;
		run(&waiting);
		assert_int_equal(waiting.request.class, FETCH_WRONG);
		assert_non_null(strstr(waiting.request.err.text, "replaced"));
		assert_null(waiting.request.body);
	}
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"status\":206"), 1);
	assert_int_equal(log_count(log, "\"status\":200"), 1);
	free(log);
}

static void test_200_at_once(void **state)
{
	static struct waiting waiting[200];
	char *log;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		prepare_range(&waiting[i], "five", i * 6000, 10000 + i);
		waiting[i].request.priority = (enum fetch_priority)(i % 3);
		start(&waiting[i]);
	}
	for (unsigned i = 0; i < 200; i++) {
		wait_for(&waiting[i]);
		assert_stamps(&waiting[i], i * 6000, 10000 + i);
	}
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"status\":206"), 200);
	free(log);
}

/* ---- redirects, credentials, proxies */

static void test_redirects(void **state)
{
	struct origin_server other;
	struct waiting waiting;
	char rule[256], *log;

	(void)state;
	origin_server_control(&server,
			      "add=redirect&path=/there&target=five&times=1");
	origin_server_control(&server, "add=redirect&path=/loop*&target="
				       "/loop%2b&times=4&n=307");
	origin_server_control(&server,
			      "add=redirect&path=/loop*&target=/five&from=5");
	prepare_range(&waiting, "there", C, 100);
	run(&waiting);
	assert_stamps(&waiting, C, 100);
	prepare_range(&waiting, "loop", C, 100);
	run(&waiting);
	assert_stamps(&waiting, C, 100); /* the fifth; the sixth is too many */
	origin_server_control(&server, "add=redirect&path=/six*&target="
				       "/six%2b&times=5&n=301");
	origin_server_control(&server,
			      "add=redirect&path=/six*&target=/five&from=6");
	prepare_range(&waiting, "six", C, 100);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);

	/* Credentials stay with their server. */
	assert_true(origin_server_start(&other));
	stamp_file(other.root, "five", TAG, SIZE);
	snprintf(rule, sizeof(rule), "add=redirect&path=/away&target=%s/five",
		 other.url);
	origin_server_control(&server, rule);
	origin_server_control(&server, "add=redirect&path=/near&target=/five");
	origin_close(origin);
	snprintf(rule, sizeof(rule), "http://user:sesame@127.0.0.1:%u",
		 server.port);
	assert_int_equal(origin_open(fetcher, rule, &origin, NULL), 0);
	assert_null(strstr(origin_name(origin), "sesame"));
	free(origin_server_log(&server));
	prepare_range(&waiting, "near", C, 100);
	run(&waiting);
	assert_stamps(&waiting, C, 100);
	prepare_range(&waiting, "away", C, 100);
	run(&waiting);
	assert_stamps(&waiting, C, 100);
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"authorization\":true"), 3);
	free(log);
	log = origin_server_log(&other);
	assert_int_equal(log_count(log, "\"authorization\":false"), 1);
	assert_int_equal(log_count(log, "\n"), 1);
	free(log);
	origin_server_stop(&other);
}

static void test_proxy(void **state)
{
	struct fetcher_options options = {.proxy = server.url};
	struct origin *far;
	struct waiting waiting;
	char *log;

	(void)state;
	reopen(&options);
	assert_int_equal(
		origin_open(fetcher, "http://mirror.invalid", &far, NULL), 0);
	prepare_range(&waiting, "five", C, 100);
	waiting.request.origin = far;
	run(&waiting);
	assert_stamps(&waiting, C, 100);
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "\"host\":\"mirror.invalid\""), 1);
	free(log);
	origin_server_control(&server, "add=html200");
	prepare_range(&waiting, "five", C, 100);
	waiting.request.origin = far;
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	origin_close(far);
}

/* ---- order, cancel, close */

static void expect_asked(const struct origin_server *asked, size_t count)
{
	uint64_t until = now_ms() + GRACE_MS;

	while (origin_server_asked(asked) < count && now_ms() < until)
		usleep(10000);
	assert_int_equal(origin_server_asked(asked), count);
}

/* Prefetches hang; a slot is left for who waits. */
static void test_demand_overtakes(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 2,
		.proxy = "",
	};
	struct waiting prefetch[10], demand;

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=silent&path=/large");
	for (int i = 0; i < 10; i++) {
		prepare_range(&prefetch[i], i < 5 ? "large" : "five", 0, 100);
		prefetch[i].request.priority = FETCH_PREFETCH;
		start(&prefetch[i]);
	}
	prepare_range(&demand, "five", 0, 100);
	run(&demand);
	assert_stamps(&demand, 0, 100);
	/* Somebody waits for it now: it passes the ones that hang. */
	fetch_raise(fetcher, &prefetch[9].request, FETCH_DEMAND);
	fetch_raise(fetcher, &prefetch[9].request, FETCH_PREFETCH);
	wait_for(&prefetch[9]);
	assert_stamps(&prefetch[9], 0, 100);
	fetch_raise(fetcher, &prefetch[9].request, FETCH_DEMAND);
	for (int i = 0; i < 9; i++)
		fetch_cancel(fetcher, &prefetch[i].request);
	for (int i = 0; i < 9; i++) {
		wait_for(&prefetch[i]);
		assert_int_equal(prefetch[i].request.class, FETCH_CANCELED);
		free(prefetch[i].request.body);
	}
}

/* An eighth of the connections is not for readahead, half not for prefetch. */
static void test_slots_are_left(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 8,
		.silence_timeout_ms = 60000,
		.proxy = "",
	};
	static const enum fetch_priority priorities[] = {
		FETCH_PREFETCH, FETCH_READAHEAD, FETCH_DEMAND};
	static const size_t taken[] = {4, 7, 8};
	static struct waiting waiting[3][9];

	(void)state;
	reopen(&options);
	free(origin_server_log(&server));
	origin_server_control(&server, "add=silent&path=/large");
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 9; j++) {
			prepare(&waiting[i][j], "large");
			waiting[i][j].request.priority = priorities[i];
			start(&waiting[i][j]);
		}
		expect_asked(&server, taken[i]);
	}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 9; j++)
			fetch_cancel(fetcher, &waiting[i][j].request);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 9; j++) {
			wait_for(&waiting[i][j]);
			free(waiting[i][j].request.body);
		}
}

/* Through one connection, queued in the opposite order while it is taken:
 * the server sees readers first, then readahead, then prefetch. */
static void test_order_at_the_server(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 1,
		.proxy = "",
	};
	static struct waiting hold, queued[9];
	const char *at;
	char *log, range[64];

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=silent&path=/large");
	prepare_range(&hold, "large", 0, 100);
	start(&hold);
	for (unsigned i = 0; i < 9; i++) {
		prepare_range(&queued[i], "five", i * 1000, 100);
		queued[i].request.priority =
			(enum fetch_priority)(FETCH_PREFETCH - i / 3);
		start(&queued[i]);
	}
	fetch_cancel(fetcher, &hold.request);
	wait_for(&hold);
	free(hold.request.body);
	for (unsigned i = 0; i < 9; i++) {
		wait_for(&queued[i]);
		assert_stamps(&queued[i], i * 1000, 100);
	}
	at = log = origin_server_log(&server);
	for (unsigned i = 0; i < 9; i++) {
		unsigned n = (2 - i / 3) * 3 + i % 3;

		snprintf(range, sizeof(range), "\"range\":\"bytes=%u-%u\"",
			 n * 1000, n * 1000 + 99);
		at = strstr(at, range);
		assert_non_null(at);
	}
	free(log);
}

/* Three of a server and five of all, but two of each in any case. */
static void test_connections_are_limited(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 3,
		.max_all_connections = 5,
		.silence_timeout_ms = 60000,
		.proxy = "",
	};
	static struct waiting waiting[3][6];
	struct origin_server servers[2];
	struct origin *origins[3];

	(void)state;
	reopen(&options);
	origins[0] = origin;
	free(origin_server_log(&server));
	origin_server_control(&server, "add=silent");
	for (int i = 0; i < 2; i++) {
		assert_true(origin_server_start(&servers[i]));
		origin_server_control(&servers[i], "add=silent");
		assert_int_equal(origin_open(fetcher, servers[i].url,
					     &origins[i + 1], NULL),
				 0);
	}
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 6; j++) {
			prepare(&waiting[i][j], "five");
			waiting[i][j].request.origin = origins[i];
			start(&waiting[i][j]);
		}
		expect_asked(i ? &servers[i - 1] : &server, i ? 2 : 3);
	}
	/* The thread that starts them has had its turn. */
	fetch_cancel(fetcher, &waiting[2][5].request);
	wait_for(&waiting[2][5]);
	prepare(&waiting[2][5], "five"); /* to be like the others below */
	waiting[2][5].request.origin = origins[2];
	start(&waiting[2][5]);
	usleep(50000);
	for (int i = 0; i < 3; i++)
		expect_asked(i ? &servers[i - 1] : &server, i ? 2 : 3);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 6; j++)
			fetch_cancel(fetcher, &waiting[i][j].request);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 6; j++) {
			wait_for(&waiting[i][j]);
			free(waiting[i][j].request.body);
		}
	for (int i = 0; i < 2; i++) {
		origin_close(origins[i + 1]);
		origin_server_stop(&servers[i]);
	}
}

static void test_cancel(void **state)
{
	static struct waiting waiting[100];
	uint64_t begun;

	(void)state;
	origin_server_control(&server, "add=stall_after&n=1000");
	for (int i = 0; i < 100; i++) {
		prepare_range(&waiting[i], "five", 0, C);
		start(&waiting[i]);
	}
	usleep(100000); /* some are running, the others queued */
	begun = now_ms();
	for (int i = 0; i < 100; i++)
		fetch_cancel(fetcher, &waiting[i].request);
	for (int i = 0; i < 100; i++) {
		wait_for(&waiting[i]);
		assert_int_equal(waiting[i].request.class, FETCH_CANCELED);
		assert_int_equal(waiting[i].request.result, -ECANCELED);
		/* Too late, and harmless. */
		fetch_cancel(fetcher, &waiting[i].request);
		free(waiting[i].request.body);
	}
	assert_true(now_ms() - begun < GRACE_MS);
}

static void test_close_while_busy(void **state)
{
	static struct waiting waiting[60];
	uint64_t begun;

	(void)state;
	origin_server_control(&server, "add=silent&every=2");
	for (int i = 0; i < 60; i++) {
		prepare_range(&waiting[i], "five", 0, C);
		start(&waiting[i]);
	}
	usleep(50000);
	begun = now_ms();
	fetcher_close(fetcher);
	assert_true(now_ms() - begun < GRACE_MS);
	for (int i = 0; i < 60; i++) {
		wait_for(&waiting[i]);
		if (waiting[i].request.result == 0)
			assert_stamps(&waiting[i], 0, C);
		else
			free(waiting[i].request.body);
	}
	origin_close(origin);
	setup(NULL);
}

/* done may start the next request, also while the fetcher closes. */
static void start_again(struct fetch_request *request)
{
	struct waiting *waiting = request->arg;

	free(request->body);
	if (waiting->calls++ < 50)
		fetch_start(fetcher, request);
	else
		note_done(request);
}

static void test_requests_from_done(void **state)
{
	struct waiting waiting[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		prepare_range(&waiting[i], "five", 0, C);
		waiting[i].request.done = start_again;
		waiting[i].request.progress = NULL;
		start(&waiting[i]);
	}
	for (int i = 0; i < 2; i++)
		wait_for(&waiting[i]);
	fetcher_close(fetcher);
	for (int i = 2; i < 4; i++)
		wait_for(&waiting[i]);
	origin_close(origin);
	setup(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_ranges),
		TEST(test_whole_files),
		TEST(test_an_empty_file),
		TEST(test_names_are_escaped),
		TEST(test_not_modified),
		TEST(test_going_past_caches),
		TEST(test_a_file_is_replaced),
		TEST(test_200_at_once),
		TEST(test_redirects),
		TEST(test_proxy),
		TEST(test_demand_overtakes),
		TEST(test_slots_are_left),
		TEST(test_order_at_the_server),
		TEST(test_connections_are_limited),
		TEST(test_cancel),
		TEST(test_close_while_busy),
		TEST(test_requests_from_done),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_files, stop_server);
}
