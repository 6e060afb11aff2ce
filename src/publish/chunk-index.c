/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which chunks a mirror has.
 *
 * Records stand in one array in the order they became known, so a record's
 * number is a name for the chunk for the whole run (4 bytes, and
 * places can be worked out after the packs are closed). An open-addressing
 * table of numbers finds them by the first eight bytes of the digest; equal
 * first bytes of different chunks are possible and only cost a look.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "publish/chunk-index.h"
#include "publish/mirror-store.h"
#include "publish/pack-tables.h"
#include "publish/parallel.h"

#define PACK_PENDING UINT32_MAX /* claimed, not yet in a pack */
#define FIRST_SLOTS 1024u

struct record {
	uint64_t tag; /* first bytes of the digest */
	uint32_t pack;
	uint32_t position; /* in the pack's table */
};

/* A chunk between claim and stored: its whole digest. */
struct pending {
	struct digest digest;
	uint32_t record;
};

struct chunk_index {
	struct pack_tables *tables;
	pthread_mutex_t mutex; /* guards what follows */
	VEC(struct record) records;
	VEC(struct pending) pending; /* few: the chunks in flight */
	uint32_t *slots;	     /* record + 1, or 0 */
	size_t slot_count;	     /* a power of two */
};

struct chunk_index *chunk_index_new(struct pack_tables *tables)
{
	struct chunk_index *index = calloc(1, sizeof(*index));

	if (!index)
		return NULL;
	index->tables = tables;
	pthread_mutex_init(&index->mutex, NULL);
	return index;
}

void chunk_index_free(struct chunk_index *index)
{
	if (!index)
		return;
	vec_release(&index->records);
	vec_release(&index->pending);
	free(index->slots);
	pthread_mutex_destroy(&index->mutex);
	free(index);
}

static void put_slot(struct chunk_index *index, uint32_t record)
{
	size_t mask = index->slot_count - 1;
	size_t at = index->records.items[record].tag & mask;

	while (index->slots[at])
		at = (at + 1) & mask;
	index->slots[at] = record + 1;
}

/* At most three quarters of the slots are used. */
static int make_slots(struct chunk_index *index, size_t records)
{
	size_t wanted = index->slot_count ? index->slot_count : FIRST_SLOTS;

	while (records > wanted / 4 * 3)
		wanted *= 2;
	if (wanted == index->slot_count)
		return 0;
	free(index->slots);
	index->slot_count = 0;
	index->slots = calloc(wanted, sizeof(*index->slots));
	if (!index->slots)
		return -ENOMEM;
	index->slot_count = wanted;
	for (size_t i = 0; i < index->records.count; i++)
		put_slot(index, (uint32_t)i);
	return 0;
}

static int add_record(struct chunk_index *index, const struct digest *digest,
		      uint32_t pack, uint32_t position, uint32_t *ret)
{
	struct record *record;
	int r;

	if (index->records.count >= CHUNK_NONE - 1)
		return -ENOMEM;
	r = make_slots(index, index->records.count + 1);
	if (r < 0)
		return r;
	record = vec_push(&index->records);
	if (!record)
		return -ENOMEM;
	record->tag = load_le64(digest->bytes);
	record->pack = pack;
	record->position = position;
	*ret = (uint32_t)(index->records.count - 1);
	put_slot(index, *ret);
	return 0;
}

int chunk_index_add_pack(struct chunk_index *index, const struct digest *id,
			 uint64_t size, const struct pack_record *records,
			 uint32_t count)
{
	int64_t pack = pack_tables_add_stored(index->tables, id, size);
	uint32_t number;
	int r = 0;

	if (pack < 0)
		return (int)pack;
	scoped_lock(&index->mutex);
	for (uint32_t i = 0; i < count && r == 0; i++)
		r = add_record(index, &records[i].digest, (uint32_t)pack, i,
			       &number);
	return r;
}

struct load {
	struct chunk_index *index;
	const struct mirror *mirror;
	const struct stored_files *packs;
	uint64_t damaged;
};

static int load_pack(void *arg, size_t i, struct err *err)
{
	struct load *load = arg;
	const struct stored_file *file = &load->packs->list.items[i];
	struct pack_record *records;
	uint32_t count;
	int r;

	r = pack_table_load(load->mirror, &file->digest, file->size, &records,
			    &count, err);
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	if (r < 0) {
		__atomic_fetch_add(&load->damaged, 1, __ATOMIC_RELAXED);
		return 0;
	}
	r = chunk_index_add_pack(load->index, &file->digest, file->size,
				 records, count);
	free(records);
	return r < 0 ? err_set(err, -r, "out of memory") : 0;
}

