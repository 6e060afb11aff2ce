/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: an entry's bytes as pieces of cache files and of memory.
 *
 * One pass over the chunks of the range. What the cache has becomes a
 * descriptor and an offset, so the bytes need not pass through us; what a
 * flight brought is served from its memory; what is missing makes
 * flights, all of one read as one job, and the call parks. Nothing is copied,
 * except when a file of tiny chunks needs more pieces than a result has.
 *
 * Whether the cache has a chunk is asked each time: it may have been evicted
 * since the flight that brought it.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/read-result.h"
#include "dataset/read.h"
#include "dataset/reference.h"
#include "dataset/snapshot.h"

#define READ_BYTES_MAX (8u << 20)

struct reading {
	struct node *node;
	struct dataset *dataset;
	struct blob *blob;
	struct blob_source source;
	struct waiter *waiter;
	struct read_result *result;
	struct chunk_job *job; /* of what is missing */
	size_t asked;
	uint64_t from_cache, from_flights;
	bool is_waiting, is_full;
	struct err *err;
};

/* ---- chunks */

struct object_key chunk_key(const struct dataset *dataset,
			    const struct digest *digest)
{
	return (struct object_key){
		.kind = OBJECT_CHUNK,
		.digest = *digest,
		.salt = dataset->salt,
	};
}

/* One chunk and the bytes [from, to) of the blob that are wanted of it. */
struct wanted {
	const struct recipe_record *record;
	uint64_t unit, start, from, to;
};

static bool is_cached(const struct reading *reading,
		      const struct wanted *wanted)
{
	struct cache_blob *cached = reading->blob->cached;
	struct waiter *waiter = reading->waiter;

	if (waiter->may_sleep && cache_blob_must_check(cached, wanted->unit))
		waiter->may_sleep(waiter);
	return cache_blob_has(cached, wanted->unit, wanted->start,
			      wanted->record->length) == 1;
}

static int take_zeros(struct reading *reading, const struct wanted *wanted)
{
	struct cache_blob *cached = reading->blob->cached;

	if (cached && !cache_blob_recheck(cached, wanted->unit))
		chunk_give_zeros(reading->node, reading->blob, wanted->unit,
				 wanted->start, wanted->record->length);
	if (reading->is_waiting)
		return 0;
	return read_result_add(reading->result, reading->node->zeros,
			       wanted->to - wanted->from, NULL);
}

/* The file's bytes as memory. 0: they cannot be read, and the unit is
 * forgotten. */
static int take_copy(struct reading *reading, const struct wanted *wanted,
		     int fd, uint64_t fd_offset, size_t len)
{
	int r = read_result_add_copy(reading->result, fd, fd_offset, len);

	if (r == 0)
		cache_blob_drop(reading->blob->cached, wanted->unit,
				wanted->record->length);
	return r;
}

/* From *at on, as far as one file goes. 1, or 0: not to be had. */
static int take_file(struct reading *reading, const struct wanted *wanted,
		     uint64_t *at)
{
	struct cache_blob *cached = reading->blob->cached;
	uint64_t fd_offset, len;
	int fd, r;

	r = cache_blob_fd(cached, *at, &fd, &fd_offset, &len);
	/* Somebody has changed the file: the unit is checked anew. */
	if (r == -EAGAIN && is_cached(reading, wanted))
		r = cache_blob_fd(cached, *at, &fd, &fd_offset, &len);
	if (r < 0 || len == 0)
		return 0;
	if (len > wanted->to - *at)
		len = wanted->to - *at;
	*at += len;
	if (reading->waiter->distrusts_files)
		return take_copy(reading, wanted, fd, fd_offset, len);
	r = read_result_add_file(reading->result, reading->blob, fd, fd_offset,
				 len);
	return r < 0 ? r : 1;
}

/* 1: from the cache; 0: it is not there. */
static int take_cached(struct reading *reading, const struct wanted *wanted)
{
	struct cache_blob *cached = reading->blob->cached;
	size_t before = reading->result->len;
	uint64_t at = wanted->from;

	if (!cached || !is_cached(reading, wanted))
		return 0;
	while (at < wanted->to && !reading->is_waiting) {
		int r = take_file(reading, wanted, &at);

		if (r == 0)
			read_result_cut(reading->result, before);
		if (r <= 0)
			return r;
	}
	reading->from_cache += wanted->to - wanted->from;
	return 1;
}

static int take_new(struct reading *reading, const struct wanted *wanted,
		    struct flight *flight)
{
	chunk_job_add(reading->job, flight_ref(flight), wanted->record,
		      reading->blob, &reading->source, wanted->unit,
		      wanted->start);
	reading->is_waiting = true;
	reading->is_full = reading->job->count == MISSING_MAX;
	return waiter_hold(reading->waiter, flight);
}

static int take_ended(struct reading *reading, const struct wanted *wanted,
		      struct flight *flight)
{
	int r = 0;

