/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blob's chunks, write side.
 *
 * A page leaves the writer when its successor's first record comes, because
 * only then is it known that the root needs pages at all; so memory is one
 * page of records and 40 bytes for each page gone.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/preamble.h"
#include "format/recipe.h"
#include "format/recipe-layout.h"

struct recipe_writer {
	int (*page_done)(void *arg, const struct digest *digest,
			 const void *data, size_t len);
	void *arg;
	struct buf page;    /* the current page object */
	struct buf entries; /* page entries of the pages gone */
	uint32_t page_records;
	uint32_t page_count;
	uint64_t chunk_count;
	uint64_t blob_bytes;
};

bool recipe_record_valid(const struct recipe_record *record)
{
	uint8_t type = record->is_zero ? DIGEST_NONE : DIGEST_SHA256;

	return record->length > 0 && record->length <= LIMIT_CHUNK_BYTES &&
	       record->digest.type == type;
}

struct recipe_writer *
recipe_writer_new(int (*page_done)(void *arg, const struct digest *digest,
				   const void *data, size_t len),
		  void *arg)
{
	struct recipe_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	writer->page_done = page_done;
	writer->arg = arg;
	buf_init(&writer->page,
		 PAGE_BYTES + LIMIT_RECIPE_PAGE_RECORDS * RECORD_BYTES);
	buf_init(&writer->entries, LIMIT_RECIPE_BYTES - ROOT_BYTES);
	return writer;
}

void recipe_writer_free(struct recipe_writer *writer)
{
	if (!writer)
		return;
	buf_release(&writer->page);
	buf_release(&writer->entries);
	free(writer);
}

static int flush_page(struct recipe_writer *writer)
{
	uint8_t entry[PAGE_ENTRY_BYTES];
	struct digest digest;
	int r;

	store_le32(writer->page.data + 8, writer->page_records);
	digest_sha256(writer->page.data, writer->page.len, &digest);
	if (digest_is_none(&digest))
		return -ENOMEM;
	memcpy(entry, digest.bytes, DIGEST_BYTES);
	store_le64(entry + DIGEST_BYTES, writer->blob_bytes);
	r = buf_append(&writer->entries, entry, sizeof(entry));
	if (r < 0)
		return r;
	r = writer->page_done(writer->arg, &digest, writer->page.data,
			      writer->page.len);
	if (r < 0)
		return r;
	buf_clear(&writer->page);
	writer->page_records = 0;
	writer->page_count++;
	return 0;
}

static int start_page(struct recipe_writer *writer)
{
	uint8_t header[PAGE_BYTES] = {0};

	preamble_store(header, RECIPE_PAGE_MAGIC);
	return buf_append(&writer->page, header, sizeof(header));
}

void recipe_record_store(uint8_t *at, const struct recipe_record *record)
{
	memset(at, 0, DIGEST_BYTES);
	if (!record->is_zero)
		memcpy(at, record->digest.bytes, DIGEST_BYTES);
	store_le32(at + DIGEST_BYTES,
		   record->length | (record->is_zero ? RECORD_ZERO_FLAG : 0));
}

int recipe_writer_add(struct recipe_writer *writer,
		      const struct recipe_record *record)
{
	uint8_t stored[RECORD_BYTES];
	int r = 0;

	if (!recipe_record_valid(record))
		return -EINVAL;
	if (writer->blob_bytes + record->length > LIMIT_BLOB_BYTES)
		return -EFBIG;
	if (writer->page_records == LIMIT_RECIPE_PAGE_RECORDS)
		r = flush_page(writer);
	if (r == 0 && writer->page.len == 0)
		r = start_page(writer);
	recipe_record_store(stored, record);
	if (r == 0)
		r = buf_append(&writer->page, stored, sizeof(stored));
	if (r < 0)
		return r;
	writer->page_records++;
	writer->chunk_count++;
	writer->blob_bytes += record->length;
	return 0;
}

static void store_root(uint8_t *root, const struct recipe_writer *writer)
{
	memset(root, 0, ROOT_BYTES);
	preamble_store(root, RECIPE_MAGIC);
	root[8] = DIGEST_SHA256;
	store_le32(root + 12, LIMIT_RECIPE_PAGE_RECORDS);
	store_le64(root + 16, writer->blob_bytes);
	store_le64(root + 24, writer->chunk_count);
	store_le32(root + 32, writer->page_count);
}

int recipe_writer_finish(struct recipe_writer *writer, struct buf *ret_root,
			 struct digest *ret_id)
{
	uint8_t header[ROOT_BYTES];
	const uint8_t *body;
	size_t body_len, before = ret_root->len;
	int r = 0;

	if (writer->chunk_count == 0)
		return -EINVAL;
	if (writer->page_count > 0 && writer->page_records > 0)
		r = flush_page(writer);
	if (r < 0)
		return r;
	body = writer->page_count ? writer->entries.data :
				    writer->page.data + PAGE_BYTES;
	body_len = writer->page_count ? writer->entries.len :
					writer->page.len - PAGE_BYTES;
	store_root(header, writer);
	r = buf_reserve(ret_root, before + ROOT_BYTES + body_len);
	if (r < 0)
		return r;
	buf_append(ret_root, header, ROOT_BYTES);
	buf_append(ret_root, body, body_len);
	digest_sha256(ret_root->data + before, ROOT_BYTES + body_len, ret_id);
	return digest_is_none(ret_id) ? -ENOMEM : 0;
}

DEFINE_CLEANUP(struct recipe_writer *, recipe_writer_free);

int recipe_inline_id(const struct recipe_record *records, uint32_t count,
		     struct digest *ret_id)
{
	_cleanup_(recipe_writer_free_p) struct recipe_writer *writer = NULL;
	struct buf root;
	int r = 0;

	if (count > LIMIT_RECIPE_PAGE_RECORDS)
		return -EINVAL;
	writer = recipe_writer_new(NULL, NULL);
	if (!writer)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && r == 0; i++)
		r = recipe_writer_add(writer, &records[i]);
	if (r < 0)
		return r;
	buf_init(&root, LIMIT_RECIPE_BYTES);
	r = recipe_writer_finish(writer, &root, ret_id);
	buf_release(&root);
	return r;
}
