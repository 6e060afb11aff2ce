/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_PLACES_H
#define LARDER_FORMAT_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

struct buf;
struct err;

/*
 * Where chunks lie on one mirror: places/ab/cdef... for a recipe root
 * cdef... holds the places of its chunks by ordinal; for a catalog cdef...
 * the places of its inline records, in the order of its inline table.
 * Not signed and not part of any identity: frames are checked against the
 * recipe. Layout: head (counts, pack table, page table), then one zstd frame
 * per page of 4096 records.
 */
struct place {
	uint32_t pack; /* index in the pack table; PLACE_ZERO: no bytes */
	uint32_t stored_bytes; /* frame length */
	uint64_t offset;       /* of the frame in the pack */
};
#define PLACE_ZERO UINT32_MAX

struct places_pack {
	struct digest id;
	uint64_t size; /* bytes of the pack file */
};

/* The head, parsed and copied; owns its memory. Immutable. */
struct places_head {
	uint64_t chunk_count;
	uint32_t pack_count;
	uint32_t page_count;
	struct places_pack *packs;
	struct {
		uint64_t offset;
		uint32_t stored_bytes;
	} * pages;	     /* in the file */
	size_t head_bytes;   /* where the first page frame may start */
	uint64_t file_bytes; /* head and all frames */
};

/* Bytes the head needs, from the file's first PLACES_FIXED_BYTES bytes. All
 * parsers here: -EBADMSG, or -EPROTONOSUPPORT for a file from the future. */
#define PLACES_FIXED_BYTES 48
int places_head_size(const void *data, size_t len, uint64_t *ret_bytes,
		     struct err *err);
int places_head_parse(const void *data, size_t len, struct places_head **ret,
		      struct err *err);
void places_head_free(struct places_head *head);
/* Decompress page `page`'s frame into *ret (malloc, *ret_count records), with
 * every pack index, offset and length checked against the head. */
int places_page_parse(const struct places_head *head, uint32_t page,
		      const void *frame, size_t frame_len, struct place **ret,
		      uint32_t *ret_count, struct err *err);

/* What a node keeps of a places file: the whole of it, its fixed part, its head, or
 * the frame of one page. 0 if it is one of these. */
int places_check_part(const void *data, size_t len);

/* Whole file from all places in order. places[].pack indexes packs. -EINVAL
 * for a place outside its pack, or none at all. Whether a place is PLACE_ZERO
 * is the recipe's to say: readers believe its flag, not this file. */
int places_write(const struct places_pack *packs, uint32_t pack_count,
		 const struct place *places, uint64_t count,
		 struct buf *ret_file);

#endif
