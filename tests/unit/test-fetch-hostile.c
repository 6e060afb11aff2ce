/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that break HTTP itself, each a script of raw bytes: whatever they
 * send, a request ends soon, with the right bytes or an error that blames
 * them, and the next one over the same fetcher is none the worse for it.
 */
#include <config.h>

#undef NDEBUG
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
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

/* What is asked for, of a file of FILE_BYTES letters. */
#define OFFSET 1000
#define LENGTH 26
#define FILE_BYTES 5000
#define HEADERS_MAX 65537
#define RIGHT "abcdefghijklmnopqrstuvwxyz"
#define WRONG "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define RANGE "Content-Range: bytes 1000-1025/5000\r\n"
#define OK_HEAD "HTTP/1.1 206 x\r\nContent-Length: 26\r\n" RANGE

static const struct script {
	const char *name;
	const char *first;  /* sent once */
	const char *repeat; /* then this without end, if there is any */
	/* The bytes may be right; else some failure, or this one. */
	bool may_succeed;
	enum fetch_class class; /* FETCH_OK: any that is no "not there" */
} scripts[] = {
	{"sound", OK_HEAD "\r\n" RIGHT, NULL, true, FETCH_OK},
	/* headers */
	{"interim answers for ever", "", "HTTP/1.1 103 Early\r\nA: b\r\n\r\n",
	 false, FETCH_WRONG},
	{"continue for ever", "", "HTTP/1.1 100 Continue\r\n\r\n", false,
	 FETCH_WRONG},
	{"header lines for ever", "HTTP/1.1 206 x\r\n", "X-A: b\r\n", false,
	 FETCH_WRONG},
	{"a line for ever", "HTTP/1.1 206 x\r\nX-A: ", "bbbbbbbbbbbbbbb", false,
	 FETCH_WRONG},
	{"a status line for ever", "HTTP/1.1 206 ", "xxxxxxxxxxxxxxxx", false,
	 FETCH_WRONG},
	{"a folded line for ever", "HTTP/1.1 206 x\r\nX-A: b\r\n", " c\r\n",
	 false, FETCH_WRONG},
	{"a location for ever", "HTTP/1.1 302 x\r\nLocation: /", "aaaaaaaaaaa",
	 false, FETCH_WRONG},
	{"a line without a name",
	 "HTTP/1.1 206 x\r\nnonsense\r\n" RANGE
	 "Content-Length: 26\r\n\r\n" RIGHT,
	 NULL, true, FETCH_OK},
	{"no answer of HTTP", "SSH-2.0-OpenSSH\r\n", "noise ", false, FETCH_OK},
	{"HTTP/0.9", RIGHT, "", false, FETCH_OK},
	{"status 99999", "HTTP/1.1 99999 x\r\n" RANGE "\r\n" RIGHT, "", false,
	 FETCH_OK},
	{"status of letters", "HTTP/1.1 abc x\r\n" RANGE "\r\n" RIGHT, "",
	 false, FETCH_OK},
	{"HTTP/7.1", "HTTP/7.1 206 x\r\n" RANGE "\r\n" RIGHT, "", false,
	 FETCH_OK},
	{"another protocol from now on",
	 "HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
	 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false, FETCH_OK},
	/* lengths and ranges */
	{"two lengths",
	 "HTTP/1.1 206 x\r\nContent-Length: 26\r\n"
	 "Content-Length: 27\r\n" RANGE "\r\n" RIGHT,
	 "", false, FETCH_WRONG},
	{"a length below zero",
	 "HTTP/1.1 206 x\r\nContent-Length: -26\r\n" RANGE "\r\n" RIGHT, "",
	 false, FETCH_WRONG},
	{"a length past all numbers",
	 "HTTP/1.1 206 x\r\nContent-Length: 99999999999999999999\r\n" RANGE
	 "\r\n" RIGHT,
	 "a", false, FETCH_WRONG},
	{"the largest length",
	 "HTTP/1.1 206 x\r\nContent-Length: 9223372036854775807\r\n" RANGE
	 "\r\n" RIGHT,
	 "a", false, FETCH_WRONG},
	{"more than the range",
	 "HTTP/1.1 206 x\r\nContent-Length: 27\r\n" RANGE "\r\n" RIGHT "a", "",
	 false, FETCH_WRONG},
	{"less than the range",
	 "HTTP/1.1 206 x\r\nContent-Length: 25\r\n" RANGE "\r\n" RIGHT, "",
	 false, FETCH_WRONG},
	{"two ranges", OK_HEAD "Content-Range: bytes 0-25/5000\r\n\r\n" RIGHT,
	 "", false, FETCH_WRONG},
	{"a range past all numbers",
	 "HTTP/1.1 206 x\r\nContent-Length: 26\r\nContent-Range: bytes "
	 "99999999999999999999-99999999999999999999/*\r\n\r\n" RIGHT,
	 "", false, FETCH_WRONG},
	{"a range in many parts",
	 "HTTP/1.1 206 x\r\nContent-Type: multipart/byteranges; boundary=x\r\n"
	 "\r\n--x\r\n" RANGE "\r\n" RIGHT "\r\n--x--\r\n",
	 "", false, FETCH_WRONG},
	{"nothing at all", "HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n", "",
	 false, FETCH_WRONG},
	{"all of it, for ever", "HTTP/1.1 200 x\r\n\r\n", WRONG, false,
	 FETCH_WRONG},
	{"not there, for ever", "HTTP/1.1 404 x\r\n\r\n", WRONG, false,
	 FETCH_ABSENT},
	{"busy, for ever", "HTTP/1.1 503 x\r\n\r\n", WRONG, false, FETCH_BUSY},
	{"a redirect with a body for ever",
	 "HTTP/1.1 302 x\r\nLocation: ftp://x/\r\n\r\n", WRONG, false,
	 FETCH_WRONG},
	/* pieces */
	{"a piece past all numbers",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n" RANGE
	 "\r\nffffffffffffffffff\r\n" RIGHT,
	 "a", false, FETCH_OK},
	{"a piece larger than the range",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n" RANGE
	 "\r\nffffffffffff\r\n" RIGHT,
	 "a", false, FETCH_WRONG},
	{"a size of a piece for ever",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n" RANGE "\r\n1a;",
	 "x=y;", false, FETCH_OK},
	{"no number of a piece",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n" RANGE
	 "\r\nxyz\r\n" RIGHT,
	 "a", false, FETCH_OK},
	{"pieces and a length",
	 OK_HEAD "Transfer-Encoding: chunked\r\n\r\n1a\r\n" RIGHT
		 "\r\n0\r\n\r\n",
	 NULL, true, FETCH_OK},
	{"trailers for ever",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n" RANGE
	 "\r\n1a\r\n" RIGHT "\r\n0\r\n",
	 "X-A: b\r\n", true, FETCH_OK},
	{"a trailer for ever",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n" RANGE
	 "\r\n1a\r\n" RIGHT "\r\n0\r\nX-A: ",
	 "bbbbbbbbbbbbbb", true, FETCH_OK},
	/* encodings that nobody asked for */
	{"gzip", OK_HEAD "Content-Encoding: gzip\r\n\r\n" RIGHT, "", false,
	 FETCH_WRONG},
	{"two encodings",
	 OK_HEAD "Content-Encoding: identity, br\r\n\r\n" RIGHT, "", false,
	 FETCH_WRONG},
	{"gzip as a transfer",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: gzip\r\n" RANGE
	 "\r\n\x1f\x8b\x08" WRONG,
	 "aaaa", false, FETCH_OK},
	{"an unknown transfer",
	 "HTTP/1.1 206 x\r\nTransfer-Encoding: rot13\r\n" RANGE "\r\n" RIGHT,
	 "", true, FETCH_OK},
	/* keep-alive: what comes after the answer belongs to nobody */
	{"a second answer at once", OK_HEAD "\r\n" RIGHT OK_HEAD "\r\n" WRONG,
	 NULL, true, FETCH_OK},
	{"more after the answer, for ever", OK_HEAD "\r\n" RIGHT, WRONG, true,
	 FETCH_OK},
	{"text that would move a terminal",
	 "HTTP/1.1 206 x\r\nETag: \"\033[2J\"\r\nContent-Length: 26\r\n" RANGE
	 "\r\n" RIGHT,
	 NULL, true, FETCH_OK},
};
#define SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))

