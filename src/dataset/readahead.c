/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes come next.
 *
 * A stream is a stretch of the blob that is being read nearly whole. The
 * kernel sends a sequential reader's requests in parallel and out of order,
 * so a read joins a stream it lies near; but only a stream that is dense and
 * has come some way is believed. Otherwise random reads in a region would look
 * like one, and so would whoever looks at the beginning of each file: of those
 * the kernel alone asks for up to 2 MiB. Small files are another matter: who
 * has read one to its end and goes on in the next walks the directory.
 *
 * Then the window doubles each time it is asked for again, which happens when
 * half of it is used up, so requests stay long and the reader never meets the
 * end.
 */
#include <config.h>

#include <stddef.h>

#include "dataset/readahead.h"

/* What a stream may lack: the kernel's window of 4 MiB, under way at once; or,
 * further on, files skipped since they are in the page cache. */
#define HOLES_MAX (4u << 20)
/* Who has read so much reads on: beyond the kernel's first window. */
#define BELIEVED_BYTES (2u << 20)
/* What lies further back does not count. */
#define MEMORY_BYTES (8u << 20)

/* Less in a second is no measure of a link. */
#define KNOWN_BYTES (256u << 10)

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What the stream would lack with this read; UINT64_MAX: too much. */
static uint64_t holes_with(const struct readahead_stream *stream,
			   const struct readahead_read *read)
{
	uint64_t start = least(stream->start, read->start);
	uint64_t end = most(stream->end, read->end);
	uint64_t bytes = stream->read + (read->end - read->start);

	if (!stream->used || end - start > bytes + HOLES_MAX)
		return UINT64_MAX;
	return end - start > bytes ? end - start - bytes : 0;
}

/* The stream that the read fits best, or NULL. */
static struct readahead_stream *find_stream(struct readahead *state,
					    const struct readahead_read *read)
{
	struct readahead_stream *best = NULL;
	uint64_t best_holes = UINT64_MAX;

	for (unsigned i = 0; i < READAHEAD_STREAMS; i++) {
		uint64_t holes = holes_with(&state->streams[i], read);

		if (holes < best_holes) {
			best = &state->streams[i];
			best_holes = holes;
		}
	}
	return best;
}

static void start_stream(struct readahead *state,
			 const struct readahead_read *read)
{
	struct readahead_stream *oldest = &state->streams[0];

	for (unsigned i = 1; i < READAHEAD_STREAMS; i++)
		if (state->streams[i].used < oldest->used)
			oldest = &state->streams[i];
	*oldest = (struct readahead_stream){
		.start = read->start,
		.end = read->end,
		.read = read->end - read->start,
		.run = read->end - read->start,
		.issued = read->end,
		.used = state->clock,
	};
}

static void join(struct readahead_stream *stream,
		 const struct readahead_read *read)
{
	uint64_t span;

	if (read->start > stream->end)
		stream->run = read->end - read->start;
	else if (read->end > stream->end)
		stream->run += read->end - stream->end;
	stream->start = least(stream->start, read->start);
	stream->end = most(stream->end, read->end);
	stream->issued = most(stream->issued, stream->end);
	span = stream->end - stream->start;
	stream->read = least(stream->read + (read->end - read->start), span);
	if (span <= MEMORY_BYTES)
		return;
	/* Forget the beginning, as dense as the rest. */
	stream->read =
		(uint64_t)((double)stream->read * MEMORY_BYTES / (double)span);
	stream->start = stream->end - MEMORY_BYTES;
}

static bool is_believed(const struct readahead_stream *stream,
			const struct readahead_read *read)
{
	uint64_t span = stream->end - stream->start;

	if (stream->run >= BELIEVED_BYTES)
		return true;
	if (stream->window > 0)
		return stream->read >= span / 2;
	return stream->read >= span / 4 * 3 &&
	       (read->ends_file || stream->read >= BELIEVED_BYTES);
}

static uint32_t next_window(uint32_t window)
{
	if (window == 0)
		return READAHEAD_WINDOW_MIN;
	return window < READAHEAD_WINDOW_MAX ? window * 2 : window;
}

uint32_t readahead_window(uint64_t bytes_per_s)
{
	if (bytes_per_s < KNOWN_BYTES)
		return READAHEAD_WINDOW_MAX;
	return (uint32_t)most(least(2 * bytes_per_s, READAHEAD_WINDOW_MAX),
			      2 * READAHEAD_WINDOW_MIN);
}

static uint64_t window_max(const struct readahead_read *read)
{
	return most(least(read->window_max, READAHEAD_WINDOW_MAX),
		    READAHEAD_WINDOW_MIN);
}

bool readahead_note(struct readahead *state, const struct readahead_read *read,
		    uint64_t *ret_start, uint64_t *ret_end)
{
	struct readahead_stream *stream;
	uint64_t old_end;

	state->clock++;
	stream = find_stream(state, read);
	if (!stream) {
		start_stream(state, read);
		return false;
	}
	old_end = stream->end;
	stream->used = state->clock;
	join(stream, read);
	if (stream->end == old_end || !is_believed(stream, read) ||
	    stream->issued >= read->blob_bytes ||
	    (stream->window &&
	     stream->issued - stream->end > stream->window / 2))
		return false;
	stream->window =
		(uint32_t)least(next_window(stream->window), window_max(read));
	*ret_start = stream->issued;
	*ret_end = least(stream->end + stream->window, read->blob_bytes);
	if (*ret_end <= *ret_start)
		return false;
	stream->issued = *ret_end;
	return true;
}

void readahead_cut(struct readahead *state, uint64_t until, uint64_t end)
{
	for (unsigned i = 0; i < READAHEAD_STREAMS; i++) {
		struct readahead_stream *stream = &state->streams[i];

		if (stream->issued != end || until >= end)
			continue;
		stream->issued = until > stream->end ? until : stream->end;
		/* The next answer is as long as this one was. */
		stream->window = stream->window > READAHEAD_WINDOW_MIN ?
					 stream->window / 2 :
					 0;
	}
}
