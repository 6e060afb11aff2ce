/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From heads to chunks.
 *
 * Catalogs are kept on a list instead of a recursion, one in memory at a
 * time. Recipes and places are read side by side, page by page, so a blob of
 * any size costs two pages of memory. A thing found damaged is reported and
 * what hangs on it alone stays unvisited; gc therefore refuses to delete
 * anything when there was a report.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/vec.h"
#include "format/catalog.h"
#include "format/codec.h"
#include "format/places.h"
#include "publish/inventory.h"
#include "publish/pack-tables.h"
#include "publish/reach.h"
#include "source/source.h"

struct reach {
	struct inventory *inventory;
	const struct reach_ops *ops;
	void *arg;
	struct codec *codec;
	VEC(struct digest) catalogs; /* still to be visited */
	VEC(struct digest) reported; /* missing things are told once */
};

/* Of a places file, where it is far away. */
#define READ_AHEAD_BYTES ((size_t)256 << 10)

/* A places file, opened beside its recipe. */
struct places_file {
	char path[SOURCE_PATH_MAX];
	struct mirror_reader reader;
	struct places_head *head;
	uint32_t *packs; /* numbers in the inventory, by index in the head */
};
#define PACK_ABSENT UINT32_MAX

struct reach *reach_new(struct inventory *inventory,
			const struct reach_ops *ops, void *arg)
{
	struct reach *reach = calloc(1, sizeof(*reach));

	if (!reach)
		return NULL;
	reach->inventory = inventory;
	reach->ops = ops;
	reach->arg = arg;
	reach->codec = codec_new();
	if (!reach->codec) {
		reach_free(reach);
		return NULL;
	}
	return reach;
}

void reach_free(struct reach *reach)
{
	if (!reach)
		return;
	codec_free(reach->codec);
	vec_release(&reach->catalogs);
	vec_release(&reach->reported);
	free(reach);
}

static void bad(struct reach *reach, const char *path, const char *text)
{
	reach->ops->bad(reach->arg, path, text);
}

static void bad_once(struct reach *reach, const struct digest *digest,
		     const char *path, const char *text)
{
	struct digest *slot;

	for (size_t i = 0; i < reach->reported.count; i++)
		if (digest_equal(&reach->reported.items[i], digest))
			return;
	slot = vec_push(&reach->reported);
	if (slot)
		*slot = *digest;
	bad(reach, path, text);
}

/* Mark an object: 1 if it is new to us, 0 if it was visited, or absent. */
static int visit(struct reach *reach, const struct digest *digest,
		 const char *what)
{
	struct stored_file *file =
		stored_files_find(&reach->inventory->objects, digest);
	char path[SOURCE_PATH_MAX];
	struct err err;

	if (!file) {
		err_set(&err, ENOENT, "missing: a head needs this %s", what);
		bad_once(reach, digest, mirror_object_path(digest, path),
			 err.text);
		return 0;
	}
	if (file->is_reached)
		return 0;
	file->is_reached = true;
	return 1;
}

/* 1 and its bytes, or 0 after a report. -ENOMEM. */
static int load(struct reach *reach, const struct digest *digest, size_t limit,
		struct buf *ret)
{
	char path[SOURCE_PATH_MAX];
	struct err err = {0};
	int r;

	buf_init(ret, limit);
	r = mirror_object_read(reach->inventory->mirror, reach->codec, digest,
			       limit, ret, &err);
	if (r == 0)
		return 1;
	buf_release(ret);
	if (r == -ENOMEM)
		return r;
	bad(reach, mirror_object_path(digest, path), err_text(&err, r));
	return 0;
}

/* Places. */

static void places_file_close(struct places_file *file)
{
	mirror_reader_close(&file->reader);
	places_head_free(file->head);
	free(file->packs);
}

