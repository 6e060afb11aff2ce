/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_LIMITS_H
#define LARDER_FORMAT_LIMITS_H

/*
 * Every limit of the formats, in one table; larder-format(5) lists the same
 * numbers and a test compares the two.
 */
#define LIMIT_NAME_BYTES 255u            /* NAME_MAX of Linux */
#define LIMIT_PATH_DEPTH 1024u           /* directories below the root */
#define LIMIT_SYMLINK_BYTES 4095u        /* PATH_MAX - 1 */
#define LIMIT_XATTR_NAME_BYTES 255u
#define LIMIT_XATTR_VALUE_BYTES 65536u
#define LIMIT_XATTRS_BYTES 65536u        /* names and values of one entry */
#define LIMIT_DATASET_NAME_BYTES 255u
#define LIMIT_HEAD_BYTES 16384u
#define LIMIT_HEAD_SIGNATURES 8u
#define LIMIT_CATALOG_BYTES (256u << 20) /* plain bytes of one catalog */
#define LIMIT_CATALOG_SPLIT_ENTRIES (1u << 20) /* names of a part, by weight */
#define LIMIT_RECIPE_BYTES (16u << 20)   /* root object: 400,000 pages */
#define LIMIT_PLACES_BYTES (1u << 30)    /* whole places file */
#define LIMIT_PLACES_HEAD_BYTES (64u << 20)
#define LIMIT_CHUNK_BYTES (4u << 20)     /* plain bytes; chunker maximum */
#define LIMIT_FRAME_BYTES (LIMIT_CHUNK_BYTES + (64u << 10)) /* stored chunk */
#define LIMIT_RECIPE_PAGE_RECORDS 4096u
#define LIMIT_INLINE_CHUNKS 4u           /* larger recipes are objects */
#define LIMIT_BLOB_BYTES (UINT64_C(1) << 50)
#define LIMIT_ENTRY_NUMBER (UINT64_C(1) << 48)
#define LIMIT_URL_BYTES 8192u
#define LIMIT_VALIDATOR_BYTES 1024u
#define LIMIT_PACK_BYTES (UINT64_C(1) << 30)
#define LIMIT_PACK_RECORDS (1u << 20)

#endif
