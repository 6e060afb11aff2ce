/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file's story, as extended attributes: what is stored in the catalog, and
 * user.larder.*, which are made up on each call. Stored attributes of our
 * own prefix are hidden, so a published mount cannot speak for this one.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cache/cache.h"
#include "dataset/hub.h"
#include "dataset/snapshot.h"

#define PREFIX "user.larder."
/* Names: stored ones are limited, ours are few. */
#define LIST_BYTES_MAX (LIMIT_XATTRS_BYTES + 1024)

struct question {
	struct snapshot *snapshot;
	uint64_t number;
	struct part part;
	struct catalog_entry entry;
	struct waiter *waiter;
	struct err *err;
};

/* Bytes of [start, end) of the blob that the cache has, as far as known. */
static int count_cached(struct question *question, struct blob *blob,
			uint64_t start, uint64_t end, uint64_t *ret)
{
	uint64_t sum = 0, at = start;

	while (at < end) {
		const struct recipe_page *page;
		struct object *held;
		uint32_t i;
		int r = blob_page(question->snapshot->dataset, blob, at,
				  question->waiter, &page, &held,
				  question->err);

		if (r != 0)
			return r;
		i = recipe_page_find(page, at);
		for (; i < page->count && at < end; i++) {
			uint64_t to = page->starts[i + 1] < end ?
					      page->starts[i + 1] :
					      end;

			if (page->records[i].is_zero ||
			    cache_blob_recheck(blob->cached,
					       page->first_chunk + i) == 1)
				sum += to - at;
			at = to;
		}
		object_unref(held);
	}
	*ret = sum;
	return 0;
}

/* Only the whole has a digest, and that was not compared yet. */
static bool is_unverified(struct blob *blob)
{
	return blob->url && !cache_blob_is_proven(blob->cached);
}

static int cached_bytes(struct question *question, uint64_t *ret,
			bool *ret_is_unverified)
{
	const struct catalog_entry *entry = &question->entry;
	struct dataset *dataset = question->snapshot->dataset;
	struct blob_source source;
	struct blob *blob;
	int r = 0;

	*ret = 0;
	*ret_is_unverified = false;
	if (entry->blob == CATALOG_NO_BLOB || !dataset->node->cache)
		return 0;
	r = blob_open(dataset, question->part.object, entry->blob,
		      question->waiter, &blob, &source, question->err);
	if (r != 0)
		return r == -ENOTSUP ? 0 : r;
	if (blob->cached && entry->size == blob->bytes)
		*ret = cache_blob_bytes_present(blob->cached);
	else if (blob->cached)
		r = count_cached(question, blob, entry->blob_offset,
				 entry->blob_offset + entry->size, ret);
	if (*ret > entry->size)
		*ret = entry->size;
	if (*ret > 0)
		*ret_is_unverified = is_unverified(blob);
	blob_unref(blob);
	return r;
}

static int get_snapshot(struct question *question, struct buf *ret)
{
	char text[DIGEST_TEXT_MAX];

	return buf_printf(ret, "%s",
			  digest_text(&question->snapshot->digest, text));
}

static int get_sha256(struct question *question, struct buf *ret)
{
	char hex[DIGEST_HEX_MAX];

	if (!question->entry.sha256)
		return -ENODATA;
	hex_encode(question->entry.sha256, DIGEST_BYTES, hex);
	return buf_printf(ret, "%s", hex);
}

static int get_cached(struct question *question, struct buf *ret)
{
	bool is_unverified;
	uint64_t bytes;
	int r = cached_bytes(question, &bytes, &is_unverified);

	return r != 0 ? r : buf_printf(ret, "%" PRIu64, bytes);
}

static int get_source(struct question *question, struct buf *ret)
{
	const struct dataset *dataset = question->snapshot->dataset;
	int r = 0;

	if (dataset->hub)
		return buf_printf(ret, "%s", dataset->hub->source);
	for (unsigned i = 0; i < dataset->mirror_count && r == 0; i++)
		r = buf_printf(ret, "%s%s", i ? ", " : "",
			       origin_name(dataset->mirrors[i].origin));
	return r;
}

static int get_state(struct question *question, struct buf *ret)
{
	const char *state = "partial";
	bool is_unverified;
	uint64_t bytes;
	int r = cached_bytes(question, &bytes, &is_unverified);

	if (r != 0)
		return r;
	if (is_unverified)
		state = "unverified";
	else if (bytes == question->entry.size)
		state = "complete";
	else if (bytes == 0)
		state = "cold";
	return buf_printf(ret, "%s", state);
}

