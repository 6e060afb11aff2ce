/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What objects there are and how stored bytes become them. Catalogs and
 * recipes are named by the digest of their plain bytes, which is checked
 * each time they come from a disk or a mirror. Where they hang (a child in
 * its parent, a page in its recipe) is checked by their readers.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/objects.h"

/* zstd adds little to what does not shrink. */
#define STORED_SLACK 65536u
/* A frame may name any size up to the limit; memory is taken as it comes. */
#define PAGE_BYTES_MAX (1u << 20)

/* Frame to plain bytes, digest checked. */
static int open_frame(const struct object_want *want, struct codec *codec,
		      const uint8_t *data, size_t len, size_t limit_bytes,
		      struct buf *ret_plain, bool *ret_is_wrong,
		      struct err *err)
{
	int r;

	if (!codec)
		return -ENOMEM;
	buf_init(ret_plain, limit_bytes);
	r = codec_open_object(codec, data, len, limit_bytes, &want->key.digest,
			      ret_plain);
	if (r < 0) {
		buf_release(ret_plain);
		*ret_is_wrong = r != -ENOMEM;
		return err_set(err, -r, "its bytes do not have its digest");
	}
	return 0;
}

static void free_catalog(struct object *object)
{
	struct catalog_object *catalog = (struct catalog_object *)object;

	catalog_close(catalog->catalog);
	free(catalog);
}

/* Takes data, which is malloc, in every case. */
static int make_catalog(const struct object_key *key, void *data, size_t len,
			struct catalog_object **ret, struct err *err)
{
	_cleanup_free_ struct catalog_object *catalog =
		calloc(1, sizeof(*catalog));
	int r;

	if (!catalog) {
		free(data);
		return -ENOMEM;
	}
	r = catalog_open(data, len, &catalog->catalog, err);
	if (r < 0)
		return r;
	object_init(&catalog->object, key,
		    sizeof(*catalog) + catalog_memory(catalog->catalog),
		    free_catalog);
	*ret = steal_ptr(catalog);
	return 0;
}

static int parse_catalog(const struct object_want *want, struct codec *codec,
			 const uint8_t *data, size_t len, struct object **ret,
			 bool *ret_is_wrong, struct err *err)
{
	size_t limit =
		want->plain_bytes ? want->plain_bytes : LIMIT_CATALOG_BYTES;
	struct catalog_object *catalog;
	size_t plain_len;
	struct buf plain;
	int r;

	r = open_frame(want, codec, data, len, limit, &plain, ret_is_wrong,
		       err);
	if (r < 0)
		return r;
	data = buf_steal(&plain, &plain_len);
	r = make_catalog(&want->key, (void *)data, plain_len, &catalog, err);
	if (r == 0)
		*ret = &catalog->object;
	return r;
}

int catalog_object_make(const struct digest *digest, const void *data,
			size_t len, struct catalog_object **ret)
{
	const struct object_key key = {
		.kind = OBJECT_CATALOG,
		.digest = *digest,
	};
	void *copy = malloc(len);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, len);
	return make_catalog(&key, copy, len, ret, NULL);
}

int catalog_object_get(struct dataset *dataset, const struct digest *digest,
		       uint64_t plain_bytes, struct waiter *waiter,
		       struct catalog_object **ret, struct err *err)
{
	struct object_want want = {
		.key = {.kind = OBJECT_CATALOG, .digest = *digest},
		.flight_salt = dataset->salt,
		.table = dataset->node->catalogs,
		.dataset = dataset,
		.mirror = -1,
		.cache_kind = CACHE_OBJECT,
		.cache_name = *digest,
		.limit_bytes = LIMIT_CATALOG_BYTES + STORED_SLACK,
		.plain_bytes = plain_bytes,
		.parse = parse_catalog,
		.what = "catalog",
	};

	if (plain_bytes > LIMIT_CATALOG_BYTES)
		return err_set(err, EIO, "catalog of %llu bytes is too large",
			       (unsigned long long)plain_bytes);
	return object_get(&want, waiter, (struct object **)ret, NULL, err);
}

static void free_recipe(struct object *object)
{
	struct recipe_object *recipe = (struct recipe_object *)object;

	recipe_page_free(recipe->page);
	free(recipe->data);
	free(recipe);
}

