/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_SPACE_H
#define LARDER_CACHE_SPACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/unrecorded.h"

/*
 * How much may be stored: the size limit and the free space to leave,
 * whichever binds first. The choices are pure; struct space asks the disk.
 */
struct space_limits {
	uint64_t limit_bytes, min_free_bytes;
	bool is_clamped; /* what was asked for does not fit the disk */
};

/* Defaults for zeros, and both brought down to a disk of total_bytes. */
struct space_limits space_limits_choose(uint64_t total_bytes,
					uint64_t limit_bytes,
					uint64_t min_free_bytes);
/* Bytes to evict so that there is room again: 0 while within both limits;
 * beyond one of them down to 90 % (110 % of the free space). A write of
 * refused_bytes that was not admitted (0: none was) must be afterwards. */
uint64_t space_excess(const struct space_limits *limits, uint64_t used_bytes,
		      uint64_t free_bytes, uint64_t refused_bytes);

/* What can be in use in the end: the limit, or what there is and what the disk
 * has room for besides. */
uint64_t space_usable(const struct space_limits *limits, uint64_t used_bytes,
		      uint64_t free_bytes);

/* a - b, but never below zero. */
static inline uint64_t bytes_left(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

struct space {
	int dirfd;
	struct space_limits limits;
	_Atomic uint64_t used;       /* the index's total, as last seen */
	struct unrecorded unrecorded; /* written, not yet in that total */
	_Atomic uint64_t unlinked;   /* kept open here, without a name */
	_Atomic uint64_t refused;    /* the largest since the last eviction */
	_Atomic bool wants_eviction;
	_Atomic bool is_full;        /* the filesystem said so: by quota or
				      * for want of inodes, perhaps */
	pthread_mutex_t lock;        /* guards the three below */
	uint64_t free_bytes, budget, checked_ms;
};

int space_init(struct space *space, int dirfd, uint64_t limit_bytes,
	       uint64_t min_free_bytes);
void space_release(struct space *space);
/* May length more bytes be written? 0 or -ENOSPC; asks for eviction. */
int space_admit(struct space *space, uint64_t length);
/* Whether what is used, as last seen, must be known better to admit more. */
bool space_is_near(struct space *space);
/* All that this process knows of, and what others are about to record. */
uint64_t space_used(struct space *space);
/* A write or a new file failed with this errno: more than the limits say has to
 * go if it means that the filesystem is full. */
void space_failed(struct space *space, int r);
uint64_t space_free_bytes(struct space *space); /* asks the disk */

#endif
