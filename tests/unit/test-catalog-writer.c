/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the writer cuts a tree, that a small change stays small, that the
 * bytes depend on the tree alone, and what it refuses.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "catalog-model.h"

/* Large trees are fed as they are made, without a model. */
struct feed {
	struct catalog_writer *writer;
	struct store store;
};

static void feed_start(struct feed *feed, const struct catalog_params *params)
{
	feed->store = (struct store){0};
	feed->writer = catalog_writer_new(params, &store_ops, &feed->store);
	assert_non_null(feed->writer);
}

static int feed_entry(struct feed *feed, enum entry_type type, const char *name)
{
	struct catalog_entry entry = {
		.name = name,
		.name_len = (uint16_t)strlen(name),
		.type = (uint8_t)type,
		.mode = 0755,
		.text = "x",
		.text_len = 1,
	};

	return type == ENTRY_DIRECTORY ?
		       catalog_writer_enter(feed->writer, &entry) :
		       catalog_writer_file(feed->writer, &entry, NULL);
}

static void feed_finish(struct feed *feed)
{
	assert_int_equal(catalog_writer_finish(feed->writer, &feed->store.root,
					       &feed->store.root_bytes,
					       &feed->store.entries,
					       &feed->store.bytes),
			 0);
	catalog_writer_free(feed->writer);
}

/* n names in one directory, and one more if extra is given. */
static void feed_wide(struct feed *feed, uint32_t count, const char *extra)
{
	char name[32];

	feed_start(feed, &catalog_params_defaults);
	assert_int_equal(feed_entry(feed, ENTRY_DIRECTORY, ""), 0);
	assert_int_equal(feed_entry(feed, ENTRY_DIRECTORY, "wide"), 0);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "img-%08u.jpg", i);
		if (extra && strcmp(extra, name) < 0) {
			assert_int_equal(feed_entry(feed, ENTRY_FILE, extra),
					 0);
			extra = NULL;
		}
		assert_int_equal(feed_entry(feed, ENTRY_FILE, name), 0);
	}
	assert_int_equal(catalog_writer_leave(feed->writer), 0);
	assert_int_equal(catalog_writer_leave(feed->writer), 0);
	feed_finish(feed);
}

static size_t count_new(const struct store *before, const struct store *after)
{
	size_t count = 0;

	for (size_t i = 0; i < after->catalogs.count; i++) {
		if (!store_find(before, &after->catalogs.items[i].digest))
			count++;
	}
	return count;
}

static void test_one_name_changes_one_part(void **state)
{
	struct feed before, after;

	(void)state;
	feed_wide(&before, 1000000, NULL);
	assert_int_equal(before.store.entries, 1000001);
	/* About 1,000,000 / split_mean_entries. */
	assert_in_range(before.store.catalogs.count, 24, 44);
	feed_wide(&after, 1000000, "img-00500000.jpg.txt");
	/* The part, the root, and a neighbour if a cut moved. */
	assert_in_range(count_new(&before.store, &after.store), 2, 3);
	store_release(&after.store);
	feed_wide(&after, 1000000, "img-00000000.jpg.txt");
	assert_in_range(count_new(&before.store, &after.store), 2, 3);
	store_release(&after.store);
	store_release(&before.store);
}

/* The same for directories of directories, which weigh more than 1. */
static void feed_nested(struct feed *feed, uint32_t changed)
{
	char name[32];

	feed_start(feed, &catalog_params_defaults);
	assert_int_equal(feed_entry(feed, ENTRY_DIRECTORY, ""), 0);
	for (uint32_t i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "class-%04u", i);
		assert_int_equal(feed_entry(feed, ENTRY_DIRECTORY, name), 0);
		for (uint32_t j = 0; j < (i == changed ? 1000u : 100u); j++) {
			snprintf(name, sizeof(name), "%04u", j);
			assert_int_equal(feed_entry(feed, ENTRY_FILE, name), 0);
		}
		assert_int_equal(catalog_writer_leave(feed->writer), 0);
	}
	assert_int_equal(catalog_writer_leave(feed->writer), 0);
	feed_finish(feed);
}

static void test_one_name_changes_one_part_of_directories(void **state)
{
	struct feed before, after;

	(void)state;
	feed_nested(&before, UINT32_MAX);
	assert_in_range(before.store.catalogs.count, 6, 15);
	feed_nested(&after, 0);
	assert_in_range(count_new(&before.store, &after.store), 2, 3);
	store_release(&after.store);
	store_release(&before.store);
}

