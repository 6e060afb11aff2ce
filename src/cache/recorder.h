/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_RECORDER_H
#define LARDER_CACHE_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cache/index.h"

struct cache;
struct cache_blob;
struct pending_chunk;

/*
 * Gates: bytes of locks/gate, only ever tried for GATE_TIMEOUT_MS. One process
 * at a time writes the index, and makes it.
 */
enum gate { GATE_WRITER = 0, GATE_EVICTOR = 2 };
#define GATE_TIMEOUT_MS 2000
int gate_enter(int fd, enum gate gate, uint32_t timeout_ms);
void gate_leave(int fd, enum gate gate);
/* Whether no other process had the cache open; from now on this one has. */
bool gate_is_first(int fd);
int64_t gate_holder(int fd); /* pid of the last writer */

/* A change on its way to the index. */
struct record {
	struct index_op op;
	struct cache_blob *blob; /* counted for the record, or NULL */
	struct pending_chunk *pending; /* found until then, or NULL */
	uint64_t unrecorded_bytes;
	void (*recorded)(void *arg);
	void *arg;
};

/* The one thread of a process that writes the index: group commits. */
struct recorder {
	struct cache *cache;
	pthread_t thread;
	bool is_running;
	pthread_mutex_t lock; /* guards the seven below */
	pthread_cond_t arrived, drained;
	VEC(struct record) queue;
	bool is_stopping;
	bool is_pacing; /* nobody need be woken for one more */
	uint64_t added, done;
	size_t batch_count; /* of it, are being recorded */
	/* The thread's own: */
	VEC(struct record) parked; /* called back, to be recorded later */
	_Atomic bool is_suspended; /* the gate was not to be had */
	uint64_t retry_ms, paced_ms;
	struct index_op *ops;
	struct record *batch; /* what to call back in it: guarded, too */
};

int recorder_start(struct recorder *recorder, struct cache *cache);
/* Records what it can within the gate's bound, calls back, ends. */
void recorder_stop(struct recorder *recorder);
/* Calls back for all that waits: the disk hangs. */
void recorder_let_go(struct recorder *recorder);
/* Waits until all that was added before has been written or given up. */
void recorder_flush(struct recorder *recorder, uint32_t timeout_ms);
/* What is due when a record has been written or given up. */
void record_finish(struct recorder *recorder, struct record *record);
/* Takes over the record's blob reference; -ENOMEM: it did not. */
int recorder_add(struct recorder *recorder, const struct record *record);

#endif
