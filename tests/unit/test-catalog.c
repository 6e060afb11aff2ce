/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the writer makes is what the reader gives back: random trees with
 * every feature, compared field by field through every look-up, in one
 * catalog and cut into many.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "catalog-model.h"

/* One open catalog of a tree, and where its numbers start. */
struct view {
	const struct store *store;
	const struct view *root;
	struct catalog *catalog;
	struct digest digest;
	uint64_t base;
	uint64_t *visited; /* entries seen, over all views */
};

static struct catalog_params small_params(uint32_t min, uint32_t mean,
					  uint32_t max)
{
	struct catalog_params params = catalog_params_defaults;

	params.split_min_entries = min;
	params.split_mean_entries = mean;
	params.split_max_entries = max;
	return params;
}

/* The catalog and local number that own a number, from the root down. */
static void resolve(const struct view *root, uint64_t number,
		    struct digest *ret_digest, uint32_t *ret_index)
{
	struct digest digest = root->digest;

	for (;;) {
		struct catalog *catalog = store_open(root->store, &digest);
		struct catalog_child child;
		uint32_t index;
		int r = catalog_child_for_number(catalog, number, &index);

		if (number < catalog_entry_count(catalog)) {
			assert_int_equal(r, -ENOENT);
			catalog_close(catalog);
			*ret_digest = digest;
			*ret_index = (uint32_t)number;
			return;
		}
		assert_int_equal(r, 0);
		catalog_get_child(catalog, index, &child);
		assert_true(number >= child.base &&
			    number - child.base < child.span);
		number -= child.base;
		digest = child.digest;
		catalog_close(catalog);
	}
}

static void check_number(const struct view *view, uint32_t index)
{
	struct digest digest;
	uint32_t found;

	++*view->visited;
	resolve(view->root, view->base + index, &digest, &found);
	assert_int_equal(found, index);
	assert_true(digest_equal(&digest, &view->digest));
}

static void compare_bytes(const void *a, size_t a_len, const void *b,
			  size_t b_len)
{
	assert_int_equal(a_len, b_len);
	if (a_len > 0)
		assert_memory_equal(a, b, a_len);
}

static void compare_xattrs(const struct catalog_entry *got,
			   const struct catalog_entry *want)
{
	uint32_t got_position = 0, want_position = 0;
	const char *names[2];
	const uint8_t *values[2];
	uint16_t name_lens[2];
	uint32_t value_lens[2];

	compare_bytes(got->xattrs, got->xattrs_len, want->xattrs,
		      want->xattrs_len);
	while (catalog_xattr_next(want, &want_position, &names[0],
				  &name_lens[0], &values[0],
				  &value_lens[0]) == 1) {
		assert_int_equal(catalog_xattr_next(got, &got_position,
						    &names[1], &name_lens[1],
						    &values[1], &value_lens[1]),
				 1);
		compare_bytes(names[0], name_lens[0], names[1], name_lens[1]);
		compare_bytes(values[0], value_lens[0], values[1],
			      value_lens[1]);
	}
	assert_int_equal(catalog_xattr_next(got, &got_position, &names[1],
					    &name_lens[1], &values[1],
					    &value_lens[1]),
			 0);
}

/* Fields that a directory has too. */
static void compare_metadata(const struct catalog_entry *got,
			     const struct catalog_entry *want)
{
	assert_int_equal(got->type, want->type);
	compare_bytes(got->name, got->name_len, want->name, want->name_len);
	assert_int_equal(got->mode, want->mode);
	assert_int_equal(got->mtime_s, want->mtime_s);
	assert_int_equal(got->mtime_ns, want->mtime_ns);
	assert_int_equal(got->has_owner, want->has_owner);
	assert_int_equal(got->uid, want->uid);
	assert_int_equal(got->gid, want->gid);
	compare_bytes(got->label, got->label_len, want->label, want->label_len);
	compare_xattrs(got, want);
}

static void compare_blob(const struct view *view,
			 const struct catalog_entry *got,
			 const struct blob_handle *want)
{
	struct catalog_blob blob;

	if (!want) {
		assert_int_equal(got->blob, CATALOG_NO_BLOB);
		return;
	}
	catalog_get_blob(view->catalog, got->blob, &blob);
	assert_true(digest_equal(&blob.id, &want->blob.id));
	assert_int_equal(blob.kind, want->blob.kind);
	assert_int_equal(blob.size, want->blob.size);
	compare_bytes(blob.url, blob.url_len, want->blob.url,
		      want->blob.url_len);
	compare_bytes(blob.validator, blob.validator_len, want->blob.validator,
		      want->blob.validator_len);
	assert_true(digest_equal(&blob.content, &want->blob.content));
	assert_int_equal(blob.inline_count, want->blob.inline_count);
	for (uint32_t i = 0; i < blob.inline_count; i++) {
		struct recipe_record record;

		catalog_get_inline(view->catalog, blob.inline_first + i,
				   &record);
		assert_true(
			digest_equal(&record.digest, &want->records[i].digest));
		assert_int_equal(record.length, want->records[i].length);
		assert_int_equal(record.is_zero, want->records[i].is_zero);
	}
}

