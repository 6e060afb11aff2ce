/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flights, by key. Only reads that miss come here; the table is cut into
 * shards so that a chunk which lands does not hold up those that look.
 *
 * A failed flight stays in the table for a second: whoever asks again
 * meanwhile gets the same answer at no cost, so a storm of readers cannot
 * become a storm of requests.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/pool.h"
#include "dataset/blob.h"
#include "dataset/node.h"

#define SHARDS 64u
#define BUCKETS 32u
#define REMEMBER_MS 1000u
#define GIVE_AGAIN_MS 1000u
/* What is charged of a chunk that only waits for its record. */
#define RECORD_COST 1024u

struct flight_shard {
	pthread_mutex_t lock; /* guards all below, and what flight.h says */
	struct flight *buckets[BUCKETS];
} __attribute__((aligned(64)));

struct flights {
	struct node *node;
	atomic_uint_fast64_t count;
	atomic_uint failed;
	struct flight_shard shards[SHARDS];
};

struct flights *flights_new(struct node *node)
{
	struct flights *flights;

	if (posix_memalign((void **)&flights, 64, sizeof(*flights)) != 0)
		return NULL;
	memset(flights, 0, sizeof(*flights));
	flights->node = node;
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&flights->shards[i].lock, NULL);
	return flights;
}

void flights_free(struct flights *flights)
{
	if (!flights)
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&flights->shards[i].lock);
	free(flights);
}

uint64_t flights_count(struct flights *flights)
{
	return atomic_load(&flights->count);
}

static struct flight_shard *shard_of(struct flights *flights,
				     const struct object_key *key)
{
	return &flights->shards[object_key_hash(key) % SHARDS];
}

static struct flight **bucket_of(struct flight_shard *shard,
				 const struct object_key *key)
{
	return &shard->buckets[object_key_hash(key) / SHARDS % BUCKETS];
}

static void unlist(struct flight_shard *shard, struct flight *flight)
{
	struct flight **at = bucket_of(shard, &flight->key);

	if (!flight->is_listed)
		return;
	while (*at != flight)
		at = &(*at)->next;
	*at = flight->next;
	flight->is_listed = false;
}

enum get { GET_FIND, GET_OR_MAKE, GET_ANEW };

/* Whether somebody who asks now may use what it has. */
static bool is_usable(const struct flight *flight, enum get get, uint64_t now)
{
	switch (atomic_load(&flight->state)) {
	case FLIGHT_RUNNING:
		return true;
	case FLIGHT_DONE:
		/* who asks for a head wants one that is fetched from now on */
		return flight->key.kind == OBJECT_CHUNK ?
			       flight->plain != NULL :
			       flight->key.kind != OBJECT_HEAD;
	default:
		return get != GET_ANEW && now < flight->ended_ms + REMEMBER_MS;
	}
}

static struct flight *find_listed(struct flight_shard *shard,
				  const struct object_key *key)
{
	struct flight *flight = *bucket_of(shard, key);

	while (flight && !object_key_equal(&flight->key, key))
		flight = flight->next;
	return flight;
}

static struct flight *flight_new(struct flights *flights,
				 struct flight_shard *shard,
				 const struct object_key *key)
{
	struct flight *flight = calloc(1, sizeof(*flight));
	struct flight **at = bucket_of(shard, key);

	if (!flight)
		return NULL;
	flight->key = *key;
	flight->node = flights->node;
	atomic_init(&flight->refs, 1);
	flight->next = *at;
	*at = flight;
	flight->is_listed = true;
	atomic_fetch_add(&flights->count, 1);
	return flight;
}

/* Take an unusable flight out of the table. Returns it if the table's own
 * reference has to be dropped. */
static struct flight *retire(struct flight_shard *shard, struct flight *flight)
{
	unlist(shard, flight);
	if (!flight->is_remembered)
		return NULL;
	flight->is_remembered = false;
	atomic_fetch_sub(&flight->node->flights->failed, 1);
	return flight;
}

static struct flight *get(struct flights *flights, const struct object_key *key,
			  enum get get, bool *ret_is_new)
{
	struct flight_shard *shard = shard_of(flights, key);
	struct flight *flight, *retired = NULL;
	bool may_make = get != GET_FIND;
	uint64_t now = now_ms();

	*ret_is_new = false;
	pthread_mutex_lock(&shard->lock);
	flight = find_listed(shard, key);
	if (flight && is_usable(flight, get, now)) {
		flight_ref(flight);
	} else {
		if (flight && may_make)
			retired = retire(shard, flight);
		flight = may_make ? flight_new(flights, shard, key) : NULL;
		*ret_is_new = flight;
	}
	pthread_mutex_unlock(&shard->lock);
	flight_unref(retired);
	return flight;
}