/* The time of a cut directory is in its parent only. */
static void test_touching_a_directory_keeps_its_parts(void **state)
{
	struct catalog_params params = catalog_params_defaults;
	struct store before, after;
	struct model_node *wide;
	struct model model;

	(void)state;
	params.split_min_entries = params.split_mean_entries =
		params.split_max_entries = 4;
	model_init(&model, 1);
	model_root(&model);
	wide = model_add(&model, model.root, ENTRY_DIRECTORY, "wide", 4);
	for (char name = 'a'; name <= 'z'; name++)
		model_add_file(&model, wide, (char[]){name, 0}, NULL, 0, 0);
	model_write(&model, &params, &before);
	wide->entry.mtime_s++;
	wide->entry.mode = 0700;
	model_write(&model, &params, &after);
	assert_true(before.catalogs.count > 5);
	assert_int_equal(count_new(&before, &after), 1);
	store_release(&before);
	store_release(&after);
	model_release(&model);
}

/* Names of the children of the root catalog's entry 0. */
static void child_counts(const struct store *store, uint64_t *ret,
			 uint32_t *ret_count)
{
	struct catalog *catalog = store_open(store, &store->root);

	*ret_count = catalog_child_count(catalog);
	for (uint32_t i = 0; i < *ret_count; i++) {
		struct catalog_child child;

		catalog_get_child(catalog, i, &child);
		ret[i] = child.name_count;
	}
	catalog_close(catalog);
}

/* The rule of larder-format(5) by example: max 6, every heavy range ends. */
static void test_cuts_by_weight(void **state)
{
	struct catalog_params params = catalog_params_defaults;
	struct model_node *node;
	struct store store;
	struct model model;
	uint64_t counts[8];
	uint32_t count;

	(void)state;
	params.split_min_entries = 6;
	params.split_mean_entries = 6;
	params.split_max_entries = 6;
	model_init(&model, 1);
	model_root(&model);
	/* Weights: a 1, b 1 + 4, c 2, d 1 + 60 (cut in
	 * 10 parts: 2), e f g h 1. */
	model_add_file(&model, model.root, "a", NULL, 0, 0);
	node = model_add(&model, model.root, ENTRY_DIRECTORY, "b", 1);
	for (char name = '0'; name < '4'; name++)
		model_add_file(&model, node, (char[]){name, 0}, NULL, 0, 0);
	node = model_add(&model, model.root, ENTRY_SYMLINK, "c", 1);
	node->entry.text = realloc((void *)node->entry.text, 1024);
	assert_non_null(node->entry.text);
	memset((void *)node->entry.text, '.', 1024);
	node->entry.text_len = 1024;
	node->entry.size = 1024;
	node = model_add(&model, model.root, ENTRY_DIRECTORY, "d", 1);
	for (char name = '0'; name < '0' + 60; name++)
		model_add_file(&model, node, (char[]){name, 0}, NULL, 0, 0);
	for (char name = 'e'; name <= 'h'; name++)
		model_add_file(&model, model.root, (char[]){name, 0}, NULL, 0,
			       0);
	model_write(&model, &params, &store);
	/* Parts of d; a b; c d e f; g h; the root. */
	assert_int_equal(store.catalogs.count, 14);
	child_counts(&store, counts, &count);
	assert_int_equal(count, 3);
	assert_int_equal(counts[0], 2);
	assert_int_equal(counts[1], 4);
	assert_int_equal(counts[2], 2);
	store_release(&store);
	/* a b weigh 6: not cut. */
	model.root->names.count = 2;
	model_write(&model, &params, &store);
	assert_int_equal(store.catalogs.count, 1);
	store_release(&store);
	model_release(&model);
}

/* Whether equal blobs have one handle or many is not in the bytes. */
static void test_handles_leave_no_trace(void **state)
{
	struct blob_handle *one, *other;
	struct store shared, separate;
	struct model model;

	(void)state;
	model_init(&model, 7);
	model_root(&model);
	one = model_blob(&model, BLOB_INLINE, 9u << 20);
	other = model_blob(&model, BLOB_INLINE, 9u << 20);
	other->blob = one->blob;
	memcpy(other->records, one->records, sizeof(one->records));
	model_add_file(&model, model.root, "a", one, 0, 9u << 20);
	model_add_file(&model, model.root, "b", one, 0, 9u << 20);
	model_write(&model, &catalog_params_defaults, &shared);
	model.root->names.items[1]->blob = other;
	model_write(&model, &catalog_params_defaults, &separate);
	assert_true(digest_equal(&shared.root, &separate.root));
	assert_int_equal(separate.catalogs.items[0].inline_blob_count, 1);
	assert_ptr_equal(separate.catalogs.items[0].inline_blobs[0], one);
	store_release(&shared);
	store_release(&separate);
	model_release(&model);
}

