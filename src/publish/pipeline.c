/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From files to packs, on all cores, in bounded memory: queues, buffers,
 * beginning and end. The work is in the files pipeline-*.c.
 *
 * Why it cannot hang: chunks are queued in the order of their lanes and a
 * worker takes a frame buffer before it takes a chunk, so the first
 * unfinished chunk of every lane always has what it needs; and the
 * segments in readers' hands are at most one each, fewer than there are.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "format/codec.h"
#include "format/limits.h"
#include "publish/pack-writer.h"
#include "publish/pipeline-private.h"

/* Queued before submit waits: jobs, and files in them. */
#define QUEUED_JOBS_MAX 256u
#define QUEUED_FILES_MAX 65536u
#define CHUNKS_MAX 256u /* in flight: holes have no segment to bound them */

void set_failure(struct pipeline *p, int result, const struct err *err,
		 bool is_mirror_broken)
{
	scoped_lock(&p->mutex);

	if (p->result == 0) {
		p->result = result;
		p->is_mirror_broken = is_mirror_broken;
		if (err)
			p->err = *err;
	}
	atomic_store(&p->has_failed, true);
	pthread_cond_broadcast(&p->work);
	pthread_cond_broadcast(&p->room);
	pthread_cond_broadcast(&p->jobs);
	pthread_cond_broadcast(&p->done);
	pthread_cond_broadcast(&p->close);
}

void pipeline_fail(struct pipeline *pipeline, int result, const struct err *err)
{
	set_failure(pipeline, result, err, false);
}

bool has_failed(struct pipeline *p)
{
	return atomic_load_explicit(&p->has_failed, memory_order_relaxed);
}

static int get_failure(struct pipeline *p, struct err *err)
{
	scoped_lock(&p->mutex);

	if (p->result < 0 && err)
		*err = p->err;
	return p->result;
}

int pipeline_submit(struct pipeline *p, struct blob_job *job, struct err *err)
{
	pthread_mutex_lock(&p->mutex);
	while (p->first_job && !has_failed(p) &&
	       (p->job_count >= QUEUED_JOBS_MAX ||
		p->job_files + job->files.count > QUEUED_FILES_MAX))
		pthread_cond_wait(&p->room, &p->mutex);
	if (!has_failed(p)) {
		p->job_count++;
		p->job_files += job->files.count;
		*p->last_job = job;
		p->last_job = &job->next;
		job = NULL;
		pthread_cond_signal(&p->jobs);
	}
	pthread_mutex_unlock(&p->mutex);
	blob_job_free(job);
	return get_failure(p, err);
}

int pipeline_wait(struct pipeline *p, const struct blob_handle *blob,
		  struct err *err)
{
	pthread_mutex_lock(&p->mutex);
	while (!blob->is_done && !has_failed(p))
		pthread_cond_wait(&p->done, &p->mutex);
	pthread_mutex_unlock(&p->mutex);
	return get_failure(p, err);
}

/* Segments and frames in one mapping: pages never touched cost nothing, and
 * the heap does not fragment. */
static int make_buffers(struct pipeline *p)
{
	size_t segment_count = 2 * p->lane_count + p->worker_count;
	size_t frame_count = 4 * p->worker_count; /* one may be late */
	size_t frame_bytes = codec_bound(LIMIT_CHUNK_BYTES) + 4095;
	uint8_t *at;

	frame_bytes -= frame_bytes % 4096;
	p->memory_bytes =
		segment_count * SEGMENT_BYTES + frame_count * frame_bytes;
	at = mmap(NULL, p->memory_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	p->memory = at;
	p->segments = calloc(segment_count, sizeof(*p->segments));
	p->frames = calloc(frame_count, sizeof(*p->frames));
	p->chunks = calloc(CHUNKS_MAX, sizeof(*p->chunks));
	if (!p->segments || !p->frames || !p->chunks)
		return -ENOMEM;
	for (size_t i = 0; i < segment_count; i++, at += SEGMENT_BYTES) {
		p->segments[i].data = at;
		p->segments[i].next = p->free_segments;
		p->free_segments = &p->segments[i];
	}
	for (size_t i = 0; i < frame_count; i++, at += frame_bytes) {
		p->frames[i].data = at;
		p->frames[i].next = p->free_frames;
		p->free_frames = &p->frames[i];
	}
	for (size_t i = 0; i < CHUNKS_MAX; i++) {
		p->chunks[i].next_in_queue = p->free_chunks;
		p->free_chunks = &p->chunks[i];
	}
	return 0;
}

static void pipeline_free(struct pipeline *p)
{
	for (unsigned int i = 0; i < LANES_MAX; i++)
		codec_free(p->lanes[i].codec);
	if (p->memory)
		munmap(p->memory, p->memory_bytes);
	free(p->segments);
	free(p->frames);
	free(p->chunks);
	free(p->workers);
	pthread_mutex_destroy(&p->mutex);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->room);
	pthread_cond_destroy(&p->jobs);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->close);
	free(p);
}

