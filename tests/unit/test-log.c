/* SPDX-License-Identifier: Apache-2.0 */
#undef NDEBUG
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG_MODULE "cache"
#include "base/log.h"

/* What is written to stderr between two calls. */
static int captured = -1, terminal = -1;

static void capture(void)
{
	captured = memfd_create("stderr", MFD_CLOEXEC);
	assert_true(captured >= 0);
	terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	dup2(captured, STDERR_FILENO);
}

static char *text(void)
{
	static char said[1 << 20];
	ssize_t len;

	dup2(terminal, STDERR_FILENO);
	close(terminal);
	len = pread(captured, said, sizeof(said) - 1, 0);
	close(captured);
	said[len] = '\0';
	return said;
}

static void lines_have_level_and_module(void **state)
{
	capture();
	errno = EPERM;
	log_error("read failed: file=%s", "x");
	log_warning("dropped: chunk=1");
	log_info("opened");
	log_debug("hidden");
	assert_int_equal(errno, EPERM);
	assert_string_equal(text(), "larder: error: cache: read failed: file=x\n"
				    "larder: warning: cache: dropped: chunk=1\n"
				    "larder: cache: opened\n");
}

static void levels_hide_what_is_less(void **state)
{
	capture();
	log_set_level(LOG_LEVEL_WARNING);
	log_info("hidden");
	log_warning("shown");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("shown");
	log_set_level(LOG_LEVEL_INFO);
	assert_string_equal(text(), "larder: warning: cache: shown\n"
				    "larder: debug: cache: shown\n");
}

static void debug_is_by_module(void **state)
{
	assert_false(log_debug_enabled("cache"));
	log_set_debug("fetch,cache");
	assert_true(log_debug_enabled("cache"));
	assert_true(log_debug_enabled("fetch"));
	assert_false(log_debug_enabled("cac"));
	assert_false(log_debug_enabled("mount"));
	capture();
	log_debug("shown");
	log_write(LOG_LEVEL_DEBUG, "mount", "hidden");
	assert_string_equal(text(), "larder: debug: cache: shown\n");
	log_set_debug("all");
	assert_true(log_debug_enabled("mount"));
	log_set_debug("");
	assert_false(log_debug_enabled("mount"));
}

static void no_control_bytes_get_out(void **state)
{
	char long_text[4000];
	char *said;

	capture();
	log_info("name=%s", "a\nlarder: error: forged\x1b[2J\xff");
	assert_string_equal(text(), "larder: cache: name=a\\x0alarder: error: "
				    "forged\\x1b[2J\\xff\n");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	capture();
	log_info("%s", long_text);
	said = text();
	assert_true(strlen(said) < 1100);
	assert_int_equal(said[strlen(said) - 1], '\n');
}

static void storms_are_one_line(void **state)
{
	capture();
	for (int i = 0; i < 1000; i++)
		log_limited(60000, log_warning("again"));
	assert_string_equal(text(), "larder: warning: cache: again\n");
}

#define THREADS 4
#define LINES 500

static void *write_lines(void *arg)
{
	for (int i = 0; i < LINES; i++)
		log_info("%0100d", 7);
	return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
	pthread_t threads[THREADS];
	char *line, *said;
	int lines = 0;

	capture();
	fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, write_lines, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	said = text();
	for (line = said; *line; line = strchr(line, '\n') + 1, lines++)
		assert_int_equal(strcspn(line, "\n"), 15 + 100);
	assert_int_equal(lines, THREADS * LINES);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_have_level_and_module),
		cmocka_unit_test(levels_hide_what_is_less),
		cmocka_unit_test(debug_is_by_module),
		cmocka_unit_test(no_control_bytes_get_out),
		cmocka_unit_test(storms_are_one_line),
		cmocka_unit_test(lines_of_threads_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
