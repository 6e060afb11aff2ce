/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_HEAD_H
#define LARDER_DATASET_HEAD_H

#include "dataset/node.h"

void dataset_refresh_init(struct dataset *dataset);

/* dataset.c's part. */
/* Expired, and the dataset refuses that. */
bool dataset_head_refused(const struct dataset *dataset,
			  const struct head *head);
/* The current snapshot, counted; -EAGAIN: not opened yet. */
int dataset_current_now(struct dataset *dataset, struct snapshot **ret,
			struct err *err);

/*
 * head-cache.c: the newest head that was accepted and kept before; keep one.
 * Whether a head is signed as the dataset asks, *ret 0, or why not.
 */
bool head_cache_load(const struct dataset *dataset, struct head *ret);
void head_cache_keep(const struct dataset *dataset, const struct head *head,
		     const void *text, size_t len);
bool head_is_trusted(const struct dataset *dataset, const void *text,
		     const struct head *head, struct err *err, int *ret);

#endif