/* ---- the server: a thread for each connection */

static struct raw {
	int fd;
	pthread_t thread;
	_Atomic size_t script; /* of the next request */
	_Atomic unsigned connections, accepted;
} raw;

/* A whole request header; false: the client is gone. */
static bool hear(int fd)
{
	char text[8192];
	size_t len = 0;

	while (len < sizeof(text) - 1) {
		ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, 0);

		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
		if (strstr(text, "\r\n\r\n"))
			return true;
	}
	return false;
}

static bool say(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static bool say_for_ever(int fd, const char *text)
{
	size_t len = strlen(text), n = 0;
	char many[8192];

	for (; n + len <= sizeof(many); n += len)
		memcpy(many + n, text, len);
	while (say(fd, many, n))
		;
	return false;
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;

	while (hear(fd)) {
		const struct script *script =
			&scripts[atomic_load(&raw.script)];

		if (!say(fd, script->first, strlen(script->first)))
			break;
		/* "": that was all, and the end */
		if (script->repeat &&
		    (!script->repeat[0] || !say_for_ever(fd, script->repeat)))
			break;
	}
	close(fd);
	raw.connections--;
	return NULL;
}

static void *accept_all(void *arg)
{
	pthread_t thread;

	(void)arg;
	for (;;) {
		int fd = accept(raw.fd, NULL, NULL);

		if (fd < 0)
			return NULL;
		raw.connections++;
		raw.accepted++;
		assert_int_equal(pthread_create(&thread, NULL, serve,
						(void *)(intptr_t)fd),
				 0);
		pthread_detach(thread);
	}
}

static int start_raw(void **state)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);

	(void)state;
	raw.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(raw.fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(raw.fd, 64), 0);
	assert_int_equal(getsockname(raw.fd, (struct sockaddr *)&address, &len),
			 0);
	server.port = ntohs(address.sin_port);
	snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%u",
		 server.port);
	return pthread_create(&raw.thread, NULL, accept_all, NULL);
}

