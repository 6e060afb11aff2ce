/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_CANDIDATES_H
#define LARDER_CACHE_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "cache/evict.h"
#include "cache/rows.h"

struct cache;

/* What could be evicted, as long as it is neither pinned nor open. */
struct candidates {
	struct evict_candidate *items;
	size_t count;
	bool is_cut; /* there were more */
};

/*
 * The blobs of the index, those in segments by their segments; and files that it
 * does not know, if it is not there or younger than they may be. Memory is
 * bounded: the longest unused of them.
 */
int candidates_collect(struct cache *cache, struct candidates *ret);
void candidates_release(struct candidates *candidates);

struct evict_candidate candidate_of(const struct digest *id,
				    const struct blob_row *row);
uint64_t candidate_segments(const struct evict_candidate *candidate);
/* One segment of it as a candidate; false if there is no such file. */
bool candidate_segment(struct cache *cache, const struct evict_candidate *blob,
		       uint64_t segment, struct evict_candidate *ret);
/* Whether the index has come to know a file since. */
bool candidate_is_known(struct cache *cache,
			const struct evict_candidate *stray);

#endif