static int read_places_head(struct places_file *file, struct err *err)
{
	uint8_t fixed[PLACES_FIXED_BYTES];
	_cleanup_free_ uint8_t *data = NULL;
	uint64_t bytes;
	struct err why = {0};
	ssize_t n = mirror_reader_read(&file->reader, fixed, sizeof(fixed), 0,
				       &why);
	int r;

	if (n < 0)
		return err_set(err, (int)-n, "%s", err_text(&why, (int)n));
	r = places_head_size(fixed, (size_t)n, &bytes, err);
	if (r < 0)
		return r;
	data = malloc(bytes);
	if (!data)
		return -ENOMEM;
	n = mirror_reader_read(&file->reader, data, bytes, 0, &why);
	if (n < 0)
		return err_set(err, (int)-n, "%s", err_text(&why, (int)n));
	return places_head_parse(data, (size_t)n, &file->head, err);
}

static int number_packs(struct reach *reach, struct places_file *file)
{
	const struct stored_files *packs = &reach->inventory->packs;

	file->packs = calloc(file->head->pack_count + 1, sizeof(uint32_t));
	if (!file->packs)
		return -ENOMEM;
	for (uint32_t i = 0; i < file->head->pack_count; i++) {
		const struct places_pack *named = &file->head->packs[i];
		struct stored_file *pack = stored_files_find(packs, &named->id);
		char path[SOURCE_PATH_MAX];
		struct err err;

		file->packs[i] = PACK_ABSENT;
		mirror_pack_path(&named->id, path);
		if (!pack) {
			err_set(&err, ENOENT, "missing: %s names it",
				file->path);
			bad_once(reach, &named->id, path, err.text);
		} else if (pack->size != named->size) {
			err_set(&err, EBADMSG, "has %llu bytes, %s says %llu",
				(unsigned long long)pack->size, file->path,
				(unsigned long long)named->size);
			bad_once(reach, &named->id, path, err.text);
		} else {
			pack->is_reached = true;
			file->packs[i] = (uint32_t)(pack - packs->list.items);
		}
	}
	return 0;
}

/* 1, or 0 after a report. */
static int places_file_open(struct reach *reach, const struct digest *object,
			    uint64_t chunk_count, struct places_file *ret)
{
	struct places_file file = {.reader = {.fd = -1}};
	struct stored_file *stored =
		stored_files_find(&reach->inventory->places, object);
	struct err err = {0};
	int r;

	mirror_places_path(object, file.path);
	r = stored ? mirror_reader_open(&file.reader, reach->inventory->mirror,
					file.path, stored->size,
					READ_AHEAD_BYTES, NULL) :
		     -ENOENT;
	if (r < 0) {
		bad(reach, file.path, "missing: a head needs it");
		places_file_close(&file);
		return 0;
	}
	stored->is_reached = true;
	r = read_places_head(&file, &err);
	if (r == 0 && file.head->chunk_count != chunk_count)
		r = err_set(&err, EBADMSG,
			    "has the places of %llu chunks, not of %llu",
			    (unsigned long long)file.head->chunk_count,
			    (unsigned long long)chunk_count);
	if (r == 0)
		r = number_packs(reach, &file);
	if (r < 0) {
		if (r != -ENOMEM)
			bad(reach, file.path, err_text(&err, r));
		places_file_close(&file);
		return r == -ENOMEM ? r : 0;
	}
	*ret = file;
	ret->reader.path = ret->path;
	return 1;
}

/* The places of one page; *ret NULL after a report. */
static int read_places_page(struct reach *reach, struct places_file *file,
			    uint32_t page, struct place **ret,
			    uint32_t *ret_count)
{
	uint32_t bytes = file->head->pages[page].stored_bytes;
	_cleanup_free_ uint8_t *frame = malloc(bytes);
	struct err err = {0};
	struct err why = {0};
	ssize_t n;
	int r;

	*ret = NULL;
	if (!frame)
		return -ENOMEM;
	n = mirror_reader_read(&file->reader, frame, bytes,
			       file->head->pages[page].offset, &why);
	if (n < 0)
		r = err_set(&err, (int)-n, "%s", err_text(&why, (int)n));
	else if ((size_t)n != bytes)
		r = err_set(&err, EBADMSG, "cut short");
	else
		r = places_page_parse(file->head, page, frame, bytes, ret,
				      ret_count, &err);
	if (r < 0 && r != -ENOMEM)
		bad(reach, file->path, err_text(&err, r));
	return r == -ENOMEM ? r : 0;
}

