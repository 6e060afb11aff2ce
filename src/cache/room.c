/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much could be stored: for those who want to bring much at once and
 * rather not begin than end half-way. An estimate: others write meanwhile.
 */
#include <config.h>

#include "base/io.h"
#include "cache/internal.h"
#include "cache/pins.h"

#define SCAN_STEP 1024u

struct room_scan {
	struct pin_set pins;
	int64_t used_before_s;
	uint64_t used, evictable;
};

static void add_row(void *arg, const struct digest *id,
		    const struct blob_row *row)
{
	struct room_scan *scan = arg;

	scan->used += row->disk_bytes;
	if (row->last_use <= scan->used_before_s &&
	    !pin_set_has(&scan->pins, id))
		scan->evictable += row->disk_bytes;
}

static void scan_rows(struct cache *cache, struct room_scan *scan)
{
	struct digest after = {.type = DIGEST_NONE};
	int n;

	if (!cache_has_index(cache))
		return;
	do {
		n = index_scan(cache->index, &after, SCAN_STEP, add_row, scan);
	} while (n == SCAN_STEP);
}

void cache_room(struct cache *cache, uint32_t idle_s, struct cache_room *ret)
{
	const struct space_limits *limits = &cache->space.limits;
	struct room_scan scan = {.used_before_s = wall_seconds() - idle_s};
	uint64_t disk;

	pin_set_init(&scan.pins, cache->dirfd);
	scan_rows(cache, &scan);
	pin_set_release(&scan.pins);
	disk = bytes_left(space_free_bytes(&cache->space),
			  limits->min_free_bytes);
	*ret = (struct cache_room){
		.limit_bytes = limits->limit_bytes,
		.free_bytes = bytes_left(limits->limit_bytes, scan.used),
		.evictable_bytes = scan.evictable,
	};
	if (disk < ret->free_bytes) {
		ret->is_disk = true;
		ret->free_bytes = disk;
		ret->limit_bytes = scan.used + disk;
	}
	/* Eviction goes down to 90 %: the rest of what it frees is not for
	 * the asking. */
	if (idle_s > 0)
		ret->evictable_bytes =
			bytes_left(scan.evictable, ret->limit_bytes / 10);
}
