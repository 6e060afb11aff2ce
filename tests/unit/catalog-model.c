/* SPDX-License-Identifier: Apache-2.0 */
/* Trees for the catalog tests, and a store for what the writer makes. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "catalog-model.h"
#include "format/catalog-layout.h"

/* splitmix64 */
uint64_t model_random(struct model *model, uint64_t below)
{
	uint64_t z = model->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

static void random_bytes(struct model *model, uint8_t *ret, size_t len)
{
	for (size_t i = 0; i < len; i++)
		ret[i] = (uint8_t)model_random(model, 256);
}

void model_init(struct model *model, uint64_t seed)
{
	*model = (struct model){.random = seed};
}

static void node_free(struct model_node *node)
{
	free((void *)node->entry.name);
	free((void *)node->entry.text);
	free((void *)node->entry.label);
	free((void *)node->entry.xattrs);
	free((void *)node->entry.sha256);
	vec_release(&node->names);
	free(node);
}

void model_release(struct model *model)
{
	for (size_t i = 0; i < model->nodes.count; i++)
		node_free(model->nodes.items[i]);
	for (size_t i = 0; i < model->blobs.count; i++) {
		free((void *)model->blobs.items[i]->blob.url);
		free((void *)model->blobs.items[i]->blob.validator);
		free(model->blobs.items[i]);
	}
	vec_release(&model->nodes);
	vec_release(&model->blobs);
}

static struct model_node *new_node(struct model *model, enum entry_type type,
				   const char *name, size_t name_len)
{
	struct model_node *node = calloc(1, sizeof(*node));
	struct model_node **kept = vec_push(&model->nodes);
	char *copy = malloc(name_len + 1);

	assert_true(node && kept && copy);
	*kept = node;
	memcpy(copy, name, name_len);
	node->entry = (struct catalog_entry){
		.name = copy,
		.name_len = (uint16_t)name_len,
		.type = (uint8_t)type,
		.mode = type == ENTRY_DIRECTORY ? 0755 : 0644,
		.blob = CATALOG_NO_BLOB,
	};
	return node;
}

struct model_node *model_root(struct model *model)
{
	model->root = new_node(model, ENTRY_DIRECTORY, "", 0);
	return model->root;
}

struct model_node *model_add(struct model *model, struct model_node *directory,
			     enum entry_type type, const char *name,
			     size_t name_len)
{
	struct model_node *node = new_node(model, type, name, name_len);
	struct model_node **slot = vec_push(&directory->names);

	assert_non_null(slot);
	*slot = node;
	if (type == ENTRY_SYMLINK || type == ENTRY_HOLE ||
	    type == ENTRY_TOMBSTONE) {
		node->entry.text = strdup("reason");
		node->entry.text_len = 6;
	}
	if (type == ENTRY_SYMLINK)
		node->entry.size = node->entry.text_len;
	return node;
}

struct model_node *model_add_file(struct model *model,
				  struct model_node *directory,
				  const char *name, struct blob_handle *blob,
				  uint64_t offset, uint64_t size)
{
	struct model_node *node =
		model_add(model, directory, ENTRY_FILE, name, strlen(name));

	node->blob = blob;
	node->entry.blob_offset = offset;
	node->entry.size = size;
	return node;
}

static void fill_records(struct model *model, struct blob_handle *handle)
{
	uint32_t count = handle->blob.inline_count;
	uint64_t left = handle->blob.size;

	for (uint32_t i = 0; i < count; i++) {
		struct recipe_record *record = &handle->records[i];

		record->length = (uint32_t)(left / (count - i));
		left -= record->length;
		record->is_zero = model_random(model, 4) == 0;
		if (record->is_zero)
			continue;
		record->digest.type = DIGEST_SHA256;
		random_bytes(model, record->digest.bytes, DIGEST_BYTES);
	}
	assert_int_equal(
		recipe_inline_id(handle->records, count, &handle->blob.id), 0);
}

static void fill_reference(struct model *model, struct catalog_blob *blob)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "resolve/main/%u.bin",
			   (unsigned int)model_random(model, 1000000));

	blob->url = strdup(text);
	blob->url_len = (uint16_t)len;
	len = snprintf(text, sizeof(text), "\"%u\"",
		       (unsigned int)model_random(model, 100));
	blob->validator = strdup(text);
	blob->validator_len = (uint16_t)(model_random(model, 3) ? len : 0);
	blob->id.type = (uint8_t[]){DIGEST_SHA256, DIGEST_GIT_SHA1,
				    DIGEST_REFERENCE}[model_random(model, 3)];
	random_bytes(model, blob->id.bytes, digest_size(blob->id.type));
	if (blob->id.type != DIGEST_REFERENCE)
		blob->content = blob->id;
}

