/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_CHUNK_INDEX_H
#define LARDER_PUBLISH_CHUNK_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/pack.h"

struct mirror;
struct pack_tables;
struct stored_files;

/*
 * Which chunks a mirror has: digest to record number, and record number to
 * the place in a pack. About 24 bytes a chunk: eight bytes of the digest
 * are kept, the rest is compared with the pack's table on a hit.
 * Thread-safe.
 */
struct chunk_index;

#define CHUNK_NONE UINT32_MAX /* no record: an all-zero chunk */

struct chunk_index *chunk_index_new(struct pack_tables *tables);
void chunk_index_free(struct chunk_index *index);

/* Enter all packs in the list. Damaged ones are left out and counted. */
int chunk_index_load(struct chunk_index *index, const struct mirror *mirror,
		     const struct stored_files *packs, unsigned int threads,
		     uint64_t *ret_damaged, struct err *err);
/* Enter the records of one stored pack. */
int chunk_index_add_pack(struct chunk_index *index, const struct digest *id,
			 uint64_t size, const struct pack_record *records,
			 uint32_t count);

/*
 * 1: the chunk is stored, or another caller is storing it. 0: the
 * caller has to store it and then call chunk_index_stored. In both cases *ret
 * is its record number. Negative errno: out of memory.
 */
int chunk_index_claim(struct chunk_index *index, const struct digest *digest,
		      uint32_t *ret);
void chunk_index_stored(struct chunk_index *index, uint32_t record,
			uint32_t pack, uint32_t position);
/* Where a stored chunk lies: -ENOENT if it was never stored. */
int chunk_index_place(struct chunk_index *index, uint32_t record,
		      uint32_t *ret_pack, struct pack_record *ret);

#endif
