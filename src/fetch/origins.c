/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which origin is asked next, and what an outcome does to its health. Both
 * are pure functions; the two calls at the end read and note under the
 * origin's lock.
 *
 * A dead origin must not be asked by every reader as soon as its back-off
 * ends: each would wait its whole connect time-out. So an origin stays bad
 * until one request, its probe, has come back well.
 */
#include <config.h>

#include "base/cleanup.h"
#include "fetch/fetch.h"
#include "fetch/internal.h"

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS 60000
/* Bytes that were wrong once are likely wrong again: start higher. */
#define BACKOFF_WRONG_MS 4000
/* What an origin did before it came good counts for so long: one that keeps
 * failing and coming back is not asked more often than one that is gone. */
#define STRIKES_MS 60000
#define STRIKES_MAX 6
/* "While it is known dead" means that somebody looked within this time. */
#define KNOWN_DEAD_MS 1000
#define DEAD_FAILURES 3

static bool is_failure(enum fetch_class class)
{
	switch (class) {
	case FETCH_REFUSED:
	case FETCH_UNREACHABLE:
	case FETCH_BUSY:
	case FETCH_SLOW:
	case FETCH_WRONG:
		return true;
	case FETCH_OK:
	case FETCH_ABSENT:
	case FETCH_CANCELED:
	case FETCH_LOCAL:
		break;
	}
	return false;
}

static uint64_t backoff_ms(uint32_t failures, enum fetch_class class)
{
	uint64_t first =
		class == FETCH_WRONG ? BACKOFF_WRONG_MS : BACKOFF_FIRST_MS;
	uint64_t wait = failures > 6 ? BACKOFF_MAX_MS : first << (failures - 1);

	return wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS;
}

static void health_recover(struct origin_health *health, enum fetch_class class,
			   uint64_t now_ms)
{
	uint32_t strikes = health->strikes + health->failures;

	if (health->failures > 0)
		health->good_ms = now_ms;
	*health = (struct origin_health){
		.last = class,
		.good_ms = health->good_ms,
		.strikes = strikes < STRIKES_MAX ? strikes : STRIKES_MAX,
	};
}

void health_next(struct origin_health *health, enum fetch_class class,
		 uint64_t now_ms)
{
	if (class == FETCH_CANCELED || class == FETCH_LOCAL)
		return;
	if (health->failures == 0 && now_ms >= health->good_ms + STRIKES_MS)
		health->strikes = 0;
	if (!is_failure(class)) {
		health_recover(health, class, now_ms);
		return;
	}
	health->last = class;
	health->failed_ms = now_ms;
	/* Requests that ran side by side fail together: that is one failure. */
	if (health->failures > 0 && now_ms < health->bad_until_ms)
		return;
	health->failures++;
	health->bad_until_ms =
		now_ms + backoff_ms(health->failures + health->strikes, class);
}

bool health_is_dead(const struct origin_health *health)
{
	return health->failures >= DEAD_FAILURES &&
	       (health->last == FETCH_UNREACHABLE ||
		health->last == FETCH_SLOW);
}

/* Good, or bad and due with nobody finding out already. */
static bool may_ask(const struct origin_health *health, uint64_t now_ms)
{
	return health->failures == 0 || (health->bad_until_ms <= now_ms &&
					 health->probe_until_ms <= now_ms);
}

static bool may_probe_early(const struct origin_health *health, uint64_t now_ms)
{
	return health->probe_until_ms <= now_ms &&
	       health->failed_ms + KNOWN_DEAD_MS <= now_ms;
}

int origins_choose(const struct origin_health *healths, const uint32_t *tried,
		   size_t count, uint64_t now_ms, uint64_t deadline_ms)
{
	int best = -1;

	if (deadline_ms && now_ms >= deadline_ms)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (may_ask(&healths[i], now_ms) &&
		    (best < 0 || tried[i] < tried[best]))
			best = (int)i;
	if (best >= 0)
		return best;
	/* Nothing is good: the one that was left alone for longest. */
	for (size_t i = 0; i < count; i++)
		if (may_probe_early(&healths[i], now_ms) &&
		    (best < 0 ||
		     healths[i].failed_ms < healths[best].failed_ms))
			best = (int)i;
	return best;
}

bool origin_is_good(struct origin *origin)
{
	scoped_lock(&origin->lock);
	return origin->health.failures == 0;
}

/* Who waits there, or elsewhere, may do better now. */
static void look_at_all(struct fetcher *fetcher)
{
	scoped_lock(&fetcher->lock);
	if (!fetcher->is_closing && look_by(fetcher, 0))
		fetcher_wake(fetcher);
}

void origin_note(struct origin *origin, enum fetch_class class, uint64_t now_ms)
{
	bool was_good = origin_is_good(origin);

	pthread_mutex_lock(&origin->lock);
	health_next(&origin->health, class, now_ms);
	pthread_mutex_unlock(&origin->lock);
	if (origin_is_good(origin) != was_good)
		look_at_all(origin->fetcher);
}

void origin_health(struct origin *origin, struct origin_health *ret)
{
	scoped_lock(&origin->lock);
	*ret = origin->health;
}
