/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_READ_RESULT_H
#define LARDER_DATASET_READ_RESULT_H

#include "dataset/dataset.h"

struct blob;
struct flight;

/* Each adds at the end. 0, -ENOMEM, or -EAGAIN: a file among the pieces so far
 * failed. */

/* Bytes in memory: the flight's, which is counted once more, or NULL. */
int read_result_add(struct read_result *result, const void *memory, size_t len,
		    struct flight *flight);
/* Bytes of the blob's cache file. */
int read_result_add_file(struct read_result *result, struct blob *blob, int fd,
			 uint64_t fd_offset, size_t len);
/* The same, read now: 1; 0 where they cannot be read. */
int read_result_add_copy(struct read_result *result, int fd, uint64_t fd_offset,
			 size_t len);
/* Take back what was added after the first len bytes. */
void read_result_cut(struct read_result *result, size_t len);

#endif
