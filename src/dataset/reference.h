/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_REFERENCE_H
#define LARDER_DATASET_REFERENCE_H

#include "dataset/chunk.h"

/*
 * Blobs by reference: a file of an upstream, in blocks of 256 KiB. A block is
 * treated as a chunk whose key is made up, since nobody knows its digest:
 * flights, claims, jobs and readahead are those of chunks, only where the bytes
 * are and what is checked differs. The whole file has a digest; the cache
 * compares it before it marks the file complete.
 */
#define REFERENCE_BLOCK_BYTES (256u << 10)

/* Its parts that a struct blob needs besides; blob->url is set. */
int reference_open(struct dataset *dataset, const struct catalog_blob *info,
		   struct blob **ret, struct err *err);
int reference_page(struct dataset *dataset, struct blob *blob, uint64_t offset,
		   const struct recipe_page **ret, struct object **ret_held);

/* Whether it is worth reading: -EIO for a file that came wrong more than once.
 */
int reference_check(const struct blob *blob, struct err *err);

/* blob, which the catalog names, was fetched: fetch its small neighbours as
 * well, once (together.c). */
void reference_together(struct dataset *dataset, struct catalog_object *catalog,
			const struct blob *blob);

/* ---- a job's steps; the rest is chunk-job.c's */

/* In place of mirrors' places: 0, DATASET_PARKED, or why not. */
int reference_find(struct chunk_job *job, enum fetch_class *ret_class,
		   struct err *err);
/* Fill in where the request goes. */
void reference_ask(struct chunk_job *job);
/*
 * Notes what came of a request at a location in the health of that server,
 * which says nothing of the Hub, and names it in err (or NULL). False: the Hub
 * itself was asked.
 */
bool reference_note(struct chunk_job *job, enum fetch_class class,
		    struct err *err);
/* A request has failed, the job still has what it lacks. true: ask again at
 * once, at a new location; else note the failure of that class and text. */
bool reference_failed(struct chunk_job *job, enum fetch_class *class,
		      struct err *err);

#endif
