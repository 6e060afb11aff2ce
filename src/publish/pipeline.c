/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From files to packs, on all cores, in bounded memory.
 *
 * Why it cannot hang: chunks are queued in the order of their lanes and a
 * worker takes a frame buffer before it takes a chunk, so the first
 * unfinished chunk of every lane always has what it needs; and the
 * segments in readers' hands are at most one each, fewer than there are.
 *
 * Who finishes the first chunk of a lane also drains the lane (writes frames,
 * grows recipes) as far as chunks are done. Nobody waits to write, and no
 * lock is held meanwhile: is_draining keeps the lane to one thread.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "format/codec.h"
#include "format/limits.h"
#include "publish/blob.h"
#include "publish/chunk-index.h"
#include "publish/mirror-store.h"
#include "publish/pack-writer.h"
#include "publish/pipeline.h"
#include "publish/placing.h"
#include "publish/reader.h"

/* Queued before submit waits: jobs, and files in them. */
#define QUEUED_JOBS_MAX 256u
#define QUEUED_FILES_MAX 65536u
#define CHUNKS_MAX 256u /* in flight: holes have no segment to bound them */
#define CLOSING_MAX 4u	/* packs that wait for their sync */
#define LANES_MAX 16u
#define RECIPE_LEVEL 3 /* digests do not shrink */

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

/* Failure. */

