/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_PACK_H
#define LARDER_FORMAT_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

struct buf;
struct err;

/*
 * A pack is chunk frames one after another, then one zstd skippable frame
 * (RFC 8878 3.1.2) with the table of what lies where, so `zstd -t` accepts
 * it and a publisher finds what a mirror has by reading pack ends only. Its
 * id is the SHA-256 of that skippable frame; the chunks are checked by their
 * digests. The table accounts for every byte before it: no gaps.
 */
struct pack_record {
	struct digest digest; /* SHA-256 of the plain chunk */
	uint64_t offset;
	uint32_t stored_bytes;
	uint32_t plain_bytes;
};

/* Append the skippable frame for records to ret_tail; frames_bytes is where
 * it will be written. -EINVAL for records that pack_table_parse would
 * refuse, or none; -EFBIG past LIMIT_PACK_BYTES or LIMIT_PACK_RECORDS. */
int pack_table_write(const struct pack_record *records, uint32_t count,
		     uint64_t frames_bytes, struct buf *ret_tail,
		     struct digest *ret_id);

/* The trailer is the pack's last PACK_TRAILER_BYTES bytes. */
#define PACK_TRAILER_BYTES 24
int pack_trailer_parse(const void *trailer, uint64_t pack_bytes,
		       uint64_t *ret_table_offset, uint64_t *ret_table_bytes,
		       struct err *err);
/* table: the bytes at that offset, to the pack's end. Records are checked:
 * one after another from 0 to table_offset. ret: malloc. */
int pack_table_parse(const void *table, size_t len, uint64_t table_offset,
		     struct pack_record **ret, uint32_t *ret_count,
		     struct digest *ret_id, struct err *err);

#endif