struct flight *flight_get(struct flights *flights, const struct object_key *key,
			  bool *ret_is_new)
{
	return get(flights, key, GET_OR_MAKE, ret_is_new);
}

struct flight *flight_get_anew(struct flights *flights,
			       const struct object_key *key, bool *ret_is_new)
{
	return get(flights, key, GET_ANEW, ret_is_new);
}

struct flight *flight_find(struct flights *flights,
			   const struct object_key *key)
{
	bool is_new;

	return get(flights, key, GET_FIND, &is_new);
}

bool flight_awaits_record(struct flights *flights, const struct object_key *key)
{
	struct flight_shard *shard = shard_of(flights, key);
	struct flight *flight;

	scoped_lock(&shard->lock);
	flight = find_listed(shard, key);
	return flight && flight_state(flight) == FLIGHT_DONE &&
	       atomic_load(&flight->puts) > 0;
}

struct flight *flight_ref(struct flight *flight)
{
	atomic_fetch_add_explicit(&flight->refs, 1, memory_order_relaxed);
	return flight;
}

/* Of a chunk; up to kept_bytes stay charged. */
static void free_plain(struct flight *flight, uint8_t *plain,
		       uint64_t kept_bytes)
{
	uint64_t charged = flight->charged_bytes;

	if (plain)
		pool_put(flight->node->pool, plain, flight->length);
	if (charged <= kept_bytes)
		return;
	flight->charged_bytes = kept_bytes;
	budget_leave(flight->node, &flight->dataset->share, 0,
		     charged - kept_bytes);
}

static void flight_free(struct flight *flight)
{
	struct node *node = flight->node;

	free_plain(flight, flight->plain, 0);
	blob_unref(flight->blob);
	for (uint32_t i = 0; i < flight->target_count; i++)
		if (!flight->targets[i].is_given)
			blob_unref(flight->targets[i].blob);
	if (flight->targets != &flight->first_target)
		free(flight->targets);
	object_unref(flight->object);
	free(flight);
	atomic_fetch_sub(&node->flights->count, 1);
}

/* But for the caller, who has one of refs. Loaded before puts, which may become
 * fewer meanwhile; more only while something is given. */
static bool only_records_hold(struct flight *flight, unsigned refs)
{
	return refs <= atomic_load(&flight->puts) + 1;
}

/*
 * Records hold a flight for as long as the disk takes, which may be seconds:
 * the bytes, which lie in the cache's file by now, are not kept for that. Under
 * the lock nobody finds it, and no give begins.
 */
static void drop_plain(struct flight *flight)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);
	uint8_t *plain = NULL;

	pthread_mutex_lock(&shard->lock);
	if (atomic_load(&flight->gives) == 0 &&
	    only_records_hold(flight, atomic_load(&flight->refs)))
		plain = steal_ptr(flight->plain);
	pthread_mutex_unlock(&shard->lock);
	if (plain)
		free_plain(flight, plain, RECORD_COST);
}

void flight_begin_give(struct flight *flight)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);

	scoped_lock(&shard->lock);
	atomic_fetch_add(&flight->gives, 1);
}

/* The last reference goes under the shard's lock: a look-up cannot find a
 * flight whose count has reached zero. */
void flight_unref(struct flight *flight)
{
	struct flight_shard *shard;
	unsigned refs;

	if (!flight)
		return;
	refs = atomic_load(&flight->refs);
	while (refs > 1) {
		if (atomic_load(&flight->gives) == 0 &&
		    only_records_hold(flight, refs))
			drop_plain(flight);
		if (atomic_compare_exchange_weak(&flight->refs, &refs,
						 refs - 1))
			return;
	}
	shard = shard_of(flight->node->flights, &flight->key);
	pthread_mutex_lock(&shard->lock);
	refs = atomic_fetch_sub(&flight->refs, 1);
	if (refs == 1)
		unlist(shard, flight);
	pthread_mutex_unlock(&shard->lock);
	if (refs == 1)
		flight_free(flight);
}

void flight_finish(struct flight *flight, int result, const struct err *err,
		   struct object *object)
{
	struct flights *flights = flight->node->flights;
	struct flight_shard *shard = shard_of(flights, &flight->key);
	struct park_node *parked;
	struct blob *blob = steal_ptr(flight->blob);

