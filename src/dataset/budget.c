/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of bytes in flight.
 *
 * A dataset may always use a small guaranteed part, and at most half of the
 * whole unless it is alone. What never waits for ever: if nothing of a
 * dataset is running, its next entry is admitted whatever the numbers say,
 * since all that is charged then is memory held by parked readers who may be
 * waiting for this very entry.
 */
#include <config.h>

#include "dataset/node.h"

/* Two reads of 1 MiB over the largest chunks, stored and plain. */
#define GUARANTEED_BYTES (24u << 20)

void budget_init(struct budget *budget, uint64_t limit_bytes)
{
	pthread_mutex_init(&budget->lock, NULL);
	budget->limit = limit_bytes;
}

void budget_release(struct budget *budget)
{
	pthread_mutex_destroy(&budget->lock);
}

static bool is_admitted(const struct budget *budget,
			const struct budget_share *share, uint64_t bytes)
{
	if (share->running == 0 || share->used + bytes <= GUARANTEED_BYTES)
		return true;
	return budget->used + bytes <= budget->limit &&
	       (share->used + bytes <= budget->limit / 2 ||
		share->used == budget->used);
}

static void charge(struct budget *budget, struct budget_share *share,
		   uint64_t bytes)
{
	budget->used += bytes;
	share->used += bytes;
	share->running += bytes;
}

static void list_share(struct budget *budget, struct budget_share *share)
{
	if (share->is_listed)
		return;
	share->is_listed = true;
	share->last = &share->first;
	share->next = budget->shares;
	budget->shares = share;
}

bool budget_enter(struct node *node, struct budget_share *share,
		  struct budget_entry *entry)
{
	struct budget *budget = &node->budget;
	bool is_in;

	pthread_mutex_lock(&budget->lock);
	list_share(budget, share);
	is_in = !share->first && is_admitted(budget, share, entry->bytes);
	if (is_in) {
		charge(budget, share, entry->bytes);
	} else {
		entry->next = NULL;
		*share->last = entry;
		share->last = &entry->next;
	}
	pthread_mutex_unlock(&budget->lock);
	return is_in;
}

bool budget_try(struct node *node, struct budget_share *share, uint64_t bytes,
		enum fetch_priority priority)
{
	struct budget *budget = &node->budget;
	uint64_t quarters = priority == FETCH_PREFETCH ? 2 : 3;
	bool is_in;

	pthread_mutex_lock(&budget->lock);
	list_share(budget, share);
	is_in = !share->first &&
		budget->used + bytes <= budget->limit / 4 * quarters &&
		(share->used + bytes <= budget->limit / 3 ||
		 share->used == budget->used);
	/* What nobody waits for must get on all the same. */
	is_in |= priority == FETCH_PREFETCH && share->running == 0 &&
		 !share->first;
	if (is_in)
		charge(budget, share, bytes);
	pthread_mutex_unlock(&budget->lock);
	return is_in;
}

/* The next entry that fits now, charged; NULL: none. Every share gets its
 * turn before one gets a second. */
static struct budget_entry *admit_next(struct budget *budget, bool all)
{
	struct budget_share **at = &budget->shares;

	for (; *at; at = &(*at)->next) {
		struct budget_share *share = *at, **end;
		struct budget_entry *entry = share->first;

		if (!entry ||
		    (!all && !is_admitted(budget, share, entry->bytes)))
			continue;
		share->first = entry->next;
		if (!share->first)
			share->last = &share->first;
		charge(budget, share, entry->bytes);
		*at = share->next;
		for (end = at; *end; end = &(*end)->next)
			;
		share->next = NULL;
		*end = share;
		return entry;
	}
	return NULL;
}

static void admit(struct node *node, struct budget_share *share,
		  uint64_t ended_bytes, uint64_t freed_bytes, bool all)
{
	struct budget *budget = &node->budget;
	struct budget_entry *entry, *admitted = NULL;

	pthread_mutex_lock(&budget->lock);
	if (share) {
		share->running -= ended_bytes;
		share->used -= freed_bytes;
		budget->used -= freed_bytes;
	}
	while ((entry = admit_next(budget, all))) {
		entry->next = admitted;
		admitted = entry;
	}
	pthread_mutex_unlock(&budget->lock);
	while (admitted) {
		entry = admitted;
		admitted = entry->next;
		work_add(node->verify, entry->task, WORK_FIRST);
	}
}

void budget_leave(struct node *node, struct budget_share *share,
		  uint64_t ended_bytes, uint64_t freed_bytes)
{
	admit(node, share, ended_bytes, freed_bytes, false);
}

void budget_open(struct node *node)
{
	admit(node, NULL, 0, 0, true);
}
