/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a dataset is looked at again: from time to time, or since somebody asks
 * for it. Either way it is the job that opened it that looks (head.c,
 * hub-open.c), one at a time for a dataset.
 */
#include <config.h>

#include <errno.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "dataset/head.h"

/* How soon a dataset on its last good head looks again. */
#define STALE_REFRESH_MS 10000u

uint32_t refresh_delay_ms(uint32_t refresh_ms, bool is_stale, uint64_t random)
{
	uint32_t delay = refresh_ms;

	if (is_stale && delay > STALE_REFRESH_MS)
		delay = STALE_REFRESH_MS;
	return delay - delay / 8 + (uint32_t)(random % (delay / 4 + 1));
}

void dataset_refresh_later(struct dataset *dataset, bool is_stale)
{
	timer_set(dataset->node->timers, &dataset->refresh,
		  now_ms() + refresh_delay_ms(dataset->node->refresh_ms,
					      is_stale, now_ns() / 1000));
}

static void fire_refresh(struct timer *timer)
{
	struct dataset *dataset =
		(struct dataset *)((char *)timer -
				   offsetof(struct dataset, refresh));

	struct flight *flight;
	bool is_new;

	if (atomic_load(&dataset->node->is_closing))
		return;
	flight = dataset_head_flight(dataset, HEAD_LOOK, &is_new);
	/* Who looks sets the next time at his end; a failure that is still
	 * remembered is not a look. */
	if (!flight || (!is_new && flight_state(flight) == FLIGHT_FAILED))
		dataset_refresh_later(dataset, true);
	flight_unref(flight);
}

void dataset_refresh_init(struct dataset *dataset)
{
	dataset->refresh.fire = fire_refresh;
}

/* What the look that has ended came to. */
static int outcome(struct dataset *dataset, struct err *err)
{
	scoped_lock(&dataset->lock);
	if (dataset->state == DATASET_OK || !dataset->reason[0])
		return 0;
	return err_set(err, EIO, "'%s' stays as it was: %s", dataset->name,
		       dataset->reason);
}

int dataset_refresh(struct dataset *dataset, struct waiter *waiter,
		    enum dataset_look *look, struct err *err)
{
	struct flight *flight;
	bool is_new;
	int r = waiter_begin(waiter, err);

	if (r < 0 || *look == LOOK_ASKED)
		return waiter_end(dataset->node, waiter,
				  r < 0 ? r : outcome(dataset, err), err);
	/* Who looks already may have begun before the question: the next look,
	 * whosever it is, has not. What failed before it is no answer. */
	waiter_release(waiter);
	flight = dataset_head_flight(
		dataset, *look == LOOK_NONE ? HEAD_LOOK_ANEW : HEAD_LOOK_ASKED,
		&is_new);
	if (!flight)
		return waiter_end(dataset->node, waiter, -ENOMEM, err);
	*look = is_new || *look == LOOK_OF_OTHERS ? LOOK_ASKED : LOOK_OF_OTHERS;
	r = waiter_hold(waiter, flight);
	return waiter_end(dataset->node, waiter, r < 0 ? r : DATASET_PARKED,
			  err);
}
