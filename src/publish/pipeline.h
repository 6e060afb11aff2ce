/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PIPELINE_H
#define LARDER_PUBLISH_PIPELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/catalog.h"

struct blob_handle;
struct blob_job;
struct chunk_index;
struct mirror;
struct pack_tables;
struct placing;

/*
 * From files to packs:
 *
 *   submit -> jobs -> lane: read, cut -> chunks -> workers: hash, look up,
 *   compress -> lane, in order: pack, recipe -> closer: table, sync, name
 *
 * A lane has one blob at a time and a pack of its own, so the new chunks of a
 * blob lie one after another. Memory is a fixed number of segments and
 * frames, whatever the sizes of the files.
 */
struct pipeline;

/* Only ever counted up; read by the progress display. */
struct pipeline_counts {
	_Atomic uint64_t zero_bytes;
	_Atomic uint64_t known_bytes;  /* the mirror had them */
	_Atomic uint64_t new_bytes;    /* plain */
	_Atomic uint64_t stored_bytes; /* the same, as frames */
	_Atomic uint64_t new_chunks, known_chunks, zero_chunks;
	_Atomic uint64_t object_bytes; /* objects and places written */
	_Atomic uint64_t packs;
};

struct pipeline_options {
	struct mirror *mirror;
	struct pack_tables *tables;
	struct chunk_index *index;
	struct placing *placing;
	const struct catalog_params *params;
	struct pipeline_counts *counts;
	int root_fd;
	int level;
	unsigned int threads;
	bool is_dry_run;
};

int pipeline_start(const struct pipeline_options *options,
		   struct pipeline **ret, struct err *err);
/* Takes the job in every case; waits while many are queued. */
int pipeline_submit(struct pipeline *pipeline, struct blob_job *job,
		    struct err *err);
/* Until the blob's recipe is known. */
int pipeline_wait(struct pipeline *pipeline, const struct blob_handle *blob,
		  struct err *err);
/* Make everything stop with that failure, unless there was one before. Any
 * thread. */
void pipeline_fail(struct pipeline *pipeline, int result,
		   const struct err *err);
/* Wait for what was submitted; afterwards no blob is touched any more. */
void pipeline_stop(struct pipeline *pipeline);
/*
 * The same, then close the packs and free. Returns the failure if
 * there was one; what had been packed by then is kept for the next run,
 * except when the mirror could not be written to. NULL is fine.
 */
int pipeline_finish(struct pipeline *pipeline, struct err *err);

#endif
