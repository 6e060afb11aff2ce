/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_CHUNK_H
#define LARDER_DATASET_CHUNK_H

#include "dataset/blob.h"
#include "dataset/tries.h"

/*
 * Chunk jobs: they bring chunks' flights to their end.
 *
 *   queued for budget
 *      v
 *   CLAIM --another process has it--> foreign.c --> CLAIM or done
 *      v
 *   PLACE: choose a mirror, find the places there, cut into runs of one
 *      v   request each (the job splits); waits for places and back-off
 *   request: complete frames go to the verify pool as they arrive
 *      v
 *   OUTCOME: good chunks have ended; the others go back to PLACE
 */
struct chunk_job;
struct location;

struct job_chunk {
	struct task task; /* first: verifies the frame */
	struct chunk_job *job;
	struct flight *flight; /* counted until it has ended */
	struct blob *blob;     /* kept by the flight until it has ended */
	uint64_t unit;	       /* in the blob */
	uint64_t start;	       /* of its bytes there */
	uint64_t ordinal;      /* in the places */
	struct digest digest;
	uint32_t length;
	struct chunk_place at;
	const uint8_t *frame;
	enum { CHUNK_WANTED, CHUNK_HANDED, CHUNK_GOOD, CHUNK_BAD } state;
};

struct chunk_job {
	struct task task;	/* first */
	struct chunk_job *next; /* foreign.c's list */
	struct budget_entry entry;
	struct timer timer;
	struct waiter waiter; /* for places */
	struct node *node;
	struct dataset *dataset;
	struct blob_source
		source; /* of all its chunks, but for first_ordinal */
	enum fetch_priority priority;
	struct tries tries;
	int mirror;		    /* -1: to be chosen */
	bool is_fresh, is_uncached; /* the second try at a mirror */
	struct blob
		*reference; /* the one blob by reference, counted; or NULL */
	struct location *location; /* of it, counted; or NULL */
	char *authorization;
	char etag[FETCH_ETAG_MAX]; /* of what came before of the reference */
	uint32_t progress;	   /* foreign.c: last seen, and when */
	uint64_t progress_ms;

	/* one request */
	struct fetch_request request;
	struct chunk_job *low_next, **low_at; /* raise.c's list */
	uint64_t low_number;
	char path[600];
	uint64_t start; /* of the range in the pack */
	uint8_t *body;
	size_t counted;	     /* wire bytes in the statistics */
	uint64_t told_ms;    /* other processes, of progress */
	atomic_uint pending; /* request and verifications */
	atomic_bool is_short_of_memory;

	uint32_t handed, count, capacity;
	struct job_chunk chunks[];
};

/* NULL on ENOMEM. */
struct chunk_job *chunk_job_new(struct dataset *dataset,
				const struct blob_source *source,
				enum fetch_priority priority,
				uint32_t capacity);
/* A new flight, whose reference passes to the job, and its first target. The
 * blobs of a job may differ, their list of places not. */
void chunk_job_add(struct chunk_job *job, struct flight *flight,
		   const struct recipe_record *record, struct blob *blob,
		   const struct blob_source *source, uint64_t unit,
		   uint64_t start);
/* Demand: charges the budget, or waits for it. Readahead: the caller has
 * charged CHUNK_COST of each chunk. The job frees itself at its end, or at once
 * if it has no chunks. */
void chunk_job_start(struct chunk_job *job);
/* What a chunk is charged while it flies: stored and plain. */
#define CHUNK_COST(length) (2 * (uint64_t)(length))

/* Steps of a job, each run by the verify pool (chunk-job.c): the next one; its
 * end, with all its chunks; a failure of all; the body's memory back. Its chunks from `first` on,
 * copied into a job of their own, or NULL. */
void chunk_job_next(struct chunk_job *job,
		    void (*run)(struct task *task, struct worker *worker));
void chunk_job_drop_body(struct chunk_job *job);
void chunk_job_free(struct chunk_job *job);
void chunk_job_fail(struct chunk_job *job, int r, const struct err *err);
struct chunk_job *chunk_job_split(struct chunk_job *job, uint32_t first,
				  uint32_t count);
/* PLACE and what follows (chunk-request.c). */
void chunk_job_place(struct task *task, struct worker *worker);

/* For foreign.c: go on with PLACE; or: the cache has the only chunk. */
void chunk_job_proceed(struct chunk_job *job);
void chunk_job_present(struct chunk_job *job);
/* 1: the cache has chunk i by now. */
int chunk_job_recheck(struct chunk_job *job, uint32_t i);

/* Frames (chunk-verify.c). */
void chunk_verify_init(struct job_chunk *chunk);
void chunk_job_settle(struct chunk_job *job); /* one of pending has ended */
void chunk_fail(struct flight *flight, int r, const struct err *err);
void chunk_present(struct flight *flight);
bool chunk_find(struct job_chunk *chunk);
/* Give what came to targets that were added since. */
void chunk_give_late(struct flight *flight);
/* Have the cache know of a chunk of zeros, soon. */
void chunk_give_zeros(struct node *node, struct blob *blob, uint64_t unit,
		      uint64_t start, uint32_t length);

/* Requests (raise.c): start job->request, with the priority of whoever waits
 * by now; it has ended; a reader joins a flight. */
bool chunk_request_start(struct chunk_job *job);
void chunk_request_ended(struct chunk_job *job);
void chunk_raise(struct flight *flight);

struct foreign;
int foreign_start(struct node *node, struct foreign **ret, struct err *err);
void foreign_add(struct foreign *foreign, struct chunk_job *job);
void foreign_stop(struct foreign *foreign);

#endif