/* A handle used in several parts: told when it is nowhere in use, and again
 * after a later use. */
static void test_unused_handles_are_told(void **state)
{
	struct catalog_params params = catalog_params_defaults;
	struct blob_handle *first, *all;
	struct model_node *node;
	struct store store;
	struct model model;

	(void)state;
	params.split_min_entries = params.split_mean_entries =
		params.split_max_entries = 4;
	model_init(&model, 7);
	model_root(&model);
	first = model_blob(&model, BLOB_RECIPE, 100);
	all = model_blob(&model, BLOB_REFERENCE, 100);
	node = model_add(&model, model.root, ENTRY_DIRECTORY, "d", 1);
	for (char name = 'a'; name <= 'z'; name++)
		model_add_file(&model, node, (char[]){name, 0},
			       name < 'c' ? first : all, 0, 50);
	model_add_file(&model, model.root, "e", all, 50, 50);
	model_write(&model, &params, &store);
	assert_int_equal(first->unused, 1);
	assert_int_equal(all->unused, 2);
	store_release(&store);
	model_release(&model);
}

/* Half a tree and no finish: nothing leaks, handles are given back. */
static void test_abandoned_writer_lets_go(void **state)
{
	struct blob_handle *blob;
	struct catalog_entry file = {
		.name = "f", .name_len = 1, .type = ENTRY_FILE, .size = 1};
	struct model model;
	struct feed feed;

	(void)state;
	model_init(&model, 7);
	blob = model_blob(&model, BLOB_RECIPE, 100);
	blob->uses = 1;
	feed_start(&feed, &catalog_params_defaults);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "a"), 0);
	assert_int_equal(catalog_writer_file(feed.writer, &file, blob), 0);
	assert_int_equal(catalog_writer_leave(feed.writer), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "b"), 0);
	catalog_writer_free(feed.writer);
	assert_int_equal(blob->unused, 1);
	catalog_writer_free(NULL);
	model_release(&model);
}

static void test_refuses_bad_names_and_order(void **state)
{
	char longest[LIMIT_NAME_BYTES + 2];
	struct feed feed;

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[LIMIT_NAME_BYTES + 1] = '\0';
	feed_start(&feed, &catalog_params_defaults);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "a"),
			 -EINVAL); /* no root */
	assert_int_equal(catalog_writer_leave(feed.writer), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "a"), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, ""), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "."), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, ".."), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "a/b"), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, longest), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "..."), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "b"), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "b"), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "a"), -EINVAL);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "ba"), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "a"), 0);
	assert_int_equal(catalog_writer_leave(feed.writer), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "ba"), -EINVAL);
	longest[LIMIT_NAME_BYTES] = '\0';
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, longest), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "\xff"), 0);
	assert_int_equal(catalog_writer_leave(feed.writer), 0);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), -EINVAL);
	feed_finish(&feed);
	catalog_close(store_open(&feed.store, &feed.store.root));
	store_release(&feed.store);
}

static void test_refuses_bad_entries(void **state)
{
	static const struct catalog_entry bad[] = {
		{.type = ENTRY_FILE, .mode = 01000},
		{.type = ENTRY_FILE, .mtime_ns = 1000000000},
		{.type = ENTRY_FILE, .size = 1}, /* without a blob */
		{.type = 0},
		{.type = 6},
		{.type = ENTRY_DIRECTORY},
		{.type = ENTRY_SYMLINK},
		{.type = ENTRY_SYMLINK, .text = "a\0b", .text_len = 3},
		{.type = ENTRY_SYMLINK, .text = "", .text_len = 0},
		{.type = ENTRY_SYMLINK, .text = "x", .text_len = 4096},
		{.type = ENTRY_HOLE,
		 .text = "x",
		 .text_len = 1,
		 .size = UINT64_MAX},
		{.type = ENTRY_FILE, .label = "x", .label_len = 256},
		{.type = ENTRY_FILE,
		 .xattrs = (const uint8_t *)"garbage",
		 .xattrs_len = 7},
		{.type = ENTRY_FILE, /* not user. */
		 .xattrs = (const uint8_t *)"\x0a\0\0\0\0\0trusted.xy",
		 .xattrs_len = 16},
	};
	struct feed feed;

	(void)state;
	feed_start(&feed, &catalog_params_defaults);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct catalog_entry entry = bad[i];

		entry.name = "a";
		entry.name_len = 1;
		assert_int_equal(catalog_writer_file(feed.writer, &entry, NULL),
				 -EINVAL);
	}
	catalog_writer_free(feed.writer);
}

