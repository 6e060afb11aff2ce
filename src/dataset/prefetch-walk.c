/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass of a prefetch over the chunks of its files, in the order of the tree,
 * which is the order of the blobs and, but for what was known before, of the
 * packs.
 *
 * A pass that fetches believes the cache no more than a reader would: what was
 * here before is read and compared with its checksum at its first use in
 * this process. What the pass itself brought is looked at again by the next
 * one, and only a pass that finds nothing missing is the last.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cache/cache.h"
#include "dataset/prefetch.h"
#include "dataset/reference.h"
#include "dataset/snapshot.h"

/* For the last records of a chunk to reach the index. */
#define RECORD_WAIT_MS 10000u
#define FILE_TRIES 3u
#define PROOF_LOOK_MS 20u

/* A file of this pass. */
struct visited {
	struct prefetch *prefetch;
	uint64_t number;
	struct blob *blob;
	struct blob_source source;
	uint64_t start, end; /* in the blob */
	uint64_t here;	     /* bytes of it that are */
	bool is_missing;     /* some are not */
	bool is_final;	     /* what is wrong will not change */
	struct err *err;
};

/* One chunk of it. */
struct looked {
	const struct recipe_record *record;
	uint64_t unit, start;
	uint64_t from, to; /* what of it is the file's */
};

