/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of one catalog.
 *
 * Everything is written in the order of its first use, which is the only
 * order catalog-check.c accepts; strings, owners, labels, xattr sets and blobs
 * (catalog-blobs.c) are kept once.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/catalog-build.h"

/* Life cycle. */

void catalog_build_init(struct catalog_build *build,
			const struct catalog_params *params,
			const struct catalog_writer_ops *ops, void *arg)
{
	*build = (struct catalog_build){
		.params = params, .ops = ops, .arg = arg};
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++)
		buf_init(&build->sections[i], LIMIT_CATALOG_BYTES);
	buf_init(&build->file, LIMIT_CATALOG_BYTES);
	buf_init(&build->key, LIMIT_URL_BYTES + LIMIT_VALIDATOR_BYTES + 64);
}

static void build_clear(struct catalog_build *build)
{
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++)
		buf_clear(&build->sections[i]);
	buf_clear(&build->file);
	interner_clear(&build->strings);
	interner_clear(&build->owners);
	interner_clear(&build->labels);
	interner_clear(&build->xattrs);
	interner_clear(&build->handles);
	interner_clear(&build->blobs);
	build->order.count = 0;
	build->handle_blobs.count = 0;
	build->inline_blobs.count = 0;
	build->children.count = 0;
	build->references.count = 0;
	for (size_t i = 0; i < build->copies.count; i++)
		free(build->copies.items[i]);
	build->copies.count = 0;
	build->numbers = 0;
}

void catalog_build_release(struct catalog_build *build)
{
	build_clear(build);
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++)
		buf_release(&build->sections[i]);
	buf_release(&build->file);
	buf_release(&build->key);
	interner_release(&build->strings);
	interner_release(&build->owners);
	interner_release(&build->labels);
	interner_release(&build->xattrs);
	interner_release(&build->handles);
	interner_release(&build->blobs);
	vec_release(&build->order);
	vec_release(&build->handle_blobs);
	vec_release(&build->inline_blobs);
	vec_release(&build->children);
	vec_release(&build->references);
	vec_release(&build->copies);
}

int catalog_build_record(struct catalog_build *build,
			 enum catalog_section_number section,
			 const uint8_t *record)
{
	return buf_append(&build->sections[section], record,
			  catalog_record_bytes[section]);
}

/* Where the string stands in the section of strings. data outlives the
 * catalog. */
static int add_string(struct catalog_build *build, const void *data,
		      uint32_t len, uint32_t *ret_offset)
{
	uint32_t item;
	int r;

	*ret_offset = 0;
	if (len == 0)
		return 0;
	r = interner_add(&build->strings, data, len, &item);
	if (r < 0)
		return r;
	if (r == 1) {
		struct buf *strings = &build->sections[CATALOG_STRINGS];

		build->strings.items[item].offset = (uint32_t)strings->len;
		r = buf_append(strings, data, len);
		if (r < 0)
			return r;
	}
	*ret_offset = build->strings.items[item].offset;
	return 0;
}

/* Entries. */

/* Numbers the nodes: level by level, each directory's names in one run. */
static int order_nodes(struct catalog_build *build, struct catalog_node *top)
{
	struct catalog_node **slot = vec_push(&build->order);

	if (!slot)
		return -ENOMEM;
	*slot = top;
	top->parent = 0;
	for (size_t i = 0; i < build->order.count; i++) {
		struct catalog_node *node = build->order.items[i]->names;

		for (; node; node = node->next) {
			slot = vec_push(&build->order);
			if (!slot)
				return -ENOMEM;
			*slot = node;
			node->parent = (uint32_t)i;
		}
	}
	build->numbers = build->order.count;
	return 0;
}

