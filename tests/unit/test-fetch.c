/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching over HTTP from a server that fails on demand: each fault gives its
 * class in bounded time, and no byte that was not promised.
 */
#include <config.h>

#undef NDEBUG
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
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
#include "fetch/fetch.h"

#include "origin-server.h"

/* The chunk of the cases; the file has five and a bit. */
#define C (256u << 10)
#define SIZE (5 * C + 123)
#define TAG 0x6c61726465720001
#define SILENCE_MS 400
/* Sanitizers and a busy machine: a bound, not a measurement. */
#define GRACE_MS 3000

static struct origin_server server;
static struct fetcher *fetcher;
static struct origin *origin;

/* ---- waiting for a request */

struct waiting {
	struct fetch_request request;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
	/* what progress saw */
	const uint8_t *body;
	size_t len;
	bool has_moved;
	unsigned calls;
	unsigned *order; /* counts up at each done */
	unsigned place;
};

static void note_progress(struct fetch_request *request, const uint8_t *body,
			  size_t len)
{
	struct waiting *waiting = request->arg;

	if (waiting->body && (body != waiting->body || len < waiting->len))
		waiting->has_moved = true;
	waiting->body = body;
	waiting->len = len;
	waiting->calls++;
}

static void note_done(struct fetch_request *request)
{
	struct waiting *waiting = request->arg;

	pthread_mutex_lock(&waiting->lock);
	waiting->is_done = true;
	if (waiting->order)
		waiting->place = __atomic_add_fetch(waiting->order, 1,
						    __ATOMIC_SEQ_CST);
	pthread_cond_signal(&waiting->done);
	pthread_mutex_unlock(&waiting->lock);
}

static void prepare(struct waiting *waiting, const char *path)
{
	*waiting = (struct waiting){
		.request = {
			.origin = origin,
			.path = path,
			.done = note_done,
			.progress = note_progress,
			.arg = waiting,
		},
	};
	pthread_mutex_init(&waiting->lock, NULL);
	pthread_cond_init(&waiting->done, NULL);
}

static void prepare_range(struct waiting *waiting, const char *path,
			  uint64_t offset, uint64_t len)
{
	prepare(waiting, path);
	waiting->request.has_range = true;
	waiting->request.offset = offset;
	waiting->request.length = len;
}

static void start(struct waiting *waiting)
{
	fetch_start(fetcher, &waiting->request);
}

static void wait_for(struct waiting *waiting)
{
	pthread_mutex_lock(&waiting->lock);
	while (!waiting->is_done)
		pthread_cond_wait(&waiting->done, &waiting->lock);
	pthread_mutex_unlock(&waiting->lock);
	pthread_mutex_destroy(&waiting->lock);
	pthread_cond_destroy(&waiting->done);
}

static void run(struct waiting *waiting)
{
	start(waiting);
	wait_for(waiting);
}

static void assert_stamps(struct waiting *waiting, uint64_t offset,
			  uint64_t len)
{
	struct fetch_request *request = &waiting->request;

	if (request->result < 0)
		fail_msg("%d '%s'", request->result, request->err.text);
	assert_int_equal(request->class, FETCH_OK);
	assert_int_equal(request->body_len, len);
	assert_true(stamps_right(request->body, len, TAG, offset));
	free(request->body);
}

/* ---- every test has the server, without rules, and a fetcher */

static void open_fetcher(const struct fetcher_options *options)
{
	assert_int_equal(fetcher_open(options, &fetcher, NULL), 0);
	assert_int_equal(origin_open(fetcher, server.url, &origin, NULL), 0);
}

static int setup(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = SILENCE_MS,
		.connect_timeout_ms = 2000,
		.proxy = "",
	};

	(void)state;
	origin_server_control(&server, "clear");
	free(origin_server_log(&server));
	open_fetcher(&options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fetcher_close(fetcher);
	origin_close(origin);
	return 0;
}

static void reopen(const struct fetcher_options *options)
{
	teardown(NULL);
	open_fetcher(options);
}

static int start_server(void **state)
{
	char *proxy = getenv("http_proxy");

	(void)state;
	if (proxy)
		unsetenv("http_proxy");
	stamp_file(server.root, "five", TAG, SIZE);
	stamp_file(server.root, "empty", TAG, 0);
	stamp_file(server.root, "a b%41+#?", TAG, 100);
	stamp_file(server.root, "large", TAG, 70u << 20);
	return 0;
}

static int stop_server(void **state)
{
	(void)state;
	origin_server_stop(&server);
	return 0;
}

/* ---- what works */

