/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_BLOB_H
#define LARDER_DATASET_BLOB_H

#include "dataset/objects.h"

/* An open blob: its chunks, and its file in the cache. Shared by all readers.
 */
struct blob {
	struct object object;
	struct digest id;
	uint64_t bytes, chunk_count;
	struct cache_blob *cached; /* NULL: no cache, or it cannot be opened */
	struct recipe_object *recipe; /* NULL: inline */
	struct recipe_page *inlined;
	char *url; /* by reference: below the endpoint; else NULL */
	struct version *version; /* by reference */
	atomic_uint location_generation;
	atomic_bool is_complete; /* in the cache: nothing to fetch ahead */
};

/* Where a blob's chunks are listed on mirrors. */
struct blob_source {
	struct digest places;	/* name of the places file */
	uint64_t first_ordinal; /* of the blob's chunk 0 in it */
	uint64_t places_chunks; /* in the whole file; 0: unknown */
};

int blob_open(struct dataset *dataset, struct catalog_object *catalog,
	      uint32_t index, struct waiter *waiter, struct blob **ret,
	      struct blob_source *ret_source, struct err *err);

/* The page of chunks that holds blob byte offset. *ret_held: unref it when
 * done with the page; may be NULL. */
int blob_page(struct dataset *dataset, struct blob *blob, uint64_t offset,
	      struct waiter *waiter, const struct recipe_page **ret,
	      struct object **ret_held, struct err *err);

/* For reference.c: without its chunks; and its file, once it is complete. */
int blob_new(const struct object_key *key, const struct catalog_blob *info,
	     uint64_t chunk_count, struct blob **ret);
void blob_open_cached(struct node *node, struct blob *blob);

/* Its file was lost or evicted: whoever opens it next gets a new one. */
void blob_forget(struct node *node, struct blob *blob);

static inline struct blob *blob_ref(struct blob *blob)
{
	object_ref(&blob->object);
	return blob;
}

static inline void blob_unref(struct blob *blob)
{
	object_unref((struct object *)blob);
}

static inline bool blob_same(const struct blob *a, const struct blob *b)
{
	return a == b || digest_equal(&a->id, &b->id);
}

#endif
