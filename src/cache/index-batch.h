/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_INDEX_BATCH_H
#define LARDER_CACHE_INDEX_BATCH_H

#include "cache/index-private.h"

/* One write transaction. Shared by index-write.c and index-changes.c only;
 * results are codes of LMDB. */
struct batch {
	struct index *index;
	struct index_op *ops;
	size_t count;
	MDB_txn *txn;
	struct digest id; /* of the two rows kept */
	bool has_blob, blob_is_dirty;
	struct blob_row blob;
	bool has_units, units_is_dirty;
	uint32_t units_number;
	struct units_row units;
	uint64_t used;
	bool has_other, other_is_dirty;
	uint64_t other[INDEX_DIRECTORIES]; /* part of used */
};

/* Keep the blob's row; batch->has_blob tells whether there is one. */
int batch_load_blob(struct batch *batch, const struct digest *id);
/* Keep the row of that blob's units that has unit in it; an empty one if there
 * is none of its generation. */
int batch_load_units(struct batch *batch, uint64_t unit);
int batch_load_other(struct batch *batch);
/* Write the rows kept if they were changed. */
int batch_flush(struct batch *batch);
/* The result is op's; errors are of the transaction. */
int batch_apply(struct batch *batch, struct index_op *op);

#endif
