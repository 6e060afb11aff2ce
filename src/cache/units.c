/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller does with an open blob: is a unit here, give me a descriptor;
 * unit-store.c: store this. A unit counts as here once this process has written
 * it or has compared its checksum; that is a bit, and testing it takes no lock.
 * Units that are not here are looked up in the index each time: another process
 * may have stored them, and a look-up is nothing against a download.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/err.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/units.h"

void cache_blob_touch(struct cache_blob *blob)
{
	int64_t now = atomic_load_explicit(&blob->cache->now_s,
					   memory_order_relaxed);

	if (atomic_load_explicit(&blob->last_use, memory_order_relaxed) != now)
		atomic_store_explicit(&blob->last_use, now,
				      memory_order_relaxed);
}

int cache_blob_open(struct cache *cache, const struct digest *id,
		    uint64_t blob_bytes, uint64_t unit_count,
		    struct cache_blob **ret, struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	int r;

	if (digest_size(id->type) == 0 || blob_bytes > LIMIT_BLOB_BYTES ||
	    unit_count > blob_bytes || (blob_bytes > 0 && unit_count == 0))
		return err_set(err, EINVAL, "cannot open a cached blob of "
			       "%" PRIu64 " bytes in %" PRIu64 " units",
			       blob_bytes, unit_count);
	r = blob_get(cache, id, blob_bytes, unit_count, ret);
	if (r < 0)
		return err_set(err, -r, "cannot open cached blob '%s'",
			       digest_hex(id, hex));
	return 0;
}

int cache_blob_find(struct cache *cache, const struct digest *id,
		    uint64_t blob_bytes, struct cache_blob **ret)
{
	struct blob_row row;
	int r = cache_has_index(cache) ? index_blob(cache->index, id, &row) : 0;

	if (r != 1)
		return r;
	if (row.blob_bytes != blob_bytes || row.segment_bytes != 0 ||
	    row.present_units != row.unit_count)
		return 0;
	r = blob_get(cache, id, blob_bytes, row.unit_count, ret);
	return r < 0 ? r : 1;
}

void cache_blob_close(struct cache_blob *blob)
{
	if (blob)
		blob_unref(blob);
}

/* ---- is it here */

struct unit_reading {
	struct cache_blob *blob;
	uint64_t start;
};

static int read_unit_piece(void *arg, uint64_t at, void *data, size_t size)
{
	struct unit_reading *reading = arg;

	return blob_read(reading->blob, reading->start + at, data, size);
}

static bool is_intact(struct cache_blob *blob, const struct unit_row *row)
{
	struct unit_reading reading = {.blob = blob, .start = row->offset};
	uint64_t checksum;

	return checksum_xxh3_read(read_unit_piece, &reading, row->length,
				  &checksum) == 0 &&
	       checksum == row->checksum;
}

/* Seen bad a while ago, by a reader or the sealer: another thread may have
 * dropped it and put it again since. */
static bool is_still_bad(struct cache_blob *blob, uint64_t unit)
{
	struct unit_row row;

	return index_unit(blob->cache->index, &blob->id, blob->gen, unit,
			  &row) == 1 &&
	       !is_intact(blob, &row);
}

static void unit_drop(struct cache_blob *blob, uint64_t unit, uint32_t length,
		      bool is_certain)
{
	struct record drop = {
		.op = {
			.kind = INDEX_DROP_UNIT, .id = blob->id,
			.gen = blob->gen, .unit = unit, .length = length,
			.is_certain = is_certain,
		},
		.blob = blob,
	};

	/* The index takes the mark off with the unit. */
	atomic_store(&blob->seal.is_sealed, false);
	if (bit_set(blob->bad, unit))
		return; /* another thread saw it first */
	if (!is_certain && !is_still_bad(blob, unit)) {
		bit_clear(blob->bad, unit);
		return;
	}
	atomic_fetch_add(&blob->cache->units_dropped_corrupt, 1);
	log_limited(1000, log_warning("unit damaged on disk, forgetting it: "
				      "gen=%016" PRIx64 " unit=%" PRIu64,
				      blob->gen, unit));
	if (blob->cache->is_readonly)
		return;
	blob_ref(blob);
	if (recorder_add(&blob->cache->recorder, &drop) < 0)
		blob_unref(blob);
}

