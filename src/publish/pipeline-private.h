/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PIPELINE_PRIVATE_H
#define LARDER_PUBLISH_PIPELINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "publish/blob.h"
#include "publish/pipeline.h"
#include "publish/reader.h"

/*
 * What the files of the pipeline share; for pipeline*.c only. pipeline.c
 * starts and stops, pipeline-lane.c reads and cuts, pipeline-worker.c hashes
 * and compresses, pipeline-order.c writes what comes out, in order.
 */
struct codec;
struct pack_writer;

#define LANES_MAX 16u

struct frame {
	uint8_t *data;
	struct frame *next;
};

struct chunk {
	struct lane *lane;
	struct blob_handle *blob;
	struct segment *segment;
	const uint8_t *data; /* NULL: zeros */
	struct piece piece;
	struct frame *frame; /* NULL: nothing to store */
	uint32_t frame_bytes;
	bool is_last; /* of its blob */
	bool is_done;
	struct chunk *next_in_lane, *next_in_queue;
};

struct lane {
	struct pipeline *pipeline;
	pthread_t thread;
	struct blob_handle *blob; /* being read; the lane's thread only */
	/* guarded by the pipeline's mutex */
	struct chunk *first, *last;
	bool is_draining;
	/* of whoever drains */
	struct pack_writer *pack;
	struct codec *codec;
};

struct closing {
	struct pack_writer *pack;
	struct closing *next;
};

struct pipeline {
	struct pipeline_options options;
	pthread_mutex_t mutex; /* guards all below, except where noted */
	pthread_cond_t work;   /* a chunk and a frame may be there */
	pthread_cond_t room;   /* segments, chunks or the job queue have some */
	pthread_cond_t jobs;   /* a job was queued */
	pthread_cond_t done;   /* a blob is done */
	pthread_cond_t close;  /* the closer's queue changed */

	struct blob_job *first_job, **last_job;
	size_t job_count, job_files;
	struct segment *free_segments;
	struct frame *free_frames;
	struct chunk *free_chunks;
	struct chunk *first_chunk, **last_chunk;
	struct closing *first_closing, **last_closing;
	unsigned int closing_count;

	bool no_more_jobs, no_more_chunks, no_more_packs;
	bool is_mirror_broken; /* the failure is of the mirror's disk */
	int result;	       /* the first failure */
	struct err err;
	atomic_bool has_failed; /* the same, read without the mutex */

	/* set up before the threads start */
	struct lane lanes[LANES_MAX];
	unsigned int lane_count, worker_count;
	bool has_closer;
	pthread_t *workers;
	pthread_t closer;
	struct segment *segments;
	struct frame *frames;
	struct chunk *chunks;
	uint8_t *memory; /* of segments and frames */
	size_t memory_bytes;
};

void set_failure(struct pipeline *p, int result, const struct err *err,
		 bool is_mirror_broken);
bool has_failed(struct pipeline *p);

void *run_lane(void *arg);   /* a struct lane */
void *run_worker(void *arg); /* the pipeline */
void *run_closer(void *arg); /* the pipeline */

/* With the mutex held; drain gives it up for each chunk. */
void drain(struct lane *lane);
void put_segment(struct pipeline *p, struct segment *segment);

/* Hand lane->pack to the closer. */
void queue_closing(struct pipeline *p, struct lane *lane);

#endif
