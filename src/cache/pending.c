/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way to the index. A commit may take seconds, since a journal
 * writes the data before the names that lead to it; a chunk must be found for
 * all that time, and not by keeping its bytes in memory.
 */
#include <config.h>

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "cache/blobs.h"
#include "cache/pending.h"

void pending_init(struct pending *pending)
{
	pthread_mutex_init(&pending->lock, NULL);
}

void pending_release(struct pending *pending)
{
	pthread_mutex_destroy(&pending->lock);
}

static struct pending_chunk **bucket_of(struct pending *pending,
					const struct digest *digest)
{
	return &pending->buckets[load_le32(digest->bytes) % PENDING_BUCKETS];
}

struct pending_chunk *pending_add(struct pending *pending,
				  const struct digest *digest,
				  struct cache_blob *blob, uint64_t offset,
				  uint32_t length)
{
	struct pending_chunk **bucket = bucket_of(pending, digest);
	struct pending_chunk *chunk = malloc(sizeof(*chunk));

	if (!chunk)
		return NULL;
	scoped_lock(&pending->lock);
	*chunk = (struct pending_chunk){
		.next = *bucket,
		.at = bucket,
		.digest = *digest,
		.blob = blob,
		.offset = offset,
		.length = length,
	};
	if (chunk->next)
		chunk->next->at = &chunk->next;
	*bucket = chunk;
	return chunk;
}

void pending_remove(struct pending *pending, struct pending_chunk *chunk)
{
	pthread_mutex_lock(&pending->lock);
	*chunk->at = chunk->next;
	if (chunk->next)
		chunk->next->at = chunk->at;
	pthread_mutex_unlock(&pending->lock);
	free(chunk);
}

struct cache_blob *pending_find(struct pending *pending,
				const struct digest *digest, uint32_t length,
				uint64_t *ret_offset)
{
	scoped_lock(&pending->lock);
	for (struct pending_chunk *chunk = *bucket_of(pending, digest); chunk;
	     chunk = chunk->next) {
		if (chunk->length != length ||
		    !digest_equal(&chunk->digest, digest))
			continue;
		/* Before its record ends it is taken out here. */
		blob_ref(chunk->blob);
		*ret_offset = chunk->offset;
		return chunk->blob;
	}
	return NULL;
}
