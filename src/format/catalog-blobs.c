/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blobs of a catalog that is being built. They are compared by what they
 * are, not by handle, so the bytes do not depend on whether a publisher noticed
 * that two files are one; each is kept once.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "format/catalog-build.h"
#include "format/recipe-layout.h"

/* A copy that lives until the catalog is done. */
static void *keep_copy(struct catalog_build *build, const void *data,
		       size_t len)
{
	void *copy = malloc(len + 1);
	void **kept;

	if (!copy)
		return NULL;
	if (len > 0)
		memcpy(copy, data, len);
	kept = vec_push(&build->copies);
	if (!kept) {
		free(copy);
		return NULL;
	}
	*kept = copy;
	return copy;
}

static int add_inline(struct catalog_build *build, struct blob_handle *handle,
		      const struct catalog_blob *blob,
		      const struct recipe_record *records, uint8_t *record)
{
	struct blob_handle **inline_blob = vec_push(&build->inline_blobs);
	struct digest id;
	uint64_t sum = 0;
	int r = recipe_inline_id(records, blob->inline_count, &id);

	if (r < 0)
		return r;
	if (!inline_blob)
		return -ENOMEM;
	*inline_blob = handle;
	store_le32(
		record + BLOB_FIRST,
		(uint32_t)(build->sections[CATALOG_INLINE].len / RECORD_BYTES));
	store_le32(record + BLOB_COUNT, blob->inline_count);
	for (uint32_t i = 0; i < blob->inline_count; i++) {
		uint8_t stored[RECORD_BYTES];

		recipe_record_store(stored, &records[i]);
		r = catalog_build_record(build, CATALOG_INLINE, stored);
		if (r < 0)
			return r;
		sum += records[i].length;
	}
	return sum == blob->size && digest_equal(&id, &blob->id) ? 0 : -EINVAL;
}

static int add_reference(struct catalog_build *build,
			 const struct catalog_blob *blob, uint8_t *record)
{
	struct catalog_blob *kept;

	if (!catalog_url_text_valid(blob->url, blob->url_len) ||
	    !catalog_url_text_valid(blob->validator, blob->validator_len))
		return -EINVAL;
	store_le32(record + BLOB_FIRST, (uint32_t)build->references.count);
	kept = vec_push(&build->references);
	if (!kept)
		return -ENOMEM;
	*kept = *blob;
	kept->url = keep_copy(build, blob->url, blob->url_len);
	kept->validator =
		keep_copy(build, blob->validator, blob->validator_len);
	return kept->url && kept->validator ? 0 : -ENOMEM;
}

/* What makes two blobs one: everything but the handle. */
static int make_key(struct catalog_build *build,
		    const struct catalog_blob *blob)
{
	uint8_t fixed[12];
	int r;

	fixed[0] = blob->kind;
	fixed[1] = blob->id.type;
	store_le16(fixed + 2, blob->kind == BLOB_REFERENCE ? blob->url_len : 0);
	store_le64(fixed + 4, blob->size);
	buf_clear(&build->key);
	r = buf_append(&build->key, fixed, sizeof(fixed));
	if (r == 0)
		r = buf_append(&build->key, blob->id.bytes, DIGEST_BYTES);
	if (r == 0 && blob->kind == BLOB_REFERENCE)
		r = buf_append(&build->key, blob->url, blob->url_len);
	if (r == 0 && blob->kind == BLOB_REFERENCE)
		r = buf_append(&build->key, blob->validator,
			       blob->validator_len);
	return r;
}

static int add_blob_record(struct catalog_build *build,
			   struct blob_handle *handle,
			   const struct catalog_blob *blob,
			   const struct recipe_record *records)
{
	uint8_t record[BLOB_BYTES] = {0};
	int r = 0;

	record[BLOB_ID_TYPE] = blob->id.type;
	record[BLOB_KIND] = blob->kind;
	memcpy(record + BLOB_ID, blob->id.bytes, DIGEST_BYTES);
	store_le64(record + BLOB_SIZE, blob->size);
	if (blob->kind == BLOB_REFERENCE)
		r = add_reference(build, blob, record);
	else if (blob->kind == BLOB_INLINE)
		r = add_inline(build, handle, blob, records, record);
	return r < 0 ? r : catalog_build_record(build, CATALOG_BLOBS, record);
}

/* Ask what the handle is and find or make the blob. */
static int add_blob(struct catalog_build *build, struct blob_handle *handle,
		    uint32_t *ret_blob)
{
	const struct recipe_record *records = NULL;
	struct catalog_blob blob = {0};
	int r = build->ops->blob(build->arg, handle, &blob, &records);

	if (r < 0)
		return r;
	if (catalog_blob_fault(&blob) || (blob.kind == BLOB_INLINE && !records))
		return -EINVAL;
	r = make_key(build, &blob);
	if (r < 0)
		return r;
	r = interner_add(&build->blobs, build->key.data,
			 (uint32_t)build->key.len, ret_blob);
	if (r <= 0)
		return r;
	build->blobs.items[*ret_blob].data =
		keep_copy(build, build->key.data, build->key.len);
	if (!build->blobs.items[*ret_blob].data) {
		build->blobs.items[*ret_blob].len = 0;
		return -ENOMEM;
	}
	return add_blob_record(build, handle, &blob, records);
}

int catalog_build_blob(struct catalog_build *build, struct catalog_node *node,
		       uint32_t *ret_blob)
{
	uint32_t item, *blob;
	int r = interner_add(&build->handles, &node->handle,
			     sizeof(node->handle), &item);

	if (r < 0)
		return r;
	if (r == 1) {
		blob = vec_push(&build->handle_blobs);
		if (!blob)
			return -ENOMEM;
		r = add_blob(build, node->handle, ret_blob);
		if (r < 0)
			return r;
		*blob = *ret_blob;
	}
	*ret_blob = build->handle_blobs.items[item];
	return 0;
}
