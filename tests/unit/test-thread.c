/* SPDX-License-Identifier: Apache-2.0 */
/* A thread can be hit by its own faults and by no other signal. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"

static void *look(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
	return NULL;
}

static void check(size_t stack_bytes)
{
	sigset_t mask, before, after;
	pthread_t thread;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&thread, stack_bytes, look, &mask), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sigismember(&mask, SIGBUS), 0);
	assert_int_equal(sigismember(&mask, SIGSEGV), 0);
	assert_int_equal(sigismember(&mask, SIGTERM), 1);
	assert_int_equal(sigismember(&mask, SIGCHLD), 1);
	for (int i = 1; i < 32; i++)
		assert_int_equal(sigismember(&after, i),
				 sigismember(&before, i));
}

static void test_signals(void **state)
{
	(void)state;
	check(0);
	check(256 << 10);
}

static void test_no_room(void **state)
{
	pthread_t thread;
	sigset_t mask;

	(void)state;
	assert_true(thread_start(&thread, SIZE_MAX / 2, look, &mask) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
