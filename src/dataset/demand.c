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
/* A word of a chunk is repeated more often. */
#define WANTED_MS 1000u

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

static bool told_within(struct node *node, const struct digest *what,
			uint64_t now, uint32_t ms)
{
	uint32_t told = cache_progress_read(node->cache, what);

	return told && (uint32_t)now - told < ms;
}

bool demand_is_active(struct node *node, uint64_t now)
{
	return told_within(node, &somebody, now, ACTIVE_MS);
}

/* Beside the chunk's own, which says that its bytes come. */
static struct digest wish_for(const struct digest *chunk)
{
	struct digest wish = *chunk;

	for (size_t i = 0; i < sizeof(wish.bytes); i++)
		wish.bytes[i] = (uint8_t)~wish.bytes[i];
	return wish;
}

void demand_want(struct node *node, const struct digest *chunk)
{
	const struct digest wish = wish_for(chunk);

	cache_progress(node->cache, &wish);
}

bool demand_is_wanted(struct node *node, const struct digest *chunk,
		      uint64_t now)
{
	const struct digest wish = wish_for(chunk);

	return told_within(node, &wish, now, WANTED_MS);
}
