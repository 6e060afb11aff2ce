/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dataset shows: its current snapshot, whether that is as it should be,
 * and why not. Whoever finds a snapshot, from a mirror's head or the Hub's
 * listing, leaves it here.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "dataset/head.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

void dataset_set_state(struct dataset *dataset, enum dataset_state state,
		       const char *reason)
{
	scoped_lock(&dataset->lock);
	dataset->state = state;
	dataset->is_for_good = false;
	snprintf(dataset->reason, sizeof(dataset->reason), "%s", reason);
}

void dataset_set_stale(struct dataset *dataset, bool is_for_good,
		       const char *reason)
{
	dataset_set_state(dataset, DATASET_STALE, reason);
	scoped_lock(&dataset->lock);
	dataset->is_for_good = is_for_good;
}

/* Install a snapshot and its head; true if readers had another one. */
static bool install(struct dataset *dataset, struct snapshot *snapshot,
		    const struct head *head)
{
	struct snapshot *old = NULL;
	bool is_change;

	pthread_mutex_lock(&dataset->lock);
	is_change = dataset->current &&
		    !digest_equal(&dataset->current->digest, &snapshot->digest);
	if (!dataset->current || is_change) {
		old = dataset->current;
		dataset->current = snapshot_ref(snapshot);
	}
	dataset->head = *head;
	pthread_mutex_unlock(&dataset->lock);
	snapshot_unref(old);
	return is_change;
}

void dataset_adopt(struct dataset *dataset, struct snapshot *snapshot,
		   const struct head *head)
{
	void (*changed)(void *arg, struct dataset *dataset);
	void *arg;

	if (!install(dataset, snapshot, head))
		return;
	log_info("new snapshot dataset=%s serial=%llu", dataset->name,
		 (unsigned long long)head->serial);
	pthread_mutex_lock(&dataset->lock);
	changed = dataset->changed;
	arg = dataset->changed_arg;
	pthread_mutex_unlock(&dataset->lock);
	if (changed)
		changed(arg, dataset);
}

/* ---- who wants it */

int dataset_current_now(struct dataset *dataset, struct snapshot **ret,
			struct err *err)
{
	scoped_lock(&dataset->lock);
	if (!dataset->current)
		return -EAGAIN;
	if (dataset_head_refused(dataset, &dataset->head))
		return err_set(err, EACCES,
			       "the head of dataset '%s' has expired",
			       dataset->name);
	*ret = snapshot_ref(dataset->current);
	return 0;
}

int dataset_current(struct dataset *dataset, struct waiter *waiter,
		    struct snapshot **ret, struct err *err)
{
	struct flight *flight;
	bool is_new;
	int r = waiter_begin(waiter, err);

	if (r < 0) {
		err_prefix(err, r, "cannot open dataset '%s'", dataset->name);
		return waiter_end(dataset->node, waiter, r, err);
	}
	r = dataset_current_now(dataset, ret, err);
	if (r != -EAGAIN)
		return waiter_end(dataset->node, waiter, r, err);
	flight = dataset_head_flight(dataset, HEAD_LOOK, &is_new);
	if (!flight)
		return waiter_end(dataset->node, waiter, -ENOMEM, err);
	if (flight_state(flight) == FLIGHT_FAILED) {
		r = flight->result;
		if (err)
			*err = flight->err;
		flight_unref(flight);
	} else {
		r = waiter_hold(waiter, flight);
		r = r < 0 ? r : DATASET_PARKED;
	}
	return waiter_end(dataset->node, waiter, r, err);
}
