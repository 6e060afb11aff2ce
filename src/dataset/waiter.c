/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters: calls that were parked, and how they come back.
 *
 * One wait is a park: it counts down the flights it needs and is ended once,
 * by the last of them or by its deadline, whoever comes first. Flights know
 * the park and not the waiter, so a flight that ends after the deadline
 * touches nothing of the caller's. The wake itself is a task of the
 * executor: no lock of ours and no transfer thread is behind it.
 *
 *   OPEN --all flights ended--> ENDED, result 0
 *     +-----deadline, close---> ENDED, result -ETIMEDOUT, -ESHUTDOWN
 */
#include <config.h>

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "dataset/node.h"

#define HOLDS_FIRST 8u

struct holds {
	uint32_t count, capacity;
	struct flight **flights;
};

struct park {
	atomic_uint refs;
	atomic_uint pending;
	atomic_bool is_ended;
	struct node *node;
	struct waiter *waiter;
	uint64_t started_ms;
	struct timer timer;
	struct task task;
	uint32_t count;
	struct flight **flights; /* counted: for the text of a time-out */
	struct park_node nodes[];
};

void waiter_init(struct waiter *waiter, void (*wake)(struct waiter *waiter))
{
	*waiter = (struct waiter){.wake = wake};
}

static void drop_holds(struct waiter *waiter)
{
	struct holds *holds = waiter->held;

	if (!holds)
		return;
	for (uint32_t i = 0; i < holds->count; i++)
		flight_unref(holds->flights[i]);
	holds->count = 0;
}

void waiter_release(struct waiter *waiter)
{
	struct holds *holds = waiter->held;

	if (!holds)
		return;
	drop_holds(waiter);
	free(holds->flights);
	free(holds);
	waiter->held = NULL;
}

int waiter_begin(struct waiter *waiter, struct err *err)
{
	int r = waiter->result;

	waiter->class = FETCH_OK;
	if (r == 0)
		return 0;
	waiter->result = 0;
	if (err)
		*err = waiter->err;
	return r;
}

int waiter_hold(struct waiter *waiter, struct flight *flight)
{
	struct holds *holds = waiter->held;

	if (!holds)
		holds = waiter->held = calloc(1, sizeof(*holds));
	if (holds && holds->count == holds->capacity) {
		uint32_t capacity =
			holds->capacity ? holds->capacity * 2 : HOLDS_FIRST;
		struct flight **grown =
			reallocarray(holds->flights, capacity, sizeof(*grown));

		if (grown) {
			holds->flights = grown;
			holds->capacity = capacity;
		}
	}
	if (!holds || holds->count == holds->capacity) {
		flight_unref(flight);
		return -ENOMEM;
	}
	holds->flights[holds->count++] = flight;
	return 0;
}

int waiter_outcome(struct waiter *waiter, struct flight *flight,
		   struct object **ret, int *ret_class, struct err *err)
{
	int r = 0;

	switch (flight_state(flight)) {
	case FLIGHT_DONE:
		if (flight->object)
			*ret = object_ref(flight->object);
		break;
	case FLIGHT_FAILED:
		r = flight->result;
		*ret_class = flight->class;
		if (err)
			*err = flight->err;
		break;
	case FLIGHT_RUNNING:
		r = waiter_hold(waiter, flight);
		return r < 0 ? r : DATASET_PARKED;
	}
	flight_unref(flight);
	return r;
}