static void compare_directory(const struct view *view,
			      const struct catalog_entry *got, uint32_t index,
			      const struct model_node *want);

static void compare_node(const struct view *view, uint32_t index,
			 uint32_t parent, const struct model_node *want)
{
	struct catalog_entry got;

	check_number(view, index);
	catalog_get(view->catalog, index, &got);
	compare_metadata(&got, &want->entry);
	assert_int_equal(got.parent, parent);
	if (got.type == ENTRY_DIRECTORY) {
		compare_directory(view, &got, index, want);
		return;
	}
	assert_int_equal(got.size, want->entry.size);
	assert_int_equal(got.blob_offset, want->entry.blob_offset);
	compare_bytes(got.text, got.text_len, want->entry.text,
		      want->entry.text_len);
	compare_bytes(got.sha256, got.sha256 ? 32 : 0, want->entry.sha256,
		      want->entry.sha256 ? 32 : 0);
	compare_blob(view, &got, want->blob);
}

/* Names [first, first + count) of the catalog are want's from start on. */
static void compare_names(const struct view *view, uint32_t first,
			  uint32_t count, uint32_t parent,
			  const struct model_node *want, uint64_t start)
{
	uint32_t found;

	for (uint32_t i = 0; i < count; i++) {
		const struct model_node *node = want->names.items[start + i];
		const struct catalog_entry *entry = &node->entry;

		assert_int_equal(catalog_find(view->catalog, first, count,
					      entry->name, entry->name_len,
					      &found),
				 0);
		assert_int_equal(found, first + i);
		assert_int_equal(catalog_find(view->catalog, first, i,
					      entry->name, entry->name_len,
					      &found),
				 -ENOENT);
		compare_node(view, first + i, parent, node);
	}
	assert_int_equal(catalog_find(view->catalog, first, count,
				      "\xff\xff\xff/", 4, &found),
			 -ENOENT);
	assert_int_equal(
		catalog_find(view->catalog, first, count, "", 0, &found),
		-ENOENT);
}

