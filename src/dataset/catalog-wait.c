/* SPDX-License-Identifier: Apache-2.0 */
/* See catalog-wait.h. */
#include <config.h>

#include "dataset/catalog-wait.h"

static void run(struct task *task, struct worker *worker)
{
	struct catalog_wait *wait = (struct catalog_wait *)task;
	struct err err = {0};
	int r;

	(void)worker;
	r = snapshot_load(wait->snapshot, &wait->waiter, &err);
	if (r != DATASET_PARKED)
		wait->done(wait, r, &err);
}

static void add(struct catalog_wait *wait)
{
	work_next(wait->node->verify, &wait->task, run);
}

static void wake(struct waiter *waiter)
{
	add((struct catalog_wait *)((char *)waiter -
				    offsetof(struct catalog_wait, waiter)));
}

void catalog_wait_init(struct catalog_wait *wait, struct node *node,
		       void (*done)(struct catalog_wait *wait, int r,
				    struct err *err))
{
	*wait = (struct catalog_wait){.node = node, .done = done};
	waiter_init(&wait->waiter, wake);
}

void catalog_wait_start(struct catalog_wait *wait, struct snapshot *snapshot)
{
	snapshot_unref(wait->snapshot);
	wait->snapshot = snapshot;
	add(wait);
}

void catalog_wait_release(struct catalog_wait *wait)
{
	waiter_release(&wait->waiter);
	snapshot_unref(wait->snapshot);
	wait->snapshot = NULL;
}