struct blob_handle *model_blob(struct model *model, enum blob_kind kind,
			       uint64_t size)
{
	struct blob_handle *handle = calloc(1, sizeof(*handle));
	struct blob_handle **slot = vec_push(&model->blobs);

	assert_true(handle && slot);
	*slot = handle;
	handle->blob.kind = (uint8_t)kind;
	handle->blob.size = size;
	switch (kind) {
	case BLOB_INLINE:
		handle->blob.inline_count =
			(uint32_t)((size - 1) / LIMIT_CHUNK_BYTES) + 1;
		fill_records(model, handle);
		break;
	case BLOB_RECIPE:
		handle->blob.id.type = DIGEST_SHA256;
		random_bytes(model, handle->blob.id.bytes, DIGEST_BYTES);
		break;
	case BLOB_REFERENCE:
		fill_reference(model, &handle->blob);
		break;
	}
	return handle;
}

static int compare_nodes(const void *a, const void *b)
{
	const struct catalog_entry *x =
		&(*(struct model_node *const *)a)->entry;
	const struct catalog_entry *y =
		&(*(struct model_node *const *)b)->entry;

	return catalog_name_compare(x->name, x->name_len, y->name, y->name_len);
}

void model_sort(struct model_node *directory)
{
	size_t kept = 0;

	if (directory->names.count == 0)
		return;
	qsort(directory->names.items, directory->names.count,
	      sizeof(directory->names.items[0]), compare_nodes);
	/* Equal random names: the first stays. */
	for (size_t i = 0; i < directory->names.count; i++) {
		if (kept == 0 ||
		    compare_nodes(&directory->names.items[kept - 1],
				  &directory->names.items[i]) != 0)
			directory->names.items[kept++] =
				directory->names.items[i];
	}
	directory->names.count = kept;
}

static size_t random_name(struct model *model, char *ret)
{
	size_t len = 1 + model_random(model, model_random(model, 50) ? 9 : 255);

	do {
		for (size_t i = 0; i < len; i++)
			ret[i] = (char)(model_random(model, 8) ?
						(uint64_t) "abcdefgh._-"
							[model_random(model,
								      11)] :
						1 + model_random(model, 255));
	} while (!catalog_name_valid(ret, len));
	return len;
}