	if (flight_state(flight) == FLIGHT_FAILED) {
		r = flight->result;
		*reading->err = flight->err;
	} else if (!flight->plain) {
		/* Just now another process's: look into the cache again. */
		reading->is_waiting = true;
	} else if (!reading->is_waiting) {
		r = read_result_add(reading->result,
				    flight->plain +
					    (wanted->from - wanted->start),
				    wanted->to - wanted->from, flight);
		reading->from_flights += wanted->to - wanted->from;
	}
	/* Kept while the rest is waited for. */
	if (r == 0 && reading->is_waiting)
		return waiter_hold(reading->waiter, flight);
	flight_unref(flight);
	return r;
}

/* What has just come is taken, whatever else would be waited for. */
static int take_landed(struct reading *reading, const struct wanted *wanted,
		       const struct object_key *key)
{
	struct flight *flight = flight_find(reading->node->flights, key);

	if (flight && flight_state(flight) == FLIGHT_DONE)
		return take_ended(reading, wanted, flight);
	flight_unref(flight);
	reading->is_waiting = reading->is_full = true;
	return 0;
}

static int take_missing(struct reading *reading, const struct wanted *wanted)
{
	struct object_key key =
		chunk_key(reading->dataset, &wanted->record->digest);
	struct flight *flight;
	bool is_new;

	if (reading->waiter->is_peek)
		return take_landed(reading, wanted, &key);
	if (!reading->job)
		reading->job = chunk_job_new(reading->dataset, &reading->source,
					     FETCH_DEMAND, MISSING_MAX);
	if (!reading->job)
		return -ENOMEM;
	flight = flight_get(reading->node->flights, &key, &is_new);
	if (!flight)
		return -ENOMEM;
	if (is_new)
		return take_new(reading, wanted, flight);
	if (flight_add_target(flight, reading->blob, wanted->unit,
			      wanted->start) &&
	    flight_state(flight) == FLIGHT_DONE)
		chunk_give_late(flight);
	if (flight_state(flight) != FLIGHT_RUNNING)
		return take_ended(reading, wanted, flight);
	stats_add(reading->node->stats, STAT_FLIGHTS_JOINED, 1);
	chunk_raise(flight);
	reading->is_waiting = true;
	return waiter_hold(reading->waiter, flight);
}

static int take_chunk(struct reading *reading, const struct wanted *wanted)
{
	int r;

	if (wanted->record->is_zero)
		return take_zeros(reading, wanted);
	r = take_cached(reading, wanted);
	if (r != 0)
		return r < 0 ? r : 0;
	return take_missing(reading, wanted);
}

/* The chunks of one page; *at moves on. */
static int take_page(struct reading *reading, const struct recipe_page *page,
		     uint64_t *at, uint64_t end)
{
	uint32_t i = recipe_page_find(page, *at);

	for (; i < page->count && *at < end && !reading->is_full; i++) {
		struct wanted wanted = {
			.record = &page->records[i],
			.unit = page->first_chunk + i,
			.start = page->starts[i],
			.from = *at,
			.to = page->starts[i + 1] < end ? page->starts[i + 1] :
							  end,
		};
		int r = take_chunk(reading, &wanted);

		if (r < 0)
			return r;
		*at = wanted.to;
	}
	return 0;
}

/* Blob bytes [at, end). Flights that were made are started in every case. */
static int take_range(struct reading *reading, uint64_t at, uint64_t end)
{
	int r = 0;

	while (r == 0 && at < end && !reading->is_full) {
		const struct recipe_page *page;
		struct object *held;

		r = blob_page(reading->dataset, reading->blob, at,
			      reading->waiter, &page, &held, reading->err);
		if (r != 0)
			break;
		r = take_page(reading, page, &at, end);
		object_unref(held);
	}
	if (reading->job)
		chunk_job_start(reading->job);
	if (r == 0 && reading->is_waiting)
		r = DATASET_PARKED;
	return r;
}

/* ---- entries */

int file_entry_check(const struct catalog_entry *entry, uint64_t offset,
		     struct err *err)
{
	switch (entry->type) {
	case ENTRY_FILE:
		return offset >= entry->size || entry->blob == CATALOG_NO_BLOB;
	case ENTRY_HOLE:
		return err_set(err, EIO, "its bytes are not there: %.*s",
			       entry->text_len, entry->text);
	case ENTRY_TOMBSTONE:
		return err_set(err, EACCES, "it was withdrawn: %.*s",
			       entry->text_len, entry->text);
	case ENTRY_DIRECTORY:
		return err_set(err, EISDIR, "it is a directory");
	default:
		return err_set(err, EINVAL, "it is no file");
	}
}