static int add_child(struct catalog_build *build, struct catalog_child *child,
		     uint32_t owner)
{
	const struct catalog_child **kept = vec_push(&build->children);
	uint8_t record[CHILD_BYTES] = {0};

	if (!kept)
		return -ENOMEM;
	*kept = child;
	record[CHILD_DIGEST] = child->digest.type;
	memcpy(record + CHILD_DIGEST + 8, child->digest.bytes, DIGEST_BYTES);
	store_le64(record + CHILD_OBJECT_BYTES, child->object_bytes);
	store_le64(record + CHILD_BASE, build->numbers);
	store_le64(record + CHILD_SPAN, child->span);
	store_le64(record + CHILD_ENTRY_COUNT, child->entry_count);
	store_le64(record + CHILD_TOTAL_BYTES, child->total_bytes);
	store_le64(record + CHILD_NAME_START, child->name_start);
	store_le64(record + CHILD_NAME_COUNT, child->name_count);
	store_le32(record + CHILD_OWNER, owner);
	build->numbers += child->span;
	if (build->numbers > LIMIT_ENTRY_NUMBER)
		return -EFBIG;
	return catalog_build_record(build, CATALOG_CHILDREN, record);
}

static int write_directory(struct catalog_build *build,
			   struct catalog_node *node, uint32_t index,
			   uint32_t *next_name, uint8_t *record)
{
	int r = 0;

	store_le64(record + ENTRY_SIZE, node->size);
	store_le64(record + ENTRY_BELOW, node->entries_below);
	store_le32(record + ENTRY_COUNT, node->count);
	if (!node->is_cut) {
		store_le32(record + ENTRY_FIRST, *next_name);
		*next_name += node->count;
		return 0;
	}
	record[ENTRY_FLAGS] |= ENTRY_FLAG_SPLIT;
	store_le32(record + ENTRY_FIRST, (uint32_t)build->children.count);
	for (uint32_t i = 0; r == 0 && i < node->count; i++)
		r = add_child(build, &node->children[i], index);
	return r;
}

static int write_file(struct catalog_build *build, struct catalog_node *node,
		      uint8_t *record)
{
	uint64_t end;
	uint32_t blob;
	int r;

	store_le64(record + ENTRY_SIZE, node->size);
	if (!node->handle)
		return 0;
	r = catalog_build_blob(build, node, &blob);
	if (r < 0)
		return r;
	if (!add_checked(node->blob_offset, node->size, &end) ||
	    end > load_le64(build->sections[CATALOG_BLOBS].data +
			    (size_t)blob * BLOB_BYTES + BLOB_SIZE))
		return -EINVAL;
	store_le64(record + ENTRY_OFFSET, node->blob_offset);
	store_le32(record + ENTRY_BLOB, blob + 1);
	return 0;
}

static int write_text(struct catalog_build *build, struct catalog_node *node,
		      uint8_t *record)
{
	uint32_t offset;
	int r = add_string(build, node->data + node->name_len, node->text_len,
			   &offset);

	store_le64(record + ENTRY_SIZE, node->size);
	store_le32(record + ENTRY_TEXT, offset);
	store_le16(record + ENTRY_TEXT_LEN, node->text_len);
	return r;
}

/* Label, owner, xattrs, digest: fields most entries do not have. */
static int write_rare_fields(struct catalog_build *build,
			     struct catalog_node *node, uint8_t *record)
{
	const uint8_t *label = node->data + node->name_len + node->text_len;
	const uint8_t *xattrs = label + node->label_len;
	uint32_t item;
	int r;

	if (node->label_len > 0) {
		r = interner_add(&build->labels, label, node->label_len, &item);
		if (r < 0)
			return r;
		if (item >= UINT16_MAX)
			return -EFBIG;
		store_le16(record + ENTRY_LABEL, (uint16_t)(item + 1));
	}
	if (node->has_owner) {
		r = interner_add(&build->owners, node->owner, OWNER_BYTES,
				 &item);
		if (r == 1)
			r = catalog_build_record(build, CATALOG_OWNERS,
						 node->owner);
		if (r < 0)
			return r;
		store_le32(record + ENTRY_OWNER, item + 1);
	}
	if (node->xattrs_len > 0) {
		r = interner_add(&build->xattrs, xattrs, node->xattrs_len,
				 &item);
		if (r < 0)
			return r;
		store_le32(record + ENTRY_XATTRS, item + 1);
	}
	if (node->has_sha256) {
		r = catalog_build_record(build, CATALOG_DIGESTS,
			       xattrs + node->xattrs_len);
		if (r < 0)
			return r;
		store_le32(record + ENTRY_SHA256,
			   (uint32_t)(build->sections[CATALOG_DIGESTS].len /
				      DIGEST_BYTES));
	}
	return 0;
}

