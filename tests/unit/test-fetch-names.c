/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name server that does not answer: the look-up hangs in a thread of
 * libcurl's, and nobody else waits for it. This program's getaddrinfo is the
 * one that libcurl calls.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <netdb.h>
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

#define HANG_MS 5000

static _Atomic bool is_hung;

/* Only names that end in .invalid are ever looked up here. */
int getaddrinfo(const char *name, const char *service,
		const struct addrinfo *hints, struct addrinfo **ret)
{
	(void)name;
	(void)service;
	(void)hints;
	(void)ret;
	is_hung = true;
	usleep(HANG_MS * 1000);
	return EAI_AGAIN;
}

static void test_a_hanging_name_server(void **state)
{
	struct waiting slow[3], fine;
	struct origin *none;
	uint64_t begun = now_ms();

	(void)state;
	assert_int_equal(
		origin_open(fetcher, "http://mirror.invalid", &none, NULL), 0);
	for (int i = 0; i < 3; i++) {
		prepare(&slow[i], "five");
		slow[i].request.origin = none;
	}
	slow[0].request.deadline_ms = begun + 200;
	for (int i = 0; i < 3; i++)
		start(&slow[i]);
	for (int i = 0; i < 20; i++) {
		prepare_range(&fine, "five", 0, 100);
		run(&fine);
		assert_stamps(&fine, 0, 100);
	}
	wait_for(&slow[0]);
	assert_true(is_hung);
	assert_int_equal(slow[0].request.class, FETCH_SLOW);
	fetch_cancel(fetcher, &slow[1].request);
	wait_for(&slow[1]);
	assert_int_equal(slow[1].request.class, FETCH_CANCELED);
	prepare_range(&fine, "five", 0, 100);
	run(&fine);
	assert_stamps(&fine, 0, 100);
	fetcher_close(fetcher);
	wait_for(&slow[2]);
	assert_int_equal(slow[2].request.class, FETCH_CANCELED);
	/* All of it while the look-up still hangs. */
	assert_true(now_ms() - begun < HANG_MS);
	origin_close(none);
	origin_close(origin);
	usleep(HANG_MS * 1000); /* it is libcurl's to clean up */
	setup(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_a_hanging_name_server),
	};

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_files, stop_server);
}
