/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When transfers of a prefetch stand still, so that what readers wait for has
 * the link to itself. Readers that come and go are one stretch: only a free
 * time as long as HOLD_FREE_MS begins a new one, or a prefetch beside somebody
 * who reads without end would never move.
 */
#include <config.h>

#include "fetch/hold.h"

static void let_go(struct hold *hold, bool is_paid, uint64_t now_ms)
{
	hold->is_on = false;
	hold->is_paid = is_paid;
	hold->off_ms = now_ms;
}

static void begin(struct hold *hold, uint64_t now_ms)
{
	if (hold->since_ms == 0 || now_ms >= hold->off_ms + HOLD_FREE_MS)
		hold->since_ms = now_ms;
	hold->is_on = true;
}

bool hold_look(struct hold *hold, uint64_t wanted_ms, uint32_t max_ms,
	       uint64_t now_ms)
{
	if (hold->is_on && now_ms >= hold->since_ms + max_ms)
		let_go(hold, true, now_ms);
	else if (hold->is_on && now_ms >= wanted_ms)
		let_go(hold, false, now_ms);
	if (!hold->is_on && hold->is_paid &&
	    now_ms >= hold->off_ms + HOLD_FREE_MS)
		hold->is_paid = false;
	if (!hold->is_on && !hold->is_paid && now_ms < wanted_ms)
		begin(hold, now_ms);
	hold->next_ms = UINT64_MAX;
	if (hold->is_on)
		hold->next_ms = wanted_ms < hold->since_ms + max_ms ?
					wanted_ms :
					hold->since_ms + max_ms;
	else if (hold->is_paid)
		hold->next_ms = hold->off_ms + HOLD_FREE_MS;
	return hold->is_on;
}
