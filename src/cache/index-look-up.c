/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups in the index. Each renews a read transaction that was made at open,
 * and looks afterwards whether writers have overtaken it: then pages that it
 * has read may have been used again meanwhile, and it is done once more. That
 * leaves no trace of readers, so none that is stopped or dead keeps pages from
 * being used, and nothing need be written in order to read. It is guarded: a
 * page that cannot be read or makes no sense is an error of the look-up, a row
 * without its checksum is damage.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/fault.h"
#include "cache/index-private.h"

static struct index_reader *reader_take(struct index *index)
{
	unsigned int first = atomic_fetch_add(&index->next_reader, 1);

	for (unsigned int i = 0; i < INDEX_READERS; i++) {
		struct index_reader *reader =
			&index->readers[(first + i) % INDEX_READERS];

		if (pthread_mutex_trylock(&reader->lock) == 0)
			return reader;
	}
	pthread_mutex_lock(&index->readers[first % INDEX_READERS].lock);
	return &index->readers[first % INDEX_READERS];
}

/* Two transactions would have to end during each of so many look-ups. */
#define TRIES_MAX 1000u

/* Rows of a scan that are read before any is shown. */
#define SCAN_ROWS 32u

struct scanned {
	struct digest id;
	struct blob_row row;
};

struct look_up {
	struct index *index;
	MDB_txn *txn;
	MDB_cursor *cursor; /* of blobs */
	int (*fn)(struct look_up *look_up);
	const struct digest *id;
	uint64_t gen, unit;
	struct blob_row *row;
	struct chunk_row *chunk;
	struct unit_row *unit_row;
	struct units_row *units_row;
	uint64_t number;
	/* scan */
	const struct digest *after;
	unsigned int max;
	struct scanned *rows;
	unsigned int row_count;
};

int index_row_get(MDB_txn *txn, MDB_dbi table, MDB_val *key, MDB_val *ret)
{
	MDB_val value;
	int rc = mdb_get(txn, table, key, &value);
	int64_t len;

	if (rc)
		return rc;
	len = row_length(key->mv_data, key->mv_size, value.mv_data,
			 value.mv_size);
	if (len < 0)
		return MDB_CORRUPTED;
	*ret = (MDB_val){(size_t)len, value.mv_data};
	return 0;
}

bool index_is_overtaken(struct index *index, MDB_txn *txn)
{
	MDB_envinfo info;

	/* What was read before is read before this. */
	atomic_thread_fence(memory_order_acquire);
	return mdb_env_info(index->env, &info) != 0 ||
	       info.me_last_txnid > mdb_txn_id(txn) + 1;
}

/* A transaction that ended while this one began may have written where the
 * roots are kept. */
static int begin(struct look_up *look_up)
{
	MDB_envinfo info;
	int rc = mdb_txn_renew(look_up->txn);

	if (rc)
		return rc;
	atomic_thread_fence(memory_order_acquire);
	rc = mdb_env_info(look_up->index->env, &info);
	return rc					      ? rc :
	       info.me_last_txnid == mdb_txn_id(look_up->txn) ? 0 :
								EBUSY;
}

static int look_up_guarded(void *arg)
{
	struct look_up *look_up = arg;
	int rc = begin(look_up);

	return rc ? rc : look_up->fn(look_up);
}

static int overtaken_guarded(void *arg)
{
	struct look_up *look_up = arg;

	return index_is_overtaken(look_up->index, look_up->txn);
}

/* Whatever it has found; EBUSY: once more. */
static int look_up_once(struct look_up *look_up)
{
	int rc, overtaken;

	rc = fault_guard(look_up_guarded, look_up);
	if (rc == EBUSY)
		overtaken = 1;
	else
		overtaken = fault_guard(overtaken_guarded, look_up);
	mdb_txn_reset(look_up->txn);
	if (overtaken < 0)
		return overtaken;
	return overtaken ? EBUSY : rc;
}

/* 1 found, 0 not found, negative errno. */
static int look_up_run(struct look_up *look_up)
{
	struct index *index = look_up->index;
	struct index_reader *reader;
	int rc = EBUSY;

	if (index_is_dead(index))
		return -EIO;
	reader = reader_take(index);
	look_up->txn = reader->txn;
	look_up->cursor = reader->scan;
	for (unsigned int i = 0; i < TRIES_MAX && rc == EBUSY; i++) {
		if (i > 0)
			sched_yield();
		rc = look_up_once(look_up);
	}
	if (rc && rc != MDB_NOTFOUND && rc != EBUSY)
		rc = index_error(index, rc);
	pthread_mutex_unlock(&reader->lock);
	if (rc == MDB_NOTFOUND)
		return 0;
	return rc == EBUSY ? -EBUSY : rc < 0 ? rc : 1;
}