static void compare_child(const struct view *parent, uint32_t index,
			  const struct catalog_entry *dir,
			  const struct model_node *want)
{
	struct catalog_child child;
	struct catalog_entry top;
	struct view view = *parent;
	struct err err = {0};

	catalog_get_child(parent->catalog, index, &child);
	view.catalog = store_open(view.store, &child.digest);
	view.digest = child.digest;
	view.base += child.base;
	if (catalog_check_child(parent->catalog, index, view.catalog, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(catalog_is_part(view.catalog));
	assert_int_equal(catalog_span(view.catalog), child.span);
	for (uint64_t i = child.name_start;
	     i < child.name_start + child.name_count; i++) {
		const struct catalog_entry *entry =
			&want->names.items[i]->entry;

		assert_int_equal(
			catalog_child_for_index(parent->catalog, dir, i),
			index);
		assert_int_equal(catalog_child_for_name(parent->catalog, dir,
							entry->name,
							entry->name_len),
				 index);
	}
	check_number(&view, 0);
	catalog_get(view.catalog, 0, &top);
	assert_int_equal(top.count, child.name_count);
	compare_names(&view, top.first, top.count, 0, want, child.name_start);
	catalog_close(view.catalog);
}

static void compare_directory(const struct view *view,
			      const struct catalog_entry *got, uint32_t index,
			      const struct model_node *want)
{
	uint64_t names = 0;

	assert_int_equal(got->entries_below, want->entries_below);
	assert_int_equal(got->bytes_below, want->bytes_below);
	assert_int_equal(got->size, 0);
	if (got->child_count == 0) {
		assert_int_equal(got->count, want->names.count);
		compare_names(view, got->first, got->count, index, want, 0);
		return;
	}
	for (uint32_t i = got->first_child;
	     i < got->first_child + got->child_count; i++) {
		struct catalog_child child;

		catalog_get_child(view->catalog, i, &child);
		assert_int_equal(child.owner, index);
		assert_int_equal(child.name_start, names);
		names += child.name_count;
		compare_child(view, i, got, want);
	}
	assert_int_equal(names, want->names.count);
}

static void compare_store(const struct store *store, const struct model *model)
{
	uint64_t visited = 0;
	struct view view = {.store = store, .visited = &visited};

	view.root = &view;
	view.digest = store->root;
	view.catalog = store_open(store, &store->root);
	assert_false(catalog_is_part(view.catalog));
	assert_int_equal(store->entries, model->root->entries_below);
	assert_int_equal(store->bytes, model->root->bytes_below);
	assert_int_equal(catalog_total_entries(view.catalog),
			 model->root->entries_below);
	assert_int_equal(catalog_total_bytes(view.catalog),
			 model->root->bytes_below);
	compare_node(&view, 0, 0, model->root);
	assert_int_equal(visited, catalog_span(view.catalog));
	catalog_close(view.catalog);
}

static void check_round_trip(uint64_t seed, uint32_t count,
			     const struct catalog_params *params)
{
	struct model model;
	struct store store, again;

	print_message("seed %llu, %u entries\n", (unsigned long long)seed,
		      count);
	model_init(&model, seed);
	model_fill(&model, count);
	model_write(&model, params, &store);
	compare_store(&store, &model);
	model_write(&model, params, &again);
	assert_true(digest_equal(&store.root, &again.root));
	store_release(&again);
	store_release(&store);
	model_release(&model);
}

static void test_uncut_round_trip(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++)
		check_round_trip(seed, 1 + 31 * (uint32_t)seed,
				 &catalog_params_defaults);
}

static void test_cut_round_trip(void **state)
{
	struct catalog_params params[] = {
		small_params(1, 1, 1),	small_params(1, 2, 3),
		small_params(2, 4, 16), small_params(8, 16, 32),
		small_params(5, 5, 5),	small_params(20, 40, 80),
	};

	(void)state;
	for (uint64_t seed = 100; seed < 124; seed++)
		check_round_trip(seed, 10 + 20 * (uint32_t)(seed % 10),
				 &params[seed % 6]);
}

static void test_empty_root(void **state)
{
	struct model model;
	struct store store;

	(void)state;
	model_init(&model, 1);
	model_root(&model);
	model_write(&model, &catalog_params_defaults, &store);
	compare_store(&store, &model);
	assert_int_equal(store.catalogs.count, 1);
	store_release(&store);
	model_release(&model);
}

static void test_params_are_kept(void **state)
{
	struct catalog_params params = small_params(3, 7, 11);
	struct catalog *catalog;
	struct model model;
	struct store store;

	(void)state;
	params.has_file_digests = true;
	params.small_file_bytes = 4096;
	params.shared_min_bytes = 1 << 20;
	params.chunker.normalisation = 1;
	model_init(&model, 1);
	model_root(&model);
	model_write(&model, &params, &store);
	catalog = store_open(&store, &store.root);
	assert_memory_equal(&catalog_params(catalog)->chunker.min_bytes,
			    &params.chunker.min_bytes, 3 * sizeof(uint32_t));
	assert_int_equal(catalog_params(catalog)->chunker.normalisation, 1);
	assert_memory_equal(&catalog_params(catalog)->small_file_bytes,
			    &params.small_file_bytes, 7 * sizeof(uint32_t));
	assert_true(catalog_params(catalog)->has_file_digests);
	assert_true(catalog_memory(catalog) >= store.root_bytes);
	catalog_close(catalog);
	store_release(&store);
	model_release(&model);
}

static void model_of_eight(struct model *model)
{
	model_init(model, 1);
	model_root(model);
	for (char name = 'b'; name <= 'i'; name++)
		model_add_file(model, model->root, (char[]){name, 0}, NULL, 0,
			       0);
}

/* A directory of two parts of two levels: looks up what is not there. */
static void test_child_for_absent_names(void **state)
{
	struct catalog_params params = small_params(4, 4, 4);
	struct catalog_entry top;
	struct catalog *catalog;
	struct model model;
	struct store store;

	(void)state;
	model_of_eight(&model);
	model_total(model.root);
	model_write(&model, &params, &store);
	catalog = store_open(&store, &store.root);
	catalog_get(catalog, 0, &top);
	assert_int_equal(top.child_count, 2);
	assert_int_equal(catalog_child_for_name(catalog, &top, "a", 1), 0);
	assert_int_equal(catalog_child_for_name(catalog, &top, "ee", 2), 0);
	assert_int_equal(catalog_child_for_name(catalog, &top, "f", 1), 1);
	assert_int_equal(catalog_child_for_name(catalog, &top, "z", 1), 1);
	catalog_close(catalog);
	store_release(&store);
	model_release(&model);
}

static void test_check_child_refuses_another(void **state)
{
	struct catalog_params params = small_params(4, 4, 4);
	struct catalog *root, *child;
	struct catalog_child ref;
	struct err err = {0};
	struct model model;
	struct store store;

	(void)state;
	model_of_eight(&model);
	model_write(&model, &params, &store);
	root = store_open(&store, &store.root);
	catalog_get_child(root, 0, &ref);
	child = store_open(&store, &ref.digest);
	assert_int_equal(catalog_check_child(root, 0, child, &err), 0);
	assert_int_equal(catalog_check_child(root, 1, child, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "names"));
	assert_int_equal(catalog_check_child(root, 0, root, &err), -EBADMSG);
	catalog_close(child);
	catalog_close(root);
	store_release(&store);
	model_release(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uncut_round_trip),
		cmocka_unit_test(test_cut_round_trip),
		cmocka_unit_test(test_empty_root),
		cmocka_unit_test(test_params_are_kept),
		cmocka_unit_test(test_child_for_absent_names),
		cmocka_unit_test(test_check_child_refuses_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
