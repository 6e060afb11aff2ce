/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_DEMAND_H
#define LARDER_DATASET_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

struct digest;
struct node;

/*
 * Whether anybody on this cache waits for bytes from the network: every
 * process notes its readers' fetches, prefetch stands back.
 */
void demand_note(struct node *node);
bool demand_is_active(struct node *node, uint64_t now_ms);

/* Of one chunk: a reader waits for it here, and another process fetches it;
 * that asks whether it is so. A digest may be taken for another. */
void demand_want(struct node *node, const struct digest *chunk);
bool demand_is_wanted(struct node *node, const struct digest *chunk,
		      uint64_t now_ms);

#endif