static void park_unref(struct park *park)
{
	if (atomic_fetch_sub(&park->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < park->count; i++)
		flight_unref(park->flights[i]);
	free(park->flights);
	free(park);
}

static void run_wake(struct task *task, struct worker *worker)
{
	struct park *park =
		(struct park *)((char *)task - offsetof(struct park, task));
	struct waiter *waiter = park->waiter;

	(void)worker;
	if (timer_cancel(park->node->timers, &park->timer))
		park_unref(park);
	stats_add_wait(park->node->stats, now_ms() - park->started_ms);
	park_unref(park);
	waiter->wake(waiter);
}

/* Ends the wait if nobody has. The park's own reference passes to the wake. */
static void park_end(struct park *park, int result, const struct err *err)
{
	if (atomic_exchange(&park->is_ended, true))
		return;
	park->waiter->result = result;
	if (err)
		park->waiter->err = *err;
	work_add(park->node->executor, &park->task, WORK_FIRST);
}

static void park_count_down(struct park *park)
{
	struct err err;

	if (atomic_fetch_sub(&park->pending, 1) != 1)
		return;
	/* Flights that fail because we close are no answer. */
	if (atomic_load(&park->node->is_closing))
		park_end(park, err_set(&err, ESHUTDOWN, "larder is stopping"),
			 &err);
	else
		park_end(park, 0, NULL);
}

void park_down(struct park_node *node)
{
	struct park *park = node->park;

	park_count_down(park);
	park_unref(park);
}

/* What the flights that are still under way suffer from. */
static int timeout_reason(struct park *park, struct err *err)
{
	for (uint32_t i = 0; i < park->count; i++) {
		int r;

		if (flight_state(park->flights[i]) != FLIGHT_RUNNING)
			continue;
		r = flight_trouble_read(park->flights[i], err);
		if (r < 0)
			return r;
	}
	return err_set(err, ETIMEDOUT, "no answer within %llu s",
		       (unsigned long long)(now_ms() - park->started_ms + 500) /
			       1000);
}

static void fire_deadline(struct timer *timer)
{
	struct park *park =
		(struct park *)((char *)timer - offsetof(struct park, timer));
	struct err err;
	int r;

	if (!atomic_load(&park->is_ended)) {
		if (atomic_load(&park->node->is_closing))
			r = err_set(&err, ESHUTDOWN, "larder is stopping");
		else
			r = timeout_reason(park, &err);
		park_end(park, r, &err);
	}
	park_unref(park);
}

static struct park *park_new(struct node *node, struct waiter *waiter)
{
	struct holds *holds = waiter->held;
	uint32_t count = holds ? holds->count : 0;
	struct park *park =
		calloc(1, sizeof(*park) + count * sizeof(park->nodes[0]));

	if (!park)
		return NULL;
	park->flights = calloc(count ? count : 1, sizeof(*park->flights));
	if (!park->flights) {
		free(park);
		return NULL;
	}
	park->node = node;
	park->waiter = waiter;
	park->started_ms = now_ms();
	park->timer.fire = fire_deadline;
	park->task.run = run_wake;
	atomic_init(&park->refs, 3); /* the wake's, the timer's, the maker's */
	atomic_init(&park->pending, 1);
	return park;
}

/* From here on the waiter may be woken at any moment, so it is not looked at
 * again once the count is right. */
static void join_flights(struct park *park, struct holds *holds)
{
	for (uint32_t i = 0; i < holds->count; i++) {
		struct park_node *node = &park->nodes[park->count];
		struct flight *flight = holds->flights[i];

		if (flight_state(flight) != FLIGHT_RUNNING)
			continue;
		node->park = park;
		atomic_fetch_add(&park->refs, 1);
		atomic_fetch_add(&park->pending, 1);
		park->flights[park->count++] = flight_ref(flight);
		if (!flight_park(flight, node))
			park_down(node);
	}
}

static int park(struct node *node, struct waiter *waiter, struct err *err)
{
	uint64_t now = now_ms();
	struct park *park;

	if (atomic_load(&node->is_closing))
		return err_set(err, ESHUTDOWN, "larder is stopping");
	if (waiter->deadline_ms == 0) {
		uint64_t timeout = waiter->timeout_ms ? waiter->timeout_ms :
							node->timeout_ms;

		if (__builtin_add_overflow(now, timeout, &waiter->deadline_ms))
			waiter->deadline_ms = UINT64_MAX;
	}
	if (now >= waiter->deadline_ms)
		return err_set(err, ETIMEDOUT, "the time for it is over");
	park = park_new(node, waiter);
	if (!park)
		return -ENOMEM;
	if (waiter->held)
		join_flights(park, waiter->held);
	if (!timer_set(node->timers, &park->timer, waiter->deadline_ms))
		fire_deadline(&park->timer);
	park_count_down(park);
	park_unref(park);
	return DATASET_PARKED;
}

int waiter_end(struct node *node, struct waiter *waiter, int r, struct err *err)
{
	if (r == DATASET_PARKED)
		r = park(node, waiter, err);
	if (r == DATASET_PARKED)
		return r;
	drop_holds(waiter);
	waiter->deadline_ms = 0;
	waiter->is_noted = false;
	return r;
}

struct blocking_waiter {
	struct waiter waiter; /* first: a waiter is its blocking_waiter */
	sem_t woken;
};

static void wake_blocked(struct waiter *waiter)
{
	sem_post(&((struct blocking_waiter *)waiter)->woken);
}

struct blocking_waiter *blocking_waiter_new(void)
{
	struct blocking_waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter)
		return NULL;
	waiter_init(&waiter->waiter, wake_blocked);
	sem_init(&waiter->woken, 0, 0);
	return waiter;
}

struct waiter *blocking_waiter_get(struct blocking_waiter *waiter)
{
	return &waiter->waiter;
}

void waiter_block(struct blocking_waiter *waiter)
{
	while (sem_wait(&waiter->woken) < 0 && errno == EINTR)
		;
}

bool waiter_block_for(struct blocking_waiter *waiter, uint32_t limit_ms)
{
	struct timespec end;
	int r;

	/* the clock of sem_timedwait: a jump of it makes this short or long */
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += limit_ms / 1000;
	end.tv_nsec += (long)(limit_ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	while ((r = sem_timedwait(&waiter->woken, &end)) < 0 && errno == EINTR)
		;
	return r == 0;
}

void blocking_waiter_free(struct blocking_waiter *waiter)
{
	if (!waiter)
		return;
	waiter_release(&waiter->waiter);
	sem_destroy(&waiter->woken);
	free(waiter);
}