/* Every pass meets it again: counted once. Kept in order; most come so. */
static bool add_failed(struct prefetch *prefetch, uint64_t number)
{
	size_t low = 0, high = prefetch->failed.count;
	uint64_t *items = prefetch->failed.items;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (items[middle] == number)
			return false;
		if (items[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (!vec_push(&prefetch->failed))
		return false;
	items = prefetch->failed.items;
	memmove(&items[low + 1], &items[low],
		(prefetch->failed.count - 1 - low) * sizeof(*items));
	items[low] = number;
	return true;
}

void prefetch_file_failed(struct prefetch *prefetch, uint64_t number,
			  const char *reason)
{
	unsigned i;

	if (!add_failed(prefetch, number))
		return;
	scoped_lock(&prefetch->lock);
	prefetch->info.files_failed++;
	i = prefetch->failure_count;
	if (i == FAILURES_TOLD)
		return;
	prefetch->failures[i].number = number;
	snprintf(prefetch->failures[i].reason,
		 sizeof(prefetch->failures[i].reason), "%s", reason);
	entry_path(prefetch->snapshot, number, prefetch->failures[i].path,
		   sizeof(prefetch->failures[i].path));
	prefetch->failure_count++;
}

static bool is_bad(const struct prefetch *prefetch, const struct digest *chunk)
{
	for (size_t i = 0; i < prefetch->bad.count; i++)
		if (digest_equal(&prefetch->bad.items[i], chunk))
			return true;
	return false;
}

/* It landed and is on its way into the index: not here yet. */
static bool is_recorded(struct prefetch *prefetch,
			const struct recipe_record *record)
{
	struct object_key key = chunk_key(prefetch->dataset, &record->digest);
	uint64_t until = now_ms() + RECORD_WAIT_MS;

	while (flight_awaits_record(prefetch->node->flights, &key)) {
		if (now_ms() >= until || prefetch_stopped(prefetch, NULL) < 0)
			return false;
		prefetch_sleep(prefetch, 20);
	}
	return true;
}

/* Zeros are stored as a hole that the index knows. */
static bool put_zeros(struct cache_blob *cached, const struct looked *looked)
{
	return cache_blob_put(cached, looked->unit, looked->start, NULL,
			      looked->record->length, NULL, NULL) == 0;
}

static bool look(struct visited *file, const struct looked *looked)
{
	struct prefetch *prefetch = file->prefetch;
	struct cache_blob *cached = file->blob->cached;
	uint32_t length = looked->record->length;

	if (!cached)
		return false;
	if (prefetch->is_counting)
		return looked->record->is_zero ||
		       cache_blob_recheck(cached, looked->unit) == 1;
	if (cache_blob_has(cached, looked->unit, looked->start, length) != 1)
		return looked->record->is_zero && put_zeros(cached, looked);
	return is_recorded(prefetch, looked->record);
}

static bool is_here(struct visited *file, const struct looked *looked)
{
	struct prefetch *prefetch = file->prefetch;

	if (prefetch->last_unit == looked->unit + 1 &&
	    digest_equal(&prefetch->last_blob, &file->blob->id))
		return prefetch->last_is_here;
	prefetch->last_is_here = look(file, looked);
	prefetch->last_unit = looked->unit + 1;
	prefetch->last_blob = file->blob->id;
	return prefetch->last_is_here;
}

static int visit_chunk(struct visited *file, const struct looked *looked)
{
	struct prefetch *prefetch = file->prefetch;
	const struct batch_chunk chunk = {
		.blob = file->blob,
		.source = &file->source,
		.record = looked->record,
		.unit = looked->unit,
		.start = looked->start,
		.number = file->number,
		.bytes = looked->to - looked->from,
		.files = looked->to == file->end,
	};

	if (is_here(file, looked)) {
		/* Reading what is here takes its time too. */
		if (prefetch->info.state == PREFETCH_FETCHING)
			prefetch->last_bytes_ms = now_ms();
		file->here += chunk.bytes;
		return 0;
	}
	if (is_bad(prefetch, &looked->record->digest)) {
		file->is_missing = true;
		return 0;
	}
	prefetch->missing++;
	file->is_missing = true;
	if (prefetch->is_counting)
		return 0;
	if (!file->blob->cached)
		return err_set(file->err, EIO,
			       "the cache has no place for this file");
	return batch_add(prefetch, &chunk, file->err);
}

/* -EBADMSG and the like: the next pass finds what was dropped. */
static int proof_failed(struct visited *file, int r)
{
	struct prefetch *prefetch = file->prefetch;

	prefetch->missing++;
	if (++prefetch->proof_failures < PROOF_FAILURES_MAX)
		return 0;
	file->is_final = true;
	return err_set(file->err, EIO, "it cannot be compared with its digest: %s",
		       strerror(-r));
}

static int wait_proof(struct visited *file)
{
	struct prefetch *prefetch = file->prefetch;
	struct cache_blob *cached = file->blob->cached;
	struct cache_usage usage;
	int r;

	while ((r = cache_blob_prove(cached)) == 0) {
		r = prefetch_stopped(prefetch, file->err);
		if (r < 0)
			return r;
		cache_usage(prefetch->node->cache, &usage);
		if (!usage.records || !cache_blob_complete(cached))
			return proof_failed(file, -ENODATA);
		prefetch_say(prefetch, "files are compared with their digests");
		prefetch_sleep(prefetch, PROOF_LOOK_MS);
	}
	prefetch->last_bytes_ms = now_ms();
	return r < 0 ? proof_failed(file, r) : 0;
}

/* Ends a try of what may park; true: it did, and was waited for. */
static bool must_try_again(struct prefetch *prefetch, struct err *err, int *r)
{
	*r = waiter_end(prefetch->node, blocking_waiter_get(prefetch->waiter),
			*r, err);
	if (*r != DATASET_PARKED)
		return false;
	waiter_block(prefetch->waiter);
	return true;
}

static int wait_page(struct visited *file, uint64_t at,
		     const struct recipe_page **ret, struct object **ret_held)
{
	struct prefetch *prefetch = file->prefetch;
	struct waiter *waiter = blocking_waiter_get(prefetch->waiter);
	int r;

	do {
		r = waiter_begin(waiter, file->err);
		if (r == 0)
			r = blob_page(prefetch->dataset, file->blob, at, waiter,
				      ret, ret_held, file->err);
	} while (must_try_again(prefetch, file->err, &r));
	return r;
}

static int visit_range(struct visited *file)
{
	uint64_t at = file->start;
	int r = 0;

	while (r == 0 && at < file->end) {
		const struct recipe_page *page;
		struct object *held;
		uint32_t i;

		r = wait_page(file, at, &page, &held);
		if (r < 0)
			break;
		i = recipe_page_find(page, at);
		for (; r == 0 && i < page->count && at < file->end; i++) {
			const struct looked looked = {
				.record = &page->records[i],
				.unit = page->first_chunk + i,
				.start = page->starts[i],
				.from = at,
				.to = page->starts[i + 1] < file->end ?
					      page->starts[i + 1] :
					      file->end,
			};

			r = visit_chunk(file, &looked);
			at = looked.to;
		}
		object_unref(held);
	}
	return r;
}

/* Where it lies; its blob stays NULL if it has no bytes. */
static int find_blob(struct visited *file, struct waiter *waiter)
{
	struct prefetch *prefetch = file->prefetch;
	struct catalog_entry entry;
	struct part part;
	int r = part_find(prefetch->snapshot, file->number, waiter, &part,
			  file->err);

	if (r != 0)
		return r;
	catalog_get(part.catalog, part.local, &entry);
	r = file_entry_check(&entry, 0, file->err);
	file->is_final = r < 0;
	file->start = entry.blob_offset;
	file->end = entry.blob_offset + entry.size;
	if (r == 0)
		r = blob_open(prefetch->dataset, part.object, entry.blob,
			      waiter, &file->blob, &file->source, file->err);
	else if (r > 0)
		r = 0; /* empty */
	part_release(&part);
	return r;
}

static int wait_blob(struct visited *file)
{
	struct prefetch *prefetch = file->prefetch;
	struct waiter *waiter = blocking_waiter_get(prefetch->waiter);
	int r;

	do {
		r = waiter_begin(waiter, file->err);
		if (r == 0)
			r = find_blob(file, waiter);
	} while (must_try_again(prefetch, file->err, &r));
	file->is_final |= r == -ENOTSUP || waiter->class == FETCH_ABSENT;
	if (r == 0 && file->blob) {
		r = reference_check(file->blob, file->err);
		file->is_final |= r < 0;
	}
	if (r < 0 || !file->blob || file->end <= file->blob->bytes)
		return r;
	file->is_final = true;
	return err_set(file->err, EIO, "it lies outside of its blob");
}

static void count_file(struct visited *file)
{
	struct prefetch *prefetch = file->prefetch;

	prefetch->here_bytes += file->here;
	prefetch->here_files += !file->is_missing;
	if (!prefetch->is_counting)
		return;
	scoped_lock(&prefetch->lock);
	prefetch->info.bytes_done = prefetch->here_bytes;
	prefetch->info.files_done = prefetch->here_files;
}

/* What ends the whole prefetch rather than this file. */
static bool is_fatal(int r)
{
	return r == -ESHUTDOWN || r == -ECANCELED || r == -ENOSPC ||
	       r == -ENOMEM;
}

static int visit_once(struct visited *file)
{
	struct prefetch *prefetch = file->prefetch;
	int r = prefetch_stopped(prefetch, file->err);

	file->here = 0;
	file->is_missing = false;
	if (r == 0)
		r = wait_blob(file);
	if (r == 0 && file->blob && prefetch->is_proving)
		r = file->blob->url ? wait_proof(file) : 0;
	else if (r == 0 && file->blob)
		r = visit_range(file);
	if (r == 0)
		count_file(file);
	blob_unref(file->blob);
	file->blob = NULL;
	return r;
}

/* Catalogs and recipes that cannot be had just now are tried a few times on
 * the spot, and again by the next pass. */
static int visit_file(struct prefetch *prefetch, uint64_t number,
		      struct err *err)
{
	struct visited file = {
		.prefetch = prefetch,
		.number = number,
		.err = err,
	};
	int r = visit_once(&file);

	for (uint32_t round = 0; r < 0 && round < FILE_TRIES; round++) {
		if (is_fatal(r))
			return r;
		if (file.is_final) {
			prefetch_file_failed(prefetch, number, err->text);
			return 0;
		}
		if (prefetch->options.is_dry_run)
			break;
		prefetch_say(prefetch, err->text);
		prefetch_sleep(prefetch, retry_delay_ms(round, 0, now_ns()));
		r = visit_once(&file);
	}
	prefetch->missing += r < 0;
	return is_fatal(r) ? r : 0;
}

int prefetch_pass(struct prefetch *prefetch, struct err *err)
{
	int r = 0;

	prefetch->missing = prefetch->here_bytes = prefetch->here_files = 0;
	prefetch->last_unit = 0;
	for (size_t i = 0; r == 0 && i < prefetch->runs.count; i++) {
		const struct number_run *run = &prefetch->runs.items[i];

		for (uint64_t n = 0; r == 0 && n < run->count; n++)
			r = visit_file(prefetch, run->first + n, err);
	}
	batches_finish(prefetch);
	return r < 0 ? r : prefetch_stopped(prefetch, err);
}
