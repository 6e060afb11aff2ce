/* SPDX-License-Identifier: Apache-2.0 */
/* A pack's end: an accepted table can be written again, byte for byte. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "format/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void write_again(const struct pack_record *records, uint32_t count,
			uint64_t offset, const struct digest *id,
			const uint8_t *table, size_t len)
{
	struct digest again;
	struct buf tail;

	buf_init(&tail, len);
	assert(pack_table_write(records, count, offset, &tail, &again) == 0);
	assert(tail.len == len);
	/* must-ignore flags are not kept */
	if (table[14] == 0) {
		assert(memcmp(tail.data, table, len) == 0);
		assert(digest_equal(&again, id));
	}
	buf_release(&tail);
}

/* The table alone, as if it stood at the offset its trailer says, so that
 * the input need not hold the frames. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct pack_record *records;
	uint64_t offset, bytes;
	struct digest id;
	struct err err;
	uint32_t count;

	if (len < PACK_TRAILER_BYTES)
		return 0;
	pack_trailer_parse(data + len - PACK_TRAILER_BYTES, len, &offset,
			   &bytes, &err);
	offset = load_le64(data + len - PACK_TRAILER_BYTES);
	if (pack_table_parse(data, len, offset, &records, &count, &id, &err) <
	    0)
		return 0;
	write_again(records, count, offset, &id, data, len);
	free(records);
	return 0;
}
