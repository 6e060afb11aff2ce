/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to wait before all origins are asked again, and whether that can
 * help. Pure: no clock, and the caller brings the random number.
 *
 * Half of a wait is fixed and half is random: whole waits at random would
 * let some readers of a failing chunk come back at once.
 */
#include <config.h>

#include "fetch/fetch.h"

#define DELAY_FIRST_MS 200
/* A reader's budget is 30 s: at 5 s the last of it still sees a recovery. */
#define DELAY_MAX_MS 5000
/* A server may ask for hours; a mirror that is back earlier must be found. */
#define RETRY_AFTER_MAX_MS 60000

uint32_t retry_delay_ms(uint32_t round, uint32_t retry_after_ms,
			uint64_t random)
{
	uint32_t delay = DELAY_MAX_MS;
	uint32_t half;

	if (round < 5) /* 200 << 5 is past the maximum */
		delay = DELAY_FIRST_MS << round;
	half = delay / 2;
	delay = half + (uint32_t)(random % (half + 1));
	if (retry_after_ms > RETRY_AFTER_MAX_MS)
		retry_after_ms = RETRY_AFTER_MAX_MS;
	return delay > retry_after_ms ? delay : retry_after_ms;
}

bool retry_worth(enum fetch_class class)
{
	switch (class) {
	case FETCH_UNREACHABLE:
	case FETCH_BUSY:
	case FETCH_SLOW:
	case FETCH_WRONG:
	case FETCH_LOCAL:
		return true;
	case FETCH_OK:
	case FETCH_ABSENT:
	case FETCH_REFUSED:
	case FETCH_CANCELED:
		break;
	}
	return false;
}
