/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PLACING_H
#define LARDER_PUBLISH_PLACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/digest.h"

struct chunk_index;
struct mirror;
struct pack_tables;

/*
 * The places files still to be written: which chunks, by record number, make
 * up which object. They can be written only when every pack they name is
 * closed, since an open pack has no name. Thread-safe.
 */
struct placing;

struct placing *placing_new(void);
void placing_free(struct placing *placing);

/* numbers are copied. */
int placing_add(struct placing *placing, const struct digest *object,
		const uint32_t *numbers, size_t count);

/* All of them; files that are there with the same bytes stay. */
int placing_write(struct placing *placing, struct mirror *mirror,
		  struct pack_tables *tables, struct chunk_index *index,
		  unsigned int threads, uint64_t *ret_stored, struct err *err);

#endif
