/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PACK_TABLES_H
#define LARDER_PUBLISH_PACK_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/pack.h"

struct mirror;

/*
 * The packs a run knows, by number in the order they became known, and their
 * tables: of packs being written, and of stored ones as a bounded cache that
 * is read again from the mirror when needed. Thread-safe.
 */
struct pack_tables;

struct pack_tables *pack_tables_new(const struct mirror *mirror);
void pack_tables_free(struct pack_tables *tables);

/* Returns the new pack's number, or a negative errno. */
int64_t pack_tables_add_stored(struct pack_tables *tables,
			       const struct digest *id, uint64_t size);
int64_t pack_tables_add_open(struct pack_tables *tables);

/* To an open pack, by the one thread that writes it. *ret_position is the
 * record's position in the pack's table. */
int pack_tables_append(struct pack_tables *tables, uint32_t pack,
		       const struct pack_record *record,
		       uint32_t *ret_position);
/* The records of an open pack; stable until the next append to it. */
const struct pack_record *pack_tables_open_records(struct pack_tables *tables,
						   uint32_t pack,
						   uint32_t *ret_count);
void pack_tables_close(struct pack_tables *tables, uint32_t pack,
		       const struct digest *id, uint64_t size);

/* One record. -ENOENT or -EBADMSG when the pack has vanished or is damaged. */
int pack_tables_get(struct pack_tables *tables, uint32_t pack,
		    uint32_t position, struct pack_record *ret);
/* The position of the record at that offset of the pack, or -ENOENT. */
int pack_tables_find(struct pack_tables *tables, uint32_t pack, uint64_t offset,
		     uint32_t *ret_position, struct pack_record *ret);

/* Bytes of all frames of a pack. */
int pack_tables_frames(struct pack_tables *tables, uint32_t pack,
		       uint64_t *ret_bytes);

/* False while the pack is open. */
bool pack_tables_id(struct pack_tables *tables, uint32_t pack,
		    struct digest *ret_id, uint64_t *ret_size);

/* Read and check the table of a stored pack. *ret is malloced. */
int pack_table_load(const struct mirror *mirror, const struct digest *id,
		    uint64_t size, struct pack_record **ret,
		    uint32_t *ret_count, struct err *err);

#endif
