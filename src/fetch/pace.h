/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_PACE_H
#define LARDER_FETCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Below this for a whole silence time-out, a body crawls, whoever asks. */
#define PACE_CRAWL_BYTES_PER_S 1024

/* When bytes came, so that a silent or crawling sender is noticed. Pure:
 * the caller brings the clock. Starts as {0}. */
struct pace {
	bool has_begun;	  /* asked: from now on silence counts */
	bool has_bytes;	  /* something was answered */
	uint64_t last_ms; /* when bytes came last */
	bool has_window;  /* from the first byte on */
	uint64_t window_ms, window_bytes;
};

enum pace_verdict { PACE_FINE, PACE_SILENT, PACE_CRAWLS };

void pace_begin(struct pace *pace, uint64_t now_ms);
void pace_bytes(struct pace *pace, uint64_t bytes, uint64_t now_ms);
/* *ret_next_ms: when to look again (PACE_FINE). */
enum pace_verdict pace_look(struct pace *pace, uint32_t silence_ms,
			    uint32_t crawl_bytes_per_s, uint64_t now_ms,
			    uint64_t *ret_next_ms);

#endif
