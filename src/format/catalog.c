/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a catalog: look-up, listing, and which child holds what.
 *
 * Records are decoded at each access instead of once at opening: a catalog
 * in memory is then its bytes and nothing else, and opening one costs one
 * pass of checks (catalog-check.c) and no allocation that a lying count could
 * blow up. Loading children is the caller's business.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/catalog-layout.h"
#include "format/catalog.h"
#include "format/recipe-layout.h"

const struct catalog_params catalog_params_defaults = {
	.chunker = {.min_bytes = 256u << 10,
		    .average_bytes = 1u << 20,
		    .max_bytes = 4u << 20,
		    .normalisation = 2},
	.small_file_bytes = 128u << 10,
	.shared_min_bytes = 8u << 20,
	.shared_mean_bytes = 24u << 20,
	.shared_max_bytes = 64u << 20,
	.split_min_entries = 16384,
	.split_mean_entries = 32768,
	.split_max_entries = 65536,
};

int catalog_open(void *data, size_t len, struct catalog **ret, struct err *err)
{
	struct catalog *catalog = calloc(1, sizeof(*catalog));
	int r;

	if (!catalog) {
		free(data);
		return err_set(err, ENOMEM, "out of memory");
	}
	catalog->data = data;
	catalog->len = len;
	r = catalog_check(catalog, err);
	if (r < 0) {
		catalog_close(catalog);
		return r;
	}
	*ret = catalog;
	return 0;
}

void catalog_close(struct catalog *catalog)
{
	if (!catalog)
		return;
	free(catalog->data);
	free(catalog);
}

size_t catalog_memory(const struct catalog *catalog)
{
	return sizeof(*catalog) + catalog->len;
}

const struct catalog_params *catalog_params(const struct catalog *catalog)
{
	return &catalog->params;
}

bool catalog_is_part(const struct catalog *catalog)
{
	return catalog->is_part;
}

uint32_t catalog_entry_count(const struct catalog *catalog)
{
	return catalog->sections[CATALOG_ENTRIES].count;
}

uint64_t catalog_span(const struct catalog *catalog)
{
	return catalog->span;
}

uint64_t catalog_total_entries(const struct catalog *catalog)
{
	return load_le64(catalog_record(catalog, CATALOG_ENTRIES, 0) +
			 ENTRY_BELOW);
}

uint64_t catalog_total_bytes(const struct catalog *catalog)
{
	return load_le64(catalog_record(catalog, CATALOG_ENTRIES, 0) +
			 ENTRY_SIZE);
}

uint32_t catalog_child_count(const struct catalog *catalog)
{
	return catalog->sections[CATALOG_CHILDREN].count;
}

uint32_t catalog_blob_count(const struct catalog *catalog)
{
	return catalog->sections[CATALOG_BLOBS].count;
}

uint32_t catalog_inline_count(const struct catalog *catalog)
{
	return catalog->sections[CATALOG_INLINE].count;
}

static void get_rare_fields(const struct catalog *catalog,
			    const uint8_t *record, struct catalog_entry *ret)
{
	uint32_t label = load_le16(record + ENTRY_LABEL);
	uint32_t owner = load_le32(record + ENTRY_OWNER);
	uint32_t xattrs = load_le32(record + ENTRY_XATTRS);

	if (label > 0) {
		const uint8_t *at =
			catalog_record(catalog, CATALOG_LABELS, label - 1);

		ret->label =
			catalog_string(catalog, load_le32(at + LABEL_TEXT));
		ret->label_len = load_le16(at + LABEL_TEXT_LEN);
	}
	if (owner > 0) {
		const uint8_t *at =
			catalog_record(catalog, CATALOG_OWNERS, owner - 1);

		ret->has_owner = true;
		ret->uid = load_le32(at + OWNER_UID);
		ret->gid = load_le32(at + OWNER_GID);
	}
	if (xattrs > 0) {
		const uint8_t *at =
			catalog_record(catalog, CATALOG_XATTRS, xattrs - 1);

		ret->xattrs = (const uint8_t *)catalog_string(
			catalog, load_le32(at + XATTRS_SET));
		ret->xattrs_len = load_le32(at + XATTRS_SET_LEN);
	}
}

static void get_directory(const uint8_t *record, struct catalog_entry *ret)
{
	if (record[ENTRY_FLAGS] & ENTRY_FLAG_SPLIT) {
		ret->first_child = load_le32(record + ENTRY_FIRST);
		ret->child_count = load_le32(record + ENTRY_COUNT);
	} else {
		ret->first = load_le32(record + ENTRY_FIRST);
		ret->count = load_le32(record + ENTRY_COUNT);
	}
	ret->bytes_below = load_le64(record + ENTRY_SIZE);
	ret->entries_below = load_le64(record + ENTRY_BELOW);
}

static void get_content(const struct catalog *catalog, const uint8_t *record,
			struct catalog_entry *ret)
{
	uint32_t sha256 = load_le32(record + ENTRY_SHA256);

