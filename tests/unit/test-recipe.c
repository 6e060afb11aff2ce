/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: ids agree with tests/data/make-formats.py, what was written is
 * read back, searches hit, and nothing malformed is accepted.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "format/recipe.h"

#include "data.h"

struct pages {
	uint32_t count;
	struct {
		struct digest digest;
		void *data;
		size_t len;
	} items[8];
};

static int keep_page(void *arg, const struct digest *digest, const void *data,
		     size_t len)
{
	struct pages *pages = arg;

	pages->items[pages->count].digest = *digest;
	pages->items[pages->count].data = malloc(len);
	memcpy(pages->items[pages->count].data, data, len);
	pages->items[pages->count].len = len;
	pages->count++;
	return 0;
}

static void drop_pages(struct pages *pages)
{
	for (uint32_t i = 0; i < pages->count; i++)
		free(pages->items[i].data);
	*pages = (struct pages){0};
}

static struct recipe_record synthetic_record(uint32_t i)
{
	struct recipe_record record = {.length = i % 1000 + 1};
	uint8_t number[4];

	if (i % 7 == 3) {
		record.is_zero = true;
		return record;
	}
	store_le32(number, i);
	digest_sha256(number, sizeof(number), &record.digest);
	return record;
}

static void write_synthetic(uint32_t count, struct buf *root,
			    struct pages *pages, struct digest *id)
{
	struct recipe_writer *writer = recipe_writer_new(keep_page, pages);

	for (uint32_t i = 0; i < count; i++) {
		struct recipe_record record = synthetic_record(i);

		assert_int_equal(recipe_writer_add(writer, &record), 0);
	}
	assert_int_equal(recipe_writer_finish(writer, root, id), 0);
	recipe_writer_free(writer);
}

static const struct {
	uint32_t count, pages;
	const char *id;
} golden[] = {
	{1, 0,
	 "9e6916b27bd8cc75d54b541e7d9eb1fbb6890349a6dfaaf7181ae6aae657b7b0"},
	{4096, 0,
	 "f60d3d4758a32de67ad06c7c33f11d9942119ab6a1ce6ee7233bcc1435367735"},
	{4097, 2,
	 "1c40bf4d251a0440b9eaccef72eeed56c62c0146b8e91b0c01d7a2d2037c81ba"},
	{8192, 2,
	 "b044eb5d203e27af6e623f640ecbc30c57285adc2323156d4e111490a3d16ad0"},
	{8200, 3,
	 "0f11ed811a9ebc26323341456802c07517438da4ece42d2418c0534ba3346778"},
};
#define GOLDEN_COUNT (sizeof(golden) / sizeof(golden[0]))

static void check_page(const struct recipe_page *page, uint64_t *position)
{
	for (uint32_t i = 0; i < page->count; i++) {
		struct recipe_record expected =
			synthetic_record((uint32_t)page->first_chunk + i);

		assert_true(page->starts[i] == *position);
		assert_int_equal(page->records[i].length, expected.length);
		assert_int_equal(page->records[i].is_zero, expected.is_zero);
		assert_true(digest_equal(&page->records[i].digest,
					 &expected.digest));
		assert_int_equal(recipe_page_find(page, *position), i);
		*position += expected.length;
		assert_int_equal(recipe_page_find(page, *position - 1), i);
	}
	assert_true(page->starts[page->count] == *position);
}

static void check_pages(const struct recipe *recipe, const struct pages *pages)
{
	uint64_t position = 0;

	for (uint32_t i = 0; i < recipe->page_count; i++) {
		struct recipe_page *page;
		struct digest digest;
		uint64_t start, end;

		recipe_page_at(recipe, i, &digest, &start, &end);
		assert_true(digest_equal(&digest, &pages->items[i].digest));
		assert_true(start == position);
		assert_int_equal(recipe_find_page(recipe, start), i);
		assert_int_equal(recipe_find_page(recipe, end - 1), i);
		assert_int_equal(
			recipe_page_parse(recipe, i, pages->items[i].data,
					  pages->items[i].len, &page, NULL),
			0);
		assert_int_equal(page->first_chunk, i * 4096);
		check_page(page, &position);
		assert_true(end == position);
		recipe_page_free(page);
	}
	assert_true(position == recipe->blob_bytes);
}

