/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_CATALOG_WAIT_H
#define LARDER_DATASET_CATALOG_WAIT_H

#include "dataset/node.h"

/*
 * The last step of opening a dataset, whatever its head came from: the root
 * catalog is here before anybody is sent to the snapshot. done is called once,
 * on a thread of the node that may not block, with 0 or why not.
 */
struct catalog_wait {
	struct task task; /* first */
	struct waiter waiter;
	struct node *node;
	struct snapshot *snapshot; /* counted for it */
	void (*done)(struct catalog_wait *wait, int r, struct err *err);
};

void catalog_wait_init(struct catalog_wait *wait, struct node *node,
		       void (*done)(struct catalog_wait *wait, int r,
				    struct err *err));
/* Takes the reference. Once at a time. */
void catalog_wait_start(struct catalog_wait *wait, struct snapshot *snapshot);
/* Not while it runs. */
void catalog_wait_release(struct catalog_wait *wait);

#endif