	ret->size = load_le64(record + ENTRY_SIZE);
	if (ret->type == ENTRY_FILE) {
		ret->blob = load_le32(record + ENTRY_BLOB) - 1;
		ret->blob_offset = load_le64(record + ENTRY_OFFSET);
	} else {
		ret->text =
			catalog_string(catalog, load_le32(record + ENTRY_TEXT));
		ret->text_len = load_le16(record + ENTRY_TEXT_LEN);
	}
	if (sha256 > 0)
		ret->sha256 =
			catalog_record(catalog, CATALOG_DIGESTS, sha256 - 1);
}

void catalog_get(const struct catalog *catalog, uint32_t index,
		 struct catalog_entry *ret)
{
	const uint8_t *record = catalog_record(catalog, CATALOG_ENTRIES, index);

	assert(index < catalog_entry_count(catalog));
	*ret = (struct catalog_entry){
		.name = catalog_string(catalog, load_le32(record + ENTRY_NAME)),
		.name_len = load_le16(record + ENTRY_NAME_LEN),
		.type = record[ENTRY_TYPE],
		.mode = load_le16(record + ENTRY_MODE),
		.mtime_s = (int64_t)load_le64(record + ENTRY_MTIME_S),
		.mtime_ns = load_le32(record + ENTRY_MTIME_NS),
		.blob = CATALOG_NO_BLOB,
		.parent = load_le32(record + ENTRY_PARENT),
	};
	get_rare_fields(catalog, record, ret);
	if (ret->type == ENTRY_DIRECTORY)
		get_directory(record, ret);
	else
		get_content(catalog, record, ret);
}

void catalog_get_child(const struct catalog *catalog, uint32_t index,
		       struct catalog_child *ret)
{
	const uint8_t *record =
		catalog_record(catalog, CATALOG_CHILDREN, index);

	assert(index < catalog_child_count(catalog));
	*ret = (struct catalog_child){
		.digest.type = record[CHILD_DIGEST],
		.object_bytes = load_le64(record + CHILD_OBJECT_BYTES),
		.base = load_le64(record + CHILD_BASE),
		.span = load_le64(record + CHILD_SPAN),
		.entry_count = load_le64(record + CHILD_ENTRY_COUNT),
		.total_bytes = load_le64(record + CHILD_TOTAL_BYTES),
		.owner = load_le32(record + CHILD_OWNER),
		.name_start = load_le64(record + CHILD_NAME_START),
		.name_count = load_le64(record + CHILD_NAME_COUNT),
		.first_name =
			catalog_string(catalog, load_le32(record + CHILD_NAME)),
		.first_name_len = load_le16(record + CHILD_NAME_LEN),
	};
	memcpy(ret->digest.bytes, record + CHILD_DIGEST + 8, DIGEST_BYTES);
}

static void get_reference(const struct catalog *catalog, uint32_t index,
			  struct catalog_blob *ret)
{
	const uint8_t *record =
		catalog_record(catalog, CATALOG_REFERENCES, index);

	ret->url = catalog_string(catalog, load_le32(record + REFERENCE_URL));
	ret->url_len = load_le16(record + REFERENCE_URL_LEN);
	ret->validator = catalog_string(
		catalog, load_le32(record + REFERENCE_VALIDATOR));
	ret->validator_len = load_le16(record + REFERENCE_VALIDATOR_LEN);
	ret->content.type = record[REFERENCE_CONTENT_TYPE];
	memcpy(ret->content.bytes, record + REFERENCE_CONTENT, DIGEST_BYTES);
}

void catalog_get_blob(const struct catalog *catalog, uint32_t index,
		      struct catalog_blob *ret)
{
	const uint8_t *record = catalog_record(catalog, CATALOG_BLOBS, index);

	assert(index < catalog_blob_count(catalog));
	*ret = (struct catalog_blob){
		.id.type = record[BLOB_ID_TYPE],
		.kind = record[BLOB_KIND],
		.size = load_le64(record + BLOB_SIZE),
	};
	memcpy(ret->id.bytes, record + BLOB_ID, DIGEST_BYTES);
	if (ret->kind == BLOB_INLINE) {
		ret->inline_first = load_le32(record + BLOB_FIRST);
		ret->inline_count = load_le32(record + BLOB_COUNT);
	} else if (ret->kind == BLOB_REFERENCE) {
		get_reference(catalog, load_le32(record + BLOB_FIRST), ret);
	}
}

void catalog_get_inline(const struct catalog *catalog, uint32_t index,
			struct recipe_record *ret)
{
	assert(index < catalog_inline_count(catalog));
	recipe_record_load(catalog_record(catalog, CATALOG_INLINE, index), ret);
}

