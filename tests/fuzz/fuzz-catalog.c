/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that begin like a catalog are opened, and what opens is walked with
 * every accessor. Any others are a script for the writer, whose catalogs
 * must open and fit together.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "format/catalog-writer.h"
#include "format/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* So that no read is optimised away. */
static volatile uint64_t sink;

static void touch(const void *data, size_t len)
{
	if (len > 0)
		sink += checksum_xxh3(data, len);
}

static void walk_xattrs(const struct catalog_entry *entry)
{
	uint32_t position = 0, value_len;
	const uint8_t *value;
	const char *name;
	uint16_t name_len;

	while (catalog_xattr_next(entry, &position, &name, &name_len, &value,
				  &value_len) == 1) {
		assert(name_len > 5 && memcmp(name, "user.", 5) == 0);
		touch(name, name_len);
		touch(value, value_len);
	}
}

static void walk_directory(const struct catalog *catalog, uint32_t index,
			   const struct catalog_entry *dir)
{
	uint64_t names = 0;

	for (uint32_t i = dir->first; i < dir->first + dir->count; i++) {
		struct catalog_entry entry;
		uint32_t found;

		assert(i > index && i < catalog_entry_count(catalog));
		catalog_get(catalog, i, &entry);
		assert(entry.parent == index);
		assert(catalog_find(catalog, dir->first, dir->count, entry.name,
				    entry.name_len, &found) == 0 &&
		       found == i);
	}
	for (uint32_t i = dir->first_child;
	     i < dir->first_child + dir->child_count; i++) {
		struct catalog_child child;

		catalog_get_child(catalog, i, &child);
		assert(child.owner == index && child.name_start == names);
		assert(catalog_child_for_index(catalog, dir, names) == i);
		names += child.name_count;
		assert(catalog_child_for_index(catalog, dir, names - 1) == i);
		assert(catalog_child_for_name(catalog, dir, child.first_name,
					      child.first_name_len) == i);
	}
}

static void walk_file(const struct catalog *catalog,
		      const struct catalog_entry *entry)
{
	struct catalog_blob blob;

	if (entry->blob == CATALOG_NO_BLOB) {
		assert(entry->type != ENTRY_FILE || entry->size == 0);
		return;
	}
	assert(entry->blob < catalog_blob_count(catalog));
	catalog_get_blob(catalog, entry->blob, &blob);
	assert(entry->size > 0 && entry->blob_offset < blob.size &&
	       entry->size <= blob.size - entry->blob_offset);
}

static void walk_entries(const struct catalog *catalog)
{
	for (uint32_t i = 0; i < catalog_entry_count(catalog); i++) {
		struct catalog_entry entry;

		catalog_get(catalog, i, &entry);
		assert(entry.name_len <= 255 &&
		       (entry.name_len > 0) == (i > 0));
		assert(entry.mode <= 0777 && entry.mtime_ns < 1000000000);
		touch(entry.name, entry.name_len);
		touch(entry.text, entry.text_len);
		touch(entry.label, entry.label_len);
		touch(entry.sha256, entry.sha256 ? 32 : 0);
		walk_xattrs(&entry);
		if (entry.type == ENTRY_DIRECTORY)
			walk_directory(catalog, i, &entry);
		else
			walk_file(catalog, &entry);
	}
}

static void walk_blobs(const struct catalog *catalog)
{
	for (uint32_t i = 0; i < catalog_blob_count(catalog); i++) {
		struct recipe_page *page;
		struct recipe_record records[LIMIT_INLINE_CHUNKS];
		struct catalog_blob blob;

		catalog_get_blob(catalog, i, &blob);
		assert(digest_size(blob.id.type) > 0 && blob.size > 0);
		touch(blob.url, blob.url_len);
		touch(blob.validator, blob.validator_len);
		if (blob.kind != BLOB_INLINE)
			continue;
		assert(blob.inline_count > 0 &&
		       blob.inline_count <= LIMIT_INLINE_CHUNKS);
		for (uint32_t j = 0; j < blob.inline_count; j++)
			catalog_get_inline(catalog, blob.inline_first + j,
					   &records[j]);
		assert(recipe_page_from_records(records, blob.inline_count,
						&page) == 0);
		assert(page->starts[page->count] == blob.size);
		recipe_page_free(page);
	}
}