static void random_rare_fields(struct model *model, struct catalog_entry *entry)
{
	struct buf xattrs;

	if (model_random(model, 3) == 0) {
		entry->has_owner = true;
		entry->uid = (uint32_t)(1000 + model_random(model, 3));
		entry->gid = (uint32_t)(100 + model_random(model, 2));
	}
	if (model_random(model, 5) == 0) {
		entry->label =
			strdup(model_random(model, 2) ? "red" : "internal");
		entry->label_len = (uint16_t)strlen(entry->label);
	}
	if (model_random(model, 5) == 0) {
		uint8_t value[3000];
		size_t len = model_random(model, 10) ? model_random(model, 20) :
						       3000;

		random_bytes(model, value, len);
		buf_init(&xattrs, 1 << 20);
		assert_int_equal(
			catalog_xattrs_add(&xattrs, "user.a", value, len), 0);
		if (model_random(model, 2))
			assert_int_equal(
				catalog_xattrs_add(&xattrs, "user.b", "x", 1),
				0);
		entry->xattrs_len = (uint32_t)xattrs.len;
		entry->xattrs = buf_steal(&xattrs, &len);
	}
	if (entry->type != ENTRY_DIRECTORY && entry->type != ENTRY_SYMLINK &&
	    model_random(model, 3) == 0) {
		uint8_t *sha256 = malloc(DIGEST_BYTES);

		assert_non_null(sha256);
		random_bytes(model, sha256, DIGEST_BYTES);
		entry->sha256 = sha256;
	}
	entry->mode = (uint16_t)model_random(model, 01000);
	entry->mtime_s = (int64_t)model_random(model, 1u << 31) - (1 << 30);
	entry->mtime_ns = (uint32_t)model_random(model, 1000000000);
}

static void random_content(struct model *model, struct model_node *node)
{
	struct catalog_entry *entry = &node->entry;

	if (entry->type != ENTRY_FILE) {
		size_t len =
			1 + model_random(model,
					 model_random(model, 20) ? 30 : 4095);
		char *text = malloc(len);

		assert_non_null(text);
		memset(text, 'a' + (int)model_random(model, 26), len);
		free((void *)entry->text);
		entry->text = text;
		entry->text_len = (uint16_t)len;
		entry->size = entry->type == ENTRY_SYMLINK ?
				      len :
				      model_random(model, 1000);
		return;
	}
	if (model_random(model, 10) == 0)
		return; /* empty */
	node->blob =
		model->blobs.items[model_random(model, model->blobs.count)];
	entry->blob_offset = model_random(model, node->blob->blob.size);
	entry->size = 1 + model_random(model, node->blob->blob.size -
						      entry->blob_offset);
}

void model_fill(struct model *model, uint32_t count)
{
	VEC(struct model_node *) directories = {0};
	struct model_node **slot = vec_push(&directories);

	*slot = model->root ? model->root : model_root(model);
	for (int i = 0; i < 12; i++)
		model_blob(model, (enum blob_kind)(1 + i % 3),
			   1 + model_random(model, i % 3 == 1 ?
							   16u << 20 :
							   UINT64_C(1) << 40));
	random_rare_fields(model, &model->root->entry);
	for (uint32_t i = 0; i < count; i++) {
		/* The newest or any, so trees are both deep and wide. */
		struct model_node *directory =
			directories
				.items[model_random(model, 3) ?
					       directories.count - 1 :
					       model_random(model,
							    directories.count)];
		enum entry_type type =
			model_random(model, 10) > 1 ?
				ENTRY_FILE :
				(enum entry_type)(1 + model_random(model, 5));
		char name[LIMIT_NAME_BYTES];
		size_t len = random_name(model, name);
		struct model_node *node =
			model_add(model, directory, type, name, len);

		random_rare_fields(model, &node->entry);
		if (type != ENTRY_DIRECTORY) {
			random_content(model, node);
			continue;
		}
		slot = vec_push(&directories);
		*slot = node;
	}
	for (size_t i = 0; i < directories.count; i++)
		model_sort(directories.items[i]);
	vec_release(&directories);
	model_total(model->root);
}

void model_total(struct model_node *directory)
{
	directory->entries_below = directory->names.count;
	directory->bytes_below = 0;
	for (size_t i = 0; i < directory->names.count; i++) {
		struct model_node *node = directory->names.items[i];

		if (node->entry.type == ENTRY_DIRECTORY) {
			model_total(node);
			directory->entries_below += node->entries_below;
			directory->bytes_below += node->bytes_below;
		} else if (node->entry.type == ENTRY_FILE) {
			directory->bytes_below += node->entry.size;
		}
	}
}

