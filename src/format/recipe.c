/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blob's chunks, read side: the root, and pages in search form.
 *
 * A root is searched in place; a page is copied into an array with the start
 * of every chunk, since each read of the blob searches it. Everything that a
 * root says about a page (count, bytes) is checked when the page is parsed,
 * so that an ordinal computed from one is valid in the other and in places.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/preamble.h"
#include "format/recipe.h"
#include "format/recipe-layout.h"

static const uint8_t *page_entry(const struct recipe *recipe, uint32_t page)
{
	assert(page < recipe->page_count);
	return recipe->data + ROOT_BYTES + (size_t)page * PAGE_ENTRY_BYTES;
}

static uint64_t page_end(const struct recipe *recipe, uint32_t page)
{
	return load_le64(page_entry(recipe, page) + DIGEST_BYTES);
}

static uint32_t page_records(const struct recipe *recipe, uint32_t page)
{
	uint64_t first = (uint64_t)page * LIMIT_RECIPE_PAGE_RECORDS;
	uint64_t left = recipe->chunk_count - first;

	return left < LIMIT_RECIPE_PAGE_RECORDS ? (uint32_t)left :
						  LIMIT_RECIPE_PAGE_RECORDS;
}

static int check_pages(const struct recipe *recipe, struct err *err)
{
	uint64_t start = 0;

	for (uint32_t i = 0; i < recipe->page_count; i++) {
		uint64_t count = page_records(recipe, i);
		uint64_t end = page_end(recipe, i);

		if (end <= start || end - start < count ||
		    end - start > count * LIMIT_CHUNK_BYTES)
			return err_set(err, EBADMSG,
				       "recipe page %u has an impossible size",
				       i);
		start = end;
	}
	if (start != recipe->blob_bytes)
		return err_set(err, EBADMSG,
			       "recipe pages do not add up to the blob's size");
	return 0;
}

bool recipe_record_load(const uint8_t *at, struct recipe_record *ret)
{
	static const uint8_t no_digest[DIGEST_BYTES];
	uint32_t word = load_le32(at + DIGEST_BYTES);

	ret->is_zero = word & RECORD_ZERO_FLAG;
	ret->length = word & ~RECORD_ZERO_FLAG;
	ret->digest.type = ret->is_zero ? DIGEST_NONE : DIGEST_SHA256;
	memcpy(ret->digest.bytes, at, DIGEST_BYTES);
	if (ret->length == 0 || ret->length > LIMIT_CHUNK_BYTES)
		return false;
	return !ret->is_zero || memcmp(at, no_digest, DIGEST_BYTES) == 0;
}

static int check_records(const uint8_t *records, uint32_t count,
			 uint64_t expected_bytes, struct err *err)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct recipe_record record;

		if (!recipe_record_load(records + (size_t)i * RECORD_BYTES,
					&record))
			return err_set(err, EBADMSG,
				       "recipe record %u is malformed", i);
		sum += record.length;
	}
	if (sum != expected_bytes)
		return err_set(err, EBADMSG,
			       "recipe records do not add up to the size");
	return 0;
}

static int check_root_fields(const struct recipe *recipe, struct err *err)
{
	const uint8_t *data = recipe->data;

	if (data[8] != DIGEST_SHA256 ||
	    load_le32(data + 12) != LIMIT_RECIPE_PAGE_RECORDS)
		return err_set(err, EPROTONOSUPPORT,
			       "recipe needs a newer larder (digest type %u, "
			       "page of %u)",
			       data[8], load_le32(data + 12));
	if (data[9] || data[10] || data[11] || load_le32(data + 36))
		return err_set(err, EBADMSG, "recipe has reserved bytes set");
	if (recipe->chunk_count == 0 || recipe->blob_bytes == 0 ||
	    recipe->blob_bytes > LIMIT_BLOB_BYTES ||
	    recipe->chunk_count > recipe->blob_bytes)
		return err_set(err, EBADMSG,
			       "recipe has impossible totals: %llu chunks, "
			       "%llu bytes",
			       (unsigned long long)recipe->chunk_count,
			       (unsigned long long)recipe->blob_bytes);
	return 0;
}

int recipe_parse(const void *data, size_t len, struct recipe *ret,
		 struct err *err)
{
	struct recipe recipe = {.data = data, .len = len};
	uint64_t pages, body;
	int r = preamble_check(data, len, RECIPE_MAGIC, "recipe", err);

