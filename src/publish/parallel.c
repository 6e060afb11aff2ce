/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same work on many things, on many threads. The caller's thread works
 * too, so with one thread none is started and a debugger sees plain calls;
 * where no thread can be started the work is still done.
 */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "publish/parallel.h"

#define THREADS_MAX 64u

struct loop {
	size_t count;
	int (*work)(void *arg, size_t index, struct err *err);
	void *arg;
	atomic_size_t next;
	pthread_mutex_t mutex; /* guards what follows */
	int result;
	struct err err;
};

static void fail_loop(struct loop *loop, int result, const struct err *err)
{
	atomic_store(&loop->next, loop->count);
	pthread_mutex_lock(&loop->mutex);
	if (loop->result == 0) {
		loop->result = result;
		loop->err = *err;
	}
	pthread_mutex_unlock(&loop->mutex);
}

static void *run_loop(void *arg)
{
	struct loop *loop = arg;

	for (;;) {
		size_t index = atomic_fetch_add(&loop->next, 1);
		struct err err = {0};
		int r;

		if (index >= loop->count)
			return NULL;
		r = loop->work(loop->arg, index, &err);
		if (r < 0) {
			fail_loop(loop, r, &err);
			return NULL;
		}
	}
}

int parallel_for(size_t count, unsigned int threads,
		 int (*work)(void *arg, size_t index, struct err *err),
		 void *arg, struct err *err)
{
	struct loop loop = {
		.count = count,
		.work = work,
		.arg = arg,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
	};
	pthread_t others[THREADS_MAX];
	unsigned int started = 0;

	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	while (started + 1 < threads && started + 1 < count &&
	       pthread_create(&others[started], NULL, run_loop, &loop) == 0)
		started++;
	run_loop(&loop);
	while (started > 0)
		pthread_join(others[--started], NULL);
	if (loop.result < 0 && err)
		*err = loop.err;
	return loop.result;
}

unsigned int processor_count(void)
{
	cpu_set_t set;
	int count;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	count = CPU_COUNT(&set);
	return count > 0 ? (unsigned int)count : 1;
}