int catalog_name_compare(const char *a, size_t a_len, const char *b,
			 size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_to_record(const struct catalog *catalog, const char *name,
			     size_t name_len, const uint8_t *name_field)
{
	/* Offset and length of a name stand together in every record. */
	return catalog_name_compare(
		name, name_len, catalog_string(catalog, load_le32(name_field)),
		load_le16(name_field + 4));
}

int catalog_find(const struct catalog *catalog, uint32_t first, uint32_t count,
		 const char *name, size_t name_len, uint32_t *ret_index)
{
	uint32_t low = first, high = first + count;

	assert(first <= catalog_entry_count(catalog) &&
	       count <= catalog_entry_count(catalog) - first);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const uint8_t *record =
			catalog_record(catalog, CATALOG_ENTRIES, middle);
		int order = compare_to_record(catalog, name, name_len,
					      record + ENTRY_NAME);

		if (order == 0) {
			*ret_index = middle;
			return 0;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -ENOENT;
}

uint32_t catalog_child_for_name(const struct catalog *catalog,
				const struct catalog_entry *dir,
				const char *name, size_t name_len)
{
	uint32_t low = dir->first_child, high = low + dir->child_count;

	assert(dir->child_count > 0);
	/* The last child that starts at or before the name, else the first. */
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		const uint8_t *record =
			catalog_record(catalog, CATALOG_CHILDREN, middle);

		if (compare_to_record(catalog, name, name_len,
				      record + CHILD_NAME) < 0)
			high = middle;
		else
			low = middle;
	}
	return low;
}

/* The last of children [low, high) whose u64 at field is at most value. */
static uint32_t last_child_at(const struct catalog *catalog, uint32_t low,
			      uint32_t high, size_t field, uint64_t value)
{
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		const uint8_t *record =
			catalog_record(catalog, CATALOG_CHILDREN, middle);

		if (value < load_le64(record + field))
			high = middle;
		else
			low = middle;
	}
	return low;
}

uint32_t catalog_child_for_index(const struct catalog *catalog,
				 const struct catalog_entry *dir,
				 uint64_t name_index)
{
	assert(dir->child_count > 0);
	return last_child_at(catalog, dir->first_child,
			     dir->first_child + dir->child_count,
			     CHILD_NAME_START, name_index);
}

int catalog_child_for_number(const struct catalog *catalog, uint64_t number,
			     uint32_t *ret_child)
{
	if (number < catalog_entry_count(catalog) || number >= catalog->span)
		return -ENOENT;
	*ret_child = last_child_at(catalog, 0, catalog_child_count(catalog),
				   CHILD_BASE, number);
	return 0;
}

static bool name_range_fits(const struct catalog *parent, uint32_t index,
			    const struct catalog *child)
{
	uint32_t last = catalog_entry_count(child);
	struct catalog_child ref, next;
	struct catalog_entry entry;

	catalog_get_child(parent, index, &ref);
	catalog_get(child, 0, &entry);
	if (entry.count == 0 || entry.count != ref.name_count)
		return false;
	last = entry.first + entry.count - 1;
	catalog_get(child, entry.first, &entry);
	if (catalog_name_compare(entry.name, entry.name_len, ref.first_name,
				 ref.first_name_len) != 0)
		return false;
	if (index + 1 == catalog_child_count(parent))
		return true;
	catalog_get_child(parent, index + 1, &next);
	if (next.owner != ref.owner)
		return true;
	catalog_get(child, last, &entry);
	return catalog_name_compare(entry.name, entry.name_len, next.first_name,
				    next.first_name_len) < 0;
}

int catalog_check_child(const struct catalog *parent, uint32_t index,
			const struct catalog *child, struct err *err)
{
	struct catalog_child ref;
	const char *fault = NULL;

	catalog_get_child(parent, index, &ref);
	if (!child->is_part)
		fault = "it is a snapshot's root";
	else if (child->len != ref.object_bytes)
		fault = "its size differs";
	else if (child->span != ref.span)
		fault = "it owns other entry numbers";
	else if (catalog_total_entries(child) != ref.entry_count ||
		 catalog_total_bytes(child) != ref.total_bytes)
		fault = "its totals differ";
	else if (memcmp(child->data + HEADER_CHUNK_MIN,
			parent->data + HEADER_CHUNK_MIN,
			HEADER_BYTES - HEADER_CHUNK_MIN) != 0)
		fault = "its parameters differ";
	else if (!name_range_fits(parent, index, child))
		fault = "it holds other names";
	if (fault)
		return err_set(
			err, EBADMSG,
			"bad catalog: child %u is not what its parent says: %s",
			index, fault);
	return 0;
}

int catalog_xattr_next(const struct catalog_entry *entry, uint32_t *position,
		       const char **ret_name, uint16_t *ret_name_len,
		       const uint8_t **ret_value, uint32_t *ret_value_len)
{
	const uint8_t *at;

	if (*position >= entry->xattrs_len)
		return 0;
	at = entry->xattrs + *position;
	*ret_name_len = load_le16(at + XATTR_NAME_LEN);
	*ret_value_len = load_le32(at + XATTR_VALUE_LEN);
	*ret_name = (const char *)at + XATTR_HEAD_BYTES;
	*ret_value = at + XATTR_HEAD_BYTES + *ret_name_len;
	*position += XATTR_HEAD_BYTES + *ret_name_len + *ret_value_len;
	return 1;
}
