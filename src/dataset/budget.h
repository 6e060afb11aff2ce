/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_BUDGET_H
#define LARDER_DATASET_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fetch/fetch.h"

struct node;
struct task;

/*
 * Bytes in flight: what is being fetched, and fetched bytes that somebody
 * holds. One budget per process, with a share for each dataset so that a
 * silent mirror's readers cannot use it up.
 */
struct budget_entry {
	struct budget_entry *next;
	uint64_t bytes;
	struct task *task; /* added to the verify pool when admitted */
};

struct budget_share {
	uint64_t used, running;
	struct budget_entry *first, **last; /* wait for admission */
	struct budget_share *next;
	bool is_listed;
};

struct budget {
	pthread_mutex_t lock; /* guards all, and the shares */
	uint64_t limit, used;
	struct budget_share *shares;
};

void budget_init(struct budget *budget, uint64_t limit_bytes);
void budget_release(struct budget *budget);

/* Demand: charged at once, or queued (false): entry's task is then added
 * when there is room. */
bool budget_enter(struct node *node, struct budget_share *share,
		  struct budget_entry *entry);
/* Readahead, and prefetch, which leaves room for readahead: never queued. */
bool budget_try(struct node *node, struct budget_share *share, uint64_t bytes,
		enum fetch_priority priority);
/* ended: no longer running; freed: no longer used. */
void budget_leave(struct node *node, struct budget_share *share,
		  uint64_t ended_bytes, uint64_t freed_bytes);
/* Admit everything that waits: at the end. */
void budget_open(struct node *node);

#endif