static void follow_place(struct reach *reach, const struct places_file *file,
			 uint64_t chunk, const struct recipe_record *record,
			 const struct place *place)
{
	struct pack_record found;
	uint32_t position, pack;
	struct err err;
	int r;

	if (record->is_zero && place->pack == PLACE_ZERO)
		return;
	if (record->is_zero || place->pack == PLACE_ZERO) {
		err_set(&err, EBADMSG,
			"chunk %llu: place does not fit the recipe",
			(unsigned long long)chunk);
		bad(reach, file->path, err.text);
		return;
	}
	pack = file->packs[place->pack];
	if (pack == PACK_ABSENT)
		return; /* was reported */
	r = pack_tables_find(reach->inventory->tables, pack, place->offset,
			     &position, &found);
	if (r == 0 && digest_equal(&found.digest, &record->digest) &&
	    found.stored_bytes == place->stored_bytes &&
	    found.plain_bytes == record->length) {
		reach->ops->chunk(reach->arg, pack, position, &found);
		return;
	}
	err_set(&err, EBADMSG, "chunk %llu: not in its pack at offset %llu",
		(unsigned long long)chunk, (unsigned long long)place->offset);
	bad(reach, file->path, err.text);
}

/* Records [0, count) of one page, which are chunks from `first` on. */
static int follow_page(struct reach *reach, struct places_file *file,
		       uint64_t first, const struct recipe_record *records,
		       uint32_t count)
{
	_cleanup_free_ struct place *places = NULL;
	uint32_t page = (uint32_t)(first / LIMIT_RECIPE_PAGE_RECORDS);
	uint32_t place_count = 0;
	int r = read_places_page(reach, file, page, &places, &place_count);

	if (r < 0 || !places)
		return r;
	if (place_count != count) {
		bad(reach, file->path, "a page has another number of chunks");
		return 0;
	}
	for (uint32_t i = 0; i < count; i++)
		follow_place(reach, file, first + i, &records[i], &places[i]);
	return 0;
}

/* Recipes. */

static int follow_recipe_page(struct reach *reach, const struct recipe *recipe,
			      uint32_t number, struct places_file *places)
{
	struct recipe_page *page;
	struct digest digest;
	uint64_t start, end;
	char path[SOURCE_PATH_MAX];
	struct err err = {0};
	struct buf data;
	int r;

	recipe_page_at(recipe, number, &digest, &start, &end);
	/* Two recipes may share a page, at other places: read it again. */
	(void)visit(reach, &digest, "recipe page");
	r = load(reach, &digest, LIMIT_RECIPE_BYTES, &data);
	if (r <= 0)
		return r;
	r = recipe_page_parse(recipe, number, data.data, data.len, &page, &err);
	buf_release(&data);
	if (r == 0) {
		r = follow_page(reach, places, page->first_chunk, page->records,
				page->count);
		recipe_page_free(page);
	} else if (r != -ENOMEM) {
		bad(reach, mirror_object_path(&digest, path),
		    err_text(&err, r));
		r = 0;
	}
	return r;
}

static int follow_root(struct reach *reach, const struct recipe *recipe,
		       struct places_file *places)
{
	struct recipe_page *page;
	int r = 0;

	for (uint32_t i = 0; i < recipe->page_count && r == 0; i++)
		r = follow_recipe_page(reach, recipe, i, places);
	if (recipe->page_count > 0 || r < 0)
		return r;
	r = recipe_page_from_root(recipe, &page);
	if (r < 0)
		return r;
	r = follow_page(reach, places, 0, page->records, page->count);
	recipe_page_free(page);
	return r;
}