	if (r < 0)
		return r;
	if (len < ROOT_BYTES || len > LIMIT_RECIPE_BYTES)
		return err_set(err, EBADMSG, "recipe has an impossible length");
	recipe.blob_bytes = load_le64(recipe.data + 16);
	recipe.chunk_count = load_le64(recipe.data + 24);
	recipe.page_count = load_le32(recipe.data + 32);
	r = check_root_fields(&recipe, err);
	if (r < 0)
		return r;
	/* chunk_count is at most 2^50 here: no overflow */
	pages = (recipe.chunk_count + LIMIT_RECIPE_PAGE_RECORDS - 1) /
		LIMIT_RECIPE_PAGE_RECORDS;
	if (pages == 1)
		pages = 0;
	body = pages ? pages * PAGE_ENTRY_BYTES :
		       recipe.chunk_count * RECORD_BYTES;
	if (recipe.page_count != pages || len - ROOT_BYTES != body)
		return err_set(err, EBADMSG,
			       "recipe length does not fit %llu chunks",
			       (unsigned long long)recipe.chunk_count);
	if (pages)
		r = check_pages(&recipe, err);
	else
		r = check_records(recipe.data + ROOT_BYTES,
				  (uint32_t)recipe.chunk_count,
				  recipe.blob_bytes, err);
	if (r == 0)
		*ret = recipe;
	return r;
}

void recipe_page_at(const struct recipe *recipe, uint32_t page,
		    struct digest *ret_digest, uint64_t *ret_start,
		    uint64_t *ret_end)
{
	ret_digest->type = DIGEST_SHA256;
	memcpy(ret_digest->bytes, page_entry(recipe, page), DIGEST_BYTES);
	*ret_start = page > 0 ? page_end(recipe, page - 1) : 0;
	*ret_end = page_end(recipe, page);
}

uint32_t recipe_find_page(const struct recipe *recipe, uint64_t offset)
{
	uint32_t low = 0, high = recipe->page_count;

	assert(offset < recipe->blob_bytes);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (page_end(recipe, middle) > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct recipe_page *page_new(uint64_t first_chunk, uint32_t count)
{
	size_t starts_bytes = ((size_t)count + 1) * sizeof(uint64_t);
	size_t records_bytes = (size_t)count * sizeof(struct recipe_record);
	struct recipe_page *page =
		malloc(sizeof(*page) + starts_bytes + records_bytes);

	if (!page)
		return NULL;
	page->first_chunk = first_chunk;
	page->count = count;
	page->starts = (uint64_t *)(page + 1);
	page->records = (struct recipe_record *)(page->starts + count + 1);
	return page;
}

void recipe_page_free(struct recipe_page *page)
{
	free(page);
}

/* The records have been checked. */
static int page_load(const uint8_t *records, uint64_t first_chunk,
		     uint64_t start, uint32_t count, struct recipe_page **ret)
{
	struct recipe_page *page = page_new(first_chunk, count);

	if (!page)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		recipe_record_load(records + (size_t)i * RECORD_BYTES,
				   &page->records[i]);
		page->starts[i] = start;
		start += page->records[i].length;
	}
	page->starts[count] = start;
	*ret = page;
	return 0;
}

int recipe_page_from_root(const struct recipe *recipe, struct recipe_page **ret)
{
	assert(recipe->page_count == 0);
	return page_load(recipe->data + ROOT_BYTES, 0, 0,
			 (uint32_t)recipe->chunk_count, ret);
}

int recipe_page_parse(const struct recipe *recipe, uint32_t page,
		      const void *data, size_t len, struct recipe_page **ret,
		      struct err *err)
{
	const uint8_t *bytes = data;
	uint32_t count = page_records(recipe, page);
	struct digest digest;
	uint64_t start, end;
	int r = preamble_check(bytes, len, RECIPE_PAGE_MAGIC, "recipe page",
			       err);

	if (r < 0)
		return r;
	if (len != PAGE_BYTES + (size_t)count * RECORD_BYTES ||
	    load_le32(bytes + 8) != count || load_le32(bytes + 12) != 0)
		return err_set(err, EBADMSG,
			       "recipe page does not hold %u records", count);
	recipe_page_at(recipe, page, &digest, &start, &end);
	r = check_records(bytes + PAGE_BYTES, count, end - start, err);
	if (r < 0)
		return r;
	r = page_load(bytes + PAGE_BYTES,
		      (uint64_t)page * LIMIT_RECIPE_PAGE_RECORDS, start, count,
		      ret);
	return r < 0 ? err_set(err, -r, "out of memory") : 0;
}

int recipe_page_from_records(const struct recipe_record *records,
			     uint32_t count, struct recipe_page **ret)
{
	struct recipe_page *page;
	uint64_t start = 0;

	if (count == 0)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		if (!recipe_record_valid(&records[i]))
			return -EINVAL;
	page = page_new(0, count);
	if (!page)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		page->records[i] = records[i];
		page->starts[i] = start;
		start += records[i].length;
	}
	page->starts[count] = start;
	*ret = page;
	return 0;
}

uint32_t recipe_page_find(const struct recipe_page *page, uint64_t offset)
{
	uint32_t low = 0, high = page->count;

	assert(offset >= page->starts[0] && offset < page->starts[page->count]);
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (page->starts[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}
