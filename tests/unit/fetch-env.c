/* SPDX-License-Identifier: Apache-2.0 */
/* What tests have that fetch from tests/httpd. */
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

#include "fetch-env.h"

struct origin_server server;

void assert_stamps(struct waiting *waiting, uint64_t offset, uint64_t len)
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

int setup(void **state)
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

int teardown(void **state)
{
	(void)state;
	fetcher_close(fetcher);
	origin_close(origin);
	return 0;
}

void reopen(const struct fetcher_options *options)
{
	teardown(NULL);
	open_fetcher(options);
}

int make_files(void **state)
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

int stop_server(void **state)
{
	(void)state;
	origin_server_stop(&server);
	return 0;
}
