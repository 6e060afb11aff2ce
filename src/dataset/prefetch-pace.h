/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_PREFETCH_PACE_H
#define LARDER_DATASET_PREFETCH_PACE_H

#include <stdint.h>

/*
 * How much a prefetch keeps under way. Pure: the caller brings the clock.
 *
 * What is under way delays whoever reads meanwhile, so it is no more than
 * fills the link: the window grows while batches come back about as soon as
 * they ever did, and shrinks when they queue. Starts as {0}.
 */
#define PREFETCH_WINDOW_MIN (2u << 20)
#define PREFETCH_WINDOW_MAX (96u << 20)
#define PREFETCH_BATCH_MIN (512u << 10)
#define PREFETCH_BATCH_MAX (8u << 20)
/* How long bytes may queue: as much longer a reader waits at worst. */
#define PREFETCH_QUEUE_MS 100u

struct prefetch_pace {
	uint64_t window;  /* bytes that may be under way; 0: none came yet */
	uint64_t best_us; /* how long a batch takes that does not queue */
};

void prefetch_pace_note(struct prefetch_pace *pace, uint64_t took_ms);
/* The bytes that may be under way, and that one batch has. limit: bytes a
 * second that may come over the wire, 0: any number. */
uint64_t prefetch_window(const struct prefetch_pace *pace);
uint64_t prefetch_batch(const struct prefetch_pace *pace, uint64_t limit);
/* How long to wait before the next batch so that wire_bytes, which came
 * within elapsed_ms, and those under way stay within the limit. */
uint64_t prefetch_wait_ms(uint64_t limit, uint64_t wire_bytes,
			  uint64_t flying_bytes, uint64_t elapsed_ms);

#endif