static void set_failure(struct pipeline *p, int result, const struct err *err,
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

static bool has_failed(struct pipeline *p)
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

/* Packs and recipes: the ordered end of a lane. */

static void queue_closing(struct pipeline *p, struct lane *lane)
{
	struct closing *closing = malloc(sizeof(*closing));

	if (!closing) { /* then close it here */
		struct err err = {0};
		int r = pack_writer_finish(steal_ptr(lane->pack), &err);

		if (r < 0)
			set_failure(p, r, &err, true);
		return;
	}
	closing->pack = steal_ptr(lane->pack);
	closing->next = NULL;
	scoped_lock(&p->mutex);
	while (p->closing_count >= CLOSING_MAX && !has_failed(p))
		pthread_cond_wait(&p->close, &p->mutex);
	*p->last_closing = closing;
	p->last_closing = &closing->next;
	p->closing_count++;
	pthread_cond_broadcast(&p->close);
}

static int store_frame(struct lane *lane, const struct chunk *chunk,
		       struct err *err)
{
	struct pipeline *p = lane->pipeline;
	struct pipeline_counts *counts = p->options.counts;
	const struct pack_frame frame = {
		.digest = chunk->piece.record.digest,
		.data = chunk->frame->data,
		.stored_bytes = chunk->frame_bytes,
		.plain_bytes = chunk->piece.record.length,
	};
	uint32_t pack, position;
	int r = 0;

	if (!lane->pack)
		r = pack_writer_open(p->options.mirror, p->options.tables,
				     p->options.is_dry_run, &lane->pack, err);
	if (r == 0)
		r = pack_writer_append(lane->pack, &frame, &pack, &position,
				       err);
	if (r < 0)
		return r;
	chunk_index_stored(p->options.index, chunk->piece.number, pack,
			   position);
	atomic_fetch_add(&counts->stored_bytes, frame.stored_bytes);
	return 0;
}

static int store_object(struct lane *lane, const struct digest *digest,
			const void *data, size_t len, struct err *err)
{
	const struct pipeline_options *options = &lane->pipeline->options;
	uint64_t stored;
	int r = mirror_object_write(options->mirror, lane->codec, digest, data,
				    len, RECIPE_LEVEL, options->is_dry_run,
				    &stored, err);

	if (r == 0)
		atomic_fetch_add(&options->counts->object_bytes, stored);
	return r;
}

static int store_page(void *arg, const struct digest *digest, const void *data,
		      size_t len)
{
	struct lane *lane = arg;
	struct err err = {0};
	int r = store_object(lane, digest, data, len, &err);

	if (r < 0)
		set_failure(lane->pipeline, r, &err, true);
	return r;
}

static int finish_blob(struct lane *lane, struct blob_handle *blob,
		       struct err *err)
{
	struct pipeline *p = lane->pipeline;
	struct buf root;
	int r;

	buf_init(&root, LIMIT_RECIPE_BYTES);
	r = blob_finish(blob, &root);
	if (r == 0 && root.len > 0) {
		r = store_object(lane, &blob->id, root.data, root.len, err);
		if (r == 0)
			r = placing_add(p->options.placing, &blob->id,
					blob->numbers.items,
					blob->numbers.count);
		vec_release(&blob->numbers);
	}
	buf_release(&root);
	if (r < 0)
		return r;
	scoped_lock(&p->mutex);
	blob->is_done = true;
	pthread_cond_broadcast(&p->done);
	return 0;
}

static int finish_chunk(struct lane *lane, struct chunk *chunk, struct err *err)
{
	int r = 0;

	if (chunk->frame)
		r = store_frame(lane, chunk, err);
	if (r == 0)
		r = blob_add_chunk(chunk->blob, &chunk->piece, store_page,
				   lane);
	if (r == 0 && chunk->is_last)
		r = finish_blob(lane, chunk->blob, err);
	if (r == 0 && lane->pack &&
	    (pack_writer_is_full(lane->pack) ||
	     (chunk->is_last &&
	      pack_writer_bytes(lane->pack) >= PACK_TARGET_BYTES)))
		queue_closing(lane->pipeline, lane);
	return r;
}

/* With the mutex held. */
static void free_chunk(struct pipeline *p, struct chunk *chunk)
{
	if (chunk->frame) {
		chunk->frame->next = p->free_frames;
		p->free_frames = chunk->frame;
		pthread_cond_signal(&p->work);
	}
	chunk->next_in_queue = p->free_chunks;
	p->free_chunks = chunk;
	pthread_cond_broadcast(&p->room);
}

/* With the mutex held; it is given up for each chunk. */
static void drain(struct lane *lane)
{
	struct pipeline *p = lane->pipeline;

	if (lane->is_draining)
		return;
	lane->is_draining = true;
	while (lane->first && lane->first->is_done) {
		struct chunk *chunk = lane->first;

		lane->first = chunk->next_in_lane;
		if (!lane->first)
			lane->last = NULL;
		pthread_mutex_unlock(&p->mutex);
		if (!has_failed(p)) {
			struct err err = {0};
			int r = finish_chunk(lane, chunk, &err);

			if (r < 0)
				set_failure(p, r, &err, true);
		}
		pthread_mutex_lock(&p->mutex);
		free_chunk(p, chunk);
	}
	lane->is_draining = false;
}

/* Workers. */

struct worker {
	struct pipeline *pipeline;
	struct codec *codec;
	struct hasher *hasher;
};

static void count_chunk(struct pipeline_counts *counts,
			const struct chunk *chunk, bool is_new)
{
	uint32_t length = chunk->piece.record.length;

	if (chunk->piece.record.is_zero) {
		atomic_fetch_add(&counts->zero_bytes, length);
		atomic_fetch_add(&counts->zero_chunks, 1);
	} else if (is_new) {
		atomic_fetch_add(&counts->new_bytes, length);
		atomic_fetch_add(&counts->new_chunks, 1);
	} else {
		atomic_fetch_add(&counts->known_bytes, length);
		atomic_fetch_add(&counts->known_chunks, 1);
	}
}

/* Hash, look up, compress. Sets chunk->frame when it has to be stored. */
static int work_on(struct worker *worker, struct chunk *chunk,
		   struct frame *frame)
{
	struct pipeline *p = worker->pipeline;
	struct recipe_record *record = &chunk->piece.record;
	long frame_bytes;
	int r;

	if (is_all_zero(chunk->data, record->length)) {
		record->is_zero = true;
		chunk->piece.number = CHUNK_NONE;
		count_chunk(p->options.counts, chunk, false);
		return 0;
	}
	r = hasher_start(worker->hasher, DIGEST_SHA256, record->length);
	if (r < 0)
		return r;
	hasher_add(worker->hasher, chunk->data, record->length);
	hasher_finish(worker->hasher, &record->digest);
	if (digest_is_none(&record->digest))
		return -ENOMEM;
	r = chunk_index_claim(p->options.index, &record->digest,
			      &chunk->piece.number);
	if (r < 0)
		return r;
	count_chunk(p->options.counts, chunk, r == 0);
	if (r == 1)
		return 0;
	frame_bytes = codec_compress(worker->codec, chunk->data, record->length,
				     p->options.level, frame->data,
				     codec_bound(LIMIT_CHUNK_BYTES));
	if (frame_bytes < 0)
		return (int)frame_bytes;
	chunk->frame = frame;
	chunk->frame_bytes = (uint32_t)frame_bytes;
	return 0;
}

/* With the mutex held. */
static void put_segment(struct pipeline *p, struct segment *segment)
{
	if (--segment->uses > 0)
		return;
	segment->next = p->free_segments;
	p->free_segments = segment;
	pthread_cond_broadcast(&p->room);
}

/* With the mutex held, given up for the work. */
static void take_chunk(struct worker *worker)
{
	struct pipeline *p = worker->pipeline;
	struct chunk *chunk = p->first_chunk;
	struct frame *frame = p->free_frames;

	p->first_chunk = chunk->next_in_queue;
	if (!p->first_chunk)
		p->last_chunk = &p->first_chunk;
	p->free_frames = frame->next;
	pthread_mutex_unlock(&p->mutex);
	if (!has_failed(p)) {
		int r = work_on(worker, chunk, frame);

		if (r < 0) {
			struct err err = {0};

			set_failure(p, err_set(&err, -r, "%s", strerror(-r)),
				    &err, false);
		}
	}
	pthread_mutex_lock(&p->mutex);
	if (!chunk->frame) {
		frame->next = p->free_frames;
		p->free_frames = frame;
		pthread_cond_signal(&p->work);
	}
	put_segment(p, chunk->segment);
	chunk->is_done = true;
	drain(chunk->lane);
}

static void *run_worker(void *arg)
{
	struct pipeline *p = arg;
	struct worker worker = {
		.pipeline = p,
		.codec = codec_new(),
		.hasher = hasher_new(),
	};

	if (!worker.codec || !worker.hasher) {
		struct err err = {0};

		set_failure(p, err_set(&err, ENOMEM, "out of memory"), &err,
			    false);
	}
	pthread_mutex_lock(&p->mutex);
	for (;;) {
		while (!(p->first_chunk && p->free_frames) &&
		       !(p->no_more_chunks && !p->first_chunk))
			pthread_cond_wait(&p->work, &p->mutex);
		if (!p->first_chunk)
			break;
		take_chunk(&worker);
	}
	pthread_mutex_unlock(&p->mutex);
	codec_free(worker.codec);
	hasher_free(worker.hasher);
	return NULL;
}

/* Lanes. */

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
	count_chunk(p->options.counts, chunk, false);
	drain(lane);
	return 0;
}

