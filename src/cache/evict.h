/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_EVICT_H
#define LARDER_CACHE_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

/* Which files to drop. Pure: no clock, no disk. */
struct evict_candidate {
	struct digest id;
	uint64_t gen, blob_bytes, segment_bytes;
	uint64_t segment; /* of segment_bytes: which file */
	uint64_t disk_bytes;
	int64_t last_use;
	int64_t written; /* of a segment: its last write, in seconds */
	bool is_stray;   /* a file that no row speaks of; id's type is a guess */
};

/* Orders candidates, longest unused first (then those written before the
 * others, then the larger ones), and returns
 * how many of the first are needed to free bytes; all if they do not
 * suffice. */
size_t evict_choose(struct evict_candidate *candidates, size_t count,
		    uint64_t bytes);

#endif
