/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of the whole node, told through the cache's table of progress:
 * a digest that no chunk has stands for "somebody's demand". Without a cache
 * there is nothing to prefetch into.
 */
#include <config.h>

#include "base/io.h"
#include "cache/cache.h"
#include "dataset/demand.h"
#include "dataset/node.h"

/* A word for others is a write to a shared file: not more often. */
#define TELL_MS 50u
/* A reader between two reads has not gone away. */
#define ACTIVE_MS 250u

static const struct digest somebody = {
	.type = DIGEST_SHA256,
	.bytes = "larder: a reader waits for this",
};

void demand_note(struct node *node)
{
	uint64_t now = now_ms(), told = atomic_load(&node->demand_ms);

	if (!node->cache || now < told + TELL_MS ||
	    !atomic_compare_exchange_strong(&node->demand_ms, &told, now))
		return;
	cache_progress(node->cache, &somebody);
}

bool demand_is_active(struct node *node, uint64_t now)
{
	uint32_t told = cache_progress_read(node->cache, &somebody);

	return told && (uint32_t)now - told < ACTIVE_MS;
}