int model_feed(struct catalog_writer *writer,
	       const struct model_node *directory)
{
	int r = catalog_writer_enter(writer, &directory->entry);

	for (size_t i = 0; r == 0 && i < directory->names.count; i++) {
		const struct model_node *node = directory->names.items[i];

		if (node->entry.type == ENTRY_DIRECTORY) {
			r = model_feed(writer, node);
		} else {
			if (node->blob)
				node->blob->uses++;
			r = catalog_writer_file(writer, &node->entry,
						node->blob);
		}
	}
	return r == 0 ? catalog_writer_leave(writer) : r;
}

static int store_blob(void *arg, struct blob_handle *handle,
		      struct catalog_blob *ret,
		      const struct recipe_record **ret_records)
{
	(void)arg;
	assert_true(handle->uses > 0);
	*ret = handle->blob;
	if (handle->blob.kind == BLOB_INLINE)
		*ret_records = handle->records;
	return 0;
}

static void store_blob_unused(void *arg, struct blob_handle *handle)
{
	(void)arg;
	assert_true(handle->uses > 0);
	handle->unused++;
}

static int store_catalog(void *arg, const struct digest *digest,
			 const void *data, size_t len,
			 struct blob_handle *const *inline_blobs,
			 size_t inline_blob_count)
{
	struct store *store = arg;
	struct stored_catalog *stored = vec_push(&store->catalogs);

	assert_non_null(stored);
	*stored = (struct stored_catalog){.digest = *digest, .len = len};
	stored->data = malloc(len);
	assert_non_null(stored->data);
	memcpy(stored->data, data, len);
	stored->inline_blobs =
		calloc(inline_blob_count + 1, sizeof(*inline_blobs));
	assert_non_null(stored->inline_blobs);
	for (size_t i = 0; i < inline_blob_count; i++)
		stored->inline_blobs[i] = inline_blobs[i];
	stored->inline_blob_count = inline_blob_count;
	return 0;
}

const struct catalog_writer_ops store_ops = {
	.blob = store_blob,
	.blob_unused = store_blob_unused,
	.catalog = store_catalog,
};

void model_write(struct model *model, const struct catalog_params *params,
		 struct store *ret)
{
	struct catalog_writer *writer =
		catalog_writer_new(params, &store_ops, ret);

	*ret = (struct store){0};
	for (size_t i = 0; i < model->blobs.count; i++)
		model->blobs.items[i]->uses = model->blobs.items[i]->unused = 0;
	assert_non_null(writer);
	assert_int_equal(model_feed(writer, model->root), 0);
	assert_int_equal(catalog_writer_finish(writer, &ret->root,
					       &ret->root_bytes, &ret->entries,
					       &ret->bytes),
			 0);
	for (size_t i = 0; i < model->blobs.count; i++)
		assert_true((model->blobs.items[i]->uses > 0) ==
			    (model->blobs.items[i]->unused > 0));
	catalog_writer_free(writer);
}

void store_release(struct store *store)
{
	for (size_t i = 0; i < store->catalogs.count; i++) {
		free(store->catalogs.items[i].data);
		free(store->catalogs.items[i].inline_blobs);
	}
	vec_release(&store->catalogs);
}

const struct stored_catalog *store_find(const struct store *store,
					const struct digest *digest)
{
	for (size_t i = 0; i < store->catalogs.count; i++) {
		if (digest_equal(&store->catalogs.items[i].digest, digest))
			return &store->catalogs.items[i];
	}
	return NULL;
}

struct catalog *store_open(const struct store *store,
			   const struct digest *digest)
{
	const struct stored_catalog *stored = store_find(store, digest);
	struct catalog *catalog = NULL;
	struct err err = {0};
	uint8_t *copy;

	assert_non_null(stored);
	copy = malloc(stored->len);
	assert_non_null(copy);
	memcpy(copy, stored->data, stored->len);
	if (catalog_open(copy, stored->len, &catalog, &err) < 0)
		fail_msg("%s", err.text);
	return catalog;
}