void blob_unit_dropped(struct cache_blob *blob, uint64_t unit)
{
	bit_clear(blob->bad, unit);
}

/* 1 and its row if the index has the unit for the file we hold. */
static int unit_listed(struct cache_blob *blob, uint64_t unit,
		       struct unit_row *ret)
{
	struct cache *cache = blob->cache;

	if (!cache_has_index(cache) || bit_test(blob->bad, unit) ||
	    blob_attach(blob, false) < 0)
		return 0;
	return index_unit(cache->index, &blob->id, blob->gen, unit, ret);
}

/*
 * A write succeeds when the kernel has the bytes. Should it fail to bring them
 * to the disk it forgets them, and the next reader gets zeros from a hole,
 * without an error: until a file is synced, holes are looked for. A filesystem
 * that makes holes of zeros (ZFS) costs a checksum.
 */
static bool is_lost(struct cache_blob *blob, uint64_t unit, uint64_t offset,
		    uint32_t length)
{
	if (atomic_load_explicit(&blob->seal.is_sealed, memory_order_relaxed) ||
	    !blob_has_hole(blob, offset, length))
		return false;
	bit_clear(blob->sound, unit);
	return true;
}

/* A segment that was evicted is no damage, though the index still says that its
 * units are here: it hears of it after the file has gone. */
static bool is_segment_gone(struct cache_blob *blob, const struct unit_row *row)
{
	struct record drop = { .op = {
		.kind = INDEX_DROP_RANGE, .id = blob->id, .gen = blob->gen,
		.delta = (int64_t)blob->segment_bytes,
	} };
	uint64_t last = row->offset + row->length - 1;
	bool is_gone = false;

	if (blob->segment_bytes == 0)
		return false;
	for (uint64_t i = row->offset / blob->segment_bytes;
	     i <= last / blob->segment_bytes; i++) {
		if (blob_segment(blob, i, false) != -ENOENT)
			continue;
		is_gone = true;
		drop.op.offset = i * blob->segment_bytes;
		if (!blob->cache->is_readonly)
			(void)recorder_add(&blob->cache->recorder, &drop);
	}
	return is_gone;
}

int cache_blob_has(struct cache_blob *blob, uint64_t unit, uint64_t offset,
		   uint32_t length)
{
	unsigned int distrusts;

	if (!is_unit(blob, unit, offset, length))
		return 0;
	if (atomic_load_explicit(&blob->is_cut, memory_order_relaxed))
		return 0;
	if (bit_test(blob->sound, unit) && !is_lost(blob, unit, offset, length)) {
		cache_blob_touch(blob);
		return 1;
	}
	do {
		struct unit_row row;

		distrusts = atomic_load(&blob->distrusts);
		if (unit_listed(blob, unit, &row) != 1 ||
		    row.offset != offset || row.length != length)
			return 0;
		if (!is_intact(blob, &row)) {
			/* stored while we looked? */
			if (bit_test(blob->sound, unit))
				return 1;
			if (!is_segment_gone(blob, &row))
				unit_drop(blob, unit, length, false);
			return 0;
		}
		bit_set(blob->sound, unit);
		/* If not, what was read may be of before the change. */
	} while (atomic_load(&blob->distrusts) != distrusts);
	cache_blob_touch(blob);
	return 1;
}

bool cache_blob_must_check(struct cache_blob *blob, uint64_t unit)
{
	struct unit_row row;

	return unit < blob->unit_count && !atomic_load(&blob->is_cut) &&
	       !bit_test(blob->sound, unit) &&
	       unit_listed(blob, unit, &row) == 1;
}

int cache_blob_recheck(struct cache_blob *blob, uint64_t unit)
{
	struct unit_row row;

	if (unit >= blob->unit_count || atomic_load(&blob->is_cut))
		return 0;
	return bit_test(blob->sound, unit) ||
	       unit_listed(blob, unit, &row) == 1;
}

/* What this process has put counts as here before the index knows of it; which
 * units these were is not kept, so from now on the index alone is asked. */
