/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_MEASURE_H
#define LARDER_CACHE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

struct cache;

/*
 * Look at directory `number` of blobs/ and objects/: what the index says of
 * used space becomes what is there, and temporary files that somebody left
 * are removed. Returns the bytes of its objects.
 */
uint64_t measure_directory(struct cache *cache, unsigned int number);

/* What is on disk, of blobs and objects: a look at every file. */
uint64_t measure_all(struct cache *cache);

/* An object was read: its time of last use, to a day. */
void measure_used(struct cache *cache, const char *path);

/* Remove objects until bytes are freed, those first that were not used for the
 * longest; none that is pinned or was used within age_s. Returns what was. */
uint64_t measure_evict_objects(struct cache *cache, uint64_t bytes,
			       int64_t age_s);

#endif
