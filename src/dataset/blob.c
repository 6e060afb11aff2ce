/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open blobs. A blob's id is its recipe's digest, so one object serves every
 * file, snapshot and dataset that has it; only where its chunks lie on a
 * mirror depends on the catalog that was read, and is not kept here.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/blob.h"
#include "dataset/reference.h"
#include "dataset/version.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define OPEN_BLOB_BYTES 4096u /* descriptors, bitmaps: a guess for the table   \
			       */

static void free_blob(struct object *object)
{
	struct blob *blob = (struct blob *)object;

	if (blob->cached)
		cache_blob_close(blob->cached);
	object_unref((struct object *)blob->recipe);
	recipe_page_free(blob->inlined);
	free(blob->url);
	version_free(blob->version);
	free(blob);
}

void blob_open_cached(struct node *node, struct blob *blob)
{
	struct err err = {0};
	int r;

	if (!node->cache)
		return;
	r = cache_blob_open(node->cache, &blob->id, blob->bytes,
			    blob->chunk_count, &blob->cached, &err);
	if (r < 0) {
		blob->cached = NULL;
		log_limited(60000, log_warning("blob not cached: %s",
					       err_text(&err, r)));
	}
}

static int inline_page(const struct catalog *catalog,
		       const struct catalog_blob *info,
		       struct recipe_page **ret)
{
	struct recipe_record records[LIMIT_INLINE_CHUNKS];

	if (info->inline_count > LIMIT_INLINE_CHUNKS)
		return -EBADMSG;
	for (uint32_t i = 0; i < info->inline_count; i++)
		catalog_get_inline(catalog, info->inline_first + i,
				   &records[i]);
	return recipe_page_from_records(records, info->inline_count, ret);
}

/* What the blob is made of; parks for its recipe. */
static int load_chunks(struct dataset *dataset, const struct catalog *catalog,
		       const struct catalog_blob *info, struct waiter *waiter,
		       struct blob *blob, struct err *err)
{
	uint64_t bytes;
	int r;

	if (info->kind == BLOB_INLINE) {
		r = inline_page(catalog, info, &blob->inlined);
		if (r < 0)
			return err_set(err, EIO,
				       "its list of chunks is broken");
		blob->chunk_count = blob->inlined->count;
		bytes = blob->inlined->starts[blob->inlined->count];
	} else {
		r = recipe_object_get(dataset, &info->id, waiter, &blob->recipe,
				      err);
		if (r != 0)
			return r;
		blob->chunk_count = blob->recipe->recipe.chunk_count;
		bytes = blob->recipe->recipe.blob_bytes;
	}
	if (bytes != info->size)
		return err_set(err, EIO,
			       "catalog and recipe disagree about its size");
	return 0;
}

static void locate(const struct catalog_object *catalog,
		   const struct catalog_blob *info, const struct blob *blob,
		   struct blob_source *ret)
{
	if (info->kind == BLOB_INLINE)
		*ret = (struct blob_source){
			.places = catalog->object.key.digest,
			.first_ordinal = info->inline_first,
			.places_chunks = catalog_inline_count(catalog->catalog),
		};
	else
		*ret = (struct blob_source){
			.places = info->id,
			.places_chunks = blob->chunk_count,
		};
}

int blob_new(const struct object_key *key, const struct catalog_blob *info,
	     uint64_t chunk_count, struct blob **ret)
{
	struct blob *blob = calloc(1, sizeof(*blob));

	if (!blob)
		return -ENOMEM;
	object_init(&blob->object, key, OPEN_BLOB_BYTES, free_blob);
	blob->id = info->id;
	blob->bytes = info->size;
	blob->chunk_count = chunk_count;
	*ret = blob;
	return 0;
}

int blob_open(struct dataset *dataset, struct catalog_object *catalog,
	      uint32_t index, struct waiter *waiter, struct blob **ret,
	      struct blob_source *ret_source, struct err *err)
{
	struct node *node = dataset->node;
	struct object_key key = {.kind = OBJECT_BLOB};
	struct catalog_blob info;
	struct blob *blob;
	int r;

	catalog_get_blob(catalog->catalog, index, &info);
	if (info.kind == BLOB_REFERENCE) {
		*ret_source = (struct blob_source){.places = info.id};
		return reference_open(dataset, &info, ret, err);
	}
	key.digest = info.id;
	blob = (struct blob *)table_get(node->blobs, &key);
	if (!blob) {
		r = blob_new(&key, &info, 0, &blob);
		if (r < 0)
			return r;
		r = load_chunks(dataset, catalog->catalog, &info, waiter, blob,
				err);
		if (r != 0) {
			blob_unref(blob);
			return r;
		}
		blob_open_cached(node, blob);
		table_put(node->blobs, &blob->object);
	}
	locate(catalog, &info, blob, ret_source);
	*ret = blob;
	return 0;
}

void blob_forget(struct node *node, struct blob *blob)
{
	struct object *current = table_get(node->blobs, &blob->object.key);

	if (current == &blob->object)
		table_drop(node->blobs, &blob->object.key);
	object_unref(current);
}

int blob_page(struct dataset *dataset, struct blob *blob, uint64_t offset,
	      struct waiter *waiter, const struct recipe_page **ret,
	      struct object **ret_held, struct err *err)
{
	struct page_object *page;
	int r;

	*ret_held = NULL;
	if (blob->url && !blob->inlined)
		return reference_page(dataset, blob, offset, ret, ret_held);
	if (blob->inlined || blob->recipe->page) {
		*ret = blob->inlined ? blob->inlined : blob->recipe->page;
		return 0;
	}
	r = page_object_get(dataset, blob->recipe,
			    recipe_find_page(&blob->recipe->recipe, offset),
			    waiter, &page, err);
	if (r != 0)
		return r;
	*ret = page->page;
	*ret_held = &page->object;
	return 0;
}
