/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_DISK_H
#define LARDER_CACHE_DISK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A disk that has not answered for so long hangs: a call takes longer, and no
 * write has come back meanwhile, which tells it from one that is slow. */
#define DISK_BOUND_MS 2000u
/* What ends with a sync is as slow as all that others have written. */
#define DISK_SYNC_BOUND_MS 10000u
/* Threads that are lent to disk_run. */
#define DISK_THREADS 4u

/*
 * Whether the cache's disk answers. Calls that may wait for it are announced
 * here; when one is late the disk hangs until all such have returned, and
 * meanwhile nobody begins another.
 */
enum disk_kind { DISK_CALL, DISK_SYNC };

/* Pure: when a call is late that was begun then, while a write came back last
 * at written_ms. */
uint64_t disk_deadline(enum disk_kind kind, uint64_t begun_ms,
		       uint64_t written_ms);

struct disk_op {
	struct disk_op *next, *prev;
	uint64_t begun_ms;
	const char *what; /* for the log */
	enum disk_kind kind;
	bool has_written; /* by the caller, before its end */
};

/* Made by malloc, since it may outlive the caller's wait. */
struct disk_call {
	/* On another thread, once; a negative errno or not. */
	int (*run)(struct disk_call *call);
	/* What it refers to, not itself; may be NULL. When nobody needs it. */
	void (*release)(struct disk_call *call);
	const char *what;
	enum disk_kind kind;
	/* disk.c's: */
	struct disk_call *next;
	int result;
	bool is_done, is_left;
};

struct disk {
	const char *dir; /* for the log */
	void (*changed)(void *arg, bool is_hanging);
	void *arg;
	_Atomic bool is_hanging; /* written under lock */
	pthread_t watcher;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t begun, queued, answered;
	struct disk_op ops;  /* head of the ring */
	uint64_t written_ms; /* when a write came back */
	struct disk_call *first, **last;
	pthread_t threads[DISK_THREADS];
	unsigned int thread_count, idle_count, queued_count;
	bool is_running, is_stopping, is_watcher_idle;
	/* the watcher's: */
	uint64_t said_ms;
	bool has_said;
};

/* changed: on a thread of its own, without a lock. */
int disk_start(struct disk *disk, const char *dir,
	       void (*changed)(void *arg, bool is_hanging), void *arg);
/* Waits for what runs on its threads; from then on disk_run is the caller's own
 * call and nothing hangs. */
void disk_stop(struct disk *disk);
void disk_release(struct disk *disk);

static inline bool disk_is_hanging(struct disk *disk)
{
	return atomic_load_explicit(&disk->is_hanging, memory_order_relaxed);
}

/* Around a call on the caller's thread, which is then stuck with the disk.
 * false: it hangs, do not call it. */
bool disk_begin(struct disk *disk, struct disk_op *op, const char *what,
		enum disk_kind kind);
void disk_end(struct disk *disk, struct disk_op *op);

/* Runs a call on a thread of the disk's: what it returned, and the call is the
 * caller's again, or -ETIMEDOUT: the disk hangs, the call is taken and was not
 * run, or still runs. */
int disk_run(struct disk *disk, struct disk_call *call);
void disk_call_free(struct disk_call *call);
/* The same, where nothing but what it returned is wanted of the call. */
int disk_run_and_free(struct disk *disk, struct disk_call *call);

#endif
