/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_SNAPSHOT_H
#define LARDER_DATASET_SNAPSHOT_H

#include "dataset/objects.h"

/* One catalog of a snapshot and an entry in it. Release after use. All that
 * find one park. */
struct part {
	struct catalog_object *object; /* counted */
	const struct catalog *catalog;
	uint64_t base;	/* entry number of its entry 0 */
	uint64_t owner; /* number of the directory whose names it holds */
	uint32_t local; /* the entry */
};

/* Children in children; a million entries have one level. */
#define PART_DEPTH_MAX 64u
int part_root(struct snapshot *snapshot, struct waiter *waiter,
	      struct part *ret, struct err *err);
/* part becomes its child `index`. On failure it stays as it was. */
int part_enter_child(struct snapshot *snapshot, struct part *part,
		     uint32_t index, struct waiter *waiter, struct err *err);
int part_find(struct snapshot *snapshot, uint64_t number, struct waiter *waiter,
	      struct part *ret, struct err *err);
/* Also names every catalog on the way. */
int part_find_visiting(struct snapshot *snapshot, uint64_t number,
		       struct waiter *waiter,
		       void (*visit)(void *arg, const struct digest *catalog),
		       void *arg, struct part *ret, struct err *err);
void part_release(struct part *part);
/* "DATASET/a/b" as far as it is known without waiting: for error texts. */
void entry_path(struct snapshot *snapshot, uint64_t number, char *text,
		size_t size);

#endif
