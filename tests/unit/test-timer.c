/* SPDX-License-Identifier: Apache-2.0 */
/* Timers by themselves: each fires once, in the order of its last time,
 * however often it was set; and all of them at the end. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/io.h"
#include "dataset/timer.h"

#define TIMERS 5u
#define FAR_MS 3600000u

static struct timer set_of[TIMERS];
static _Atomic unsigned fired_count;
static unsigned fired[4 * TIMERS];

static void note(struct timer *timer)
{
	fired[atomic_load(&fired_count)] = (unsigned)(timer - set_of);
	atomic_fetch_add(&fired_count, 1);
}

static struct timers *start(void)
{
	struct timers *timers;
	struct err err;

	atomic_store(&fired_count, 0);
	for (unsigned i = 0; i < TIMERS; i++)
		set_of[i] = (struct timer){.fire = note};
	assert_int_equal(timers_start(&timers, &err), 0);
	return timers;
}

static void end(struct timers *timers, const unsigned *right, unsigned count)
{
	timers_fire_all(timers);
	timers_stop(timers);
	assert_int_equal(atomic_load(&fired_count), count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(fired[i], right[i]);
}

static void they_fire_in_order(void **state)
{
	struct timers *timers = start();
	uint64_t far = now_ms() + FAR_MS;

	(void)state;
	timer_set(timers, &set_of[0], far + 3);
	timer_set(timers, &set_of[1], far + 1);
	timer_set(timers, &set_of[2], far + 2);
	timer_set(timers, &set_of[3], far + 2);
	end(timers, (const unsigned[]){1, 2, 3, 0}, 4);
}

static void one_that_is_set_again_moves(void **state)
{
	struct timers *timers = start();
	uint64_t far = now_ms() + FAR_MS;

	(void)state;
	/* alone, first, last, to its own place */
	timer_set(timers, &set_of[0], far + 5);
	timer_set(timers, &set_of[0], far + 6);
	timer_set(timers, &set_of[1], far + 4);
	timer_set(timers, &set_of[2], far + 7);
	timer_set(timers, &set_of[1], far + 8);
	timer_set(timers, &set_of[2], far + 1);
	timer_set(timers, &set_of[2], far + 1);
	assert_true(timer_cancel(timers, &set_of[0]));
	assert_false(timer_cancel(timers, &set_of[0]));
	timer_set(timers, &set_of[3], far);
	end(timers, (const unsigned[]){3, 2, 1}, 3);
}

static void one_that_is_due_fires_by_itself(void **state)
{
	struct timers *timers = start();

	(void)state;
	timer_set(timers, &set_of[0], now_ms() + FAR_MS);
	timer_set(timers, &set_of[1], now_ms() + FAR_MS);
	timer_set(timers, &set_of[1], now_ms());
	while (atomic_load(&fired_count) == 0)
		usleep(1000);
	assert_false(timer_cancel(timers, &set_of[1]));
	end(timers, (const unsigned[]){1, 0}, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_fire_in_order),
		cmocka_unit_test(one_that_is_set_again_moves),
		cmocka_unit_test(one_that_is_due_fires_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
