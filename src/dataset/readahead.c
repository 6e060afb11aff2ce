/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes come next.
 *
 * A stream is known by where it was read up to. The kernel sends a
 * sequential reader's requests in parallel and out of order, hence the slack
 * on both sides. One read is no stream: the first of a file, one at its end
 * (a footer, an index) or a random one starts nothing. Then the window
 * doubles each time it is asked for again, which happens when half of it is
 * used up, so requests stay long and the reader never meets the end.
 */
#include <config.h>

#include <stddef.h>

#include "dataset/readahead.h"

/* How far a read may lie from where its stream is. Back: eight requests of
 * 1 MiB under way at once; forth: a file skipped since it is in the page
 * cache. */
#define SLACK_BACK (8u << 20)
#define SLACK_FORTH (1u << 20)

static bool belongs(const struct readahead_stream *stream, uint64_t start)
{
	return stream->used && start + SLACK_BACK >= stream->end &&
	       start <= stream->end + SLACK_FORTH;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The nearest stream the read belongs to, or NULL. */
static struct readahead_stream *find_stream(struct readahead *state,
					    uint64_t start)
{
	struct readahead_stream *best = NULL;

	for (unsigned i = 0; i < READAHEAD_STREAMS; i++) {
		struct readahead_stream *stream = &state->streams[i];

		if (!belongs(stream, start))
			continue;
		if (!best ||
		    distance(start, stream->end) < distance(start, best->end))
			best = stream;
	}
	return best;
}

static void start_stream(struct readahead *state, uint64_t end)
{
	struct readahead_stream *oldest = &state->streams[0];

	for (unsigned i = 1; i < READAHEAD_STREAMS; i++)
		if (state->streams[i].used < oldest->used)
			oldest = &state->streams[i];
	*oldest = (struct readahead_stream){
		.end = end,
		.issued = end,
		.used = state->clock,
	};
}

static uint32_t next_window(uint32_t window)
{
	if (window == 0)
		return READAHEAD_WINDOW_MIN;
	return window < READAHEAD_WINDOW_MAX ? window * 2 : window;
}

bool readahead_note(struct readahead *state, uint64_t start, uint64_t end,
		    uint64_t blob_bytes, uint64_t *ret_start, uint64_t *ret_end)
{
	struct readahead_stream *stream;

	state->clock++;
	stream = find_stream(state, start);
	if (!stream) {
		start_stream(state, end);
		return false;
	}
	stream->used = state->clock;
	if (end <= stream->end)
		return false;
	stream->end = end;
	if (stream->issued < end)
		stream->issued = end;
	if (stream->issued >= blob_bytes ||
	    (stream->window && stream->issued - end > stream->window / 2))
		return false;
	stream->window = next_window(stream->window);
	*ret_start = stream->issued;
	*ret_end = end + stream->window < blob_bytes ? end + stream->window :
						       blob_bytes;
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
