/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordered end of the pipeline: frames into packs, digests into recipes.
 *
 * Who finishes the first chunk of a lane also drains the lane as far as
 * chunks are done. Nobody waits to write, and no lock is held meanwhile:
 * is_draining keeps a lane to one thread. Closing a pack means waiting for
 * the disk, so a thread of its own does that.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "format/limits.h"
#include "publish/chunk-index.h"
#include "publish/mirror-store.h"
#include "publish/pack-writer.h"
#include "publish/pipeline-private.h"
#include "publish/placing.h"

#define CLOSING_MAX 4u /* packs that wait for their sync */
#define RECIPE_LEVEL 3 /* digests do not shrink */

void queue_closing(struct pipeline *p, struct lane *lane)
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

static void count_chunk(struct pipeline_counts *counts,
			const struct chunk *chunk)
{
	uint32_t length = chunk->piece.record.length;

	if (chunk->piece.record.is_zero) {
		atomic_fetch_add(&counts->zero_bytes, length);
		atomic_fetch_add(&counts->zero_chunks, 1);
	} else if (chunk->frame) {
		atomic_fetch_add(&counts->new_bytes, length);
		atomic_fetch_add(&counts->new_chunks, 1);
	} else {
		atomic_fetch_add(&counts->known_bytes, length);
		atomic_fetch_add(&counts->known_chunks, 1);
	}
}

static int finish_chunk(struct lane *lane, struct chunk *chunk, struct err *err)
{
	int r = 0;

	if (chunk->frame)
		r = store_frame(lane, chunk, err);
	if (r == 0)
		count_chunk(lane->pipeline->options.counts, chunk);
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

void drain(struct lane *lane)
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
void *run_closer(void *arg)
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