int chunk_index_load(struct chunk_index *index, const struct mirror *mirror,
		     const struct stored_files *packs, unsigned int threads,
		     uint64_t *ret_damaged, struct err *err)
{
	struct load load = {
		.index = index,
		.mirror = mirror,
		.packs = packs,
	};
	int r = parallel_for(packs->list.count, threads, load_pack, &load, err);

	if (r == 0)
		*ret_damaged = load.damaged;
	return r;
}

/* The next record from slot *at on with that tag, or CHUNK_NONE. */
static uint32_t next_with_tag(const struct chunk_index *index, uint64_t tag,
			      size_t *at)
{
	size_t mask = index->slot_count - 1;

	if (index->slot_count == 0)
		return CHUNK_NONE;
	while (index->slots[*at & mask]) {
		uint32_t record = index->slots[*at & mask] - 1;

		++*at;
		if (index->records.items[record].tag == tag)
			return record;
	}
	return CHUNK_NONE;
}

static bool is_pending(const struct chunk_index *index, uint32_t record,
		       const struct digest *digest)
{
	for (size_t i = 0; i < index->pending.count; i++)
		if (index->pending.items[i].record == record)
			return digest_equal(&index->pending.items[i].digest,
					    digest);
	return false;
}

/* With the lock held; it is given up while the pack's table is read. */
static bool is_chunk(struct chunk_index *index, uint32_t number,
		     const struct digest *digest)
{
	struct record record = index->records.items[number];
	struct pack_record stored;
	int r;

	if (record.pack == PACK_PENDING)
		return is_pending(index, number, digest);
	pthread_mutex_unlock(&index->mutex);
	r = pack_tables_get(index->tables, record.pack, record.position,
			    &stored);
	pthread_mutex_lock(&index->mutex);
	return r == 0 && digest_equal(&stored.digest, digest);
}

static int claim_new(struct chunk_index *index, const struct digest *digest,
		     uint32_t *ret)
{
	struct pending *pending = vec_push(&index->pending);
	int r;

	if (!pending)
		return -ENOMEM;
	pending->digest = *digest;
	r = add_record(index, digest, PACK_PENDING, 0, &pending->record);
	if (r < 0) {
		index->pending.count--;
		return r;
	}
	*ret = pending->record;
	return 0;
}

int chunk_index_claim(struct chunk_index *index, const struct digest *digest,
		      uint32_t *ret)
{
	uint64_t tag = load_le64(digest->bytes);
	size_t seen = 0; /* records below were compared */

	scoped_lock(&index->mutex);
	/* While a table was read others may have claimed: look again, at the
	 * new records only. */
	for (;;) {
		size_t at = tag & (index->slot_count - 1), count;
		size_t slots = index->slot_count;
		uint32_t record;

		count = index->records.count;
		while ((record = next_with_tag(index, tag, &at)) !=
		       CHUNK_NONE) {
			if (record < seen)
				continue;
			if (is_chunk(index, record, digest)) {
				*ret = record;
				return 1;
			}
			if (index->slot_count != slots)
				break; /* rehashed: at means nothing now */
		}
		if (record == CHUNK_NONE && index->records.count == count)
			return claim_new(index, digest, ret);
		if (record == CHUNK_NONE)
			seen = count;
	}
}

void chunk_index_stored(struct chunk_index *index, uint32_t record,
			uint32_t pack, uint32_t position)
{
	scoped_lock(&index->mutex);

	index->records.items[record].pack = pack;
	index->records.items[record].position = position;
	for (size_t i = 0; i < index->pending.count; i++) {
		if (index->pending.items[i].record != record)
			continue;
		index->pending.items[i] =
			index->pending.items[--index->pending.count];
		return;
	}
}

int chunk_index_place(struct chunk_index *index, uint32_t record,
		      uint32_t *ret_pack, struct pack_record *ret)
{
	struct record found;

	pthread_mutex_lock(&index->mutex);
	found = index->records.items[record];
	pthread_mutex_unlock(&index->mutex);
	if (found.pack == PACK_PENDING)
		return -ENOENT;
	*ret_pack = found.pack;
	return pack_tables_get(index->tables, found.pack, found.position, ret);
}
