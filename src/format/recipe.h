/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_RECIPE_H
#define LARDER_FORMAT_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"
#include "format/limits.h"

struct buf;
struct err;

/*
 * A blob's chunks: digest and plain length, nothing else. The root object's
 * SHA-256 is the blob's id. A root of at most 4096 chunks holds the records;
 * a larger one lists pages of 4096 records (the last may be shorter), each an
 * object of its own, with the cumulative end of each page, so that a large
 * file opens after the root and one page.
 */
struct recipe_record {
	struct digest digest; /* DIGEST_NONE for an all-zero chunk */
	uint32_t length;      /* plain bytes, 1 to LIMIT_CHUNK_BYTES */
	bool is_zero;
};

/* A parsed root. Points into the caller's bytes; validated by recipe_parse. */
struct recipe {
	const uint8_t *data;
	size_t len;
	uint64_t blob_bytes;
	uint64_t chunk_count;
	uint32_t page_count; /* 0: the records are in the root */
};

/* -EBADMSG for bytes that are no recipe, -EPROTONOSUPPORT for a version, flag
 * or digest type from the future. An empty blob has no recipe. */
int recipe_parse(const void *data, size_t len, struct recipe *ret,
		 struct err *err);
/* Page i's object and the blob bytes it covers: [ret_start, ret_end). Its
 * first chunk is i * LIMIT_RECIPE_PAGE_RECORDS. */
void recipe_page_at(const struct recipe *recipe, uint32_t page,
		    struct digest *ret_digest, uint64_t *ret_start,
		    uint64_t *ret_end);
/* The page that holds blob byte `offset` (< blob_bytes). */
uint32_t recipe_find_page(const struct recipe *recipe, uint64_t offset);

/*
 * Records in search form: of a root without pages, of a page object, or of a
 * catalog's inline list. starts[i] is chunk i's offset in the blob,
 * starts[count] the end. One allocation, freed by recipe_page_free. Immutable,
 * so any number of threads may read it.
 */
struct recipe_page {
	uint64_t first_chunk; /* ordinal of records[0] in the blob */
	uint32_t count;
	uint64_t *starts; /* count + 1 */
	struct recipe_record *records;
};

int recipe_page_from_root(const struct recipe *recipe,
			  struct recipe_page **ret);
/* Page object `page` of the recipe; its record count, its bytes and so every
 * start are checked against the root. */
int recipe_page_parse(const struct recipe *recipe, uint32_t page,
		      const void *data, size_t len, struct recipe_page **ret,
		      struct err *err);
/* -EINVAL for a record that could not be stored, or none at all. */
int recipe_page_from_records(const struct recipe_record *records,
			     uint32_t count, struct recipe_page **ret);
void recipe_page_free(struct recipe_page *page);
/* Index in records of the chunk that holds blob byte offset, which must lie
 * in [starts[0], starts[count]). */
uint32_t recipe_page_find(const struct recipe_page *page, uint64_t offset);

/* Writing: add records in order, then take the root and the pages. */
struct recipe_writer;
/* page_done is called with each page object as soon as it is full; a blob
 * of at most 4096 chunks has none. */
struct recipe_writer *
recipe_writer_new(int (*page_done)(void *arg, const struct digest *digest,
				   const void *data, size_t len),
		  void *arg);
void recipe_writer_free(struct recipe_writer *writer);
/* -EINVAL for a record without digest or length, -EFBIG past the limits. */
int recipe_writer_add(struct recipe_writer *writer,
		      const struct recipe_record *record);
/* Appends the root object to ret_root; ret_id is its SHA-256. Once only; a
 * blob without chunks is -EINVAL. */
int recipe_writer_finish(struct recipe_writer *writer, struct buf *ret_root,
			 struct digest *ret_id);
/* The id of a blob from inline records, without keeping the root. */
int recipe_inline_id(const struct recipe_record *records, uint32_t count,
		     struct digest *ret_id);

#endif