static void walk_numbers(const struct catalog *catalog)
{
	uint64_t next = catalog_entry_count(catalog);
	uint32_t found;

	assert(catalog_child_for_number(catalog, next - 1, &found) == -ENOENT);
	for (uint32_t i = 0; i < catalog_child_count(catalog); i++) {
		struct catalog_child child;

		catalog_get_child(catalog, i, &child);
		assert(child.base == next && child.span > child.entry_count);
		next += child.span;
		assert(catalog_child_for_number(catalog, child.base, &found) ==
			       0 &&
		       found == i);
		assert(catalog_child_for_number(catalog, next - 1, &found) ==
			       0 &&
		       found == i);
	}
	assert(next == catalog_span(catalog) && next <= LIMIT_ENTRY_NUMBER);
	assert(catalog_child_for_number(catalog, next, &found) == -ENOENT);
}

static struct catalog *open_copy(const void *data, size_t len, struct err *err)
{
	struct catalog *catalog = NULL;
	void *copy = malloc(len + (len == 0));
	int r;

	assert(copy);
	memcpy(copy, data, len);
	r = catalog_open(copy, len, &catalog, err);
	assert((r == 0) == (catalog != NULL));
	return catalog;
}

static void try_catalog(const uint8_t *data, size_t len)
{
	struct err err = {0};
	struct catalog *catalog = open_copy(data, len, &err);

	if (!catalog) {
		assert(err.text[0] != '\0');
		return;
	}
	walk_entries(catalog);
	walk_blobs(catalog);
	walk_numbers(catalog);
	catalog_close(catalog);
}

/* Scripts. */

struct blob_handle {
	struct catalog_blob blob;
	struct recipe_record record;
};

struct script {
	const uint8_t *at, *end;
	struct blob_handle blobs[3];
	VEC(struct catalog *) catalogs;
	VEC(struct digest) digests;
};

static uint8_t take(struct script *script)
{
	return script->at < script->end ? *script->at++ : 0;
}

static int script_blob(void *arg, struct blob_handle *handle,
		       struct catalog_blob *ret,
		       const struct recipe_record **ret_records)
{
	(void)arg;
	*ret = handle->blob;
	*ret_records = &handle->record;
	return 0;
}

static void script_blob_unused(void *arg, struct blob_handle *handle)
{
	(void)arg;
	(void)handle;
}

/* Opens, and every child it refers to came before and is what it says. */
static int script_catalog(void *arg, const struct digest *digest,
			  const void *data, size_t len,
			  struct blob_handle *const *inline_blobs,
			  size_t inline_blob_count)
{
	struct script *script = arg;
	struct err err = {0};
	struct catalog *catalog = open_copy(data, len, &err), **slot;
	struct digest *name;

	assert(catalog);
	walk_entries(catalog);
	walk_blobs(catalog);
	walk_numbers(catalog);
	assert(inline_blob_count ==
	       (inline_blobs ? catalog_inline_count(catalog) : 0));
	for (uint32_t i = 0; i < catalog_child_count(catalog); i++) {
		struct catalog_child child;
		size_t j = 0;

		catalog_get_child(catalog, i, &child);
		while (j < script->digests.count &&
		       !digest_equal(&script->digests.items[j], &child.digest))
			j++;
		assert(j < script->digests.count);
		assert(catalog_check_child(catalog, i,
					   script->catalogs.items[j],
					   &err) == 0);
	}
	slot = vec_push(&script->catalogs);
	name = vec_push(&script->digests);
	assert(slot && name);
	*slot = catalog;
	*name = *digest;
	return 0;
}

