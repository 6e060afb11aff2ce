/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes on one directory: sharing, SIGKILL at random, SIGSTOP
 * inside a write transaction, claims that die with their holder. The parent
 * never has threads while it forks; children end by _exit.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <lmdb.h>

#include <cmocka.h>

#include "cache-env.h"
#include "cache/layout.h"
#include "cache/recorder.h"
#include "own-time.h"

#define BLOBS 6u
#define UNITS 200u
#define PROCESSES 4

static pid_t start(void (*run)(const char *dir, unsigned int number),
		   const char *dir, unsigned int number)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60); /* no child outlives a failed test */
		run(dir, number);
		_exit(0);
	}
	return pid;
}

static void wait_ok(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void wait_stopped(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

static void kill_and_wait(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A child whose assertion fails never says what its parent waits for. */
static void assert_runs(pid_t pid)
{
	siginfo_t info = {0};

	assert_int_equal(waitid(P_PID, (id_t)pid, &info,
				WEXITED | WNOHANG | WNOWAIT), 0);
	assert_int_equal(info.si_pid, 0);
}

/* ---- readers and writers killed at random */

static void run_random(const char *dir, unsigned int number)
{
	struct cache *cache = env_open(dir);
	struct cache_blob *blobs[BLOBS];
	unsigned int seed = number * 7919 + (unsigned int)getpid();

	for (unsigned int i = 0; i < BLOBS; i++)
		blobs[i] = env_blob(cache, i, UNITS);
	for (int i = 0; i < 2000; i++) {
		unsigned int blob = (unsigned int)rand_r(&seed) % BLOBS;
		uint64_t unit = (uint64_t)rand_r(&seed) % UNITS;

		if (!env_check(blobs[blob], blob, unit))
			assert(env_put(blobs[blob], blob, unit, NULL) == 0);
		if (i % 100 == 99) { /* others come and go too */
			cache_blob_close(blobs[blob]);
			blobs[blob] = env_blob(cache, blob, UNITS);
		}
	}
	for (unsigned int i = 0; i < BLOBS; i++)
		cache_blob_close(blobs[i]);
	cache_close(cache);
}

static unsigned int present_units(const char *dir, bool fill)
{
	struct cache *cache = env_open(dir);
	unsigned int present = 0, put = 0;
	_Atomic int recorded = 0;

	for (unsigned int i = 0; i < BLOBS; i++) {
		struct cache_blob *blob = env_blob(cache, i, UNITS);

		for (uint64_t unit = 0; unit < UNITS; unit++) {
			if (env_check(blob, i, unit)) {
				present++;
			} else if (fill) {
				assert_int_equal(env_put(blob, i, unit,
							 &recorded), 0);
				put++;
			}
		}
		env_wait(&recorded, (int)put);
		if (fill)
			assert_true(cache_blob_complete(blob));
		cache_blob_close(blob);
	}
	cache_close(cache);
	return present;
}

static void test_killed_at_random(void **state)
{
	char *dir = scratch_directory();
	unsigned int seed = (unsigned int)getpid();
	pid_t pids[PROCESSES];

	(void)state;
	for (unsigned int i = 0; i < PROCESSES; i++)
		pids[i] = start(run_random, dir, i);
	for (unsigned int round = 0; round < 25; round++) {
		unsigned int victim = (unsigned int)rand_r(&seed) % PROCESSES;

		usleep((unsigned int)rand_r(&seed) % 60000);
		kill_and_wait(pids[victim]);
		pids[victim] = start(run_random, dir, round + PROCESSES);
	}
	for (unsigned int i = 0; i < PROCESSES; i++)
		wait_ok(pids[i]);
	assert_true(present_units(dir, true) > 0);
	assert_int_equal(present_units(dir, false), BLOBS * UNITS);
	env_remove(dir);
}

/* ---- evicted under their hands */

#define SMALL_UNITS 16u
#define SMALL_BLOBS 64u /* 64 MiB through 16 */

static void run_over_limit(const char *dir, unsigned int process)
{
	struct cache *cache = env_open_limited(dir, UINT64_C(16) << 20);
	unsigned int seed = process * 104729 + (unsigned int)getpid();
	uint64_t begun = now_ms();

	while (now_ms() - begun < 3000) {
		unsigned int number = (unsigned int)rand_r(&seed) % SMALL_BLOBS;
		struct cache_blob *blob = env_blob(cache, number, SMALL_UNITS);

		for (uint64_t unit = 0; unit < SMALL_UNITS; unit++) {
			int r = 0;

			if (!env_check(blob, number, unit))
				r = env_put(blob, number, unit, NULL);
			assert(r == 0 || r == -ENOSPC || r == -ESTALE);
		}
		cache_blob_close(blob);
		usleep(1000);
	}
	cache_close(cache);
}

static void test_evicted_under_load(void **state)
{
	char *dir = scratch_directory();
	unsigned int seed = (unsigned int)getpid();
	struct cache_usage usage;
	pid_t pids[PROCESSES];
	struct cache *cache;

	(void)state;
	for (unsigned int i = 0; i < PROCESSES; i++)
		pids[i] = start(run_over_limit, dir, i);
	for (unsigned int round = 0; round < 4; round++) {
		unsigned int victim = (unsigned int)rand_r(&seed) % PROCESSES;

		usleep(500000);
		kill_and_wait(pids[victim]);
		pids[victim] = start(run_over_limit, dir, round + PROCESSES);
	}
	for (unsigned int i = 0; i < PROCESSES; i++)
		wait_ok(pids[i]);
	cache = env_open_limited(dir, UINT64_C(16) << 20);
	cache_usage(cache, &usage);
	assert_true(usage.used_bytes <= UINT64_C(24) << 20);
	assert_true(usage.blob_files < SMALL_BLOBS);
	for (unsigned int i = 0; i < SMALL_BLOBS; i++) {
		struct cache_blob *blob = env_blob(cache, i, SMALL_UNITS);

		for (uint64_t unit = 0; unit < SMALL_UNITS; unit++)
			(void)env_check(blob, i, unit);
		cache_blob_close(blob);
	}
	cache_close(cache);
	env_remove(dir);
}

/* ---- one file per blob whoever comes first */

#define RACE_BLOBS 40u

static int race_gate[2];

static void run_race(const char *dir, unsigned int number)
{
	struct cache *cache = env_open(dir);
	char byte;

	close(race_gate[1]);
	(void)!read(race_gate[0], &byte, 1); /* end of file: go */
	for (unsigned int i = 0; i < RACE_BLOBS; i++) {
		struct cache_blob *blob = env_blob(cache, i, PROCESSES);

		assert(env_put(blob, i, number, NULL) == 0);
		cache_blob_close(blob);
	}
	cache_close(cache);
}

static unsigned int count_files(const char *dir)
{
	unsigned int count = 0;
	char path[512];

	for (unsigned int i = 0; i < 256; i++) {
		struct dirent *entry;
		DIR *d;

		snprintf(path, sizeof(path), "%s/blobs/%02x", dir, i);
		d = opendir(path);
		while (d && (entry = readdir(d)))
			count += entry->d_name[0] != '.';
		if (d)
			closedir(d);
	}
	return count;
}

static void test_first_puts_meet_in_one_file(void **state)
{
	char *dir = scratch_directory();
	pid_t pids[PROCESSES];
	struct cache *cache;

	(void)state;
	assert_int_equal(pipe(race_gate), 0);
	for (unsigned int i = 0; i < PROCESSES; i++)
		pids[i] = start(run_race, dir, i);
	close(race_gate[0]);
	close(race_gate[1]);
	for (unsigned int i = 0; i < PROCESSES; i++)
		wait_ok(pids[i]);
	assert_int_equal(count_files(dir), RACE_BLOBS); /* no *.new either */
	cache = env_open(dir);
	for (unsigned int i = 0; i < RACE_BLOBS; i++) {
		struct cache_blob *blob = env_blob(cache, i, PROCESSES);

		for (uint64_t unit = 0; unit < PROCESSES; unit++)
			assert_int_equal(env_check(blob, i, unit), 1);
		cache_blob_close(blob);
	}
	cache_close(cache);
	env_remove(dir);
}

/* ---- killed between the file and its first commit */

static void run_put_and_die(const char *dir, unsigned int number)
{
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, number, UNITS);
	int gate = openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* The gate is ours, so nothing can be committed. */
	gate = openat(gate, LAYOUT_GATE, O_RDWR | O_CLOEXEC);
	assert(gate_enter(gate, GATE_WRITER, 1000) == 0);
	assert(env_put(blob, number, 0, NULL) == 0);
	kill(getpid(), SIGKILL);
}

static void test_orphan_is_adopted(void **state)
{
	char *dir = scratch_directory();
	struct cache_blob *blob;
	struct cache *cache;
	_Atomic int recorded = 0;
	pid_t pid = start(run_put_and_die, dir, 1);

	(void)state;
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(count_files(dir), 2); /* file and announcement */
	cache = env_open(dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_check(blob, 1, 0), 0);
	assert_int_equal(env_put(blob, 1, 1, &recorded), 0);
	env_wait(&recorded, 1);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(count_files(dir), 1);
	env_remove(dir);
}

/* ---- stopped inside a write transaction */

static void run_stop_in_transaction(const char *dir, unsigned int number)
{
	char path[512];
	MDB_env *env;
	MDB_txn *txn;
	int fd;

	(void)number;
	snprintf(path, sizeof(path), "%s/%s", dir, LAYOUT_GATE);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert(fd >= 0 && gate_enter(fd, GATE_WRITER, 1000) == 0);
	snprintf(path, sizeof(path), "%s/index", dir);
	assert(mdb_env_create(&env) == 0);
	mdb_env_set_maxdbs(env, 8);
	/* Small: it comes on top of what this process inherited. */
	mdb_env_set_mapsize(env, (size_t)1 << 30);
	assert(mdb_env_open(env, path, MDB_NOTLS, 0600) == 0);
	assert(mdb_txn_begin(env, NULL, 0, &txn) == 0);
	raise(SIGSTOP);
	mdb_txn_abort(txn);
	gate_leave(fd, GATE_WRITER);
}

static void run_serve_beside_stopped(const char *dir, unsigned int number)
{
	int64_t begun = own_ms();
	struct cache *cache = env_open(dir);
	struct cache_blob *old, *new;
	struct cache_usage usage;
	_Atomic int recorded = 0;

	(void)number;
	/* The opener's bound, and nothing longer. */
	assert(is_within(begun, 5000));
	begun = own_ms();
	old = env_blob(cache, 1, UNITS);
	new = env_blob(cache, 2, UNITS);
	assert(env_check(old, 1, 0) == 1);
	assert(env_put(old, 1, 1, &recorded) == 0);
	assert(env_put(new, 2, 0, &recorded) == 0);
	assert(env_check(old, 1, 1) == 1);
	assert(env_check(new, 2, 0) == 1);
	assert(is_within(begun, 1000));
	env_wait(&recorded, 2);
	assert(is_within(begun, 4000));
	cache_usage(cache, &usage);
	assert(!usage.records);
	assert(usage.index_holder > 0);
	/* once it is known, nobody waits any more */
	begun = own_ms();
	assert(env_put(new, 2, 1, &recorded) == 0);
	env_wait(&recorded, 3);
	assert(is_within(begun, 1500));
	/* the parent ends the stopped one; what was kept is recorded */
	kill(getppid(), SIGUSR1);
	for (int i = 0; i < 500 && !usage.records; i++) {
		usleep(10000);
		cache_usage(cache, &usage);
	}
	assert(usage.records);
	assert(env_put(new, 2, 2, &recorded) == 0);
	env_wait(&recorded, 4);
	cache_blob_close(old);
	cache_blob_close(new);
	cache_close(cache);
}

static void stopped_then(int signal_of_end)
{
	char *dir = scratch_directory();
	struct cache_blob *blob;
	struct cache *cache;
	_Atomic int recorded = 0;
	pid_t stopped, beside;
	static const struct timespec moment = {.tv_nsec = 100000000};
	sigset_t set;
	int status;

	cache = env_open(dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_put(blob, 1, 0, &recorded), 0);
	env_wait(&recorded, 1);
	cache_blob_close(blob);
	cache_close(cache);

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	stopped = start(run_stop_in_transaction, dir, 0);
	wait_stopped(stopped);
	beside = start(run_serve_beside_stopped, dir, 0);
	while (sigtimedwait(&set, NULL, &moment) < 0)
		assert_runs(beside);
	kill(stopped, signal_of_end);
	assert_int_equal(waitpid(stopped, &status, 0), stopped);
	wait_ok(beside);

	cache = env_open(dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_check(blob, 1, 0), 1);
	assert_int_equal(env_check(blob, 1, 1), 1);
	cache_blob_close(blob);
	blob = env_blob(cache, 2, UNITS);
	for (uint64_t unit = 0; unit < 3; unit++)
		assert_int_equal(env_check(blob, 2, unit), 1);
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static void test_stopped_in_transaction_goes_on(void **state)
{
	(void)state;
	stopped_then(SIGCONT);
}

static void test_stopped_in_transaction_is_killed(void **state)
{
	(void)state;
	stopped_then(SIGKILL);
}

/* ---- claims */

static int claim_pipe[2];

static void run_claim(const char *dir, unsigned int number)
{
	struct cache *cache = env_open(dir);
	struct digest unit = env_id(number);

	assert(cache_claim(cache, &unit) == 1);
	cache_progress(cache, &unit);
	assert(write(claim_pipe[1], "x", 1) == 1);
	pause();
}

static void run_wait(const char *dir, unsigned int number)
{
	struct cache *cache = env_open(dir);
	struct digest unit = env_id(number);
	int64_t begun = own_ms();

	assert(cache_claim(cache, &unit) == 0);
	assert(write(claim_pipe[1], "x", 1) == 1);
	while (cache_claim(cache, &unit) == 0) {
		assert(is_within(begun, 8000));
		cache_wait(cache, 20000);
	}
	cache_close(cache);
}

static void wait_byte(pid_t from)
{
	struct pollfd said = {.fd = claim_pipe[0], .events = POLLIN};
	char byte;

	while (poll(&said, 1, 100) == 0)
		assert_runs(from);
	assert_int_equal(read(claim_pipe[0], &byte, 1), 1);
}

/* Words are written soon, by a thread of their own. */
static void wait_for_progress(struct cache *cache, const struct digest *unit,
			      uint32_t before)
{
	for (int i = 0; i < 60000; i++) {
		if (cache_progress_read(cache, unit) != before)
			return;
		usleep(1000);
	}
	fail_msg("no progress was told");
}

static void test_claim_dies_with_its_holder(void **state)
{
	char *dir = scratch_directory();
	struct digest unit = env_id(5), other = env_id(6);
	struct cache *cache;
	uint32_t progress;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(claim_pipe), 0);
	pid = start(run_claim, dir, 5);
	wait_byte(pid);
	cache = env_open(dir);
	assert_int_equal(cache_claim(cache, &unit), 0);
	assert_int_equal(cache_claim(cache, &other), 1);
	wait_for_progress(cache, &unit, 0);
	progress = cache_progress_read(cache, &unit);
	usleep(2000);
	cache_progress(cache, &unit);
	wait_for_progress(cache, &unit, progress);
	kill_and_wait(pid);
	assert_int_equal(cache_claim(cache, &unit), 1);
	cache_close(cache);
	env_remove(dir);
}

static void run_hold_a_second(const char *dir, unsigned int number)
{
	struct cache *cache = env_open(dir);
	struct digest unit = env_id(number);

	assert(cache_claim(cache, &unit) == 1);
	assert(write(claim_pipe[1], "x", 1) == 1);
	usleep(700000);
	cache_unclaim(cache, &unit);
	cache_close(cache);
}

static void test_unclaim_wakes_waiters(void **state)
{
	char *dir = scratch_directory(), path[512];
	pid_t holder, waiter;

	(void)state;
	/* Once as it should be; once with the shared file cut to nothing
	 * under everybody: no signal, and waiters poll. */
	for (int cut = 0; cut < 2; cut++) {
		assert_int_equal(pipe(claim_pipe), 0);
		holder = start(run_hold_a_second, dir, 9);
		wait_byte(holder);
		waiter = start(run_wait, dir, 9);
		wait_byte(waiter);
		snprintf(path, sizeof(path), "%s/%s", dir, LAYOUT_WAKE);
		if (cut)
			assert_int_equal(truncate(path, 0), 0);
		wait_ok(waiter);
		wait_ok(holder);
		close(claim_pipe[0]);
		close(claim_pipe[1]);
	}
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_at_random),
		cmocka_unit_test(test_evicted_under_load),
		cmocka_unit_test(test_first_puts_meet_in_one_file),
		cmocka_unit_test(test_orphan_is_adopted),
		cmocka_unit_test(test_stopped_in_transaction_goes_on),
		cmocka_unit_test(test_stopped_in_transaction_is_killed),
		cmocka_unit_test(test_claim_dies_with_its_holder),
		cmocka_unit_test(test_unclaim_wakes_waiters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