static void test_ranges(void **state)
{
	static const uint64_t offsets[] = { 0, 1, C - 1, C, C + 1, 2 * C - 1,
					    SIZE - 1 };
	static const uint64_t lengths[] = { 1, 4096, C, C + 1 };
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
	/* C-04: nothing but identity is ever asked for. */
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
	/* C-05: without a length, too. */
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

/* C-01: a range is cut out of a whole body, up to a size. */
static void test_servers_without_ranges(void **state)
{
	struct waiting waiting;
	char *log;

	(void)state;
	origin_server_control(&server, "add=ignore_range");
	for (uint64_t at = 0; at < SIZE; at += C + 11) {
		uint64_t len = SIZE - at < 65536 ? SIZE - at : 65536;

		prepare_range(&waiting, "five", at, len);
		run(&waiting);
		assert_stamps(&waiting, at, len);
		assert_int_equal(waiting.request.total, SIZE);
		assert_false(waiting.has_moved);
	}
	free(origin_server_log(&server));
	prepare_range(&waiting, "large", 0, 65536);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	assert_null(waiting.request.body);
	origin_server_control(&server, "add=chunked");
	prepare_range(&waiting, "large", 0, 65536);
	run(&waiting);
	assert_stamps(&waiting, 0, 65536);
	prepare_range(&waiting, "large", (64u << 20) - 10, 11);
	run(&waiting);
	assert_int_equal(waiting.request.class, FETCH_WRONG);
	/* What the sockets held, not the file. */
	log = origin_server_log(&server);
	assert_true(log_bytes(log) < 32u << 20);
	free(log);
}

/* ---- what fails */

static const struct fault {
	const char *rule;
	enum fetch_class class;
	const char *text;
	bool is_whole; /* also asked without a range */
} faults[] = {
	{ "add=status&n=404", FETCH_ABSENT, "HTTP 404", true },
	{ "add=status&n=410", FETCH_ABSENT, "HTTP 410", true },
	{ "add=status&n=401", FETCH_REFUSED, "HTTP 401", true },
	{ "add=status&n=403", FETCH_REFUSED, "HTTP 403", true },
	{ "add=status&n=429", FETCH_BUSY, "HTTP 429", true },
	{ "add=status&n=500", FETCH_BUSY, "HTTP 500", true },
	{ "add=status&n=503", FETCH_BUSY, "HTTP 503", true },
	{ "add=status&n=204", FETCH_WRONG, "HTTP 204", true },
	{ "add=status&n=416", FETCH_WRONG, "HTTP 416", true },
	{ "add=bad_content_range", FETCH_WRONG, "another range than asked",
	  false },
	{ "add=strip&target=content-range", FETCH_WRONG,
	  "another range than asked", false },
	{ "add=bad_total", FETCH_WRONG, "file of another size", false },
	{ "add=html200", FETCH_WRONG, "file of another size", true },
	{ "add=gzip&n=1", FETCH_WRONG, "encoded content", true },
	{ "add=short_body&n=0", FETCH_WRONG, "body shorter than promised",
	  true },
	{ "add=short_body&n=5000", FETCH_WRONG, "body shorter than promised",
	  true },
	{ "add=long_body", FETCH_WRONG, "body longer than promised", true },
	{ "add=endless", FETCH_WRONG, "body longer than promised", true },
	{ "add=drop_after&n=0", FETCH_UNREACHABLE, "connection lost after 0 ",
	  true },
	{ "add=drop_after&n=5000", FETCH_UNREACHABLE,
	  "connection lost after 5000 ", true },
	{ "add=close", FETCH_UNREACHABLE, "connection lost", true },
	{ "add=garbage", FETCH_WRONG, "not an answer of HTTP", true },
	{ "add=long_header&n=70000", FETCH_WRONG,
	  "header of the answer too long", true },
	{ "add=long_header&n=1000000", FETCH_WRONG,
	  "header of the answer too long", true },
	{ "add=silent", FETCH_SLOW, "silent for 0.4 s", true },
	{ "add=stall_after&n=0", FETCH_SLOW, "silent for 0.4 s", true },
	{ "add=stall_after&n=5000", FETCH_SLOW, "silent for 0.4 s", true },
	{ "add=trickle&n=100", FETCH_SLOW, "slower than 1 KiB/s for 0.4 s",
	  true },
	{ "add=redirect&target=/five", FETCH_WRONG, "more than 5 redirects",
	  true },
	{ "add=redirect&target=ftp://127.0.0.1/", FETCH_WRONG,
	  "redirect to another protocol", true },
	{ "add=redirect&target=file:///etc/hostname", FETCH_WRONG,
	  "redirect to another protocol", true },
	{ "add=redirect&target=http://u:sesame@127.0.0.1/", FETCH_WRONG,
	  "redirect with a password in it", true },
	{ "add=redirect", FETCH_WRONG, "redirect to nonsense", true },
	{ "add=redirect&target=http://127.0.0.1:1/", FETCH_UNREACHABLE,
	  "connection refused", true },
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

/* C-02: each try asks for what the caller asks, from its own start. */
static void test_broken_off_and_again(void **state)
{
	static const char *const rules[] = {
		"add=drop_after&n=87381&times=1",
		"add=drop_after&n=87381&times=3",
		"add=drop_after&n=1&times=1",
		"add=drop_after&n=262143&times=1",
	};
	static const unsigned tries[] = { 2, 4, 2, 2 };
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

/* C-06: what is wrong inside is the caller's to see; the second try is new. */
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
	static const char *const paths[] = { "../five", "/five", "a/../five",
					     "a//b", "." };
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
	assert_stamps(&waiting, C, 100);

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
	struct fetcher_options options = { .proxy = server.url };
	struct origin *far;
	struct waiting waiting;
	char *log;

	(void)state;
	reopen(&options);
	assert_int_equal(origin_open(fetcher, "http://mirror.invalid", &far,
				     NULL), 0);
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

/* ---- servers that are not there */

static void test_refused_connection(void **state)
{
	struct origin *none;
	struct waiting waiting;
	uint64_t begun = now_ms();

	(void)state;
	assert_int_equal(origin_open(fetcher, "http://127.0.0.1:1", &none,
				     NULL), 0);
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
	assert_int_equal(origin_open(fetcher, "http://mirror.invalid", &none,
				     NULL), 0);
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
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address,
				     &len), 0);
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

static void test_slow_is_not_silent(void **state)
{
	struct waiting waiting;

	(void)state;
	/* 10,000 bytes a second for longer than the silence time-out. */
	origin_server_control(&server, "add=trickle&n=10000");
	prepare_range(&waiting, "five", 0, 8000);
	run(&waiting);
	assert_stamps(&waiting, 0, 8000);
	assert_true(waiting.calls > 5);
}

static void test_early_probe_has_a_second(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = 20000,
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

/* ---- order, cancel, close */

static void test_demand_overtakes(void **state)
{
	static const struct fetcher_options options = {
		.max_connections = 2,
		.proxy = "",
	};
	struct waiting prefetch[10], demand, raised;
	unsigned order = 0;

	(void)state;
	reopen(&options);
	origin_server_control(&server, "add=delay&n=50");
	for (int i = 0; i < 10; i++) {
		prepare_range(&prefetch[i], "five", 0, 100);
		prefetch[i].request.priority = FETCH_PREFETCH;
		prefetch[i].order = &order;
		start(&prefetch[i]);
	}
	prepare_range(&demand, "five", 0, 100);
	demand.order = &order;
	prepare_range(&raised, "five", 0, 100);
	raised.request.priority = FETCH_PREFETCH;
	raised.order = &order;
	start(&raised);
	start(&demand);
	fetch_raise(fetcher, &raised.request, FETCH_DEMAND);
	fetch_raise(fetcher, &raised.request, FETCH_PREFETCH); /* never lowers */
	wait_for(&demand);
	wait_for(&raised);
	/* One prefetch was under way; the second slot was kept free. */
	assert_in_range(demand.place, 1, 3);
	assert_in_range(raised.place, 1, 4);
	assert_stamps(&demand, 0, 100);
	assert_stamps(&raised, 0, 100);
	for (int i = 0; i < 10; i++) {
		wait_for(&prefetch[i]);
		assert_stamps(&prefetch[i], 0, 100);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_ranges),
		TEST(test_whole_files),
		TEST(test_an_empty_file),
		TEST(test_names_are_escaped),
		TEST(test_not_modified),
		TEST(test_going_past_caches),
		TEST(test_200_at_once),
		TEST(test_servers_without_ranges),
		TEST(test_faults),
		TEST(test_absent),
		TEST(test_broken_off_and_again),
		TEST(test_a_flipped_byte),
		TEST(test_retry_after),
		TEST(test_never_more_than_promised),
		TEST(test_bad_requests),
		TEST(test_redirects),
		TEST(test_proxy),
		TEST(test_refused_connection),
		TEST(test_unknown_name),
		TEST(test_no_connection),
		TEST(test_deadlines_are_exact),
		TEST(test_slow_is_not_silent),
		TEST(test_early_probe_has_a_second),
		TEST(test_demand_overtakes),
		TEST(test_cancel),
		TEST(test_close_while_busy),
		TEST(test_requests_from_done),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