static size_t page_cost(const struct recipe_page *page)
{
	return sizeof(struct page_object) + sizeof(*page) +
	       page->count * (sizeof(*page->starts) + sizeof(*page->records));
}

static int parse_recipe(const struct object_want *want, struct codec *codec,
			const uint8_t *data, size_t len, struct object **ret,
			bool *ret_is_wrong, struct err *err)
{
	struct recipe_object *recipe = calloc(1, sizeof(*recipe));
	size_t plain_len;
	struct buf plain;
	int r;

	if (!recipe)
		return -ENOMEM;
	object_init(&recipe->object, &want->key, sizeof(*recipe), free_recipe);
	r = open_frame(want, codec, data, len, LIMIT_RECIPE_BYTES, &plain,
		       ret_is_wrong, err);
	if (r < 0)
		goto fail;
	recipe->data = buf_steal(&plain, &plain_len);
	r = recipe_parse(recipe->data, plain_len, &recipe->recipe, err);
	if (r >= 0 && recipe->recipe.page_count == 0)
		r = recipe_page_from_root(&recipe->recipe, &recipe->page);
	if (r < 0)
		goto fail;
	recipe->object.cost_bytes +=
		plain_len + (recipe->page ? page_cost(recipe->page) : 0);
	*ret = &recipe->object;
	return 0;
fail:
	object_unref(&recipe->object);
	return r;
}

int recipe_object_get(struct dataset *dataset, const struct digest *digest,
		      struct waiter *waiter, struct recipe_object **ret,
		      struct err *err)
{
	struct object_want want = {
		.key = {.kind = OBJECT_RECIPE, .digest = *digest},
		.flight_salt = dataset->salt,
		.table = dataset->node->pages,
		.dataset = dataset,
		.mirror = -1,
		.cache_kind = CACHE_OBJECT,
		.cache_name = *digest,
		.limit_bytes = LIMIT_RECIPE_BYTES + STORED_SLACK,
		.parse = parse_recipe,
		.what = "recipe",
	};

	return object_get(&want, waiter, (struct object **)ret, NULL, err);
}

static void free_page(struct object *object)
{
	struct page_object *page = (struct page_object *)object;

	recipe_page_free(page->page);
	free(page);
}

static int parse_page(const struct object_want *want, struct codec *codec,
		      const uint8_t *data, size_t len, struct object **ret,
		      bool *ret_is_wrong, struct err *err)
{
	struct recipe_object *recipe = (struct recipe_object *)want->parent;
	struct page_object *page;
	struct buf plain;
	int r;

	r = open_frame(want, codec, data, len, PAGE_BYTES_MAX, &plain,
		       ret_is_wrong, err);
	if (r < 0)
		return r;
	page = calloc(1, sizeof(*page));
	r = page ? recipe_page_parse(&recipe->recipe, want->page, plain.data,
				     plain.len, &page->page, err) :
		   -ENOMEM;
	buf_release(&plain);
	if (r < 0) {
		free(page);
		return r;
	}
	object_init(&page->object, &want->key, page_cost(page->page),
		    free_page);
	*ret = &page->object;
	return 0;
}

/* A page's starts depend on the recipe it is in, so the recipe and the
 * page's number salt the key. */
int page_object_get(struct dataset *dataset, struct recipe_object *recipe,
		    uint32_t page, struct waiter *waiter,
		    struct page_object **ret, struct err *err)
{
	uint64_t salt = object_key_hash(&recipe->object.key) + page;
	struct object_want want = {
		.key = {.kind = OBJECT_RECIPE_PAGE, .salt = salt},
		.flight_salt = salt ^ dataset->salt,
		.table = dataset->node->pages,
		.dataset = dataset,
		.mirror = -1,
		.cache_kind = CACHE_OBJECT,
		.limit_bytes = PAGE_BYTES_MAX + STORED_SLACK,
		.parent = &recipe->object,
		.page = page,
		.parse = parse_page,
		.what = "recipe page",
	};
	uint64_t start, end;

	recipe_page_at(&recipe->recipe, page, &want.key.digest, &start, &end);
	want.cache_name = want.key.digest;
	return object_get(&want, waiter, (struct object **)ret, NULL, err);
}
