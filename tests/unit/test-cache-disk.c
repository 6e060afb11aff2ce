/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that does not answer: who waits for it is let go, nobody begins
 * another call, and all goes on once it answers. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/io.h"
#include "base/thread.h"
#include "cache/disk.h"

static struct disk disk;
static int gate[2]; /* a call hangs until a byte comes */
static _Atomic int runs, releases, begins, ends;

static void changed(void *arg, bool is_hanging)
{
	assert(arg == &disk);
	atomic_fetch_add(is_hanging ? &begins : &ends, 1);
}

static int run_at_once(struct disk_call *call)
{
	(void)call;
	atomic_fetch_add(&runs, 1);
	return -ENOENT;
}

static int run_hanging(struct disk_call *call)
{
	char byte;

	(void)call;
	atomic_fetch_add(&runs, 1);
	assert(read(gate[0], &byte, 1) == 1);
	return 0;
}

static int run_timed_out(struct disk_call *call)
{
	(void)call;
	return -ETIMEDOUT;
}

static void release(struct disk_call *call)
{
	(void)call;
	atomic_fetch_add(&releases, 1);
}

static int run(int (*function)(struct disk_call *call))
{
	struct disk_call *call = calloc(1, sizeof(*call));
	int r;

	assert(call);
	call->run = function;
	call->release = release;
	call->what = "test";
	r = disk_run(&disk, call);
	if (r != -ETIMEDOUT)
		disk_call_free(call);
	return r;
}

static void *run_thread(void *arg)
{
	(void)arg;
	assert(run(run_hanging) == -ETIMEDOUT);
	return NULL;
}

static void wait_for(_Atomic int *counter, int wanted)
{
	for (int i = 0; i < 60000 && atomic_load(counter) < wanted; i++)
		usleep(1000);
	assert_int_equal(atomic_load(counter), wanted);
}

static int set_up(void **state)
{
	(void)state;
	runs = releases = begins = ends = 0;
	assert(pipe(gate) == 0);
	return disk_start(&disk, "here", changed, &disk);
}

static int tear_down(void **state)
{
	(void)state;
	disk_stop(&disk);
	disk_release(&disk);
	close(gate[0]);
	close(gate[1]);
	return 0;
}

static void test_calls_return(void **state)
{
	struct disk_op op;

	(void)state;
	for (int i = 1; i <= 20; i++) {
		assert_int_equal(run(run_at_once), -ENOENT);
		assert_int_equal(atomic_load(&releases), i);
	}
	/* A block's time-out is not ours. */
	assert_int_equal(run(run_timed_out), -EIO);
	assert_true(disk_begin(&disk, &op, "test", DISK_CALL));
	disk_end(&disk, &op);
	assert_false(disk_is_hanging(&disk));
	assert_int_equal(atomic_load(&begins), 0);
}

/* More than there are threads: who has none is not run at all. */
static void test_who_waits_is_let_go(void **state)
{
	pthread_t threads[DISK_THREADS + 3];
	struct disk_op op;

	(void)state;
	for (unsigned i = 0; i < DISK_THREADS + 3; i++)
		assert_int_equal(thread_start(&threads[i], 0, run_thread, NULL),
				 0);
	for (unsigned i = 0; i < DISK_THREADS + 3; i++)
		pthread_join(threads[i], NULL);
	wait_for(&begins, 1);
	assert_true(disk_is_hanging(&disk));
	assert_int_equal(atomic_load(&runs), DISK_THREADS);
	assert_int_equal(atomic_load(&releases), 3);

	assert_int_equal(run(run_at_once), -ETIMEDOUT);
	assert_false(disk_begin(&disk, &op, "test", DISK_CALL));
	assert_int_equal(atomic_load(&runs), DISK_THREADS);

	assert_int_equal(write(gate[1], "1234567", DISK_THREADS), DISK_THREADS);
	wait_for(&ends, 1);
	wait_for(&releases, DISK_THREADS + 4);
	assert_false(disk_is_hanging(&disk));
	assert_int_equal(run(run_at_once), -ENOENT);
}

/* What the caller does himself is watched as well. */
static void test_own_calls_are_noticed(void **state)
{
	struct disk_op op, other;

	(void)state;
	assert_true(disk_begin(&disk, &op, "test", DISK_CALL));
	wait_for(&begins, 1);
	assert_false(disk_begin(&disk, &other, "test", DISK_CALL));
	assert_int_equal(run(run_at_once), -ETIMEDOUT);
	disk_end(&disk, &op);
	wait_for(&ends, 1);
	assert_int_equal(run(run_at_once), -ENOENT);
}

static void test_slow_is_not_hanging(void **state)
{
	static const struct {
		enum disk_kind kind;
		uint64_t begun_ms, written_ms, deadline_ms;
	} cases[] = {
		{DISK_CALL, 5000, 0, 5000 + DISK_BOUND_MS},
		{DISK_CALL, 5000, 4000, 5000 + DISK_BOUND_MS},
		{DISK_CALL, 5000, 60000, 60000 + DISK_BOUND_MS},
		{DISK_SYNC, 5000, 0, 5000 + DISK_SYNC_BOUND_MS},
		{DISK_SYNC, 5000, 60000, 5000 + DISK_SYNC_BOUND_MS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(disk_deadline(cases[i].kind, cases[i].begun_ms,
					       cases[i].written_ms),
				 cases[i].deadline_ms);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_calls_return, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_who_waits_is_let_go,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_own_calls_are_noticed,
						set_up, tear_down),
		cmocka_unit_test(test_slow_is_not_hanging),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
