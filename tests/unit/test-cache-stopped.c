/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is stopped while it holds a lock of the cache keeps the others
 * from nothing for longer than its bound. Who is stopped in a transaction:
 * test-cache-processes. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "cache-env.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/layout.h"

#define UNITS 16u /* blobs of 1 MiB */
#define LIMIT (UINT64_C(16) << 20)
#define SEALER_BYTE 1 /* of a blob's file: sealer.c */
/* Against a hang; what is bounded is bounded at a few seconds. */
#define FOREVER_MS 60000u

/* A process that has a lock of a file and is stopped with it. */
static pid_t stop_with(const char *path, uint64_t byte)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		alarm(2 * FOREVER_MS / 1000);
		assert(fd >= 0 &&
		       ofd_lock_within(fd, F_WRLCK, byte, 1, 10000) == 0);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static pid_t stop_with_gate(const char *dir, enum gate gate)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, LAYOUT_GATE);
	return stop_with(path, gate);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_stopped_evictor_is_overtaken(void **state)
{
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, LIMIT);
	uint64_t until_ms = now_ms() + FOREVER_MS;
	struct cache_usage usage = {0};
	unsigned int number = 0;
	pid_t stopped;

	(void)state;
	stopped = stop_with_gate(dir, GATE_EVICTOR);
	while (usage.blobs_evicted == 0 && now_ms() < until_ms) {
		env_put_blob(cache, number++, UNITS);
		cache_usage(cache, &usage);
		usleep(20000);
	}
	assert_true(usage.blobs_evicted > 0);
	end(stopped);
	cache_close(cache);
	env_remove(dir);
}

static bool is_present(struct cache *cache, unsigned int number)
{
	struct cache_blob *blob = env_blob(cache, number, UNITS);
	bool is_here = env_check(blob, number, 0) == 1;

	cache_blob_close(blob);
	return is_here;
}

static void test_stopped_writer_costs_the_record(void **state)
{
	uint64_t until_ms = now_ms() + FOREVER_MS;
	struct cache *cache, *other;
	char *dir = scratch_directory();
	pid_t stopped;

	(void)state;
	cache = env_open(dir);
	env_put_blob(cache, 1, UNITS);
	/* One that has it open goes on, a new one reads what is recorded. */
	stopped = stop_with_gate(dir, GATE_WRITER);
	env_put_blob(cache, 2, UNITS);
	other = env_open(dir);
	assert_true(is_present(other, 1));
	assert_true(is_present(cache, 2));
	assert_false(is_present(other, 2));
	env_put_blob(other, 3, UNITS);
	assert_true(is_present(other, 3));
	assert_true(now_ms() < until_ms);
	/* Both record what they have when the stopped one is gone. */
	end(stopped);
	while (!(is_present(other, 2) && is_present(cache, 3)) &&
	       now_ms() < until_ms)
		usleep(20000);
	assert_true(is_present(other, 2));
	assert_true(is_present(cache, 3));
	cache_close(other);
	cache_close(cache);
	env_remove(dir);
}

/* Without an index there is nothing to read it from. */
static void test_stopped_writer_keeps_a_new_cache(void **state)
{
	uint64_t until_ms = now_ms() + FOREVER_MS;
	struct cache_usage usage = {0};
	char *dir = scratch_directory(), path[512];
	struct cache *cache = env_open(dir);
	pid_t stopped;

	(void)state;
	cache_close(cache);
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, path), 0);
	stopped = stop_with_gate(dir, GATE_WRITER);
	cache = env_open(dir);
	env_put_blob(cache, 1, UNITS);
	cache_usage(cache, &usage);
	assert_false(usage.records);
	assert_true(now_ms() < until_ms);
	end(stopped);
	for (usage.records = false; !usage.records && now_ms() < until_ms;
	     usleep(20000))
		cache_usage(cache, &usage);
	assert_true(usage.records);
	cache_close(cache);
	env_remove(dir);
}

/* Stopped while it checks a file for its complete mark. */
static void test_stopped_sealer_keeps_nobody(void **state)
{
	char *dir = scratch_directory(), name[BLOB_PATH_MAX], path[512];
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 3, UNITS);
	uint64_t until_ms = now_ms() + FOREVER_MS;
	pid_t stopped;
	int fd = -1;

	(void)state;
	assert_int_equal(env_put(blob, 3, 0, NULL), 0);
	blob_path(&blob->id, blob->gen, 0, 0, name);
	snprintf(path, sizeof(path), "%s/blobs/%s", dir, name);
	stopped = stop_with(path, SEALER_BYTE);
	env_put_blob(cache, 3, UNITS);
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_check(blob, 3, unit), 1);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	cache_blob_close(blob);
	cache_close(cache);
	assert_true(now_ms() < until_ms);
	end(stopped);
	/* Whoever opens it next marks it. */
	cache = env_open(dir);
	blob = env_blob(cache, 3, UNITS);
	while (cache_blob_sealed_fd(blob, &fd) != 1 && now_ms() < until_ms)
		usleep(20000);
	assert_true(fd >= 0);
	close(fd);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped_evictor_is_overtaken),
		cmocka_unit_test(test_stopped_writer_costs_the_record),
		cmocka_unit_test(test_stopped_writer_keeps_a_new_cache),
		cmocka_unit_test(test_stopped_sealer_keeps_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
