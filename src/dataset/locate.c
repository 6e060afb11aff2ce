/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blob a file lies in, and which catalogs say so: what pins keep and
 * eviction by hand removes. Nothing but catalogs is read.
 */
#include <config.h>

#include <errno.h>

#include "dataset/snapshot.h"

static void locate(const struct part *part, struct file_location *ret)
{
	struct catalog_entry entry;
	struct catalog_blob blob;

	*ret = (struct file_location){0};
	catalog_get(part->catalog, part->local, &entry);
	if (entry.type != ENTRY_FILE || entry.blob == CATALOG_NO_BLOB)
		return;
	catalog_get_blob(part->catalog, entry.blob, &blob);
	*ret = (struct file_location){
		.blob = blob.id,
		.blob_bytes = blob.size,
		.blob_offset = entry.blob_offset,
	};
}

int snapshot_locate(struct snapshot *snapshot, uint64_t number,
		    struct waiter *waiter, struct file_location *ret,
		    void (*visit)(void *arg, const struct digest *catalog),
		    void *arg, struct err *err)
{
	struct part part;
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = part_find_visiting(snapshot, number, waiter, visit, arg,
				       &part, err);
	if (r == 0) {
		locate(&part, ret);
		part_release(&part);
	}
	return waiter_end(snapshot->dataset->node, waiter, r, err);
}