static int follow_recipe(struct reach *reach, const struct digest *digest)
{
	struct places_file places;
	struct recipe recipe;
	struct buf root;
	char path[SOURCE_PATH_MAX];
	struct err err = {0};
	int r;

	if (!visit(reach, digest, "recipe"))
		return 0;
	r = load(reach, digest, LIMIT_RECIPE_BYTES, &root);
	if (r <= 0)
		return r;
	r = recipe_parse(root.data, root.len, &recipe, &err);
	if (r < 0) {
		bad(reach, mirror_object_path(digest, path), err_text(&err, r));
		r = 0;
	} else {
		r = places_file_open(reach, digest, recipe.chunk_count,
				     &places);
		if (r == 1) {
			r = follow_root(reach, &recipe, &places);
			places_file_close(&places);
		}
	}
	buf_release(&root);
	return r;
}

/* Catalogs. */

static int follow_inline(struct reach *reach, const struct digest *digest,
			 const struct catalog *catalog)
{
	uint32_t count = catalog_inline_count(catalog);
	_cleanup_free_ struct recipe_record *records = NULL;
	struct places_file places;
	int r;

	if (count == 0)
		return 0;
	r = places_file_open(reach, digest, count, &places);
	if (r <= 0)
		return r;
	records = calloc(LIMIT_RECIPE_PAGE_RECORDS, sizeof(*records));
	if (!records)
		r = -ENOMEM;
	for (uint32_t first = 0; first < count && r >= 0;
	     first += LIMIT_RECIPE_PAGE_RECORDS) {
		uint32_t n = count - first;

		if (n > LIMIT_RECIPE_PAGE_RECORDS)
			n = LIMIT_RECIPE_PAGE_RECORDS;
		for (uint32_t i = 0; i < n; i++)
			catalog_get_inline(catalog, first + i, &records[i]);
		r = follow_page(reach, &places, first, records, n);
	}
	places_file_close(&places);
	return r < 0 ? r : 0;
}

static int follow_catalog(struct reach *reach, const struct digest *digest,
			  const struct catalog *catalog)
{
	int r = follow_inline(reach, digest, catalog);

	for (uint32_t i = 0; i < catalog_blob_count(catalog) && r == 0; i++) {
		struct catalog_blob blob;

		catalog_get_blob(catalog, i, &blob);
		if (blob.kind == BLOB_RECIPE)
			r = follow_recipe(reach, &blob.id);
	}
	for (uint32_t i = 0; i < catalog_child_count(catalog) && r == 0; i++) {
		struct catalog_child child;
		struct digest *slot;

		catalog_get_child(catalog, i, &child);
		slot = vec_push(&reach->catalogs);
		if (!slot)
			return -ENOMEM;
		*slot = child.digest;
	}
	return r;
}

static int visit_catalog(struct reach *reach, const struct digest *digest)
{
	struct catalog *catalog;
	char path[SOURCE_PATH_MAX];
	struct err err = {0};
	struct buf data;
	void *bytes;
	size_t len;
	int r;

	if (!visit(reach, digest, "catalog"))
		return 0;
	r = load(reach, digest, LIMIT_CATALOG_BYTES, &data);
	if (r <= 0)
		return r;
	bytes = buf_steal(&data, &len);
	r = catalog_open(bytes, len, &catalog, &err);
	if (r < 0) {
		if (r == -ENOMEM)
			return r;
		bad(reach, mirror_object_path(digest, path), err_text(&err, r));
		return 0;
	}
	r = follow_catalog(reach, digest, catalog);
	catalog_close(catalog);
	return r;
}

int reach_head(struct reach *reach, const struct head *head, struct err *err)
{
	struct digest *slot = vec_push(&reach->catalogs);
	int r = slot ? 0 : -ENOMEM;

	if (slot)
		*slot = head->catalog;
	while (r == 0 && reach->catalogs.count > 0) {
		struct digest digest =
			reach->catalogs.items[--reach->catalogs.count];

		r = visit_catalog(reach, &digest);
	}
	return r < 0 ? err_set(err, -r, "%s", strerror(-r)) : 0;
}