static int read_entry(struct snapshot *snapshot, struct reading *reading,
		      uint64_t number, uint64_t offset)
{
	struct catalog_entry entry;
	struct part part;
	uint64_t start, end, file_end;
	int r = part_find(snapshot, number, reading->waiter, &part,
			  reading->err);

	if (r != 0)
		return r;
	catalog_get(part.catalog, part.local, &entry);
	r = file_entry_check(&entry, offset, reading->err);
	if (r == 0)
		r = blob_open(reading->dataset, part.object, entry.blob,
			      reading->waiter, &reading->blob, &reading->source,
			      reading->err);
	else if (r == 1)
		r = 0;
	if (r == 0 && reading->blob)
		r = reference_check(reading->blob, reading->err);
	if (r != 0 || !reading->blob) {
		part_release(&part);
		return r;
	}
	start = entry.blob_offset + offset;
	end = file_end = entry.blob_offset + entry.size;
	if (end - start > reading->asked)
		end = start + reading->asked;
	if (end > reading->blob->bytes) {
		part_release(&part);
		return err_set(reading->err, EIO,
			       "it lies outside of its blob");
	}
	r = take_range(reading, start, end);
	if (r != 0 && reading->waiter->is_peek) {
		part_release(&part);
		return r;
	}
	/* Told of once, not again when what it parked for has come. */
	if (r >= 0 && !reading->waiter->is_noted)
		readahead_after(reading->dataset, reading->blob,
				&reading->source, start, end,
				end == file_end &&
					entry.size < reading->blob->bytes);
	/* It was waited for, so it was fetched. */
	if (r == 0 && reading->waiter->is_noted)
		reference_together(reading->dataset, part.object,
				   reading->blob);
	reading->waiter->is_noted = true;
	part_release(&part);
	return r;
}

static int report(struct snapshot *snapshot, uint64_t number, int r,
		  struct err *err)
{
	char path[160];
	struct err local = {0};

	if (!err)
		err = &local;
	if (r == -EISDIR || r == -EINVAL || r == -ESHUTDOWN)
		return r;
	if (!err->text[0])
		err_set(err, -r, "%s", strerror(-r));
	file_error_note(snapshot, number, err->text);
	entry_path(snapshot, number, path, sizeof(path));
	return err_prefix(err, r, "cannot %s '%s'",
			  r == -EACCES ? "read" : "fetch", path);
}

static void count(const struct reading *reading)
{
	struct stats *stats = reading->node->stats;

	stats_add(stats, STAT_READ_BYTES, reading->result->len);
	if (reading->from_cache)
		stats_add(stats, STAT_READ_CACHE_BYTES, reading->from_cache);
	if (reading->from_flights)
		stats_add(stats, STAT_READ_FETCHED_BYTES,
			  reading->from_flights);
}

int snapshot_peek(struct snapshot *snapshot, uint64_t number, size_t len,
		  struct waiter *waiter, struct read_result *ret)
{
	struct err err = {0};
	struct reading reading = {
		.node = snapshot->dataset->node,
		.dataset = snapshot->dataset,
		.waiter = waiter,
		.result = ret,
		.asked = len,
		.err = &err,
	};

	ret->count = ret->held_count = 0;
	ret->len = 0;
	waiter->is_peek = true;
	int r = read_entry(snapshot, &reading, number, 0);
	waiter->is_peek = false;
	blob_unref(reading.blob);
	if (r == 0) {
		count(&reading);
	} else {
		read_result_release(ret);
		r = -EAGAIN;
	}
	return waiter_end(reading.node, waiter, r, &err);
}

int snapshot_read(struct snapshot *snapshot, uint64_t number, uint64_t offset,
		  size_t len, struct waiter *waiter, struct read_result *ret,
		  struct err *err)
{
	struct node *node = snapshot->dataset->node;
	struct err local = {0};
	struct reading reading = {
		.node = node,
		.dataset = snapshot->dataset,
		.waiter = waiter,
		.result = ret,
		.asked = len < READ_BYTES_MAX ? len : READ_BYTES_MAX,
		.err = err ? err : &local,
	};
	int r;

	ret->count = ret->held_count = 0;
	ret->len = 0;
	reading.err->text[0] = '\0';
	r = waiter_begin(waiter, reading.err);
	if (r == 0) {
		struct reading again = reading;

		r = read_entry(snapshot, &reading, number, offset);
		if (r == -EAGAIN) {
			read_result_failed(ret, waiter);
			blob_unref(reading.blob);
			reading = again;
			r = read_entry(snapshot, &reading, number, offset);
		}
	}
	if (r != 0)
		read_result_release(ret);
	blob_unref(reading.blob);
	r = waiter_end(node, waiter, r, reading.err);
	if (r != DATASET_PARKED)
		waiter->distrusts_files = false;
	if (r == 0) {
		count(&reading);
		file_error_clear(snapshot, number);
	}
	if (r >= 0)
		return r;
	return report(snapshot, number, r, reading.err);
}
