/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_TREE_WRITER_H
#define LARDER_PUBLISH_TREE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/catalog.h"
#include "publish/pipeline.h"
#include "publish/walk.h"

/*
 * The walk of a tree made into blobs for the pipeline and entries for the
 * catalogs. Thread of the walk only.
 */
struct tree_options {
	struct mirror *mirror;
	struct placing *placing;
	struct pipeline *pipeline;
	const struct catalog_params *params;
	struct pipeline_counts *counts;
	int root_fd;
	bool want_owner;
	bool want_file_digests;
	bool is_dry_run;
};

struct snapshot_totals {
	struct digest catalog;
	uint64_t catalog_bytes, entry_count, total_bytes;
};

/* Walks the tree to its end and waits for every catalog. */
int tree_write(const struct tree_options *options,
	       const struct walk_options *walk, struct walk_counts *ret_counts,
	       struct snapshot_totals *ret, struct err *err);

#endif