static int stop_raw(void **state)
{
	(void)state;
	shutdown(raw.fd, SHUT_RDWR);
	pthread_join(raw.thread, NULL);
	close(raw.fd);
	while (raw.connections > 0)
		usleep(1000);
	return 0;
}

/* ---- the tests */

static int open_it(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = SILENCE_MS,
		.proxy = "",
	};

	(void)state;
	assert_int_equal(fetcher_open(&options, &fetcher, NULL), 0);
	assert_int_equal(origin_open(fetcher, server.url, &origin, NULL), 0);
	return 0;
}

static void ask(struct waiting *waiting, size_t script)
{
	raw.script = script;
	prepare_range(waiting, "file", OFFSET, LENGTH);
	waiting->request.expected_total = FILE_BYTES;
	run(waiting);
}

static bool is_right(const struct fetch_request *request)
{
	return request->result == 0 && request->body_len == LENGTH &&
	       !memcmp(request->body, RIGHT, LENGTH);
}

static void check(const struct script *script, struct fetch_request *request)
{
	bool is_class = script->class == FETCH_OK ?
				request->class != FETCH_ABSENT &&
					request->class != FETCH_LOCAL :
				request->class == script->class;

	if (request->result == 0 ? !script->may_succeed || !is_right(request) :
				   !is_class)
		fail_msg("%s: %s '%s'", script->name,
			 fetch_class_name(request->class), request->err.text);
	/* What it calls them is not for terminals, nor sent back. */
	for (const char *c = request->etag; *c; c++)
		assert_in_range(*c, 0x20, 0x7e);
	assert_in_range(request->body_len, 0, LENGTH);
	free(request->body);
	free(request->headers);
}

static void test_scripts(void **state)
{
	struct waiting waiting;

	(void)state;
	for (size_t i = 0; i < SCRIPTS; i++) {
		ask(&waiting, i);
		check(&scripts[i], &waiting.request);
		/* Nothing of it is taken for the answer to this one. What
		 * comes unasked may spoil a connection just when it is used
		 * again; it is not used a third time. */
		ask(&waiting, 0);
		if (waiting.request.result < 0) {
			free(waiting.request.body);
			ask(&waiting, 0);
		}
		if (!is_right(&waiting.request))
			fail_msg("after %s: '%s'", scripts[i].name,
				 waiting.request.err.text);
		free(waiting.request.body);
	}
}

/* One connection for all that come one after another. */
static void test_connections_are_used_again(void **state)
{
	struct waiting waiting;
	unsigned before = raw.accepted;

	(void)state;
	for (int i = 0; i < 10; i++) {
		ask(&waiting, 0);
		assert_true(is_right(&waiting.request));
		free(waiting.request.body);
	}
	assert_int_equal(raw.accepted, before + 1);
}

/* Whole files, whose size nobody knows, are bounded too. */
static void test_whole_files(void **state)
{
	struct waiting waiting;

	(void)state;
	for (size_t i = 1; i < SCRIPTS; i++) {
		raw.script = i;
		prepare(&waiting, "file");
		waiting.request.limit_bytes = 100000;
		waiting.request.keeps_headers = true;
		run(&waiting);
		assert_in_range(waiting.request.body_len, 0, 100000);
		if (waiting.request.headers)
			assert_in_range(strlen(waiting.request.headers), 0,
					HEADERS_MAX);
		free(waiting.request.body);
		free(waiting.request.headers);
		free(waiting.request.location);
	}
	ask(&waiting, 0);
	assert_true(is_right(&waiting.request));
	free(waiting.request.body);
}

/* All of them at once, over connections that they share. */
static void test_side_by_side(void **state)
{
	static struct waiting waiting[SCRIPTS];

	(void)state;
	for (size_t i = 0; i < SCRIPTS; i++) {
		raw.script = i;
		prepare_range(&waiting[i], "file", OFFSET, LENGTH);
		waiting[i].request.expected_total = FILE_BYTES;
		start(&waiting[i]);
	}
	for (size_t i = 0; i < SCRIPTS; i++) {
		struct fetch_request *request = &waiting[i].request;

		wait_for(&waiting[i]);
		assert_true(request->result < 0 || is_right(request) ||
			    request->body_len == LENGTH);
		free(request->body);
	}
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_it, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_scripts),
		TEST(test_connections_are_used_again),
		TEST(test_whole_files),
		TEST(test_side_by_side),
	};

	return cmocka_run_group_tests(tests, start_raw, stop_raw);
}
