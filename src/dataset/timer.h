/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_TIMER_H
#define LARDER_DATASET_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * Calls that are due later, from one thread: deadlines of waiters, back-off
 * of jobs, refreshes. fire runs without a lock and must be quick.
 */
struct timer {
	void (*fire)(struct timer *timer);
	uint64_t due_ms; /* now_ms() scale */
	/* private */
	struct timer *previous, *next;
	bool is_set;
};

struct timers;

int timers_start(struct timers **ret, struct err *err);
/* One that is set already gets another time. false once timers_fire_all was
 * called: the caller acts at once instead. */
bool timer_set(struct timers *timers, struct timer *timer, uint64_t due_ms);
/* true: it was taken out and will not fire. false: it has fired, fires just
 * now, or was never set. */
bool timer_cancel(struct timers *timers, struct timer *timer);
/* Fires everything, and nothing can be set any more. */
void timers_fire_all(struct timers *timers);
void timers_stop(struct timers *timers);

#endif