/* Blobs that the caller describes wrongly end the writer. */
static void test_refuses_bad_blobs(void **state)
{
	(void)state;
	for (int fault = 0; fault < 6; fault++) {
		struct blob_handle *blob;
		struct model model;
		struct feed feed;
		struct catalog_entry file = {.name = "f",
					     .name_len = 1,
					     .type = ENTRY_FILE,
					     .size = 100};

		model_init(&model, 7);
		blob = model_blob(
			&model, fault < 3 ? BLOB_INLINE : BLOB_REFERENCE, 100);
		blob->uses = 1;
		if (fault == 0)
			file.blob_offset = 1; /* past its end */
		if (fault == 1)
			blob->blob.id.bytes[0] ^= 1;
		if (fault == 2)
			blob->records[0].length++;
		if (fault == 3)
			*(char *)blob->blob.url = '\n';
		if (fault == 4)
			blob->blob.kind = 9;
		if (fault == 5)
			blob->blob.id.type = DIGEST_NONE;
		feed_start(&feed, &catalog_params_defaults);
		assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), 0);
		assert_int_equal(catalog_writer_file(feed.writer, &file, blob),
				 0);
		assert_int_equal(catalog_writer_leave(feed.writer), 0);
		assert_int_equal(catalog_writer_finish(feed.writer,
						       &feed.store.root,
						       &feed.store.root_bytes,
						       &feed.store.entries,
						       &feed.store.bytes),
				 -EINVAL);
		assert_int_equal(feed.store.catalogs.count, 0);
		assert_int_equal(blob->unused, 1);
		catalog_writer_free(feed.writer);
		model_release(&model);
	}
}

static void test_depth_has_a_limit(void **state)
{
	struct feed feed;
	uint32_t depth = 0;

	(void)state;
	feed_start(&feed, &catalog_params_defaults);
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, ""), 0);
	while (depth < LIMIT_PATH_DEPTH) {
		assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "d"), 0);
		depth++;
	}
	assert_int_equal(feed_entry(&feed, ENTRY_DIRECTORY, "d"),
			 -ENAMETOOLONG);
	assert_int_equal(feed_entry(&feed, ENTRY_FILE, "f"), 0);
	while (depth-- + 1 > 0)
		assert_int_equal(catalog_writer_leave(feed.writer), 0);
	feed_finish(&feed);
	catalog_close(store_open(&feed.store, &feed.store.root));
	store_release(&feed.store);
}

static void test_refuses_bad_params(void **state)
{
	struct catalog_params params = catalog_params_defaults;
	struct store store = {0};

	(void)state;
	params.split_min_entries = 0;
	assert_null(catalog_writer_new(&params, &store_ops, &store));
	params = catalog_params_defaults;
	params.shared_mean_bytes = params.shared_max_bytes + 1;
	assert_null(catalog_writer_new(&params, &store_ops, &store));
	params = catalog_params_defaults;
	params.chunker.average_bytes++;
	assert_null(catalog_writer_new(&params, &store_ops, &store));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_name_changes_one_part),
		cmocka_unit_test(test_one_name_changes_one_part_of_directories),
		cmocka_unit_test(test_touching_a_directory_keeps_its_parts),
		cmocka_unit_test(test_cuts_by_weight),
		cmocka_unit_test(test_handles_leave_no_trace),
		cmocka_unit_test(test_unused_handles_are_told),
		cmocka_unit_test(test_abandoned_writer_lets_go),
		cmocka_unit_test(test_refuses_bad_names_and_order),
		cmocka_unit_test(test_refuses_bad_entries),
		cmocka_unit_test(test_refuses_bad_blobs),
		cmocka_unit_test(test_depth_has_a_limit),
		cmocka_unit_test(test_refuses_bad_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
