/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as rows of the cache's index: what is accepted is written again
 * as it was.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "cache/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_blob(const uint8_t *data, size_t len)
{
	uint8_t again[ROW_BLOB_BYTES];
	struct blob_row row, same;

	if (blob_row_decode(data, len, &row) < 0)
		return;
	assert(row.gen != 0);
	blob_row_encode(&row, again);
	assert(blob_row_decode(again, sizeof(again), &same) == 0);
	assert(same.gen == row.gen && same.blob_bytes == row.blob_bytes &&
	       same.unit_count == row.unit_count &&
	       same.has_mark == row.has_mark &&
	       (!row.has_mark || file_mark_equal(&same.mark, &row.mark)));
}

static void try_chunk(const uint8_t *data, size_t len)
{
	uint8_t again[ROW_CHUNK_BYTES];
	struct chunk_row row, same;

	if (chunk_row_decode(data, len, &row) < 0)
		return;
	assert(row.gen != 0);
	chunk_row_encode(&row, again);
	assert(chunk_row_decode(again, sizeof(again), &same) == 0);
	assert(same.unit == row.unit && same.offset == row.offset &&
	       same.length == row.length);
}

static void try_units(const uint8_t *data, size_t len)
{
	uint8_t again[ROW_UNITS_MAX];
	struct units_row row;
	uint32_t count = len > 0 ? data[0] % (ROW_UNITS + 1) : ROW_UNITS;
	size_t length;

	if (len > 0 && units_row_decode(data + 1, len - 1, count, &row) == 0) {
		assert(row.count == count);
		length = units_row_encode(&row, again);
		assert(length <= sizeof(again));
		assert(units_row_decode(again, length, count, &row) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	size_t key_len = len < ROW_KEY_BYTES ? len : ROW_KEY_BYTES;
	struct digest id;

	try_blob(data, len);
	try_chunk(data, len);
	try_units(data, len);
	(void)row_key_parse(data, len, &id);
	assert(row_length(data, key_len, data, len) < (int64_t)len || len == 0);
	return 0;
}