	pthread_mutex_lock(&shard->lock);
	flight->result = result;
	flight->object = object;
	flight->ended_ms = now_ms();
	if (result < 0) {
		flight->err = err ? *err : flight->trouble;
		flight->is_remembered = true;
		atomic_fetch_add(&flight->refs, 1);
		atomic_fetch_add(&flights->failed, 1);
	}
	atomic_store_explicit(&flight->state,
			      result < 0 ? FLIGHT_FAILED : FLIGHT_DONE,
			      memory_order_release);
	parked = flight->parked;
	flight->parked = NULL;
	pthread_mutex_unlock(&shard->lock);
	blob_unref(blob);
	while (parked) {
		struct park_node *next = parked->next;

		park_down(parked);
		parked = next;
	}
}

void flight_trouble(struct flight *flight, int errnum, const char *text)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);

	scoped_lock(&shard->lock);
	flight->trouble_result = err_set(&flight->trouble, errnum, "%s", text);
}

int flight_trouble_read(struct flight *flight, struct err *ret)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);

	scoped_lock(&shard->lock);
	*ret = flight->trouble;
	return flight->trouble_result;
}

bool flight_park(struct flight *flight, struct park_node *node)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);

	scoped_lock(&shard->lock);
	if (flight_state(flight) != FLIGHT_RUNNING)
		return false;
	node->next = flight->parked;
	flight->parked = node;
	return true;
}

static bool grow_targets(struct flight *flight)
{
	bool is_first = flight->targets == &flight->first_target;
	uint32_t capacity = flight->target_capacity * 4;
	struct flight_target *grown;

	if (!flight->targets) {
		flight->targets = &flight->first_target;
		flight->target_capacity = 1;
		return true;
	}
	if (capacity > FLIGHT_TARGETS_MAX)
		return false;
	grown = reallocarray(is_first ? NULL : flight->targets, capacity,
			     sizeof(*grown));
	if (!grown)
		return false;
	if (is_first)
		grown[0] = flight->first_target;
	flight->targets = grown;
	flight->target_capacity = capacity;
	return true;
}

static struct flight_target *find_target(struct flight *flight,
					 const struct digest *id, uint64_t unit)
{
	for (uint32_t i = 0; i < flight->target_count; i++)
		if (flight->targets[i].unit == unit &&
		    digest_equal(&flight->targets[i].id, id))
			return &flight->targets[i];
	return NULL;
}

/* Who asks for it has not found it in the cache, which refused it or has
 * evicted it since: memory must not keep it out of there for good. */
static bool give_again(struct flight *flight, struct flight_target *target,
		       struct blob *blob)
{
	if (!target->is_given || atomic_load(&flight->puts) > 0 ||
	    now_ms() < target->given_ms + GIVE_AGAIN_MS)
		return false;
	target->is_given = false;
	target->blob = blob_ref(blob);
	return true;
}

bool flight_add_target(struct flight *flight, struct blob *blob, uint64_t unit,
		       uint64_t offset)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);
	struct flight_target *target;

	scoped_lock(&shard->lock);
	target = find_target(flight, &blob->id, unit);
	if (target)
		return give_again(flight, target, blob);
	if (flight->target_count == flight->target_capacity &&
	    !grow_targets(flight))
		return false;
	flight->targets[flight->target_count++] = (struct flight_target){
		.id = blob->id,
		.blob = blob_ref(blob),
		.unit = unit,
		.offset = offset,
	};
	return true;
}

void flight_keep_blob(struct flight *flight, struct blob *blob)
{
	flight->blob = blob_ref(blob);
}

bool flight_take_target(struct flight *flight, struct flight_target *ret)
{
	struct flight_shard *shard =
		shard_of(flight->node->flights, &flight->key);

	scoped_lock(&shard->lock);
	for (uint32_t i = 0; i < flight->target_count; i++) {
		struct flight_target *target = &flight->targets[i];

		if (target->is_given)
			continue;
		/* With its reference: a flight that is kept for its bytes
		 * keeps no file open. */
		target->is_given = true;
		target->given_ms = now_ms();
		*ret = *target;
		return true;
	}
	return false;
}

/* One failed flight that may be forgotten; its table reference passes on. */
static struct flight *take_forgotten(struct flight_shard *shard, uint64_t now)
{
	scoped_lock(&shard->lock);
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct flight *flight = shard->buckets[i];

		for (; flight; flight = flight->next) {
			if (!flight->is_remembered ||
			    now < flight->ended_ms + REMEMBER_MS)
				continue;
			flight->is_remembered = false;
			return flight;
		}
	}
	return NULL;
}

void flights_sweep(struct flights *flights, uint64_t now)
{
	struct flight *flight;

	if (atomic_load(&flights->failed) == 0)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		while ((flight = take_forgotten(&flights->shards[i], now))) {
			atomic_fetch_sub(&flights->failed, 1);
			flight_unref(flight);
		}
	}
}
