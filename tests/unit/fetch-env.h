/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_FETCH_ENV_H
#define LARDER_TESTS_FETCH_ENV_H

#include "fetch-waiting.h"
#include "origin-server.h"

/* The chunk of the cases; the file "five" has five and a bit. */
#define C (256u << 10)
#define SIZE (5 * C + 123)
#define TAG 0x6c61726465720001
#define SILENCE_MS 1000
/* Sanitizers and a busy machine: a bound, not a measurement. */
#define GRACE_MS 10000

/* What every test has: a server without rules, a new fetcher. */
extern struct origin_server server;

/* It went well and holds these bytes of "five", which are freed. */
void assert_stamps(struct waiting *waiting, uint64_t offset, uint64_t len);

/* Of each test; reopen is for other options. */
int setup(void **state);
int teardown(void **state);
void reopen(const struct fetcher_options *options);
/* Of the program; main() has started the server. */
int make_files(void **state);
int stop_server(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
