/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index rows to bytes and back. Every row of units carries the generation it
 * speaks of, so rows left behind by an older file of the blob mean nothing
 * and need not be deleted in the same transaction.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/rows.h"
#include "format/limits.h"

uint64_t row_check(const void *key, size_t key_len, const void *row,
		   size_t len)
{
	return checksum_xxh3(key, key_len) * 3 ^ checksum_xxh3(row, len);
}

int64_t row_length(const void *key, size_t key_len, const void *row, size_t len)
{
	size_t length = len - ROW_CHECK_BYTES;

	if (len < ROW_CHECK_BYTES ||
	    load_le64((const uint8_t *)row + length) !=
		    row_check(key, key_len, row, length))
		return -EBADMSG;
	return (int64_t)length;
}

void row_key(const struct digest *id, uint8_t ret_key[ROW_KEY_BYTES])
{
	ret_key[0] = id->type;
	memcpy(ret_key + 1, id->bytes, DIGEST_BYTES);
}

bool row_key_parse(const void *key, size_t len, struct digest *ret_id)
{
	const uint8_t *bytes = key;

	if (len != ROW_KEY_BYTES || digest_size(bytes[0]) == 0)
		return false;
	ret_id->type = bytes[0];
	memcpy(ret_id->bytes, bytes + 1, DIGEST_BYTES);
	return true;
}

void row_units_key(const struct digest *id, uint32_t row,
		   uint8_t ret_key[ROW_UNITS_KEY_BYTES])
{
	row_key(id, ret_key);
	/* Big-endian: rows of a blob lie in order. */
	ret_key[ROW_KEY_BYTES] = (uint8_t)(row >> 24);
	ret_key[ROW_KEY_BYTES + 1] = (uint8_t)(row >> 16);
	ret_key[ROW_KEY_BYTES + 2] = (uint8_t)(row >> 8);
	ret_key[ROW_KEY_BYTES + 3] = (uint8_t)row;
}

/* Before the mark, so that a row of zeros has none. */
#define ROW_MARKED 1u

void blob_row_encode(const struct blob_row *row, uint8_t ret[ROW_BLOB_BYTES])
{
	memset(ret, 0, ROW_BLOB_BYTES);
	store_le64(ret, row->gen);
	store_le64(ret + 8, row->blob_bytes);
	store_le64(ret + 16, row->unit_count);
	store_le64(ret + 24, row->segment_bytes);
	store_le64(ret + 32, row->present_units);
	store_le64(ret + 40, row->present_bytes);
	store_le64(ret + 48, row->disk_bytes);
	store_le64(ret + 56, (uint64_t)row->last_use);
	store_le64(ret + 112, row->is_by_content);
	if (!row->has_mark)
		return;
	store_le64(ret + 64, ROW_MARKED);
	store_le64(ret + 72, row->mark.device);
	store_le64(ret + 80, row->mark.inode);
	store_le64(ret + 88, row->mark.size);
	store_le64(ret + 96, (uint64_t)row->mark.mtime_ns);
	store_le64(ret + 104, (uint64_t)row->mark.ctime_ns);
}

int blob_row_decode(const void *data, size_t len, struct blob_row *ret)
{
	const uint8_t *bytes = data;
	struct blob_row row;

	if (len != ROW_BLOB_BYTES)
		return -EINVAL;
	row = (struct blob_row){
		.gen = load_le64(bytes),
		.blob_bytes = load_le64(bytes + 8),
		.unit_count = load_le64(bytes + 16),
		.segment_bytes = load_le64(bytes + 24),
		.present_units = load_le64(bytes + 32),
		.present_bytes = load_le64(bytes + 40),
		.disk_bytes = load_le64(bytes + 48),
		.last_use = (int64_t)load_le64(bytes + 56),
		.is_by_content = load_le64(bytes + 112) == 1,
		.has_mark = load_le64(bytes + 64) == ROW_MARKED,
		.mark = {
			.device = load_le64(bytes + 72),
			.inode = load_le64(bytes + 80),
			.size = load_le64(bytes + 88),
			.mtime_ns = (int64_t)load_le64(bytes + 96),
			.ctime_ns = (int64_t)load_le64(bytes + 104),
		},
	};
	if (row.gen == 0 || row.blob_bytes > LIMIT_BLOB_BYTES ||
	    row.unit_count > row.blob_bytes ||
	    row.present_units > row.unit_count ||
	    row.present_bytes > row.blob_bytes)
		return -EINVAL;
	*ret = row;
	return 0;
}

