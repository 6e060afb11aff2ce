/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_EVICTOR_H
#define LARDER_CACHE_EVICTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/pins.h"

struct cache;

/*
 * Removes what was used longest ago when a limit is passed, and what a user
 * names. By unlink only, file first and index second; never what is pinned or
 * held open. One process at a time (a gate) unless it seems to be stopped, one
 * thread of it (the lock).
 */
struct evictor {
	pthread_mutex_t lock; /* guards the next three */
	struct pin_set pins;
	uint64_t held_since_ms; /* the gate, by another process; 0: not */
	uint64_t next_full_sweep_ms;
	uint64_t next_measure_ms; /* the keeper's, as the next */
	uint64_t next_strays_ms;
	_Atomic uint64_t quiet_until_ms; /* nothing more to evict before */
	_Atomic bool is_busy;
	pthread_mutex_t pressure_lock; /* guards the two below */
	void (*let_go)(void *arg);
	void *let_go_arg;
};

void evictor_init(struct evictor *evictor, int cache_dirfd);
void evictor_release(struct evictor *evictor);
/* Evict if over a limit, down to 90 % of it. Called by the keeper. */
void evictor_run(struct cache *cache);
/* Close what is open and not in use, here and in the layer above. */
void evictor_let_go(struct cache *cache);

#endif
