/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_WATCH_H
#define LARDER_CACHE_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/rows.h"

struct cache_blob;
struct stat;

/*
 * A file of a blob as it was left by us: what differs was done by somebody
 * else, a process that fills it too or one that harms it.
 */
struct watch {
	struct file_mark mark;
	unsigned int writers; /* of this process, at this moment */
	bool is_ours;         /* nobody else had touched it before them */
	int64_t looked_s;
};

/* Once, when the file has been opened and nothing of it was checked yet. */
void watch_start(struct cache_blob *blob, uint64_t segment, int fd);
/* Around each write of ours. */
void watch_write(struct cache_blob *blob, uint64_t segment, int fd);
void watch_written(struct cache_blob *blob, uint64_t segment, int fd);

/*
 * Compares with st, the file as it was just now; 0, or -EAGAIN: every unit of the blob is checked again before it is
 * used. A blob without mark is looked at so once a second at most, because
 * another process that fills it makes it differ all the time.
 */
int watch_look(struct cache_blob *blob, uint64_t segment, int fd,
	       const struct stat *st);

#endif
