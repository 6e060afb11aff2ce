/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks by digest, so that a new version of a dataset fetches only what
 * changed. One place is kept for a digest, the last that was named; a place
 * whose file was evicted is forgotten when it is met. Names are a hint: the
 * bytes are hashed again by whoever asked.
 */
#include <config.h>

#include <errno.h>

#include "cache/internal.h"

/* The callback hangs on the second record: by then both are written, and no
 * moment is left in which the chunk is neither in flight nor to be found. */
int cache_blob_put_chunk(struct cache_blob *blob, uint64_t unit,
			 uint64_t offset, const void *data, uint32_t length,
			 const struct digest *chunk,
			 void (*recorded)(void *arg), void *arg)
{
	struct record record = {.recorded = recorded, .arg = arg};
	int r = cache_blob_put(blob, unit, offset, data, length, NULL, NULL);

	if (r < 0)
		return r;
	record.op = (struct index_op){
		.kind = blob->is_unnamed ? INDEX_NOTHING : INDEX_CHUNK,
		.id = blob->id,
		.gen = blob->gen,
		.unit = unit,
		.offset = offset,
		.length = length,
		.chunk = *chunk,
	};
	record.blob = blob;
	blob_ref(blob);
	record.pending = pending_add(&blob->cache->pending, chunk, blob, offset,
				     length);
	if (recorder_add(&blob->cache->recorder, &record) < 0)
		record_finish(&blob->cache->recorder, &record);
	return 0;
}

static void forget(struct cache *cache, const struct digest *chunk,
		   uint64_t gen)
{
	struct record record = {
		.op =
			{
				.kind = INDEX_DROP_CHUNK,
				.gen = gen,
				.chunk = *chunk,
			},
	};

	if (!cache->is_readonly)
		(void)recorder_add(&cache->recorder, &record);
}

static int read_place(struct cache_blob *blob, const struct chunk_row *place,
		      void *ret_data)
{
	if (blob_attach(blob, false) < 0 || blob->gen != place->gen)
		return 0;
	if (cache_blob_recheck(blob, place->unit) != 1)
		return 0;
	return blob_read(blob, place->offset, ret_data, place->length) == 0;
}

static int get_pending(struct cache *cache, const struct digest *chunk,
		       uint32_t length, void *ret_data)
{
	uint64_t offset;
	struct cache_blob *blob =
		pending_find(&cache->pending, chunk, length, &offset);
	int r;

	if (!blob)
		return 0;
	r = blob_read(blob, offset, ret_data, length);
	blob_unref(blob);
	return r == 0;
}

int cache_chunk_get(struct cache *cache, const struct digest *chunk,
		    uint32_t length, void *ret_data)
{
	struct cache_blob *blob;
	struct chunk_row place;
	struct blob_row row;
	int r;

	if (get_pending(cache, chunk, length, ret_data) == 1)
		return 1;
	if (!cache_has_index(cache) ||
	    index_chunk(cache->index, chunk, &place) != 1 ||
	    place.length != length)
		return 0;
	if (index_blob(cache->index, &place.id, &row) != 1 ||
	    row.gen != place.gen) {
		forget(cache, chunk, place.gen);
		return 0;
	}
	if (cache_blob_open(cache, &place.id, row.blob_bytes, row.unit_count,
			    &blob, NULL) < 0)
		return 0;
	r = read_place(blob, &place, ret_data);
	cache_blob_close(blob);
	return r;
}