static int get_error(struct question *question, struct buf *ret)
{
	char text[160];

	if (!file_error_read(question->snapshot, question->number, text,
			     sizeof(text)))
		return -ENODATA;
	return buf_printf(ret, "%s", text);
}

static const struct {
	const char *name;
	bool is_of_files; /* only */
	int (*get)(struct question *question, struct buf *ret);
} story[] = {
	{PREFIX "snapshot", false, get_snapshot},
	{PREFIX "source", false, get_source},
	{PREFIX "sha256", true, get_sha256},
	{PREFIX "cached", true, get_cached},
	{PREFIX "state", true, get_state},
	{PREFIX "error", true, get_error},
};
#define STORY_COUNT (sizeof(story) / sizeof(story[0]))

static bool is_there(struct question *question, size_t i)
{
	char text[160];

	if (story[i].is_of_files && question->entry.type != ENTRY_FILE)
		return false;
	if (story[i].get == get_sha256)
		return question->entry.sha256;
	if (story[i].get == get_error)
		return file_error_read(question->snapshot, question->number,
				       text, sizeof(text));
	return true;
}

static int get_story(struct question *question, const char *name,
		     struct buf *ret)
{
	for (size_t i = 0; i < STORY_COUNT; i++)
		if (strcmp(story[i].name, name) == 0)
			return is_there(question, i) ?
				       story[i].get(question, ret) :
				       -ENODATA;
	return -ENODATA;
}

static int get_stored(struct question *question, const char *name,
		      struct buf *ret)
{
	size_t wanted_len = strlen(name);
	uint32_t position = 0, value_len;
	const uint8_t *value;
	const char *stored;
	uint16_t stored_len;

	while (catalog_xattr_next(&question->entry, &position, &stored,
				  &stored_len, &value, &value_len) == 1)
		if (stored_len == wanted_len &&
		    memcmp(stored, name, wanted_len) == 0)
			return buf_append(ret, value, value_len);
	return -ENODATA;
}

static int list_names(struct question *question, const char *unused,
		      struct buf *ret)
{
	uint32_t position = 0, value_len;
	const uint8_t *value;
	const char *stored;
	uint16_t stored_len;
	int r = 0;

	(void)unused;
	while (r == 0 &&
	       catalog_xattr_next(&question->entry, &position, &stored,
				  &stored_len, &value, &value_len) == 1) {
		if (stored_len >= strlen(PREFIX) &&
		    memcmp(stored, PREFIX, strlen(PREFIX)) == 0)
			continue;
		r = buf_append(ret, stored, stored_len);
		if (r == 0)
			r = buf_append(ret, "", 1);
	}
	for (size_t i = 0; i < STORY_COUNT && r == 0; i++)
		if (is_there(question, i))
			r = buf_append(ret, story[i].name,
				       strlen(story[i].name) + 1);
	return r;
}

static int ask(struct snapshot *snapshot, uint64_t number, const char *name,
	       struct waiter *waiter,
	       int (*answer)(struct question *question, const char *name,
			     struct buf *ret),
	       void **ret, size_t *ret_len, struct err *err)
{
	struct question question = {
		.snapshot = snapshot,
		.number = number,
		.waiter = waiter,
		.err = err,
	};
	struct buf text;
	int r = waiter_begin(waiter, err);

	buf_init(&text, LIST_BYTES_MAX);
	if (r == 0)
		r = part_find(snapshot, number, waiter, &question.part, err);
	if (r == 0) {
		catalog_get(question.part.catalog, question.part.local,
			    &question.entry);
		r = answer(&question, name, &text);
		part_release(&question.part);
	}
	if (r == 0) {
		/* A buffer that stayed empty has no memory. */
		r = buf_reserve(&text, text.len + 1);
		if (r == 0)
			*ret = buf_steal(&text, ret_len);
	}
	buf_release(&text);
	r = waiter_end(snapshot->dataset->node, waiter, r, err);
	if (r == -ENODATA)
		err_set(err, ENODATA, "no such attribute");
	return r;
}

int snapshot_xattr_get(struct snapshot *snapshot, uint64_t number,
		       const char *name, struct waiter *waiter, void **ret,
		       size_t *ret_len, struct err *err)
{
	bool is_ours = starts_with(name, PREFIX);

	return ask(snapshot, number, name, waiter,
		   is_ours ? get_story : get_stored, ret, ret_len, err);
}

int snapshot_xattr_list(struct snapshot *snapshot, uint64_t number,
			struct waiter *waiter, char **ret, size_t *ret_len,
			struct err *err)
{
	return ask(snapshot, number, NULL, waiter, list_names, (void **)ret,
		   ret_len, err);
}
