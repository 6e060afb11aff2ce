/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_READ_H
#define LARDER_DATASET_READ_H

#include "dataset/chunk.h"

/* A job's worth of missing chunks; more are asked for after these came. */
#define MISSING_MAX 64u

/* 0: a file with bytes; 1: the end; or why it has none. */
int file_entry_check(const struct catalog_entry *entry, uint64_t offset,
		     struct err *err);

struct object_key chunk_key(const struct dataset *dataset,
			    const struct digest *digest);

struct readaheads;
struct readaheads *readaheads_new(void);
void readaheads_free(struct readaheads *readaheads);
/* Bytes [start, end) of the blob, as far as the budget allows. */
void readahead_start(struct dataset *dataset, struct blob *blob,
		     const struct blob_source *source, uint64_t start,
		     uint64_t end);
/* Bytes [start, end) of the blob are being read: start what comes next.
 * ends_file: with them a file ends that is not the blob's only one. */
void readahead_after(struct dataset *dataset, struct blob *blob,
		     const struct blob_source *source, uint64_t start,
		     uint64_t end, bool ends_file);

#endif
