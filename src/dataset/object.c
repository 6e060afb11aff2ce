/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counted objects and the table of those used lately.
 *
 * The table is cut into shards, each with its lock, its order of use and its
 * share of the bytes, so that sixteen readers of warm files seldom meet. A
 * look-up holds the lock for a few compares; the reference it returns keeps
 * the object alive, so dropping it from the table disturbs nobody. A share
 * may be used up by one large catalog: the newest object of a shard always
 * stays, and the total is looked at as well, so few shards in use still get
 * the whole table.
 */
#include <config.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataset/object.h"

#define SHARDS 16u
#define BUCKETS 64u

struct shard {
	pthread_mutex_t lock; /* guards all below */
	struct object *buckets[BUCKETS];
	struct object *newest, *oldest;
	uint64_t bytes;
} __attribute__((aligned(64)));

struct table {
	uint64_t limit_bytes;
	atomic_uint_fast64_t bytes; /* of all shards */
	struct shard shards[SHARDS];
};

void object_init(struct object *object, const struct object_key *key,
		 size_t cost_bytes, void (*free)(struct object *object))
{
	atomic_init(&object->refs, 1);
	object->free = free;
	object->key = *key;
	object->cost_bytes = cost_bytes;
	object->next = object->newer = object->older = NULL;
	object->is_listed = false;
}

struct object *object_ref(struct object *object)
{
	atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
	return object;
}

void object_unref(struct object *object)
{
	if (!object || atomic_fetch_sub_explicit(&object->refs, 1,
						 memory_order_acq_rel) != 1)
		return;
	object->free(object);
}

struct table *table_new(uint64_t limit_bytes)
{
	struct table *table;

	if (posix_memalign((void **)&table, 64, sizeof(*table)) != 0)
		return NULL;
	memset(table, 0, sizeof(*table));
	table->limit_bytes = limit_bytes;
	atomic_init(&table->bytes, 0);
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&table->shards[i].lock, NULL);
	return table;
}

static void unlink_use(struct shard *shard, struct object *object)
{
	if (object->newer)
		object->newer->older = object->older;
	else
		shard->newest = object->older;
	if (object->older)
		object->older->newer = object->newer;
	else
		shard->oldest = object->newer;
	object->newer = object->older = NULL;
}

static void link_newest(struct shard *shard, struct object *object)
{
	object->older = shard->newest;
	object->newer = NULL;
	if (shard->newest)
		shard->newest->newer = object;
	else
		shard->oldest = object;
	shard->newest = object;
}

static struct object **find(struct shard *shard, uint64_t hash,
			    const struct object_key *key)
{
	struct object **at = &shard->buckets[hash / SHARDS % BUCKETS];

	while (*at && !object_key_equal(&(*at)->key, key))
		at = &(*at)->next;
	return at;
}

/* Takes the object out; the table's reference passes to the caller. */
static struct object *take(struct table *table, struct shard *shard,
			   struct object **at)
{
	struct object *object = *at;

	*at = object->next;
	unlink_use(shard, object);
	object->is_listed = false;
	shard->bytes -= object->cost_bytes;
	atomic_fetch_sub(&table->bytes, object->cost_bytes);
	object->next = NULL;
	return object;
}

/* The oldest objects past the limits, as a list for the caller to release. */
static struct object *take_excess(struct table *table, struct shard *shard)
{
	struct object *dropped = NULL;

	while (shard->oldest != shard->newest &&
	       atomic_load(&table->bytes) > table->limit_bytes &&
	       shard->bytes > table->limit_bytes / SHARDS) {
		struct object *object = shard->oldest;

		object = take(table, shard,
			      find(shard, object_key_hash(&object->key),
				   &object->key));
		object->next = dropped;
		dropped = object;
	}
	return dropped;
}

static void unref_list(struct object *object)
{
	while (object) {
		struct object *next = object->next;

		object->next = NULL;
		object_unref(object);
		object = next;
	}
}

/* A table that is still over its limit gives up other shards' oldest. */
static void shrink(struct table *table, unsigned start)
{
	for (unsigned i = 1; i < SHARDS; i++) {
		struct shard *shard = &table->shards[(start + i) % SHARDS];
		struct object *object = NULL;

		while (atomic_load(&table->bytes) > table->limit_bytes) {
			pthread_mutex_lock(&shard->lock);
			object = shard->oldest;
			if (object)
				object =
					take(table, shard,
					     find(shard,
						  object_key_hash(&object->key),
						  &object->key));
			pthread_mutex_unlock(&shard->lock);
			if (!object)
				break;
			object_unref(object);
		}
	}
}

struct object *table_get(struct table *table, const struct object_key *key)
{
	uint64_t hash = object_key_hash(key);
	struct shard *shard = &table->shards[hash % SHARDS];
	struct object *object;

	scoped_lock(&shard->lock);
	object = *find(shard, hash, key);
	if (!object)
		return NULL;
	if (shard->newest != object) {
		unlink_use(shard, object);
		link_newest(shard, object);
	}
	return object_ref(object);
}

void table_put(struct table *table, struct object *object)
{
	uint64_t hash = object_key_hash(&object->key);
	struct shard *shard = &table->shards[hash % SHARDS];
	struct object *dropped, *replaced = NULL, **at;

	pthread_mutex_lock(&shard->lock);
	at = find(shard, hash, &object->key);
	if (*at == object) {
		pthread_mutex_unlock(&shard->lock);
		return;
	}
	if (*at)
		replaced = take(table, shard, at);
	at = find(shard, hash, &object->key);
	*at = object_ref(object);
	object->next = NULL;
	object->is_listed = true;
	link_newest(shard, object);
	shard->bytes += object->cost_bytes;
	atomic_fetch_add(&table->bytes, object->cost_bytes);
	dropped = take_excess(table, shard);
	pthread_mutex_unlock(&shard->lock);

	object_unref(replaced);
	unref_list(dropped);
	if (atomic_load(&table->bytes) > table->limit_bytes)
		shrink(table, (unsigned)(hash % SHARDS));
}

void table_drop(struct table *table, const struct object_key *key)
{
	uint64_t hash = object_key_hash(key);
	struct shard *shard = &table->shards[hash % SHARDS];
	struct object *object = NULL, **at;

	pthread_mutex_lock(&shard->lock);
	at = find(shard, hash, key);
	if (*at)
		object = take(table, shard, at);
	pthread_mutex_unlock(&shard->lock);
	object_unref(object);
}

void table_drop_idle(struct table *table,
		     _Bool (*is_unwanted)(const struct object *object))
{
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *shard = &table->shards[i];
		struct object *dropped = NULL, *next;

		pthread_mutex_lock(&shard->lock);
		for (struct object *at = shard->oldest; at; at = next) {
			next = at->newer;
			/* Nobody can take a reference meanwhile: that needs
			 * the lock, or one. */
			if (atomic_load(&at->refs) > 1 &&
			    !(is_unwanted && is_unwanted(at)))
				continue;
			take(table, shard,
			     find(shard, object_key_hash(&at->key), &at->key));
			at->next = dropped;
			dropped = at;
		}
		pthread_mutex_unlock(&shard->lock);
		unref_list(dropped);
	}
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *shard = &table->shards[i];

		while (shard->oldest)
			object_unref(
				take(table, shard,
				     find(shard,
					  object_key_hash(&shard->oldest->key),
					  &shard->oldest->key)));
		pthread_mutex_destroy(&shard->lock);
	}
	free(table);
}
