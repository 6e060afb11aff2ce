/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_FLIGHT_H
#define LARDER_DATASET_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "dataset/object.h"

struct blob;
struct dataset;
struct node;
struct park;
struct waiter;

/*
 * One download per object or chunk, however many wait for it.
 *
 *   RUNNING --flight_finish(0)--> DONE     what came is held by the flight
 *      |
 *      +--flight_finish(-errno)--> FAILED  remembered for a second
 *
 * Everything that knows a flight counts a reference: the job that works on
 * it, the waiters that hold it (so its bytes outlive the call that asked), the
 * reads that return its memory, the cache's pending record. The last one frees
 * it; the bytes of a chunk go before that, when nothing but records is waited for.
 * A flight is found by its key as long as it lives.
 */
enum flight_state { FLIGHT_RUNNING, FLIGHT_DONE, FLIGHT_FAILED };

/* Where a chunk belongs: a unit of a blob in the cache. */
struct flight_target {
	struct digest id;
	struct blob *blob; /* counted until it is given */
	uint64_t unit, offset;
	bool is_given; /* to the cache, or was refused by it */
	uint64_t given_ms;
};
/* A chunk that repeats more often within one flight is fetched again. */
#define FLIGHT_TARGETS_MAX 4096u

struct park_node {
	struct park *park;
	struct park_node *next;
};

struct flight {
	struct object_key key;
	struct node *node;
	atomic_uint refs;
	struct flight *next; /* bucket; guarded by the shard */
	bool is_listed;

	atomic_int
		state; /* enum flight_state, written under the shard's lock */
	/* written before state leaves RUNNING, constant afterwards */
	int result;
	int class; /* enum fetch_class of a failure */
	struct err err;
	uint64_t ended_ms;
	struct object *object; /* what came; NULL for chunks */
	/* chunk: what came; NULL when the cache has it. Constant for whoever
	 * has a reference; guarded by the shard's lock else. */
	uint8_t *plain;
	uint32_t length;     /* chunk: set by the maker */
	uint32_t wire_bytes; /* chunk: what came over the network, and from */
	int mirror;	     /* which; of nowhere 0 bytes */

	/* guarded by the shard's lock */
	struct park_node *parked;
	struct err trouble; /* what went wrong so far, while RUNNING */
	int trouble_result; /* its negative errno; 0: nothing did */
	struct flight_target *targets, first_target;
	uint32_t target_count, target_capacity;

	struct dataset *dataset; /* of the maker: pays the budget */
	struct blob *blob; /* chunk: the maker's, counted until it has ended */
	uint64_t charged_bytes;
	atomic_uint puts;	/* not yet recorded, and one for the verifier */
	atomic_uint gives;	/* of bytes to the cache, under way or lost */
	atomic_bool is_claimed; /* for other processes */
	atomic_bool is_demanded; /* chunk: a reader has joined */
	uint64_t low_number;	 /* of the request; raise.c's, its lock */
	bool is_recent;		 /* guarded by recent.c */
	struct flight *next_recent;
	bool is_remembered; /* the table's reference on a failed flight */
};

struct flights;

struct flights *flights_new(struct node *node);
void flights_free(struct flights *flights);
uint64_t flights_count(struct flights *flights);

/*
 * The flight of that key, counted for the caller. *ret_is_new: it was made
 * by this call and the caller must see that it is finished. A failure
 * older than a second, a chunk whose bytes are gone again and a head that has
 * come do not count.
 * NULL: out of memory.
 */
struct flight *flight_get(struct flights *flights, const struct object_key *key,
			  bool *ret_is_new);
/* The same where no failure of before counts. */
struct flight *flight_get_anew(struct flights *flights,
			       const struct object_key *key, bool *ret_is_new);
/* As flight_get, but never makes one. */
struct flight *flight_find(struct flights *flights,
			   const struct object_key *key);
/* Whether a chunk has come, was given to the cache and is not recorded yet. */
bool flight_awaits_record(struct flights *flights,
			  const struct object_key *key);
struct flight *flight_ref(struct flight *flight);
void flight_unref(struct flight *flight);

static inline enum flight_state flight_state(struct flight *flight)
{
	return atomic_load_explicit(&flight->state, memory_order_acquire);
}

/* Ends it and wakes who waits. object is taken (a reference); err may be NULL
 * on success. For chunks set plain before. */
void flight_finish(struct flight *flight, int result, const struct err *err,
		   struct object *object);
/* What is wrong just now: the answer to a waiter whose time is over. Read
 * returns the negative errno, 0 where nothing is. */
void flight_trouble(struct flight *flight, int errnum, const char *text);
int flight_trouble_read(struct flight *flight, struct err *ret);

/* Join: false if it has ended, else node is woken when it does. */
bool flight_park(struct flight *flight, struct park_node *node);

/* Chunks. false: it is full, or the unit is a target already, unless it was
 * given over a second ago and to no avail. blob is counted once more. */
bool flight_add_target(struct flight *flight, struct blob *blob, uint64_t unit,
		       uint64_t offset);
/* The maker's blob is there until the flight has ended, whoever else added the
 * same unit as a target before. */
void flight_keep_blob(struct flight *flight, struct blob *blob);
/* The next to be given; its blob's reference passes to the caller. */
bool flight_take_target(struct flight *flight, struct flight_target *ret);

/* Before bytes that are held are given late: they stay until gives is lower. */
void flight_begin_give(struct flight *flight);

/* Forget failures older than a second. */
void flights_sweep(struct flights *flights, uint64_t now_ms);

#endif
