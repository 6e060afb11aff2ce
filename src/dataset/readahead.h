/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_READAHEAD_H
#define LARDER_DATASET_READAHEAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What to fetch ahead of a blob's readers. Pure: the state changes by the
 * reads it is told of and nothing else. Reads are of blob bytes, so a reader
 * that goes from one small file to the next in a shared blob is one stream.
 */
#define READAHEAD_STREAMS 16u
#define READAHEAD_WINDOW_MIN (2u << 20)
#define READAHEAD_WINDOW_MAX (32u << 20)

struct readahead_stream {
	uint64_t start;	 /* reads of it lie between here */
	uint64_t end;	 /* and here */
	uint64_t read;	 /* bytes of that */
	uint64_t run;	 /* the last of them, without a hole */
	uint64_t issued; /* how far was asked for */
	uint32_t window; /* bytes of the last answer; 0: none yet */
	uint32_t used;	 /* clock of its last read; 0: free */
};

struct readahead {
	uint32_t clock;
	struct readahead_stream streams[READAHEAD_STREAMS];
};

struct readahead_read {
	uint64_t start, end; /* in the blob */
	uint64_t blob_bytes;
	bool ends_file;	     /* and the blob has more files */
	uint32_t window_max; /* what the link is worth; at most the constant */
};
/* The most a window may have where so many bytes came within a second, at best
 * of late; 0: nobody knows. */
uint32_t readahead_window(uint64_t bytes_per_s);
/* true: fetch [*ret_start, *ret_end) ahead. */
bool readahead_note(struct readahead *state, const struct readahead_read *read,
		    uint64_t *ret_start, uint64_t *ret_end);
/* Only [start, until) of an answer that ended at `end` was asked for: the
 * rest is proposed again by a later read, in smaller steps. */
void readahead_cut(struct readahead *state, uint64_t until, uint64_t end);

#endif
