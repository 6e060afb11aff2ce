/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing a unit: admitted by the limits, written at its place, visible to this
 * process at once and recorded soon after. What lies there already is not
 * written again; zeros are left out.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/crash.h"
#include "base/io.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/units.h"

/* Zeros that cost no memory: pages of a mapping that was never written. */
static const void *zeros_map(size_t len)
{
	void *zeros =
		mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return zeros == MAP_FAILED ? NULL : zeros;
}

/* A candidate: what is proven is there already. */
static bool holds(struct cache_blob *blob, uint64_t offset, const void *data,
		  uint32_t length)
{
	uint8_t *there;
	bool is_equal;

	/* Reading a hole would fill the page cache with zeros. */
	if (blob_has_hole(blob, offset, length))
		return false;
	there = malloc(length);
	is_equal = there && blob_read(blob, offset, there, length) == 0 &&
		   memcmp(there, data, length) == 0;
	free(there);
	return is_equal;
}

static int unit_write(struct cache_blob *blob, uint64_t offset,
		      const void *data, uint32_t length, uint64_t *ret_checksum)
{
	const void *zeros;
	int r = 0;

	if (data) {
		*ret_checksum = checksum_xxh3(data, length);
		if (holds(blob, offset, data, length))
			return 0;
		return blob_write(blob, offset, data, length);
	}
	zeros = zeros_map(length);
	if (!zeros)
		return -ENOMEM;
	*ret_checksum = checksum_xxh3(zeros, length);
	/* A damaged or half written unit may lie there already. */
	if (!blob_is_hole(blob, offset, length))
		r = blob_write(blob, offset, zeros, length);
	munmap((void *)zeros, length);
	return r;
}

/* Others record too. */
static void look_at_total(struct cache *cache)
{
	uint64_t used;

	if (space_is_near(&cache->space) && cache_has_index(cache) &&
	    index_used(cache->index, &used) == 0)
		atomic_store(&cache->space.used, used);
}

static int unit_store(struct cache_blob *blob, uint64_t offset,
		      const void *data, uint32_t length, uint64_t *ret_checksum)
{
	int r;

	if (blob->cache->is_readonly)
		return -EROFS;
	if (atomic_load(&blob->is_stale))
		return -ESTALE;
	look_at_total(blob->cache);
	r = space_admit(&blob->cache->space, data ? length : 0);
	if (atomic_load_explicit(&blob->cache->space.wants_eviction,
				 memory_order_relaxed))
		keeper_kick(&blob->cache->keeper);
	if (r < 0)
		return r;
	r = blob_attach(blob, true);
	crash_point("put-attached");
	if (r == 0)
		r = unit_write(blob, offset, data, length, ret_checksum);
	crash_point("put-written");
	if (r < 0 && r != -ESTALE && r != -ETIMEDOUT) {
		space_failed(&blob->cache->space, r);
		log_limited(
			60000,
			log_warning("cannot store, reading goes on without: "
				    "dir=%s reason=%s",
				    blob->cache->dir, strerror(-r)));
	}
	return r;
}

static void count_wait(struct cache *cache, uint64_t ms)
{
	unsigned int at = 0;

	while (at < CACHE_WAITS - 1 && ms > 0) {
		at++;
		ms /= 10;
	}
	atomic_fetch_add(&cache->eviction_waits[at], 1);
}

static int refuse(struct cache *cache, int r)
{
	atomic_fetch_add(&cache->puts_failed, 1);
	return r;
}

int cache_blob_put(struct cache_blob *blob, uint64_t unit, uint64_t offset,
		   const void *data, uint32_t length,
		   void (*recorded)(void *arg), void *arg)
{
	struct cache *cache = blob->cache;
	struct record record = {.recorded = recorded, .arg = arg};
	uint64_t checksum = 0, start_ms;
	struct disk_op op;
	int r = -ETIMEDOUT;

	if (!is_unit(blob, unit, offset, length))
		return -EINVAL;
	if (disk_is_hanging(&cache->disk))
		return refuse(cache, -ETIMEDOUT);
	/* It has all its units; written again, its mark would be void. */
	if (atomic_load(&blob->seal.is_sealed) && !atomic_load(&blob->is_stale))
		return recorder_add(&cache->recorder, &record);
	start_ms = atomic_load(&cache->evictor.is_busy) ? now_ms() : 0;
	if (disk_begin(&cache->disk, &op, "chunk", DISK_CALL)) {
		r = unit_store(blob, offset, data, length, &checksum);
		op.has_written = r == 0 && data;
		disk_end(&cache->disk, &op);
	}
	if (start_ms > 0)
		count_wait(cache, now_ms() - start_ms);
	if (r < 0)
		return refuse(cache, r);
	bit_clear(blob->bad, unit);
	if (!bit_set(blob->sound, unit)) {
		atomic_fetch_add(&blob->own_units, 1);
		atomic_fetch_add(&blob->own_bytes, length);
		if (blob->is_unnamed && data)
			blob_add_unlinked(blob, length);
	}
	cache_blob_touch(blob);
	record.op = (struct index_op){
		.kind = blob->is_unnamed ? INDEX_NOTHING : INDEX_RECORD,
		.may_create = !atomic_load(&blob->is_recorded),
		.length = length,
		.id = blob->id,
		.gen = blob->gen,
		.unit = unit,
		.offset = offset,
		.checksum = checksum,
		.blob_bytes = blob->blob_bytes,
		.unit_count = blob->unit_count,
		.segment_bytes = blob->segment_bytes,
		.is_by_content = atomic_load(&blob->seal.is_by_content),
		.last_use = atomic_load(&blob->last_use),
	};
	record.blob = blob;
	/* Without a name it is counted as such already. */
	record.unrecorded_bytes = data && !blob->is_unnamed ? length : 0;
	unrecorded_add(&cache->space.unrecorded, record.unrecorded_bytes);
	blob_ref(blob);
	r = recorder_add(&cache->recorder, &record);
	if (r == 0)
		return 0;
	unrecorded_remove(&cache->space.unrecorded, record.unrecorded_bytes);
	blob_unref(blob);
	return r;
}