static void test_golden_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < GOLDEN_COUNT; i++) {
		struct pages pages = {0};
		char hex[DIGEST_HEX_MAX];
		struct recipe recipe;
		struct digest id;
		struct buf root;

		buf_init(&root, LIMIT_RECIPE_BYTES);
		write_synthetic(golden[i].count, &root, &pages, &id);
		assert_string_equal(digest_hex(&id, hex), golden[i].id);
		assert_int_equal(pages.count, golden[i].pages);
		assert_int_equal(
			recipe_parse(root.data, root.len, &recipe, NULL), 0);
		assert_int_equal(recipe.chunk_count, golden[i].count);
		assert_int_equal(recipe.page_count, golden[i].pages);
		if (recipe.page_count) {
			check_pages(&recipe, &pages);
		} else {
			struct recipe_page *page;
			uint64_t position = 0;

			assert_int_equal(recipe_page_from_root(&recipe, &page),
					 0);
			check_page(page, &position);
			recipe_page_free(page);
		}
		drop_pages(&pages);
		buf_release(&root);
	}
}

static void test_golden_file(void **state)
{
	struct recipe_page *page;
	struct recipe recipe;
	size_t len;
	void *data = data_read("good/recipe", &len);

	(void)state;
	assert_int_equal(recipe_parse(data, len, &recipe, NULL), 0);
	assert_int_equal(recipe.blob_bytes, 1132);
	assert_int_equal(recipe_page_from_root(&recipe, &page), 0);
	assert_int_equal(page->count, 3);
	assert_true(page->records[1].is_zero);
	assert_int_equal(page->starts[2], 1060);
	recipe_page_free(page);
	free(data);
	recipe_page_free(NULL);
	recipe_writer_free(NULL);
}

static void refuse(const char *path, const void *data, size_t len)
{
	struct err err = {""};
	struct recipe recipe;
	int r = recipe_parse(data, len, &recipe, &err);

	assert_refused(path, r, &err);
	if (strstr(path, "version") || strstr(path, "flag") ||
	    strstr(path, "digest-type") || strstr(path, "page-records"))
		assert_int_equal(r, -EPROTONOSUPPORT);
}

static void test_refuses_bad_files(void **state)
{
	(void)state;
	assert_true(data_each("bad-recipe-*", refuse) >= 25);
}

/* A page must be what its root says of it, not merely well formed. */
static void test_page_must_fit_its_root(void **state)
{
	struct pages pages = {0};
	struct recipe_page *page;
	struct recipe recipe;
	struct digest id;
	struct buf root;
	uint8_t *data;
	size_t len;

	(void)state;
	buf_init(&root, LIMIT_RECIPE_BYTES);
	write_synthetic(8200, &root, &pages, &id);
	assert_int_equal(recipe_parse(root.data, root.len, &recipe, NULL), 0);
	data = pages.items[2].data;
	len = pages.items[2].len;
	assert_int_equal(recipe_page_parse(&recipe, 0, data, len, &page, NULL),
			 -EBADMSG);
	assert_int_equal(
		recipe_page_parse(&recipe, 2, data, len - 36, &page, NULL),
		-EBADMSG);
	assert_int_equal(recipe_page_parse(&recipe, 2, data, 7, &page, NULL),
			 -EBADMSG);
	data[8] ^= 1; /* count */
	assert_int_equal(recipe_page_parse(&recipe, 2, data, len, &page, NULL),
			 -EBADMSG);
	data[8] ^= 1;
	data[12] = 1; /* reserved */
	assert_int_equal(recipe_page_parse(&recipe, 2, data, len, &page, NULL),
			 -EBADMSG);
	data[12] = 0;
	data[7] = 1; /* must-refuse flag */
	assert_int_equal(recipe_page_parse(&recipe, 2, data, len, &page, NULL),
			 -EPROTONOSUPPORT);
	data[7] = 0;
	data[6] = 1; /* must-ignore flag */
	assert_int_equal(recipe_page_parse(&recipe, 2, data, len, &page, NULL),
			 0);
	recipe_page_free(page);
	data[16 + 32] ^= 1; /* a length: the sum is off */
	assert_int_equal(recipe_page_parse(&recipe, 2, data, len, &page, NULL),
			 -EBADMSG);
	drop_pages(&pages);
	buf_release(&root);
}

