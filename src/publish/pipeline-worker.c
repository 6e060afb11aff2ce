/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: a chunk's digest, whether the mirror has it, its frame.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "format/codec.h"
#include "format/limits.h"
#include "publish/chunk-index.h"
#include "publish/pipeline-private.h"

struct worker {
	struct pipeline *pipeline;
	struct codec *codec;
	struct hasher *hasher;
};

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

void put_segment(struct pipeline *p, struct segment *segment)
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

void *run_worker(void *arg)
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
