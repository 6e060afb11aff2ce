/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines, in a list sorted by time. Nearly all are the same distance away
 * (a reader's time-out), so an insertion from the far end finds its place at
 * once; a heap would be slower here and longer.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/thread.h"
#include "dataset/timer.h"

struct timers {
	pthread_mutex_t lock; /* guards all below and the timers' links */
	pthread_cond_t changed;
	struct timer ring; /* sentinel: next is the earliest */
	bool is_firing, fires_all, is_stopping;
	pthread_t thread;
};

static void unlink_timer(struct timer *timer)
{
	timer->previous->next = timer->next;
	timer->next->previous = timer->previous;
	timer->is_set = false;
}

static void wait_until(struct timers *timers, uint64_t due_ms)
{
	struct timespec due = {
		.tv_sec = (time_t)(due_ms / 1000),
		.tv_nsec = (long)(due_ms % 1000) * 1000000,
	};

	pthread_cond_timedwait(&timers->changed, &timers->lock, &due);
}

/* The earliest timer once it is due; NULL when stopping. */
static struct timer *wait_for_timer(struct timers *timers)
{
	scoped_lock(&timers->lock);
	timers->is_firing = false;
	for (;;) {
		struct timer *timer = timers->ring.next;
		bool is_empty = timer == &timers->ring;

		if (!is_empty &&
		    (timers->fires_all || timer->due_ms <= now_ms())) {
			unlink_timer(timer);
			timers->is_firing = true;
			return timer;
		}
		if (timers->fires_all)
			pthread_cond_broadcast(&timers->changed);
		if (timers->is_stopping)
			return NULL;
		if (is_empty)
			pthread_cond_wait(&timers->changed, &timers->lock);
		else
			wait_until(timers, timer->due_ms);
	}
}

static void *timer_thread(void *arg)
{
	struct timer *timer;

	while ((timer = wait_for_timer(arg)))
		timer->fire(timer);
	return NULL;
}

int timers_start(struct timers **ret, struct err *err)
{
	struct timers *timers = calloc(1, sizeof(*timers));
	pthread_condattr_t attr;
	int r;

	if (!timers)
		return -ENOMEM;
	pthread_mutex_init(&timers->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&timers->changed, &attr);
	pthread_condattr_destroy(&attr);
	timers->ring.next = timers->ring.previous = &timers->ring;
	r = thread_start(&timers->thread, 0, timer_thread, timers);
	if (r < 0) {
		free(timers);
		return err_set(err, -r, "cannot start a thread");
	}
	pthread_setname_np(timers->thread, "larder-timer");
	*ret = timers;
	return 0;
}

bool timer_set(struct timers *timers, struct timer *timer, uint64_t due_ms)
{
	struct timer *after;

	scoped_lock(&timers->lock);
	if (timers->fires_all)
		return false;
	if (timer->is_set)
		unlink_timer(timer);
	timer->due_ms = due_ms;
	after = timers->ring.previous;
	while (after != &timers->ring && after->due_ms > due_ms)
		after = after->previous;
	timer->previous = after;
	timer->next = after->next;
	after->next->previous = timer;
	after->next = timer;
	timer->is_set = true;
	if (after == &timers->ring)
		pthread_cond_signal(&timers->changed);
	return true;
}

bool timer_cancel(struct timers *timers, struct timer *timer)
{
	scoped_lock(&timers->lock);
	if (!timer->is_set)
		return false;
	unlink_timer(timer);
	return true;
}

void timers_fire_all(struct timers *timers)
{
	scoped_lock(&timers->lock);
	timers->fires_all = true;
	pthread_cond_broadcast(&timers->changed);
	while (timers->is_firing || timers->ring.next != &timers->ring)
		pthread_cond_wait(&timers->changed, &timers->lock);
}

void timers_stop(struct timers *timers)
{
	if (!timers)
		return;
	pthread_mutex_lock(&timers->lock);
	timers->is_stopping = true;
	pthread_cond_broadcast(&timers->changed);
	pthread_mutex_unlock(&timers->lock);
	pthread_join(timers->thread, NULL);
	pthread_cond_destroy(&timers->changed);
	pthread_mutex_destroy(&timers->lock);
	free(timers);
}
