/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_PREFETCH_H
#define LARDER_DATASET_PREFETCH_H

#include <pthread.h>

#include "base/vec.h"
#include "dataset/prefetch-pace.h"
#include "dataset/read.h"

/*
 * What the files of a prefetch share: prefetch.c says what is done in which
 * order, prefetch-walk.c goes over the chunks of the files, and
 * prefetch-batch.c fetches them.
 */

/* Entry numbers in a row. */
struct number_run {
	uint64_t first, count;
};

/* A missing chunk, and what of it is for which file. */
struct batch_chunk {
	struct blob *blob;
	const struct blob_source *source;
	const struct recipe_record *record;
	uint64_t unit, start; /* in the blob */
	uint64_t number;      /* of the file */
	uint64_t bytes;	      /* of the file */
	uint32_t files;	      /* 1: its last chunk */
};

struct batch_item {
	struct flight *flight; /* the waiter holds it */
	bool is_ours;	       /* else somebody was there first */
	uint64_t number, bytes;
	uint32_t files;
};

struct batch {
	struct waiter waiter; /* first */
	struct prefetch *prefetch;
	struct blob_source source;
	struct chunk_job *job; /* of those that are ours; or NULL */
	uint64_t bytes, started_ms;
	bool is_flying;
	bool is_ended; /* guarded by the prefetch's lock */
	uint32_t count;
	struct batch_item items[MISSING_MAX];
};

/* More are never under way: budget and pace say how many really are. */
#define BATCHES 32u
#define FAILURES_TOLD 16u
/* More chunks that cannot be had, and the rest is not worth trying. */
#define BAD_CHUNKS_MAX 4096u

/* So many, and it is the disk's fault, not the Hub's. */
#define PROOF_FAILURES_MAX 16u

struct prefetch {
	struct prefetch_options options;
	struct node *node;
	struct dataset *dataset;
	struct snapshot *snapshot; /* counted */
	pthread_t thread;
	atomic_bool is_canceled;

	pthread_mutex_t lock;	 /* guards the next three */
	pthread_cond_t happened; /* a batch ended, or it is canceled */
	struct prefetch_info info;
	struct {
		uint64_t number;
		char reason[160];
		char path[256];
	} failures[FAILURES_TOLD];
	unsigned failure_count;

	/* its thread's */
	struct blocking_waiter *waiter;
	VEC(struct number_run) runs;
	bool is_counting; /* this pass only counts */
	bool is_proving;  /* this one asks for proofs of what is here */
	uint64_t missing; /* chunks that this pass found missing */
	uint64_t here_bytes, here_files; /* and that it found here */
	VEC(uint64_t) failed;	/* files that cannot be had, in order */
	VEC(struct digest) bad; /* chunks that cannot be had */
	struct prefetch_pace pace;
	struct batch batches[BATCHES];
	struct batch *filling; /* or NULL */
	uint64_t flying_bytes;
	uint32_t troubles;	/* failures in a row */
	uint64_t hold_until_ms; /* after a failure */
	uint64_t last_bytes_ms, fetch_start_ms, last_start_ms;
	unsigned proof_failures;
	uint64_t puts_failed; /* the cache's, when it was looked at last */
	uint64_t refused_since_ms, refused_ms; /* first and last of a row */
	/* the chunk that was looked up last: small files share one */
	struct digest last_blob;
	uint64_t last_unit;
	bool last_is_here;
};

/* One pass over all files: counts, or fetches what is missing. */
int prefetch_pass(struct prefetch *prefetch, struct err *err);
/* -ENOSPC: what is fetched is not kept. */
int prefetch_refused(struct prefetch *prefetch, struct err *err);
void prefetch_file_failed(struct prefetch *prefetch, uint64_t number,
			  const char *reason);

/* Fetch it. Waits as long as pace, budget or trouble say. */
int batch_add(struct prefetch *prefetch, const struct batch_chunk *chunk,
	      struct err *err);
/* Until nothing is under way. */
void batches_finish(struct prefetch *prefetch);
void prefetch_sleep(struct prefetch *prefetch, uint64_t ms);
/* Canceled, or the node is closing. */
int prefetch_stopped(struct prefetch *prefetch, struct err *err);
void prefetch_say(struct prefetch *prefetch, const char *reason);

#endif