void chunk_row_encode(const struct chunk_row *row, uint8_t ret[ROW_CHUNK_BYTES])
{
	memset(ret, 0, ROW_CHUNK_BYTES);
	row_key(&row->id, ret);
	store_le32(ret + 36, row->length);
	store_le64(ret + 40, row->gen);
	store_le64(ret + 48, row->unit);
	store_le64(ret + 56, row->offset);
}

int chunk_row_decode(const void *data, size_t len, struct chunk_row *ret)
{
	const uint8_t *bytes = data;
	struct chunk_row row;

	if (len != ROW_CHUNK_BYTES ||
	    !row_key_parse(bytes, ROW_KEY_BYTES, &row.id))
		return -EINVAL;
	row.length = load_le32(bytes + 36);
	row.gen = load_le64(bytes + 40);
	row.unit = load_le64(bytes + 48);
	row.offset = load_le64(bytes + 56);
	if (row.gen == 0 || row.length == 0 || row.length > LIMIT_CHUNK_BYTES ||
	    row.offset > LIMIT_BLOB_BYTES)
		return -EINVAL;
	*ret = row;
	return 0;
}

uint32_t units_row_count(uint64_t unit_count, uint64_t row)
{
	uint64_t first;

	if (!mul_checked(row, ROW_UNITS, &first) || first >= unit_count)
		return 0;
	return unit_count - first < ROW_UNITS ?
		       (uint32_t)(unit_count - first) : ROW_UNITS;
}

static void unit_row_encode(const struct unit_row *row,
			    uint8_t ret[ROW_UNIT_BYTES])
{
	store_le64(ret, row->checksum);
	store_le64(ret + 8, row->offset);
	store_le32(ret + 16, row->length);
}

void unit_row_decode(const uint8_t bytes[ROW_UNIT_BYTES],
		     struct unit_row *ret)
{
	ret->checksum = load_le64(bytes);
	ret->offset = load_le64(bytes + 8);
	ret->length = load_le32(bytes + 16);
}

size_t units_row_encode(const struct units_row *row,
			uint8_t ret[ROW_UNITS_MAX])
{
	store_le64(ret, row->gen);
	for (unsigned int i = 0; i < ROW_UNITS / 64; i++)
		store_le64(ret + 8 + i * 8, row->present[i]);
	for (uint32_t i = 0; i < row->count; i++)
		unit_row_encode(&row->units[i],
				ret + ROW_UNITS_HEAD + i * ROW_UNIT_BYTES);
	return ROW_UNITS_HEAD + (size_t)row->count * ROW_UNIT_BYTES;
}

int units_row_decode(const void *data, size_t len, uint32_t count,
		     struct units_row *ret)
{
	const uint8_t *bytes = data;

	if (count > ROW_UNITS ||
	    len != ROW_UNITS_HEAD + (size_t)count * ROW_UNIT_BYTES)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	ret->gen = load_le64(bytes);
	ret->count = count;
	for (unsigned int i = 0; i < ROW_UNITS / 64; i++)
		ret->present[i] = load_le64(bytes + 8 + i * 8);
	for (uint32_t i = 0; i < count; i++)
		unit_row_decode(bytes + ROW_UNITS_HEAD + i * ROW_UNIT_BYTES,
				&ret->units[i]);
	return 0;
}
