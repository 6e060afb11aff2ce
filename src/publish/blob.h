/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_BLOB_H
#define LARDER_PUBLISH_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/vec.h"
#include "format/digest.h"
#include "format/limits.h"
#include "format/recipe.h"

/*
 * A blob on its way: the files it is read from, and the recipe that grows as
 * its chunks come out of the pipeline.
 */

/* What a file was when the tree was walked; reading it compares. */
struct blob_file {
	size_t path; /* offset in the job's paths */
	uint64_t size;
	dev_t dev;
	ino_t ino;
	struct timespec mtime, ctime;
};

/* A chunk of a recipe and its number in the chunk index. */
struct piece {
	struct recipe_record record;
	uint32_t number; /* CHUNK_NONE: all zero */
};

/* Known to the catalog writer as an opaque handle. */
struct blob_handle {
	struct blob_handle *previous, *next; /* all of a run; walker's thread */
	uint64_t size;
	struct digest id;     /* once is_done */
	uint32_t piece_count; /* in pieces; 0 once it has a recipe object */
	uint32_t piece_capacity;
	struct piece *pieces;	      /* the first LIMIT_INLINE_CHUNKS */
	struct recipe_writer *writer; /* from the next one on */
	VEC(uint32_t) numbers;	      /* with writer */
	bool is_done;		      /* guarded by the pipeline's mutex */
};

struct blob_job {
	struct blob_handle *blob;
	VEC(struct blob_file) files;
	struct buf paths; /* NUL-terminated, one after another */
	struct blob_job *next;
};

struct blob_handle *blob_handle_new(void);
void blob_handle_free(struct blob_handle *blob);

/* Chunks in order. page_done as in recipe_writer_new. */
int blob_add_chunk(struct blob_handle *blob, const struct piece *piece,
		   int (*page_done)(void *arg, const struct digest *digest,
				    const void *data, size_t len),
		   void *arg);
/* After the last chunk: sets id. ret_root stays empty for an inline blob. */
int blob_finish(struct blob_handle *blob, struct buf *ret_root);

struct blob_job *blob_job_new(struct blob_handle *blob);
void blob_job_free(struct blob_job *job);
int blob_job_add(struct blob_job *job, const char *path, const struct stat *st);
const char *blob_job_path(const struct blob_job *job, size_t file);

#endif
