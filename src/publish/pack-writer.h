/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PACK_WRITER_H
#define LARDER_PUBLISH_PACK_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/digest.h"

struct mirror;
struct pack_tables;

/*
 * A pack being written: a temporary file below packs/ that gets its table and
 * its name at the end. One thread at a time.
 */
struct pack_writer;

/* A pack is closed at the end of a blob once it has the first, and within a
 * blob at the second or third. */
#define PACK_TARGET_BYTES (UINT64_C(64) << 20)
#define PACK_MAX_BYTES (UINT64_C(256) << 20)
#define PACK_MAX_RECORDS 65536u

/* Temporary packs start with this; dead runs leave them behind. */
#define PACK_TEMPORARY_PREFIX "packs/.tmp-pack-"

/* With is_dry_run it only counts. */
int pack_writer_open(const struct mirror *mirror, struct pack_tables *tables,
		     bool is_dry_run, struct pack_writer **ret,
		     struct err *err);
struct pack_frame {
	struct digest digest;
	const void *data;
	uint32_t stored_bytes, plain_bytes;
};
/* ret_pack and ret_position: for chunk_index_stored. */
int pack_writer_append(struct pack_writer *writer,
		       const struct pack_frame *frame, uint32_t *ret_pack,
		       uint32_t *ret_position, struct err *err);

uint64_t pack_writer_bytes(const struct pack_writer *writer);
bool pack_writer_is_full(const struct pack_writer *writer);

/* Write the table, sync, rename. Frees the writer in every case; after a
 * failure the temporary file is gone. */
int pack_writer_finish(struct pack_writer *writer, struct err *err);
/* Remove the temporary file and free. NULL is fine. */
void pack_writer_abandon(struct pack_writer *writer);

#endif
