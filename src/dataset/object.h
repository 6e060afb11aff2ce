/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_OBJECT_H
#define LARDER_DATASET_OBJECT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

/*
 * Counted things that many readers share, and the bounded table that
 * remembers them: parsed catalogs, recipes, places, open blobs. An object is
 * immutable once it is in the table, or guards itself.
 */
enum object_kind {
	OBJECT_CATALOG,
	OBJECT_RECIPE,
	OBJECT_RECIPE_PAGE,
	OBJECT_PLACES,
	OBJECT_PLACES_PAGE,
	OBJECT_BLOB,
	OBJECT_BLOCKS,	 /* a page of a blob by reference */
	OBJECT_LOCATION, /* where such a blob is */
	OBJECT_HEAD,	 /* flights only */
	OBJECT_LISTING,	 /* flights only: of a commit of the Hub */
	OBJECT_REFS,	 /* flights only: of a repository of the Hub */
	OBJECT_CHUNK,	 /* flights only */
};

struct object_key {
	uint8_t kind;
	struct digest digest;
	uint64_t salt; /* tells apart what one digest leads to elsewhere */
};

static inline uint64_t object_key_hash(const struct object_key *key)
{
	uint64_t hash;

	__builtin_memcpy(&hash, key->digest.bytes, sizeof(hash));
	hash ^= (key->salt + key->kind) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 29;
}

static inline _Bool object_key_equal(const struct object_key *a,
				     const struct object_key *b)
{
	return a->kind == b->kind && a->salt == b->salt &&
	       digest_equal(&a->digest, &b->digest);
}

struct object {
	atomic_uint refs;
	void (*free)(struct object *object);
	struct object_key key;
	size_t cost_bytes;
	/* the table's, guarded by the shard's lock */
	struct object *next;	      /* in the bucket */
	struct object *newer, *older; /* by last use */
	_Bool is_listed;
};

/* With one reference, for the caller. */
void object_init(struct object *object, const struct object_key *key,
		 size_t cost_bytes, void (*free)(struct object *object));
struct object *object_ref(struct object *object);
void object_unref(struct object *object); /* NULL is fine */

struct table;

struct table *table_new(uint64_t limit_bytes);
void table_free(struct table *table);
/* A reference, or NULL. */
struct object *table_get(struct table *table, const struct object_key *key);
/* Takes a reference of its own; an equal key is replaced. Drops what was used
 * longest ago until the rest fits; the new one stays whatever its size. */
void table_put(struct table *table, struct object *object);
void table_drop(struct table *table, const struct object_key *key);
/* Drops what nobody but the table holds, and what is_unwanted says (NULL:
 * nothing); that is called under a lock of the table. */
void table_drop_idle(struct table *table,
		     _Bool (*is_unwanted)(const struct object *object));

#endif
