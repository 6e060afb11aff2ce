/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedule noise, in builds with --enable-schedule-noise only: around locks
 * and conditions a thread now and then lets others run, or sleeps for a
 * moment. The linker leads every call of ours here (--wrap), so that the code
 * under test is the code that is installed. Order that only luck provides
 * then breaks in minutes, best seen by a sanitizer.
 */
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#define YIELD_ONE_IN 16u
#define SLEEP_ONE_IN 256u
#define SLEEP_NS_MAX 500000u
/*
 * Where others want to run, a yield costs a time slice or several, and a read
 * that passes many locks would find its time over: found by looking at such a
 * read. So a thread that has lost time is left alone for twice as long, and
 * noise costs at most a third, however busy the machine.
 */
#define REST 2u

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

static uint64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void noise(void)
{
	static _Thread_local uint64_t state, rest_until;
	struct timespec pause = {0};
	uint64_t start;

	if (state == 0)
		state = (nanoseconds() ^ (uintptr_t)&state) | 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	if (state % YIELD_ONE_IN != 0)
		return;
	start = nanoseconds();
	if (start < rest_until)
		return;
	if (state % SLEEP_ONE_IN == 0) {
		pause.tv_nsec = (long)((state >> 32) % SLEEP_NS_MAX);
		nanosleep(&pause, NULL);
	} else {
		sched_yield();
	}
	rest_until = nanoseconds();
	rest_until += (rest_until - start) * REST;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	noise();
	return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int r = __real_pthread_mutex_unlock(mutex);

	noise();
	return r;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	noise();
	return __real_pthread_cond_signal(cond);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	noise();
	return __real_pthread_cond_broadcast(cond);
}
