/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_KEEPER_H
#define LARDER_CACHE_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cache;

/*
 * The one thread of a process that tidies up: the clock for last use, last
 * uses to the index, idle blobs, eviction, leftovers.
 */
struct keeper {
	struct cache *cache;
	pthread_t thread;
	bool is_running;
	pthread_mutex_t lock; /* guards the two below */
	pthread_cond_t wake;
	bool is_stopping, is_kicked;
	uint64_t tick_ms;            /* of the last one */
	unsigned int next_directory; /* of blobs/ and objects/, to be swept */
	_Atomic unsigned int swept;  /* since the start */
	unsigned int hurried;        /* that many to come without a pause */
	uint64_t hurry_again_ms;     /* 0: not */
	uint64_t object_bytes[256];  /* as measured here */
	uint32_t idle_asked;         /* as last seen */
};

/* Made before and released after the thread: tests are their own keeper. */
void keeper_init(struct keeper *keeper, struct cache *cache);
void keeper_release(struct keeper *keeper);
int keeper_start(struct keeper *keeper);
void keeper_stop(struct keeper *keeper);
/* Evict now rather than at the next tick. */
void keeper_kick(struct keeper *keeper);

struct blob_row;
struct digest;
/* The row whose current file, or a segment of it, is blobs/DIRECTORY/NAME: 1, 0
 * none, negative errno. */
int keeper_row_of(struct cache *cache, const char *directory, const char *name,
		  struct digest *ret_id, struct blob_row *ret);

/* For tests, on the caller's thread: sweep one of the 256 directories of
 * leftovers older than age_s. */
void keeper_sweep(struct cache *cache, unsigned int directory, int64_t age_s);

/* Whether files that the index does not know may be asked for: it was lost. */
bool keeper_expects_candidates(struct cache *cache);
/* Younger files may be on their way to their first commit. */
#define LEFTOVER_AGE_S 3600
/* Whether a name in blobs/DIRECTORY (dirfd) is a file, or announces one, that
 * no row speaks of, that nobody has open, and that is older than age_s. */
bool keeper_is_leftover(struct cache *cache, int dirfd, const char *directory,
			const char *name, int64_t age_s);

#endif
