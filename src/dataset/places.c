/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places files of mirrors. They are unsigned and differ from mirror to
 * mirror, so here and in the cache they go by the mirror's URL and their name.
 *
 * A file for up to 64 pages is fetched whole: a few hundred kilobytes in one
 * request. For larger blobs the head comes first and then single pages, each an
 * object of its own.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "dataset/objects.h"

#define WHOLE_CHUNKS_MAX (64u * LIMIT_RECIPE_PAGE_RECORDS)
#define WHOLE_BYTES_MAX (16u << 20)
#define PART_WHOLE (-1)
#define PART_FIXED (-2)
#define PART_HEAD (-3)

static void cache_name(const struct mirror *mirror, const struct digest *name,
		       int64_t part, struct digest *ret)
{
	char url[DIGEST_HEX_MAX], hex[DIGEST_HEX_MAX], text[256];
	int len;

	len = snprintf(text, sizeof(text), "larder places %s %s %lld",
		       digest_hex(&mirror->url_digest, url),
		       digest_hex(name, hex), (long long)part);
	digest_sha256(text, (size_t)len, ret);
}

static void free_places(struct object *object)
{
	struct places_object *places = (struct places_object *)object;

	places_head_free(places->head);
	free(places->data);
	free(places);
}

static size_t head_cost(const struct places_head *head)
{
	return sizeof(*head) + head->pack_count * sizeof(*head->packs) +
	       head->page_count * sizeof(*head->pages);
}

/* The first bytes only: how long the head is. */
static int parse_fixed(const struct object_want *want, struct codec *codec,
		       const uint8_t *data, size_t len, struct object **ret,
		       bool *ret_is_wrong, struct err *err)
{
	struct places_object *places;
	uint64_t head_bytes;
	int r = places_head_size(data, len, &head_bytes, err);

	(void)codec;
	*ret_is_wrong = true;
	if (r < 0)
		return r;
	places = calloc(1, sizeof(*places));
	if (!places)
		return -ENOMEM;
	places->len = head_bytes;
	object_init(&places->object, &want->key, sizeof(*places), free_places);
	*ret = &places->object;
	return 0;
}

static int parse_places(const struct object_want *want, struct codec *codec,
			const uint8_t *data, size_t len, struct object **ret,
			bool *ret_is_wrong, struct err *err)
{
	struct places_object *places = calloc(1, sizeof(*places));
	int r;

	(void)codec;
	if (!places)
		return -ENOMEM;
	object_init(&places->object, &want->key, sizeof(*places), free_places);
	*ret_is_wrong = true;
	r = places_head_parse(data, len, &places->head, err);
	if (r < 0)
		goto fail;
	if (want->length == 0) {
		if (places->head->file_bytes != len) {
			r = err_set(err, EBADMSG, "places file cut short");
			goto fail;
		}
		places->data = malloc(len);
		if (!places->data) {
			r = -ENOMEM;
			goto fail;
		}
		memcpy(places->data, data, len);
		places->len = len;
	}
	places->object.cost_bytes += head_cost(places->head) + places->len;
	*ret = &places->object;
	return 0;
fail:
	object_unref(&places->object);
	return r;
}

static void free_places_page(struct object *object)
{
	struct places_page_object *page = (struct places_page_object *)object;

	free(page->places);
	free(page);
}

static int page_object_new(const struct places_object *places, uint32_t page,
			   const struct object_key *key, const uint8_t *frame,
			   size_t len, struct object **ret, struct err *err)
{
	struct places_page_object *object = calloc(1, sizeof(*object));
	int r;

	if (!object)
		return -ENOMEM;
	r = places_page_parse(places->head, page, frame, len, &object->places,
			      &object->count, err);
	if (r < 0) {
		free(object);
		return r;
	}
	object_init(&object->object, key,
		    sizeof(*object) + object->count * sizeof(struct place),
		    free_places_page);
	*ret = &object->object;
	return 0;
}

static int parse_places_page(const struct object_want *want,
			     struct codec *codec, const uint8_t *data,
			     size_t len, struct object **ret,
			     bool *ret_is_wrong, struct err *err)
{
	(void)codec;
	*ret_is_wrong = true;
	return page_object_new((const struct places_object *)want->parent,
			       want->page, &want->key, data, len, ret, err);
}

/* What a look-up is about. */
struct lookup {
	struct dataset *dataset;
	int mirror;
	const struct digest *name;
	unsigned generation;
	bool is_fresh;
	struct waiter *waiter;
};

static uint64_t part_salt(const struct mirror *mirror, int64_t part,
			  unsigned generation)
{
	return mirror->salt + (uint64_t)part * UINT64_C(0xD6E8FEB86659FD93) +
	       generation * UINT64_C(0xA0761D6478BD642F);
}

static struct object_want want_part(const struct lookup *lookup, int64_t part)
{
	struct mirror *mirror = &lookup->dataset->mirrors[lookup->mirror];
	struct object_want want = {
		.key = {.kind = part >= 0 ? OBJECT_PLACES_PAGE : OBJECT_PLACES,
			.digest = *lookup->name,
			.salt = part_salt(mirror, part, lookup->generation)},
		.table = lookup->dataset->node->pages,
		.dataset = lookup->dataset,
		.mirror = lookup->mirror,
		.is_fresh = lookup->is_fresh,
		.is_places = true,
		.cache_kind = CACHE_PLACES,
		.limit_bytes = WHOLE_BYTES_MAX,
		.parse = parse_places,
		.what = "places",
	};

