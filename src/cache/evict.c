/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blobs to drop: plain last use. Readers that go round a working set
 * larger than the cache would do better with something cleverer; what is
 * pinned or open is not offered in the first place.
 */
#include <config.h>

#include <stdlib.h>

#include "cache/evict.h"

static int by_last_use(const void *left, const void *right)
{
	const struct evict_candidate *a = left, *b = right;

	if (a->last_use != b->last_use)
		return a->last_use < b->last_use ? -1 : 1;
	if (a->written != b->written)
		return a->written < b->written ? -1 : 1;
	if (a->disk_bytes != b->disk_bytes)
		return a->disk_bytes > b->disk_bytes ? -1 : 1;
	if (a->segment != b->segment)
		return a->segment < b->segment ? -1 : 1;
	return digest_compare(&a->id, &b->id);
}

size_t evict_choose(struct evict_candidate *candidates, size_t count,
		    uint64_t bytes)
{
	size_t chosen = 0;

	if (count > 0)
		qsort(candidates, count, sizeof(*candidates), by_last_use);
	while (chosen < count && bytes > 0) {
		uint64_t freed = candidates[chosen++].disk_bytes;

		bytes = freed < bytes ? bytes - freed : 0;
	}
	return chosen;
}
