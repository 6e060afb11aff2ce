/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices senders that fall silent or crawl. A window of bytes is judged when
 * it is as long as the silence time-out, then a new one begins: a body that
 * slows down later is noticed after two windows at most.
 */
#include <config.h>

#include "fetch/pace.h"

void pace_begin(struct pace *pace, uint64_t now_ms)
{
	*pace = (struct pace){
		.has_begun = true,
		.has_bytes = pace->has_bytes,
		.last_ms = now_ms,
	};
}

void pace_bytes(struct pace *pace, uint64_t bytes, uint64_t now_ms)
{
	if (!pace->has_begun)
		pace_begin(pace, now_ms);
	if (!pace->has_window)
		pace->window_ms = now_ms;
	pace->has_window = true;
	pace->has_bytes = true;
	pace->last_ms = now_ms;
	pace->window_bytes += bytes;
}

enum pace_verdict pace_look(struct pace *pace, uint32_t silence_ms,
			    uint32_t crawl_bytes_per_s, uint64_t now_ms,
			    uint64_t *ret_next_ms)
{
	uint64_t silent_at, window_end = UINT64_MAX;

	if (!pace->has_begun) {
		*ret_next_ms = UINT64_MAX;
		return PACE_FINE;
	}
	silent_at = pace->last_ms + silence_ms;
	if (now_ms >= silent_at)
		return PACE_SILENT;
	if (pace->has_window && now_ms >= pace->window_ms + silence_ms) {
		if (pace->window_bytes * 1000 / crawl_bytes_per_s <
		    now_ms - pace->window_ms)
			return PACE_CRAWLS;
		pace->window_ms = now_ms;
		pace->window_bytes = 0;
	}
	if (pace->has_window)
		window_end = pace->window_ms + silence_ms;
	*ret_next_ms = silent_at < window_end ? silent_at : window_end;
	return PACE_FINE;
}
