/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_INTERNAL_H
#define LARDER_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cache/blobs.h"
#include "cache/cache.h"
#include "cache/claims.h"
#include "cache/disk.h"
#include "cache/evictor.h"
#include "cache/index.h"
#include "cache/keeper.h"
#include "cache/pending.h"
#include "cache/recorder.h"
#include "cache/seal.h"
#include "cache/space.h"

/*
 * The parts of an open cache. Locks, outermost first: blob->lock,
 * blob->watch_lock (held for an fstat, nothing is taken in it),
 * blobs.lock, recorder.lock, sealer.lock, space.lock; the index's and the
 * disk's are leaves.
 */
struct cache {
	char *dir;
	int dirfd, gate_fd;
	bool is_readonly;
	/* NULL: going on without. Replaced when it is lost, by the keeper; one
	 * that was loaded stays valid. */
	struct index *_Atomic index;
	VEC(struct index *) old_indexes; /* the keeper's */
	uint64_t index_retry_ms, index_pause_ms;
	struct disk disk;
	struct claims claims;
	struct space space;
	struct recorder recorder;
	struct pending pending;
	struct pins pins;
	struct evictor evictor;
	struct keeper keeper;
	struct sealer sealer;
	struct blob_table blobs;
	pthread_mutex_t hang_lock; /* guards the two below; others in it */
	void (*on_hang)(void *arg, bool is_hanging);
	void *on_hang_arg;
	_Atomic int64_t now_s; /* set by the keeper each second */
	_Atomic uint64_t units_dropped_corrupt, puts_failed, blobs_lost;
	_Atomic uint64_t blobs_evicted, bytes_evicted;
	/* Puts while somebody evicted here, by how long they took. */
	_Atomic uint64_t eviction_waits[CACHE_WAITS];
};

static inline bool cache_has_index(const struct cache *cache)
{
	const struct index *index = cache->index;

	return index && !index_is_dead(index);
}

/* index-choice.c */
void cache_index_open(struct cache *cache);
/* Another one, if that is lost: whether there is one now. */
bool cache_index_renew(struct cache *cache);
void cache_index_close(struct cache *cache);

/* index-watch.c, with the writer's gate but for the first. begin: not 0 if nothing
 * may be written; then the index is dead if somebody has written to it since
 * the last end, or is damaged. */
int index_watch_reset(int gate_fd);
int index_watch_begin(struct index *index, int gate_fd);
void index_watch_end(struct index *index, int gate_fd);

/* Conditions that time out by CLOCK_MONOTONIC, as now_ms() counts. */
void cond_init_monotonic(pthread_cond_t *cond);
/* LMDB keeps a few hundred bytes per level on the stack, and little else
 * here is large. */
#define CACHE_STACK_BYTES (512u << 10)

#endif