static int write_entry(struct catalog_build *build, uint32_t index,
		       uint32_t *next_name)
{
	struct catalog_node *node = build->order.items[index];
	uint8_t record[ENTRY_BYTES] = {0};
	uint32_t name;
	int r = add_string(build, node->data, node->name_len, &name);

	if (r < 0)
		return r;
	store_le32(record + ENTRY_NAME, name);
	store_le16(record + ENTRY_NAME_LEN, node->name_len);
	record[ENTRY_TYPE] = node->type;
	store_le16(record + ENTRY_MODE, node->mode);
	store_le32(record + ENTRY_MTIME_NS, node->mtime_ns);
	store_le64(record + ENTRY_MTIME_S, (uint64_t)node->mtime_s);
	store_le32(record + ENTRY_PARENT, node->parent);
	if (node->type == ENTRY_DIRECTORY)
		r = write_directory(build, node, index, next_name, record);
	else if (node->type == ENTRY_FILE)
		r = write_file(build, node, record);
	else
		r = write_text(build, node, record);
	if (r == 0)
		r = write_rare_fields(build, node, record);
	if (r == 0)
		r = catalog_build_record(build, CATALOG_ENTRIES, record);
	return r;
}

static int write_entries(struct catalog_build *build)
{
	uint32_t next_name = 1;

	for (size_t i = 0; i < build->order.count; i++) {
		int r = write_entry(build, (uint32_t)i, &next_name);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Records whose strings come after those of the entries. */

static int write_labels(struct catalog_build *build)
{
	for (size_t i = 0; i < build->labels.count; i++) {
		const struct interned *label = &build->labels.items[i];
		uint8_t record[LABEL_BYTES] = {0};
		uint32_t offset;
		int r = add_string(build, label->data, label->len, &offset);

		store_le32(record + LABEL_TEXT, offset);
		store_le16(record + LABEL_TEXT_LEN, (uint16_t)label->len);
		if (r == 0)
			r = catalog_build_record(build, CATALOG_LABELS, record);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_xattrs(struct catalog_build *build)
{
	for (size_t i = 0; i < build->xattrs.count; i++) {
		const struct interned *set = &build->xattrs.items[i];
		uint8_t record[XATTRS_BYTES] = {0};
		uint32_t offset;
		int r = add_string(build, set->data, set->len, &offset);

		store_le32(record + XATTRS_SET, offset);
		store_le32(record + XATTRS_SET_LEN, set->len);
		if (r == 0)
			r = catalog_build_record(build, CATALOG_XATTRS, record);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_references(struct catalog_build *build)
{
	for (size_t i = 0; i < build->references.count; i++) {
		const struct catalog_blob *blob = &build->references.items[i];
		uint8_t record[REFERENCE_BYTES] = {0};
		uint32_t url, validator;
		int r = add_string(build, blob->url, blob->url_len, &url);

		if (r == 0)
			r = add_string(build, blob->validator,
				       blob->validator_len, &validator);
		if (r < 0)
			return r;
		store_le32(record + REFERENCE_URL, url);
		store_le16(record + REFERENCE_URL_LEN, blob->url_len);
		store_le32(record + REFERENCE_VALIDATOR, validator);
		store_le16(record + REFERENCE_VALIDATOR_LEN,
			   blob->validator_len);
		record[REFERENCE_CONTENT_TYPE] = blob->content.type;
		memcpy(record + REFERENCE_CONTENT, blob->content.bytes,
		       DIGEST_BYTES);
		r = catalog_build_record(build, CATALOG_REFERENCES, record);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_child_names(struct catalog_build *build)
{
	for (size_t i = 0; i < build->children.count; i++) {
		const struct catalog_child *child = build->children.items[i];
		uint32_t offset;
		uint8_t *record;
		int r = add_string(build, child->first_name,
				   child->first_name_len, &offset);

		if (r < 0)
			return r;
		record = build->sections[CATALOG_CHILDREN].data +
			 i * CHILD_BYTES;
		store_le32(record + CHILD_NAME, offset);
		store_le16(record + CHILD_NAME_LEN, child->first_name_len);
	}
	return 0;
}

/* The file. */

static void store_header(const struct catalog_params *params, bool is_part,
			 uint8_t *header)
{
	preamble_store(header, CATALOG_MAGIC);
	if (is_part)
		header[HEADER_MARKS] |= CATALOG_MARK_PART;
	if (params->has_file_digests)
		header[HEADER_MARKS] |= CATALOG_MARK_FILE_DIGESTS;
	store_le16(header + HEADER_SECTION_COUNT, CATALOG_SECTION_COUNT);
	header[HEADER_NORMALISATION] = params->chunker.normalisation;
	store_le32(header + HEADER_CHUNK_MIN, params->chunker.min_bytes);
	store_le32(header + HEADER_CHUNK_AVERAGE,
		   params->chunker.average_bytes);
	store_le32(header + HEADER_CHUNK_MAX, params->chunker.max_bytes);
	store_le32(header + HEADER_SMALL_FILE, params->small_file_bytes);
	store_le32(header + HEADER_SHARED_MIN, params->shared_min_bytes);
	store_le32(header + HEADER_SHARED_MEAN, params->shared_mean_bytes);
	store_le32(header + HEADER_SHARED_MAX, params->shared_max_bytes);
	store_le32(header + HEADER_SPLIT_MIN, params->split_min_entries);
	store_le32(header + HEADER_SPLIT_MEAN, params->split_mean_entries);
	store_le32(header + HEADER_SPLIT_MAX, params->split_max_entries);
}

static int write_file_bytes(struct catalog_build *build, bool is_part)
{
	uint8_t header[HEADER_BYTES + CATALOG_SECTION_COUNT * SECTION_BYTES] = {
		0};
	struct buf *file = &build->file;
	uint64_t end = sizeof(header);
	int r;

	store_header(build->params, is_part, header);
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++) {
		uint8_t *at = header + HEADER_BYTES + i * SECTION_BYTES;

		end = (end + 7) & ~UINT64_C(7);
		store_le64(at, end);
		store_le64(at + 8, build->sections[i].len);
		end += build->sections[i].len;
	}
	if (end > LIMIT_CATALOG_BYTES)
		return -EFBIG;
	r = buf_reserve(file, end);
	if (r == 0)
		r = buf_append(file, header, sizeof(header));
	for (int i = 0; r == 0 && i < CATALOG_SECTION_COUNT; i++) {
		r = buf_append_zeros(file, -file->len & 7);
		if (r == 0)
			r = buf_append(file, build->sections[i].data,
				       build->sections[i].len);
	}
	return r;
}

static int hand_out(struct catalog_build *build, const struct catalog_node *top,
		    struct catalog_child *ret)
{
	digest_sha256(build->file.data, build->file.len, &ret->digest);
	if (digest_is_none(&ret->digest))
		return -EIO;
	ret->object_bytes = build->file.len;
	ret->span = build->numbers;
	ret->entry_count = top->entries_below;
	ret->total_bytes = top->size;
	return build->ops->catalog(build->arg, &ret->digest, build->file.data,
				   build->file.len, build->inline_blobs.items,
				   build->inline_blobs.count);
}

int catalog_build_run(struct catalog_build *build, struct catalog_node *top,
		      bool is_part, struct catalog_child *ret)
{
	static int (*const steps[])(struct catalog_build *) = {
		write_entries,	  write_labels,	     write_xattrs,
		write_references, write_child_names,
	};
	int r;

	assert(top->type == ENTRY_DIRECTORY);
	build_clear(build);
	r = order_nodes(build, top);
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
		r = steps[i](build);
	if (r == 0)
		r = write_file_bytes(build, is_part);
	if (r == 0)
		r = hand_out(build, top, ret);
	build_clear(build);
	return r;
}
