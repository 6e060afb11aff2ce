/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: each reads the files of one blob after another and cuts them into
 * chunks, which it appends to the lane's order and to the workers' queue.
 * A hole needs no worker and is done at once.
 */
#include <config.h>

#include <errno.h>

#include "base/cleanup.h"
#include "publish/chunk-index.h"
#include "publish/pipeline-private.h"

static struct segment *lane_get(void *arg)
{
	struct pipeline *p = ((struct lane *)arg)->pipeline;
	struct segment *segment;

	scoped_lock(&p->mutex);
	while (!p->free_segments && !has_failed(p))
		pthread_cond_wait(&p->room, &p->mutex);
	if (has_failed(p))
		return NULL;
	segment = p->free_segments;
	p->free_segments = segment->next;
	segment->uses = 1;
	return segment;
}

static void lane_put(void *arg, struct segment *segment)
{
	struct pipeline *p = ((struct lane *)arg)->pipeline;

	scoped_lock(&p->mutex);
	put_segment(p, segment);
}

static void append_chunk(struct lane *lane, struct chunk *chunk)
{
	if (lane->last)
		lane->last->next_in_lane = chunk;
	else
		lane->first = chunk;
	lane->last = chunk;
}

static int lane_chunk(void *arg, struct segment *segment, const uint8_t *data,
		      uint32_t length, bool is_last)
{
	struct lane *lane = arg;
	struct pipeline *p = lane->pipeline;
	struct chunk *chunk;

	scoped_lock(&p->mutex);
	while (!p->free_chunks && !has_failed(p))
		pthread_cond_wait(&p->room, &p->mutex);
	if (has_failed(p))
		return -ECANCELED;
	chunk = p->free_chunks;
	p->free_chunks = chunk->next_in_queue;
	*chunk = (struct chunk){
		.lane = lane,
		.blob = lane->blob,
		.data = data,
		.piece = {.record = {.length = length}},
		.is_last = is_last,
	};
	append_chunk(lane, chunk);
	if (data) {
		chunk->segment = segment;
		segment->uses++;
		*p->last_chunk = chunk;
		p->last_chunk = &chunk->next_in_queue;
		pthread_cond_signal(&p->work);
		return 0;
	}
	chunk->piece.record.is_zero = true;
	chunk->piece.number = CHUNK_NONE;
	chunk->is_done = true;
	drain(lane);
	return 0;
}

/* NULL: there will be none. */
static struct blob_job *take_job(struct pipeline *p)
{
	struct blob_job *job;

	scoped_lock(&p->mutex);
	while (!p->first_job && !p->no_more_jobs && !has_failed(p))
		pthread_cond_wait(&p->jobs, &p->mutex);
	job = p->first_job;
	if (!job || has_failed(p))
		return NULL;
	p->first_job = job->next;
	if (!p->first_job)
		p->last_job = &p->first_job;
	p->job_count--;
	p->job_files -= job->files.count;
	pthread_cond_broadcast(&p->room);
	return job;
}

void *run_lane(void *arg)
{
	static const struct reader_ops ops = {
		.get = lane_get,
		.put = lane_put,
		.chunk = lane_chunk,
	};
	struct lane *lane = arg;
	struct pipeline *p = lane->pipeline;
	struct blob_job *job;
	struct reader reader;

	reader_init(&reader, p->options.root_fd, &p->options.params->chunker,
		    &ops, lane);
	while ((job = take_job(p))) {
		struct err err = {0};
		int r;

		lane->blob = job->blob;
		r = reader_run(&reader, job, &err);
		blob_job_free(job);
		if (r < 0)
			set_failure(p, r, &err, false);
	}
	reader_release(&reader);
	return NULL;
}
