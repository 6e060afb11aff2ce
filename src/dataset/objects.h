/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_OBJECTS_H
#define LARDER_DATASET_OBJECTS_H

#include "dataset/node.h"
#include "format/catalog.h"
#include "format/codec.h"
#include "format/places.h"
#include "format/recipe.h"

/*
 * Catalogs, recipes and places: from memory, else from the cache, else from
 * a mirror, verified and parsed. All return a counted object, DATASET_PARKED
 * (the waiter holds the flight) or an error.
 */
struct catalog_object {
	struct object object;
	struct catalog *catalog;
	atomic_uint_fast64_t checked; /* which parent and index it fits */
	atomic_bool is_together;      /* together.c has seen it */
};

struct recipe_object {
	struct object object;
	uint8_t *data; /* what recipe points into */
	struct recipe recipe;
	struct recipe_page *page; /* NULL when pages are objects */
};

struct page_object {
	struct object object;
	struct recipe_page *page;
};

struct places_object {
	struct object object;
	struct places_head *head;
	uint8_t *data; /* the whole file, or NULL */
	size_t len;
};

struct places_page_object {
	struct object object;
	struct place *places;
	uint32_t count;
};

/* One object to get. For those who implement the calls below. */
struct object_want {
	struct object_key key; /* in the table */
	uint64_t flight_salt;
	struct table *table;
	struct dataset *dataset;
	int mirror;	/* the only one, or -1 */
	bool is_fresh;	/* past every cache */
	bool is_places; /* below places/, else objects/ */
	int cache_kind; /* enum cache_object_kind */
	struct digest cache_name;
	uint64_t offset, length; /* range; length 0: the whole */
	size_t limit_bytes;	 /* of what is stored */
	/* for parse: the recipe or places it is a page of, counted */
	struct object *parent;
	uint32_t page;
	uint64_t plain_bytes; /* 0: unknown */
	/* Bytes as stored to an object. *ret_is_wrong: the bytes are not what
	 * was asked for, another mirror may have better ones. */
	int (*parse)(const struct object_want *want, struct codec *codec,
		     const uint8_t *data, size_t len, struct object **ret,
		     bool *ret_is_wrong, struct err *err);
	const char *what; /* "catalog": for error texts */
};
/* want is copied, want->parent counted. *ret_class may be NULL. */
int object_get(const struct object_want *want, struct waiter *waiter,
	       struct object **ret, enum fetch_class *ret_class,
	       struct err *err);

int catalog_object_get(struct dataset *dataset, const struct digest *digest,
		       uint64_t plain_bytes, struct waiter *waiter,
		       struct catalog_object **ret, struct err *err);
/* One that was made here, of plain bytes. */
int catalog_object_make(const struct digest *digest, const void *data,
			size_t len, struct catalog_object **ret);
int recipe_object_get(struct dataset *dataset, const struct digest *digest,
		      struct waiter *waiter, struct recipe_object **ret,
		      struct err *err);
int page_object_get(struct dataset *dataset, struct recipe_object *recipe,
		    uint32_t page, struct waiter *waiter,
		    struct page_object **ret, struct err *err);

/*
 * The place of chunk `ordinal` of places file `name` on mirror `mirror`.
 * chunk_count: 0 unknown. One request, no retry: the caller goes over the
 * mirrors. *ret_class says why it failed.
 */
struct chunk_place {
	struct place place;
	struct digest pack;
	uint64_t pack_bytes;
	unsigned generation; /* of the places it was looked up in */
};
int place_get(struct dataset *dataset, int mirror, const struct digest *name,
	      uint64_t chunk_count, uint64_t ordinal, bool is_fresh,
	      struct waiter *waiter, struct chunk_place *ret,
	      enum fetch_class *ret_class, struct err *err);
/* Forget a places file, here and on the disk, since what it said of `at` (as
 * place_get left it, also when it failed) was wrong. A place_get with is_fresh
 * then asks the mirror, past any cache in between. */
void places_forget(struct dataset *dataset, int mirror,
		   const struct digest *name, uint64_t ordinal,
		   const struct chunk_place *at);

#endif
