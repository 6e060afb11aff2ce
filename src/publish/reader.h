/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_READER_H
#define LARDER_PUBLISH_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/chunker.h"

struct blob_job;

/*
 * The files of a blob, read and cut into chunks. Chunks are slices of
 * segments, so bytes are copied only where a segment ends within a chunk.
 */
#define SEGMENT_BYTES (8u << 20) /* twice the largest chunk */

struct segment {
	uint8_t *data; /* SEGMENT_BYTES */
	unsigned int uses;
	struct segment *next;
};

struct reader_ops {
	/* A segment with one use, the reader's. NULL: give up. Waits. */
	struct segment *(*get)(void *arg);
	void (*put)(void *arg, struct segment *segment);
	/* The next chunk; takes a use of the segment. data NULL: that many
	 * zeros. Returns 0 or a negative errno, which ends the job. */
	int (*chunk)(void *arg, struct segment *segment, const uint8_t *data,
		     uint32_t length, bool is_last);
};

struct reader {
	int root_fd;
	const struct chunker_params *chunker;
	const struct reader_ops *ops;
	void *arg;
	/* private */
	struct segment *segment;
	size_t start, end; /* bytes read and not yet in a chunk */
	const struct blob_job *job;
	size_t next_file;
	int fd;		    /* of file next_file - 1, or -1 */
	uint64_t file_left; /* not read yet */
	uint64_t size; /* of the blob, which may be freed at its last chunk */
	uint64_t unread;
	bool is_sparse;
	uint64_t hole_start, hole_end;
};

void reader_init(struct reader *reader, int root_fd,
		 const struct chunker_params *chunker,
		 const struct reader_ops *ops, void *arg);
void reader_release(struct reader *reader);

/* -ESTALE names a file that is not what it was when the tree was walked. */
int reader_run(struct reader *reader, const struct blob_job *job,
	       struct err *err);

#endif
