/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of a prefetch that are under way when a reader comes: each stands
 * still at its next bytes and the link is the reader's. One that a reader
 * waits for by now goes on at once, and so does what carries others.
 */
#include <config.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fetch/exchange.h"

void fetch_hold(struct fetcher *fetcher, uint64_t until_ms)
{
	uint64_t needed_ms = atomic_load(&fetcher->needed_ms);

	while (until_ms > needed_ms &&
	       !atomic_compare_exchange_weak(&fetcher->needed_ms, &needed_ms,
					     until_ms))
		;
}

void hold_note(const struct job *job, uint64_t now_ms)
{
	struct fetcher *fetcher = job->origin->fetcher;

	if (job->holds_prefetch && job->priority != FETCH_PREFETCH &&
	    !job->origin->url.is_local)
		fetch_hold(fetcher, now_ms + fetcher->hold_ms);
}

bool hold_is_on(struct fetcher *fetcher, uint64_t now_ms)
{
	bool is_on = hold_look(&fetcher->hold, atomic_load(&fetcher->needed_ms),
			       fetcher->hold_max_ms, now_ms);

	look_by(fetcher, fetcher->hold.next_ms);
	return is_on;
}

bool hold_begin(struct job *job)
{
	struct fetcher *fetcher = job->origin->fetcher;
	uint64_t now = now_ms();

	scoped_lock(&fetcher->lock);
	/* A carrier's bytes are others' too. */
	if (job->priority != FETCH_PREFETCH || job->spool ||
	    !hold_is_on(fetcher, now))
		return false;
	job->is_held = true;
	job->held_ms = now;
	return true;
}

/* The time that passed is not the server's. */
static void move(struct job *job, uint64_t now_ms)
{
	job->is_held = false;
	if (job->deadline_ms)
		job->deadline_ms += now_ms - job->held_ms;
	pace_begin(&job->pace, now_ms);
}

struct job *hold_end(struct fetcher *fetcher)
{
	uint64_t now = now_ms();

	scoped_lock(&fetcher->lock);
	for (struct list *item = fetcher->exchanges.next;
	     item != &fetcher->exchanges; item = item->next) {
		struct job *job = list_item(item, struct exchange, list)->job;

		if (job && job->is_held &&
		    (job->priority != FETCH_PREFETCH ||
		     !hold_is_on(fetcher, now))) {
			move(job, now);
			return job;
		}
	}
	return NULL;
}