static struct pipeline *pipeline_new(const struct pipeline_options *options)
{
	struct pipeline *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->options = *options;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->room, NULL);
	pthread_cond_init(&p->jobs, NULL);
	pthread_cond_init(&p->done, NULL);
	pthread_cond_init(&p->close, NULL);
	p->last_job = &p->first_job;
	p->last_chunk = &p->first_chunk;
	p->last_closing = &p->first_closing;
	return p;
}

/* Reading waits for disks, so there are two lanes at least; cutting takes
 * about a quarter of a core's time. */
static unsigned int lanes_for(unsigned int threads)
{
	unsigned int lanes = threads / 4;

	if (threads == 1)
		return 1;
	return lanes < 2 ? 2 : lanes > LANES_MAX ? LANES_MAX : lanes;
}

static int start_threads(struct pipeline *p, unsigned int lanes,
			 unsigned int workers)
{
	int r = pthread_create(&p->closer, NULL, run_closer, p);

	if (r != 0)
		return -r;
	p->has_closer = true;
	for (; p->worker_count < workers; p->worker_count++) {
		r = pthread_create(&p->workers[p->worker_count], NULL,
				   run_worker, p);
		if (r != 0)
			return -r;
	}
	for (; p->lane_count < lanes; p->lane_count++) {
		struct lane *lane = &p->lanes[p->lane_count];

		r = pthread_create(&lane->thread, NULL, run_lane, lane);
		if (r != 0)
			return -r;
	}
	return 0;
}

static int set_up(struct pipeline *p)
{
	unsigned int lanes = lanes_for(p->options.threads);
	unsigned int workers = p->options.threads;
	int r;

	p->lane_count = lanes;
	p->worker_count = workers;
	r = make_buffers(p);
	p->lane_count = p->worker_count = 0; /* those that run */
	if (r < 0)
		return r;
	p->workers = calloc(workers, sizeof(*p->workers));
	if (!p->workers)
		return -ENOMEM;
	for (unsigned int i = 0; i < lanes; i++) {
		p->lanes[i].pipeline = p;
		p->lanes[i].codec = codec_new();
		if (!p->lanes[i].codec)
			return -ENOMEM;
	}
	return start_threads(p, lanes, workers);
}

int pipeline_start(const struct pipeline_options *options,
		   struct pipeline **ret, struct err *err)
{
	struct pipeline *p = pipeline_new(options);
	int r;

	if (!p)
		return err_set(err, ENOMEM, "out of memory");
	r = set_up(p);
	if (r < 0) {
		err_set(err, -r, "cannot start: %s", strerror(-r));
		pipeline_fail(p, r, err);
		(void)pipeline_finish(p, NULL);
		return r;
	}
	*ret = p;
	return 0;
}

static void raise_flag(struct pipeline *p, bool *flag, pthread_cond_t *cond)
{
	scoped_lock(&p->mutex);

	*flag = true;
	pthread_cond_broadcast(cond);
}

/* Packs that are still open are closed as they are. */
static void close_packs(struct pipeline *p)
{
	for (unsigned int i = 0; i < LANES_MAX; i++) {
		struct lane *lane = &p->lanes[i];

		if (!lane->pack)
			continue;
		if (p->is_mirror_broken || !p->has_closer)
			pack_writer_abandon(steal_ptr(lane->pack));
		else
			queue_closing(p, lane);
	}
}

void pipeline_stop(struct pipeline *p)
{
	raise_flag(p, &p->no_more_jobs, &p->jobs);
	for (; p->lane_count > 0; p->lane_count--)
		pthread_join(p->lanes[p->lane_count - 1].thread, NULL);
	raise_flag(p, &p->no_more_chunks, &p->work);
	for (; p->worker_count > 0; p->worker_count--)
		pthread_join(p->workers[p->worker_count - 1], NULL);
}

int pipeline_finish(struct pipeline *p, struct err *err)
{
	int r;

	if (!p)
		return 0;
	pipeline_stop(p);
	close_packs(p);
	raise_flag(p, &p->no_more_packs, &p->close);
	if (p->has_closer)
		pthread_join(p->closer, NULL);
	while (p->first_job) {
		struct blob_job *job = p->first_job;

		p->first_job = job->next;
		blob_job_free(job);
	}
	r = get_failure(p, err);
	pipeline_free(p);
	return r;
}
