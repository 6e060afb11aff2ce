/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window of a prefetch, by the delay it causes. Loss of packets or a
 * share of the bandwidth cannot be seen from here; time can. The best time is
 * forgotten only while the least is under way: then a longer one is the
 * link's, not of our own making.
 */
#include <config.h>

#include "dataset/prefetch-pace.h"

#define WAIT_MAX_MS 3600000u

static uint64_t clamp(uint64_t n, uint64_t low, uint64_t high)
{
	return n < low ? low : n > high ? high : n;
}

uint64_t prefetch_window(const struct prefetch_pace *pace)
{
	return clamp(pace->window, PREFETCH_WINDOW_MIN, PREFETCH_WINDOW_MAX);
}

void prefetch_pace_note(struct prefetch_pace *pace, uint64_t took_ms)
{
	uint64_t took_us = took_ms * 1000 + 1;
	double window = (double)prefetch_window(pace), factor;

	if (pace->best_us == 0 || took_us < pace->best_us)
		pace->best_us = took_us;
	else if (pace->window <= PREFETCH_WINDOW_MIN)
		pace->best_us += pace->best_us / 8 + 1;
	factor = (double)(pace->best_us + PREFETCH_QUEUE_MS * 1000) /
		 (double)took_us;
	if (factor > 1.125)
		factor = 1.125;
	if (factor < 0.75)
		factor = 0.75;
	pace->window = clamp((uint64_t)(window * factor), PREFETCH_WINDOW_MIN,
			     PREFETCH_WINDOW_MAX);
}

uint64_t prefetch_batch(const struct prefetch_pace *pace, uint64_t limit)
{
	uint64_t bytes = prefetch_window(pace) / 4;

	if (limit > 0 && limit / 4 < bytes)
		bytes = limit / 4;
	return clamp(bytes, PREFETCH_BATCH_MIN, PREFETCH_BATCH_MAX);
}

uint64_t prefetch_wait_ms(uint64_t limit, uint64_t wire_bytes,
			  uint64_t flying_bytes, uint64_t elapsed_ms)
{
	double due_ms;

	if (limit == 0)
		return 0;
	due_ms = ((double)wire_bytes + (double)flying_bytes) * 1000 /
		 (double)limit;
	due_ms -= (double)elapsed_ms;
	if (due_ms <= 0)
		return 0;
	return due_ms < WAIT_MAX_MS ? (uint64_t)due_ms + 1 : WAIT_MAX_MS;
}