static void make_blobs(struct script *script)
{
	struct blob_handle *blobs = script->blobs;

	blobs[0].record =
		(struct recipe_record){.length = 4096, .is_zero = true};
	blobs[0].blob = (struct catalog_blob){
		.kind = BLOB_INLINE, .size = 4096, .inline_count = 1};
	assert(recipe_inline_id(&blobs[0].record, 1, &blobs[0].blob.id) == 0);
	blobs[1].blob = (struct catalog_blob){
		.kind = BLOB_RECIPE, .size = 300, .id.type = DIGEST_SHA256};
	blobs[2].blob = (struct catalog_blob){.kind = BLOB_REFERENCE,
					      .size = 300,
					      .id.type = DIGEST_REFERENCE,
					      .url = "f",
					      .url_len = 1,
					      .validator = ""};
}

static void random_entry(struct script *script, struct catalog_entry *ret)
{
	static const uint8_t xattrs[] = "\x06\0\x01\0\0\0user.kv";
	static char text[4095];
	uint8_t fields = take(script);

	memset(text, 't', sizeof(text));
	ret->mode = (uint16_t)(take(script) * 3);
	ret->mtime_s = (int8_t)take(script);
	ret->size = ret->type == ENTRY_FILE && fields % 4 == 3 ? 0 : fields;
	ret->text = text;
	ret->text_len = fields & 1 ? 5 : 4095;
	ret->has_owner = fields & 2;
	ret->uid = fields;
	if (fields & 4)
		ret->label = "label", ret->label_len = 5;
	if (fields & 8)
		ret->xattrs = xattrs, ret->xattrs_len = sizeof(xattrs) - 1;
	if (fields & 16)
		ret->sha256 = (const uint8_t *)text;
	ret->blob_offset = fields / 8;
}

static int step(struct script *script, struct catalog_writer *writer)
{
	uint8_t what = take(script);
	char name[2] = {(char)take(script), (char)take(script)};
	struct catalog_entry entry = {.name = name,
				      .name_len = what & 8 ? 1 : 2,
				      .type = (uint8_t)(what % 8)};
	int r;

	random_entry(script, &entry);
	if (entry.type == 0 || entry.type > ENTRY_TOMBSTONE)
		r = catalog_writer_leave(writer);
	else if (entry.type == ENTRY_DIRECTORY)
		r = catalog_writer_enter(writer, &entry);
	else
		r = catalog_writer_file(writer, &entry,
					entry.type == ENTRY_FILE && entry.size ?
						&script->blobs[what / 16 % 3] :
						NULL);
	return r;
}

static void try_script(const uint8_t *data, size_t len)
{
	static const struct catalog_writer_ops ops = {
		.blob = script_blob,
		.blob_unused = script_blob_unused,
		.catalog = script_catalog,
	};
	struct script script = {.at = data, .end = data + len};
	struct catalog_params params = catalog_params_defaults;
	struct catalog_entry root = {.name = "", .type = ENTRY_DIRECTORY};
	struct catalog_writer *writer;
	uint64_t bytes, entries, sum;
	struct digest digest;

	make_blobs(&script);
	params.split_min_entries = 1 + take(&script) % 8;
	params.split_mean_entries =
		params.split_min_entries + take(&script) % 8;
	params.split_max_entries =
		params.split_mean_entries + take(&script) % 8;
	writer = catalog_writer_new(&params, &ops, &script);
	assert(writer && catalog_writer_enter(writer, &root) == 0);
	while (script.at < script.end)
		(void)!step(&script, writer);
	while (catalog_writer_leave(writer) == 0)
		;
	assert(catalog_writer_finish(writer, &digest, &bytes, &entries, &sum) ==
	       0);
	catalog_writer_free(writer);
	for (size_t i = 0; i < script.catalogs.count; i++)
		catalog_close(script.catalogs.items[i]);
	vec_release(&script.catalogs);
	vec_release(&script.digests);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len >= 4 && memcmp(data, "LRDC", 4) == 0)
		try_catalog(data, len);
	else if (len <= 4096)
		try_script(data, len);
	return 0;
}
