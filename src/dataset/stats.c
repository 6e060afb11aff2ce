/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters, in rows that threads take in turn: a warm read adds to three of
 * them, and one shared cache line would cost more than the rest of the read.
 */
#include <config.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/node.h"
#include "dataset/stats.h"

#define ROWS 16u

struct stats {
	struct {
		atomic_uint_fast64_t counters[STAT_COUNTERS];
	} __attribute__((aligned(128))) rows[ROWS];
};

static atomic_uint next_row;
static _Thread_local unsigned thread_row; /* row + 1; 0: none yet */

struct stats *stats_new(void)
{
	struct stats *stats;

	if (posix_memalign((void **)&stats, 128, sizeof(*stats)) != 0)
		return NULL;
	memset(stats, 0, sizeof(*stats));
	return stats;
}

void stats_free(struct stats *stats)
{
	free(stats);
}

void stats_add(struct stats *stats, enum stat_counter counter, uint64_t n)
{
	if (thread_row == 0)
		thread_row = atomic_fetch_add(&next_row, 1) % ROWS + 1;
	atomic_fetch_add_explicit(
		&stats->rows[thread_row - 1].counters[counter], n,
		memory_order_relaxed);
}

void stats_add_wait(struct stats *stats, uint64_t ms)
{
	stats_add(stats, STAT_WAITS, 1);
	stats_add(stats, STAT_WAIT_MS, ms);
}

uint64_t stats_sum(struct stats *stats, enum stat_counter counter)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ROWS; i++)
		sum += atomic_load_explicit(&stats->rows[i].counters[counter],
					    memory_order_relaxed);
	return sum;
}

void node_stats(struct node *node, struct node_stats *ret)
{
	struct stats *s = node->stats;

	*ret = (struct node_stats){
		.read_bytes = stats_sum(s, STAT_READ_BYTES),
		.read_cache_bytes = stats_sum(s, STAT_READ_CACHE_BYTES),
		.read_fetched_bytes = stats_sum(s, STAT_READ_FETCHED_BYTES),
		.fetched_wire_bytes = stats_sum(s, STAT_FETCHED_WIRE_BYTES),
		.fetched_plain_bytes = stats_sum(s, STAT_FETCHED_PLAIN_BYTES),
		.chunks_verified = stats_sum(s, STAT_CHUNKS_VERIFIED),
		.chunks_corrupt = stats_sum(s, STAT_CHUNKS_CORRUPT),
		.waits = stats_sum(s, STAT_WAITS),
		.wait_ms_total = stats_sum(s, STAT_WAIT_MS),
		.flights_joined = stats_sum(s, STAT_FLIGHTS_JOINED),
		.flights_overtaken = stats_sum(s, STAT_FLIGHTS_OVERTAKEN),
	};
}
