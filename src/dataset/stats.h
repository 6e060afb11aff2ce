/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_STATS_H
#define LARDER_DATASET_STATS_H

#include <stdint.h>

enum stat_counter {
	STAT_READ_BYTES,
	STAT_READ_CACHE_BYTES,
	STAT_READ_FETCHED_BYTES,
	STAT_FETCHED_WIRE_BYTES,
	STAT_FETCHED_PLAIN_BYTES,
	STAT_CHUNKS_VERIFIED,
	STAT_CHUNKS_CORRUPT,
	STAT_WAITS,
	STAT_WAIT_MS,
	STAT_FLIGHTS_JOINED,
	STAT_FLIGHTS_OVERTAKEN,
	STAT_COUNTERS
};

/* Counters that sixteen threads can add to without meeting. */
struct stats;

struct stats *stats_new(void);
void stats_free(struct stats *stats);
void stats_add(struct stats *stats, enum stat_counter counter, uint64_t n);
void stats_add_wait(struct stats *stats, uint64_t ms);
uint64_t stats_sum(struct stats *stats, enum stat_counter counter);

#endif
