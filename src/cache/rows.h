/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_ROWS_H
#define LARDER_CACHE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

/*
 * The index's rows as bytes; larder-format(5), "NODE CACHE". No I/O. A row
 * is accepted only if its size and its numbers agree with each other.
 */
#define ROW_KEY_BYTES (1 + DIGEST_BYTES)
/* Behind every row of every table: whether it is what was written. */
#define ROW_CHECK_BYTES 8u
#define ROW_UNITS_KEY_BYTES (ROW_KEY_BYTES + 4)
#define ROW_BLOB_BYTES 120

/* Units per row: a record rewrites 1.3 KiB, three rows fill a page. */
#define ROW_UNITS 64u
#define ROW_UNITS_HEAD (8 + ROW_UNITS / 8)
#define ROW_UNIT_BYTES 20u
#define ROW_UNITS_MAX (ROW_UNITS_HEAD + ROW_UNITS * ROW_UNIT_BYTES)

/*
 * A file as it was when all of it was found on disk as it was put: the
 * complete mark. Times in nanoseconds since 1970.
 */
struct file_mark {
	uint64_t device, inode, size;
	int64_t mtime_ns, ctime_ns;
};

static inline bool file_mark_equal(const struct file_mark *a,
				   const struct file_mark *b)
{
	return a->device == b->device && a->inode == b->inode &&
	       a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

struct blob_row {
	uint64_t gen;           /* never 0 */
	uint64_t blob_bytes, unit_count;
	uint64_t segment_bytes; /* 0: one file */
	uint64_t present_units, present_bytes;
	uint64_t disk_bytes;    /* as counted in the total */
	int64_t last_use;       /* seconds since 1970 */
	bool is_by_content;     /* the id is the digest of all its bytes */
	bool has_mark;
	struct file_mark mark;
};

/* Bytes [offset, offset + length) of the blob. */
struct unit_row {
	uint64_t checksum, offset;
	uint32_t length;
};

struct units_row {
	uint64_t gen;
	uint32_t count; /* units in this row, at most ROW_UNITS */
	uint64_t present[ROW_UNITS / 64];
	struct unit_row units[ROW_UNITS];
};

/* Where a chunk of some digest lies: a unit of a blob. */
#define ROW_CHUNK_BYTES 64
struct chunk_row {
	struct digest id; /* of the blob */
	uint64_t gen;     /* never 0 */
	uint64_t unit, offset;
	uint32_t length;
};

/* Of the key as well: a row that lies in another's place is none. */
uint64_t row_check(const void *key, size_t key_len, const void *row,
		   size_t len);
/* Of a row of len bytes with its checksum behind it: the row's length, or
 * -EBADMSG. */
int64_t row_length(const void *key, size_t key_len, const void *row,
		   size_t len);

void row_key(const struct digest *id, uint8_t ret_key[ROW_KEY_BYTES]);
bool row_key_parse(const void *key, size_t len, struct digest *ret_id);
void row_units_key(const struct digest *id, uint32_t row,
		   uint8_t ret_key[ROW_UNITS_KEY_BYTES]);

void blob_row_encode(const struct blob_row *row, uint8_t ret[ROW_BLOB_BYTES]);
int blob_row_decode(const void *data, size_t len, struct blob_row *ret);

void chunk_row_encode(const struct chunk_row *row,
		      uint8_t ret[ROW_CHUNK_BYTES]);
int chunk_row_decode(const void *data, size_t len, struct chunk_row *ret);

/* Units that row number `row` of a blob holds; 0 past the end. */
uint32_t units_row_count(uint64_t unit_count, uint64_t row);
/* Bytes written, at most ROW_UNITS_MAX. */
size_t units_row_encode(const struct units_row *row,
			uint8_t ret[ROW_UNITS_MAX]);
/* -EINVAL unless it is a row of `count` units. */
int units_row_decode(const void *data, size_t len, uint32_t count,
		     struct units_row *ret);
/* One of them without the rest: the row's bytes at its place. */
void unit_row_decode(const uint8_t bytes[ROW_UNIT_BYTES],
		     struct unit_row *ret);

#endif