static void lane_progress(void *arg, uint64_t bytes)
{
	struct pipeline *p = ((struct lane *)arg)->pipeline;

	atomic_fetch_add(&p->options.counts->read_bytes, bytes);
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

static void *run_lane(void *arg)
{
	static const struct reader_ops ops = {
		.get = lane_get,
		.put = lane_put,
		.chunk = lane_chunk,
		.progress = lane_progress,
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

/* The closer. */

static void *run_closer(void *arg)
{
	struct pipeline *p = arg;

	pthread_mutex_lock(&p->mutex);
	for (;;) {
		struct closing *closing;
		struct err err = {0};
		bool is_broken;
		int r = 0;

		while (!p->first_closing && !p->no_more_packs)
			pthread_cond_wait(&p->close, &p->mutex);
		closing = p->first_closing;
		if (!closing)
			break;
		p->first_closing = closing->next;
		if (!p->first_closing)
			p->last_closing = &p->first_closing;
		is_broken = p->is_mirror_broken;
		pthread_mutex_unlock(&p->mutex);
		if (is_broken)
			pack_writer_abandon(closing->pack);
		else
			r = pack_writer_finish(closing->pack, &err);
		if (r < 0)
			set_failure(p, r, &err, true);
		else if (!is_broken)
			atomic_fetch_add(&p->options.counts->packs, 1);
		free(closing);
		pthread_mutex_lock(&p->mutex);
		p->closing_count--;
		pthread_cond_broadcast(&p->close);
	}
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

/* The door. */

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
	size_t frame_count = 2 * p->worker_count + 2;
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
