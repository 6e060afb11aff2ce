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

/* A yield may cost a whole time slice where others want to run: at one in 8,
 * reads that pass a million locks ran out of time on a busy machine. */
#define YIELD_ONE_IN 64u
#define SLEEP_ONE_IN 1024u
#define SLEEP_NS_MAX 500000u

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

static void noise(void)
{
	static _Thread_local uint64_t state;
	struct timespec pause;

	if (state == 0) {
		clock_gettime(CLOCK_MONOTONIC, &pause);
		state = ((uint64_t)pause.tv_nsec ^ (uintptr_t)&state) | 1;
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	if (state % SLEEP_ONE_IN == 0) {
		pause = (struct timespec){
			.tv_nsec = (long)((state >> 32) % SLEEP_NS_MAX),
		};
		nanosleep(&pause, NULL);
	} else if (state % YIELD_ONE_IN == 0) {
		sched_yield();
	}
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
