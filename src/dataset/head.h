/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_HEAD_H
#define LARDER_DATASET_HEAD_H

#include "dataset/node.h"

void dataset_refresh_init(struct dataset *dataset);

/* dataset.c's part. */
/* Under which the cache keeps the last good head; malloc, NULL on ENOMEM. */
char *dataset_head_key(const struct dataset *dataset);
/* Expired, and the dataset refuses that. */
bool dataset_head_refused(const struct dataset *dataset,
			  const struct head *head);
/* The current snapshot, counted; -EAGAIN: not opened yet. */
int dataset_current_now(struct dataset *dataset, struct snapshot **ret,
			struct err *err);

#endif