	want.flight_salt = want.key.salt;
	cache_name(mirror, lookup->name, part, &want.cache_name);
	return want;
}

static int get_head(const struct lookup *lookup, bool is_whole,
		    struct places_object **ret, enum fetch_class *ret_class,
		    struct err *err)
{
	struct object_want want =
		want_part(lookup, is_whole ? PART_WHOLE : PART_HEAD);
	struct object *fixed;
	int r;

	if (is_whole)
		return object_get(&want, lookup->waiter, (struct object **)ret,
				  ret_class, err);
	*ret = (struct places_object *)table_get(want.table, &want.key);
	if (*ret)
		return 0;
	want = want_part(lookup, PART_FIXED);
	want.length = PLACES_FIXED_BYTES;
	want.parse = parse_fixed;
	r = object_get(&want, lookup->waiter, &fixed, ret_class, err);
	if (r != 0)
		return r;
	want = want_part(lookup, PART_HEAD);
	want.length = ((struct places_object *)fixed)->len;
	want.limit_bytes = want.length;
	object_unref(fixed);
	return object_get(&want, lookup->waiter, (struct object **)ret,
			  ret_class, err);
}

static int get_page(const struct lookup *lookup, struct places_object *places,
		    uint32_t page, struct places_page_object **ret,
		    enum fetch_class *ret_class, struct err *err)
{
	struct object_want want = want_part(lookup, page);
	const uint64_t offset = places->head->pages[page].offset;
	const uint32_t len = places->head->pages[page].stored_bytes;
	int r;

	want.parse = parse_places_page;
	want.parent = &places->object;
	want.page = page;
	want.offset = offset;
	want.length = len;
	want.limit_bytes = len;
	if (!places->data)
		return object_get(&want, lookup->waiter, (struct object **)ret,
				  ret_class, err);
	*ret = (struct places_page_object *)table_get(want.table, &want.key);
	if (*ret)
		return 0;
	if (offset > places->len || len > places->len - offset)
		return err_set(err, EBADMSG, "places file cut short");
	r = page_object_new(places, page, &want.key, places->data + offset, len,
			    (struct object **)ret, err);
	if (r == 0)
		table_put(want.table, &(*ret)->object);
	return r;
}

int place_get(struct dataset *dataset, int mirror, const struct digest *name,
	      uint64_t chunk_count, uint64_t ordinal, bool is_fresh,
	      struct waiter *waiter, struct chunk_place *ret,
	      enum fetch_class *ret_class, struct err *err)
{
	const struct lookup lookup = {
		.dataset = dataset,
		.mirror = mirror,
		.name = name,
		.generation = atomic_load(
			&dataset->mirrors[mirror].places_generation),
		.is_fresh = is_fresh,
		.waiter = waiter,
	};
	struct places_page_object *page = NULL;
	struct places_object *places = NULL;
	uint32_t index;
	int r;

	ret->generation = lookup.generation;
	*ret_class = FETCH_WRONG;
	r = get_head(&lookup, chunk_count <= WHOLE_CHUNKS_MAX, &places,
		     ret_class, err);
	if (r != 0)
		return r;
	if (ordinal >= places->head->chunk_count ||
	    (chunk_count && places->head->chunk_count != chunk_count)) {
		r = err_set(err, EBADMSG, "places of another blob");
		goto out;
	}
	index = (uint32_t)(ordinal / LIMIT_RECIPE_PAGE_RECORDS);
	r = get_page(&lookup, places, index, &page, ret_class, err);
	if (r != 0)
		goto out;
	r = -EBADMSG;
	ordinal %= LIMIT_RECIPE_PAGE_RECORDS;
	if (ordinal < page->count &&
	    page->places[ordinal].pack < places->head->pack_count) {
		const struct places_pack *pack;

		ret->place = page->places[ordinal];
		pack = &places->head->packs[ret->place.pack];
		ret->pack = pack->id;
		ret->pack_bytes = pack->size;
		r = 0;
	} else {
		err_set(err, EBADMSG, "places name no pack for a chunk");
	}
out:
	object_unref((struct object *)page);
	object_unref((struct object *)places);
	return r;
}

/*
 * In memory by a new generation: whoever still works with the old file may
 * put parts of it into the table after this. The disk's are dropped first, so
 * that no look-up of the new generation finds them.
 */
void places_forget(struct dataset *dataset, int mirror,
		   const struct digest *name, uint64_t ordinal,
		   const struct chunk_place *at)
{
	const struct lookup lookup = {
		.dataset = dataset, .mirror = mirror, .name = name};
	const int64_t parts[] = {
		PART_WHOLE,
		PART_FIXED,
		PART_HEAD,
		(int64_t)(ordinal / LIMIT_RECIPE_PAGE_RECORDS),
	};
	unsigned seen = at->generation;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct object_want want = want_part(&lookup, parts[i]);

		if (dataset->node->cache)
			(void)cache_object_drop(dataset->node->cache,
						CACHE_PLACES, &want.cache_name);
	}
	/* Once, however many notice it at the same time. */
	atomic_compare_exchange_strong(
		&dataset->mirrors[mirror].places_generation, &seen, seen + 1);
}