static int find_blob(struct look_up *look_up)
{
	uint8_t bytes[ROW_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	int rc;

	row_key(look_up->id, bytes);
	rc = index_row_get(look_up->txn, look_up->index->blobs, &key, &value);
	if (rc)
		return rc;
	return blob_row_decode(value.mv_data, value.mv_size, look_up->row) ?
		       MDB_CORRUPTED :
		       0;
}

int index_blob(struct index *index, const struct digest *id,
	       struct blob_row *ret)
{
	struct look_up look_up = {
		.index = index,
		.fn = find_blob,
		.id = id,
		.row = ret,
	};

	return look_up_run(&look_up);
}

static int find_unit(struct look_up *look_up)
{
	uint8_t bytes[ROW_UNITS_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	size_t at = (size_t)(look_up->unit % ROW_UNITS);
	const uint8_t *row;
	int rc;

	row_units_key(look_up->id, (uint32_t)(look_up->unit / ROW_UNITS),
		      bytes);
	rc = index_row_get(look_up->txn, look_up->index->units, &key, &value);
	if (rc)
		return rc;
	row = value.mv_data;
	if (value.mv_size < ROW_UNITS_HEAD + (at + 1) * ROW_UNIT_BYTES ||
	    value.mv_size > ROW_UNITS_MAX || load_le64(row) != look_up->gen ||
	    !(row[8 + at / 8] & (1u << (at % 8))))
		return MDB_NOTFOUND;
	unit_row_decode(row + ROW_UNITS_HEAD + at * ROW_UNIT_BYTES,
			look_up->unit_row);
	return 0;
}

int index_unit(struct index *index, const struct digest *id, uint64_t gen,
	       uint64_t unit, struct unit_row *ret)
{
	struct look_up look_up = {
		.index = index,
		.fn = find_unit,
		.id = id,
		.gen = gen,
		.unit = unit,
		.unit_row = ret,
	};

	return look_up_run(&look_up);
}

static int find_units(struct look_up *look_up)
{
	uint8_t bytes[ROW_UNITS_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	uint32_t number = (uint32_t)look_up->number;
	int rc;

	row_units_key(look_up->id, number, bytes);
	rc = index_row_get(look_up->txn, look_up->index->units, &key, &value);
	if (rc)
		return rc;
	if (units_row_decode(value.mv_data, value.mv_size,
			     units_row_count(look_up->unit, number),
			     look_up->units_row) < 0 ||
	    look_up->units_row->gen != look_up->gen)
		return MDB_NOTFOUND;
	return 0;
}

int index_units(struct index *index, const struct digest *id, uint64_t gen,
		uint64_t unit_count, uint32_t number, struct units_row *ret)
{
	struct look_up look_up = {
		.index = index,
		.fn = find_units,
		.id = id,
		.gen = gen,
		.unit = unit_count,
		.number = number,
		.units_row = ret,
	};

	return look_up_run(&look_up);
}

static int find_chunk(struct look_up *look_up)
{
	uint8_t bytes[ROW_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	int rc;

	row_key(look_up->id, bytes);
	rc = index_row_get(look_up->txn, look_up->index->chunks, &key, &value);
	if (rc)
		return rc;
	return chunk_row_decode(value.mv_data, value.mv_size, look_up->chunk) ?
		       MDB_CORRUPTED :
		       0;
}

int index_chunk(struct index *index, const struct digest *chunk,
		struct chunk_row *ret)
{
	struct look_up look_up = {
		.index = index,
		.fn = find_chunk,
		.id = chunk,
		.chunk = ret,
	};

	return look_up_run(&look_up);
}

static int find_used(struct look_up *look_up)
{
	MDB_val key = index_meta_key("used"), value;
	int rc =
		index_row_get(look_up->txn, look_up->index->meta, &key, &value);

	if (rc == 0 && value.mv_size == 8)
		look_up->number = load_le64(value.mv_data);
	return rc;
}

int index_used(struct index *index, uint64_t *ret_bytes)
{
	struct look_up look_up = {.index = index, .fn = find_used};
	int r = look_up_run(&look_up);

	if (r >= 0)
		*ret_bytes = look_up.number;
	return r < 0 ? r : 0;
}

static int count_blobs(struct look_up *look_up)
{
	MDB_stat stat;
	int rc = mdb_stat(look_up->txn, look_up->index->blobs, &stat);

	if (rc == 0)
		look_up->number = stat.ms_entries;
	return rc;
}

uint64_t index_blob_count(struct index *index)
{
	struct look_up look_up = {.index = index, .fn = count_blobs};

	return look_up_run(&look_up) == 1 ? look_up.number : 0;
}

static int scan_blobs(struct look_up *look_up)
{
	uint8_t bytes[ROW_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	MDB_cursor *cursor = look_up->cursor;
	int rc = mdb_cursor_renew(look_up->txn, cursor);

	look_up->row_count = 0;
	if (rc)
		return rc;
	row_key(look_up->after, bytes);
	rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
	if (rc == 0 && key.mv_size == sizeof(bytes) &&
	    !memcmp(key.mv_data, bytes, sizeof(bytes)))
		rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	while (rc == 0 && look_up->row_count < look_up->max) {
		struct scanned *row = &look_up->rows[look_up->row_count++];
		int64_t len = row_length(key.mv_data, key.mv_size,
					 value.mv_data, value.mv_size);

		if (len < 0 ||
		    !row_key_parse(key.mv_data, key.mv_size, &row->id) ||
		    blob_row_decode(value.mv_data, (size_t)len, &row->row) < 0)
			return MDB_CORRUPTED;
		rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

int index_scan(struct index *index, struct digest *after, unsigned int max,
	       void (*each)(void *arg, const struct digest *id,
			    const struct blob_row *row),
	       void *arg)
{
	struct scanned rows[SCAN_ROWS];
	unsigned int seen = 0;

	while (seen < max) {
		struct look_up look_up = {
			.index = index,
			.fn = scan_blobs,
			.after = after,
			.rows = rows,
			.max = max - seen < SCAN_ROWS ? max - seen : SCAN_ROWS,
		};
		int r = look_up_run(&look_up);

		if (r < 0)
			return r;
		for (unsigned int i = 0; i < look_up.row_count; i++)
			each(arg, &rows[i].id, &rows[i].row);
		seen += look_up.row_count;
		if (look_up.row_count > 0)
			*after = rows[look_up.row_count - 1].id;
		if (look_up.row_count < look_up.max)
			break;
	}
	return (int)seen;
}