static void test_writer_refuses(void **state)
{
	static const struct recipe_record bad[] = {
		{.digest = {.type = DIGEST_SHA256}, .length = 0},
		{.digest = {.type = DIGEST_SHA256},
		 .length = LIMIT_CHUNK_BYTES + 1},
		{.digest = {.type = DIGEST_NONE}, .length = 1},
		{.digest = {.type = DIGEST_GIT_SHA1}, .length = 1},
		{.digest = {.type = DIGEST_SHA256},
		 .length = 1,
		 .is_zero = true},
	};
	struct recipe_writer *writer = recipe_writer_new(NULL, NULL);
	struct recipe_page *page;
	struct digest id;
	struct buf root;

	(void)state;
	buf_init(&root, LIMIT_RECIPE_BYTES);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(recipe_writer_add(writer, &bad[i]), -EINVAL);
		assert_int_equal(recipe_page_from_records(&bad[i], 1, &page),
				 -EINVAL);
		assert_int_equal(recipe_inline_id(&bad[i], 1, &id), -EINVAL);
	}
	assert_int_equal(recipe_writer_finish(writer, &root, &id), -EINVAL);
	assert_int_equal(recipe_inline_id(NULL, 0, &id), -EINVAL);
	assert_int_equal(recipe_page_from_records(NULL, 0, &page), -EINVAL);
	assert_int_equal(root.len, 0);
	recipe_writer_free(writer);
}

/* A blob keeps its id whether its records are inline or an object. */
static void test_inline_id_is_the_root_id(void **state)
{
	struct recipe_record records[4];
	struct pages pages = {0};
	struct recipe_page *page;
	struct digest id, inline_id;
	struct buf root;
	uint64_t position = 0;

	(void)state;
	buf_init(&root, LIMIT_RECIPE_BYTES);
	write_synthetic(4, &root, &pages, &id);
	for (uint32_t i = 0; i < 4; i++)
		records[i] = synthetic_record(i);
	assert_int_equal(recipe_inline_id(records, 4, &inline_id), 0);
	assert_true(digest_equal(&id, &inline_id));
	assert_int_equal(recipe_page_from_records(records, 4, &page), 0);
	check_page(page, &position);
	recipe_page_free(page);
	buf_release(&root);
}

static int fail_page(void *arg, const struct digest *digest, const void *data,
		     size_t len)
{
	(void)arg;
	(void)digest;
	(void)data;
	(void)len;
	return -ENOSPC;
}

static void test_writer_reports_a_failed_page(void **state)
{
	struct recipe_writer *writer = recipe_writer_new(fail_page, NULL);
	int r = 0;

	(void)state;
	for (uint32_t i = 0; i <= 4096; i++) {
		struct recipe_record record = synthetic_record(i);

		assert_int_equal(r, 0);
		r = recipe_writer_add(writer, &record);
	}
	assert_int_equal(r, -ENOSPC);
	recipe_writer_free(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_round_trip),
		cmocka_unit_test(test_golden_file),
		cmocka_unit_test(test_refuses_bad_files),
		cmocka_unit_test(test_page_must_fit_its_root),
		cmocka_unit_test(test_writer_refuses),
		cmocka_unit_test(test_inline_id_is_the_root_id),
		cmocka_unit_test(test_writer_reports_a_failed_page),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
