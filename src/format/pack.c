/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table at the end of a pack: write and parse.
 *
 * It sits in a zstd skippable frame so that zstd's own tool can test a pack,
 * and its size stands in a trailer of fixed length at the very end, so that
 * two range requests find what a pack holds, whatever the server.
 */
#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "format/limits.h"
#include "format/pack.h"
#include "format/preamble.h"

/*
 * skippable frame: magic (u32), length of the rest (u32), then
 *   preamble, records (u32), digest type (u8), 3 zero bytes
 *   record: digest (32), offset (u64), stored (u32), plain (u32)
 *   trailer: offset of the frame (u64), its bytes (u64), magic (8)
 */
#define PACK_MAGIC "LRDK"
#define PACK_SKIPPABLE_MAGIC 0x184D2A5Cu
#define PACK_END_MAGIC "LRDKEND\n"
#define PACK_END_MAGIC_BYTES 8u
#define SKIPPABLE_BYTES 8u
#define TABLE_BYTES (SKIPPABLE_BYTES + 16u)
#define RECORD_BYTES 48u

static size_t table_bytes(uint32_t count)
{
	return TABLE_BYTES + (size_t)count * RECORD_BYTES + PACK_TRAILER_BYTES;
}

/* One after another, without gaps, up to frames_bytes. */
static bool records_fit(const struct pack_record *records, uint32_t count,
			uint64_t frames_bytes)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct pack_record *record = &records[i];

		if (record->digest.type != DIGEST_SHA256 ||
		    record->offset != at || record->stored_bytes == 0 ||
		    record->stored_bytes > LIMIT_FRAME_BYTES ||
		    record->plain_bytes == 0 ||
		    record->plain_bytes > LIMIT_CHUNK_BYTES)
			return false;
		at += record->stored_bytes;
	}
	return at == frames_bytes;
}

static void store_record(uint8_t *at, const struct pack_record *record)
{
	memcpy(at, record->digest.bytes, DIGEST_BYTES);
	store_le64(at + 32, record->offset);
	store_le32(at + 40, record->stored_bytes);
	store_le32(at + 44, record->plain_bytes);
}

static void load_record(const uint8_t *at, struct pack_record *ret)
{
	ret->digest.type = DIGEST_SHA256;
	memcpy(ret->digest.bytes, at, DIGEST_BYTES);
	ret->offset = load_le64(at + 32);
	ret->stored_bytes = load_le32(at + 40);
	ret->plain_bytes = load_le32(at + 44);
}

int pack_table_write(const struct pack_record *records, uint32_t count,
		     uint64_t frames_bytes, struct buf *ret_tail,
		     struct digest *ret_id)
{
	size_t len, start = ret_tail->len;
	struct digest id;
	uint8_t *at;
	int r;

	if (count > LIMIT_PACK_RECORDS || frames_bytes > LIMIT_PACK_BYTES ||
	    frames_bytes + table_bytes(count) > LIMIT_PACK_BYTES)
		return -EFBIG;
	if (count == 0 || !records_fit(records, count, frames_bytes))
		return -EINVAL;
	len = table_bytes(count);
	r = buf_append_zeros(ret_tail, len);
	if (r < 0)
		return r;
	at = ret_tail->data + start;
	store_le32(at, PACK_SKIPPABLE_MAGIC);
	store_le32(at + 4, (uint32_t)(len - SKIPPABLE_BYTES));
	preamble_store(at + SKIPPABLE_BYTES, PACK_MAGIC);
	store_le32(at + 16, count);
	at[20] = DIGEST_SHA256;
	at += TABLE_BYTES;
	for (uint32_t i = 0; i < count; i++, at += RECORD_BYTES)
		store_record(at, &records[i]);
	store_le64(at, frames_bytes);
	store_le64(at + 8, len);
	memcpy(at + 16, PACK_END_MAGIC, PACK_END_MAGIC_BYTES);
	digest_sha256(ret_tail->data + start, len, &id);
	if (digest_is_none(&id)) {
		ret_tail->len = start;
		return -ENOMEM;
	}
	*ret_id = id;
	return 0;
}

int pack_trailer_parse(const void *trailer, uint64_t pack_bytes,
		       uint64_t *ret_table_offset, uint64_t *ret_table_bytes,
		       struct err *err)
{
	const uint8_t *at = trailer;
	uint64_t offset = load_le64(at), bytes = load_le64(at + 8), end;

	if (memcmp(at + 16, PACK_END_MAGIC, PACK_END_MAGIC_BYTES) != 0)
		return err_set(err, EBADMSG,
			       "pack has no trailer: not a pack, or cut short");
	if (pack_bytes > LIMIT_PACK_BYTES ||
	    !add_checked(offset, bytes, &end) || end != pack_bytes ||
	    bytes > table_bytes(LIMIT_PACK_RECORDS) || bytes < table_bytes(1) ||
	    (bytes - table_bytes(0)) % RECORD_BYTES != 0)
		return err_set(err, EBADMSG,
			       "pack trailer does not fit its %llu bytes",
			       (unsigned long long)pack_bytes);
	*ret_table_offset = offset;
	*ret_table_bytes = bytes;
	return 0;
}

static int check_table(const uint8_t *table, size_t len, uint64_t table_offset,
		       struct err *err)
{
	uint64_t offset, bytes;
	int r;

	if (len < table_bytes(1) || load_le32(table) != PACK_SKIPPABLE_MAGIC ||
	    load_le32(table + 4) != len - SKIPPABLE_BYTES)
		return err_set(err, EBADMSG, "not a pack table");
	r = preamble_check(table + SKIPPABLE_BYTES, len - SKIPPABLE_BYTES,
			   PACK_MAGIC, "pack table", err);
	if (r < 0)
		return r;
	r = pack_trailer_parse(table + len - PACK_TRAILER_BYTES,
			       table_offset + len, &offset, &bytes, err);
	if (r < 0)
		return r;
	if (table[20] != DIGEST_SHA256)
		return err_set(err, EPROTONOSUPPORT,
			       "pack table needs a newer larder (digest "
			       "type %u)",
			       table[20]);
	if (bytes != len || load_le32(table + 16) > LIMIT_PACK_RECORDS ||
	    table_bytes(load_le32(table + 16)) != len || table[21] ||
	    table[22] || table[23])
		return err_set(err, EBADMSG,
			       "pack table's counts do not fit its length");
	return 0;
}

int pack_table_parse(const void *table, size_t len, uint64_t table_offset,
		     struct pack_record **ret, uint32_t *ret_count,
		     struct digest *ret_id, struct err *err)
{
	const uint8_t *at = (const uint8_t *)table + TABLE_BYTES;
	struct pack_record *records;
	struct digest id;
	uint32_t count;
	int r;

	if (len > LIMIT_PACK_BYTES || table_offset > LIMIT_PACK_BYTES)
		return err_set(err, EBADMSG, "pack is too large");
	r = check_table(table, len, table_offset, err);
	if (r < 0)
		return r;
	count = load_le32((const uint8_t *)table + 16);
	digest_sha256(table, len, &id);
	records = calloc(count, sizeof(*records));
	if (!records || digest_is_none(&id)) {
		free(records);
		return err_set(err, ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < count; i++, at += RECORD_BYTES)
		load_record(at, &records[i]);
	if (!records_fit(records, count, table_offset)) {
		free(records);
		return err_set(err, EBADMSG,
			       "pack table's records do not fit the pack");
	}
	*ret = records;
	*ret_count = count;
	*ret_id = id;
	return 0;
}
