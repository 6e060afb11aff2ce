/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_HEAD_H
#define LARDER_DATASET_HEAD_H

#include "dataset/node.h"

void dataset_refresh_init(struct dataset *dataset);
/*
 * How long after a look the next one comes, pure: an eighth earlier or later,
 * as the random number says, since a fleet that was started together shall not
 * stay together. A stale dataset looks again soon.
 */
uint32_t refresh_delay_ms(uint32_t refresh_ms, bool is_stale, uint64_t random);

/* dataset.c's part. */
/* Expired, and the dataset refuses that. */
bool dataset_head_refused(const struct dataset *dataset,
			  const struct head *head);

/*
 * head-cache.c: the newest head that was accepted and kept before; keep one.
 * Whether a head is signed as the dataset asks, *ret 0, or why not.
 */
bool head_cache_load(const struct dataset *dataset, struct head *ret);
void head_cache_keep(const struct dataset *dataset, const struct head *head,
		     const void *text, size_t len);
bool head_is_trusted(const struct dataset *dataset, const void *text,
		     const struct head *head, struct err *err, int *ret);

/*
 * current.c: the current snapshot, counted; -EAGAIN: not opened yet. And for
 * those who open a dataset: what they found.
 */
int dataset_current_now(struct dataset *dataset, struct snapshot **ret,
			struct err *err);
void dataset_set_state(struct dataset *dataset, enum dataset_state state,
		       const char *reason);
/* Its last good head is served; is_for_good: asking again does not help. */
void dataset_set_stale(struct dataset *dataset, bool is_for_good,
		       const char *reason);
/* The current snapshot from now on; tells the mount if that is a change. */
void dataset_adopt(struct dataset *dataset, struct snapshot *snapshot,
		   const struct head *head);
/*
 * The job that looks for the head, which it starts if nobody has. Where
 * somebody asks for the look itself it goes to every mirror, also one that is
 * known to be bad; anew: a look that failed just now is none. NULL: out of
 * memory.
 */
enum head_look { HEAD_LOOK, HEAD_LOOK_ASKED, HEAD_LOOK_ANEW };
struct flight *dataset_head_flight(struct dataset *dataset, enum head_look look,
				   bool *ret_is_new);
/* Look again when it is time. */
void dataset_refresh_later(struct dataset *dataset, bool is_stale);

#endif
