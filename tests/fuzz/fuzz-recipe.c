/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First byte even: the rest is a root. Odd: two bytes say how many records
 * and bytes the second page of a root has, the rest is that page.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_page(const struct recipe_page *page)
{
	assert(page->count > 0 && page->count <= LIMIT_RECIPE_PAGE_RECORDS);
	for (uint32_t i = 0; i < page->count; i++) {
		assert(page->starts[i] < page->starts[i + 1]);
		assert(recipe_page_find(page, page->starts[i]) == i);
		assert(recipe_page_find(page, page->starts[i + 1] - 1) == i);
	}
}

static void try_root(const uint8_t *data, size_t len)
{
	struct recipe_page *page;
	struct recipe recipe;
	struct err err;

	if (recipe_parse(data, len, &recipe, &err) < 0)
		return;
	for (uint32_t i = 0; i < recipe.page_count; i++) {
		struct digest digest;
		uint64_t start, end;

		recipe_page_at(&recipe, i, &digest, &start, &end);
		assert(start < end && end <= recipe.blob_bytes);
		assert(recipe_find_page(&recipe, start) == i);
		assert(recipe_find_page(&recipe, end - 1) == i);
	}
	if (recipe.page_count > 0)
		return;
	assert(recipe_page_from_root(&recipe, &page) == 0);
	assert(page->starts[page->count] == recipe.blob_bytes);
	check_page(page);
	recipe_page_free(page);
}

static void try_page(uint32_t count, uint32_t bytes, const uint8_t *data,
		     size_t len)
{
	uint8_t root[40 + 2 * 40] = {'L', 'R', 'D', 'R', 1};
	struct recipe_page *page;
	struct recipe recipe;
	struct err err;

	root[8] = DIGEST_SHA256;
	store_le32(root + 12, LIMIT_RECIPE_PAGE_RECORDS);
	store_le64(root + 16, LIMIT_RECIPE_PAGE_RECORDS + bytes);
	store_le64(root + 24, LIMIT_RECIPE_PAGE_RECORDS + count);
	store_le32(root + 32, 2);
	store_le64(root + 72, LIMIT_RECIPE_PAGE_RECORDS);
	store_le64(root + 112, LIMIT_RECIPE_PAGE_RECORDS + bytes);
	assert(recipe_parse(root, sizeof(root), &recipe, &err) == 0);
	if (recipe_page_parse(&recipe, 1, data, len, &page, &err) < 0)
		return;
	assert(page->count == count);
	assert(page->starts[count] == LIMIT_RECIPE_PAGE_RECORDS + bytes);
	check_page(page);
	recipe_page_free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len > 0 && data[0] % 2 == 0)
		try_root(data + 1, len - 1);
	else if (len >= 3)
		try_page(data[1] + 1u, data[1] + 1u + data[2] * 16u, data + 3,
			 len - 3);
	return 0;
}