static void forget_unit(struct cache_blob *blob, uint64_t unit)
{
	bit_clear(blob->sound, unit);
	atomic_store(&blob->own_units, 0);
	atomic_store(&blob->own_bytes, 0);
}

void cache_blob_drop(struct cache_blob *blob, uint64_t unit, uint32_t length)
{
	if (unit >= blob->unit_count || blob_attach(blob, false) < 0)
		return;
	forget_unit(blob, unit);
	unit_drop(blob, unit, length, true);
}

void blob_unit_suspect(struct cache_blob *blob, uint64_t unit, uint32_t length)
{
	forget_unit(blob, unit);
	unit_drop(blob, unit, length, false);
}

bool blob_unit_is_right(struct cache_blob *blob, uint64_t unit)
{
	struct unit_row row;

	return index_unit(blob->cache->index, &blob->id, blob->gen, unit,
			  &row) == 1 &&
	       is_intact(blob, &row);
}

/*
 * Somebody has truncated the file. Making it long again would let a reader
 * that has asked before see zeros, so the whole file is given up.
 */
static void give_up_cut(struct cache_blob *blob)
{
	if (atomic_exchange(&blob->is_cut, true))
		return;
	atomic_fetch_add(&blob->cache->blobs_lost, 1);
	log_warning("blob file cut short while in use, giving it up: "
		    "gen=%016" PRIx64, blob->gen);
	blob_set_stale(blob);
}

int cache_blob_fd(struct cache_blob *blob, uint64_t offset, int *ret_fd,
		  uint64_t *ret_fd_offset, uint64_t *ret_len)
{
	uint64_t segment = 0, at = offset, left;
	struct stat st;
	int fd;

	if (offset >= blob->blob_bytes)
		return -EINVAL;
	if (atomic_load(&blob->is_cut) || blob_attach(blob, false) < 0)
		return -ENOENT;
	left = blob->blob_bytes - offset;
	if (blob->segment_bytes > 0) {
		segment = offset / blob->segment_bytes;
		at = offset % blob->segment_bytes;
		if (left > blob->segment_bytes - at)
			left = blob->segment_bytes - at;
	}
	fd = blob_segment(blob, segment, false);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!blob->cache->is_readonly &&
	    !blob_segment_is_whole(blob, segment, &st)) {
		give_up_cut(blob);
		return -ENOENT;
	}
	if (watch_look(blob, segment, fd, &st) < 0)
		return -EAGAIN;
	cache_blob_touch(blob);
	*ret_fd = fd;
	*ret_fd_offset = at;
	*ret_len = left;
	return 0;
}

int cache_blob_candidate(struct cache_blob *blob, uint64_t unit,
			 uint64_t offset, uint32_t length, void *ret_data)
{
	if (!is_unit(blob, unit, offset, length) ||
	    atomic_load(&blob->is_cut) || blob_attach(blob, false) < 0 ||
	    bit_test(blob->bad, unit) || blob_has_hole(blob, offset, length))
		return 0;
	return blob_read(blob, offset, ret_data, length) == 0;
}

/* ---- totals */

static bool row_of_ours(struct cache_blob *blob, struct blob_row *ret)
{
	return cache_has_index(blob->cache) && blob_attach(blob, false) == 0 &&
	       index_blob(blob->cache->index, &blob->id, ret) == 1 &&
	       ret->gen == blob->gen;
}

bool cache_blob_in_segments(const struct cache_blob *blob)
{
	return atomic_load_explicit(&blob->is_attached, memory_order_acquire) &&
	       blob->segment_bytes > 0;
}

uint64_t cache_blob_bytes_present(struct cache_blob *blob)
{
	uint64_t own = atomic_load(&blob->own_bytes);
	struct blob_row row;

	if (row_of_ours(blob, &row) && row.present_bytes > own)
		return row.present_bytes;
	return own < blob->blob_bytes ? own : blob->blob_bytes;
}

bool cache_blob_complete(struct cache_blob *blob)
{
	struct blob_row row;

	if (atomic_load(&blob->own_units) >= blob->unit_count)
		return true;
	return row_of_ours(blob, &row) &&
	       row.present_units == blob->unit_count;
}
