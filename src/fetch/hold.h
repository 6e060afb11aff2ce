/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_HOLD_H
#define LARDER_FETCH_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/* However long readers go on, a prefetch moves for so long now and then. */
#define HOLD_FREE_MS 100u

/* Whether prefetch stands still for readers. Pure: the caller brings the
 * clock. Starts as {0}. */
struct hold {
	bool is_on;
	uint64_t since_ms; /* the first hold after the last free time */
	uint64_t off_ms;   /* when the last one ended */
	bool is_paid;	   /* a free time must pass before the next */
	uint64_t next_ms;  /* when to look again; UINT64_MAX: on a new wish */
};

/* Readers wish for it until wanted_ms; max_ms: for how long at a stretch. */
bool hold_look(struct hold *hold, uint64_t wanted_ms, uint32_t max_ms,
	       uint64_t now_ms);

#endif
