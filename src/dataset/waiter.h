/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_WAITER_H
#define LARDER_DATASET_WAITER_H

#include "dataset/dataset.h"

struct flight;
struct node;
struct object;
struct park_node;

/*
 * What the calls of this directory do with a waiter. Inside, DATASET_PARKED
 * means "the waiter holds a flight that runs"; only the outermost call
 * parks, once, through waiter_end.
 */

/* At the start of a call: 0, or the reason why its last wait ended early. */
int waiter_begin(struct waiter *waiter, struct err *err);
/* Takes the reference. 0 or -ENOMEM. */
int waiter_hold(struct waiter *waiter, struct flight *flight);
/*
 * What a flight came to; takes the reference. 0 and its object, counted; its
 * failure, with its reason and class (enum fetch_class, else it stays as it
 * was); or DATASET_PARKED. err may be NULL.
 */
int waiter_outcome(struct waiter *waiter, struct flight *flight,
		   struct object **ret, int *ret_class, struct err *err);
/* At the end of a call: parks if r is DATASET_PARKED, else drops what the
 * waiter held and ends its deadline. Returns what the call shall return. */
int waiter_end(struct node *node, struct waiter *waiter, int r,
	       struct err *err);

/* One of the flights that were waited for has ended. */
void park_down(struct park_node *node);

#endif
