/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_PENDING_H
#define LARDER_CACHE_PENDING_H

#include <pthread.h>
#include <stdint.h>

#include "format/digest.h"

struct cache_blob;

/* A chunk that was put and whose record is on its way to the index. */
struct pending_chunk {
	struct pending_chunk *next, **at; /* at: what points to it */
	struct digest digest;
	struct cache_blob *blob; /* counted by the record */
	uint64_t offset;
	uint32_t length;
};

#define PENDING_BUCKETS 1024u

/* By digest, so that who asks for a chunk meanwhile finds it. Thread-safe. */
struct pending {
	pthread_mutex_t lock; /* guards all below */
	struct pending_chunk *buckets[PENDING_BUCKETS];
};

void pending_init(struct pending *pending);
void pending_release(struct pending *pending);
/* NULL: out of memory; it is not found then. */
struct pending_chunk *pending_add(struct pending *pending,
				  const struct digest *digest,
				  struct cache_blob *blob, uint64_t offset,
				  uint32_t length);
void pending_remove(struct pending *pending, struct pending_chunk *chunk);
/* Its blob, counted for the caller, or NULL. */
struct cache_blob *pending_find(struct pending *pending,
				const struct digest *digest, uint32_t length,
				uint64_t *ret_offset);

#endif
