/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each kind of change does to the rows of the index. Every change names
 * a generation and is void for any other: a process that was stopped for an
 * hour cannot harm the present.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/index-batch.h"

/* Rows of units one transaction deletes for a dropped blob. */
#define DROP_ROWS_MAX INDEX_OPS_MAX

static void set_disk_bytes(struct batch *batch, uint64_t disk_bytes)
{
	uint64_t old = batch->blob.disk_bytes;

	batch->used = batch->used > old ? batch->used - old : 0;
	batch->used += disk_bytes;
	batch->blob.disk_bytes = disk_bytes;
}

static int apply_record(struct batch *batch, struct index_op *op)
{
	uint64_t bit = UINT64_C(1) << (op->unit % 64);
	uint64_t *word;
	int rc;

	if (!batch->has_blob && !op->may_create) {
		op->result = -ESTALE; /* evicted meanwhile */
		return 0;
	}
	if (!batch->has_blob) {
		batch->has_blob = true;
		batch->has_units = false;
		batch->blob = (struct blob_row){
			.gen = op->gen,
			.blob_bytes = op->blob_bytes,
			.unit_count = op->unit_count,
			.segment_bytes = op->segment_bytes,
			.is_by_content = op->is_by_content,
			.last_use = op->last_use,
		};
	} else if (batch->blob.gen != op->gen ||
		   batch->blob.unit_count != op->unit_count) {
		op->result = -ESTALE;
		return 0;
	}
	if (op->unit >= batch->blob.unit_count) {
		op->result = -EINVAL;
		return 0;
	}
	rc = batch_load_units(batch, op->unit);
	if (rc)
		return rc;
	word = &batch->units.present[op->unit % ROW_UNITS / 64];
	if (!(*word & bit)) {
		*word |= bit;
		batch->blob.present_units++;
		batch->blob.present_bytes += op->length;
	}
	batch->units.units[op->unit % ROW_UNITS] = (struct unit_row){
		.checksum = op->checksum,
		.offset = op->offset,
		.length = op->length,
	};
	batch->units_is_dirty = true;
	op->is_complete = !batch->blob.has_mark &&
			  batch->blob.present_units == batch->blob.unit_count;
	set_disk_bytes(batch, op->disk_bytes ? op->disk_bytes :
					       batch->blob.present_bytes);
	if (op->last_use > batch->blob.last_use)
		batch->blob.last_use = op->last_use;
	batch->blob_is_dirty = true;
	return 0;
}

static int apply_chunk(struct batch *batch, struct index_op *op)
{
	uint8_t bytes[ROW_KEY_BYTES], row[ROW_CHUNK_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value = {sizeof(row), row};
	struct chunk_row chunk = {
		.id = op->id,
		.gen = op->gen,
		.unit = op->unit,
		.offset = op->offset,
		.length = op->length,
	};

	if (!batch->has_blob || batch->blob.gen != op->gen) {
		op->result = -ESTALE;
		return 0;
	}
	row_key(&op->chunk, bytes);
	chunk_row_encode(&chunk, row);
	return index_row_put(batch->txn, batch->index->chunks, &key, &value);
}

static int apply_drop_chunk(struct batch *batch, struct index_op *op)
{
	uint8_t bytes[ROW_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	struct chunk_row chunk;
	int rc;

	row_key(&op->chunk, bytes);
	rc = index_row_get(batch->txn, batch->index->chunks, &key, &value);
	if (rc == 0 &&
	    (chunk_row_decode(value.mv_data, value.mv_size, &chunk) < 0 ||
	     chunk.gen == op->gen))
		rc = mdb_del(batch->txn, batch->index->chunks, &key, NULL);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int apply_drop_unit(struct batch *batch, struct index_op *op)
{
	uint64_t bit = UINT64_C(1) << (op->unit % 64);
	uint64_t *word, bytes;
	int rc;

	if (!batch->has_blob || batch->blob.gen != op->gen ||
	    op->unit >= batch->blob.unit_count) {
		op->result = -ESTALE;
		return 0;
	}
	rc = batch_load_units(batch, op->unit);
	if (rc)
		return rc;
	word = &batch->units.present[op->unit % ROW_UNITS / 64];
	if (!(*word & bit))
		return 0;
	*word &= ~bit;
	batch->units_is_dirty = true;
	batch->blob.has_mark = false;
	bytes = batch->blob.present_bytes;
	batch->blob.present_bytes = bytes > op->length ? bytes - op->length : 0;
	if (batch->blob.present_units > 0)
		batch->blob.present_units--;
	batch->blob_is_dirty = true;
	return 0;
}

static int apply_mark(struct batch *batch, struct index_op *op)
{
	bool is_mark = op->kind == INDEX_MARK;

	if (!batch->has_blob || batch->blob.gen != op->gen ||
	    /* A unit was dropped while the file was checked. */
	    (is_mark && batch->blob.present_units != batch->blob.unit_count) ||
	    /* Another process has marked it anew. */
	    (!is_mark && batch->blob.has_mark &&
	     !file_mark_equal(&batch->blob.mark, &op->mark))) {
		op->result = -ESTALE;
		return 0;
	}
	batch->blob.has_mark = is_mark;
	batch->blob.mark = op->mark;
	batch->blob_is_dirty = true;
	return 0;
}

/* Delete rows of units of generation op->gen, starting at row op->unit. */
static int drop_units(struct batch *batch, struct index_op *op)
{
	uint8_t bytes[ROW_UNITS_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	MDB_cursor *cursor;
	unsigned int seen = 0;
	int rc = mdb_cursor_open(batch->txn, batch->index->units, &cursor);

	if (rc)
		return rc;
	row_units_key(&op->id, (uint32_t)op->unit, bytes);
	rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
	while (rc == 0 && key.mv_size == ROW_UNITS_KEY_BYTES &&
	       !memcmp(key.mv_data, bytes, ROW_KEY_BYTES)) {
		const uint8_t *tail = (uint8_t *)key.mv_data + ROW_KEY_BYTES;

		if (++seen > DROP_ROWS_MAX) {
			op->unit = (uint64_t)tail[0] << 24 | tail[1] << 16 |
				   tail[2] << 8 | tail[3];
			op->result = 1;
			break;
		}
		if (value.mv_size >= 8 && load_le64(value.mv_data) == op->gen)
			rc = mdb_cursor_del(cursor, 0);
		if (rc == 0)
			rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int apply_drop_blob(struct batch *batch, struct index_op *op)
{
	uint8_t bytes[ROW_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes};
	int rc;

	rc = batch_flush(batch);
	if (rc)
		return rc;
	batch->has_units = false;
	if (batch->has_blob && batch->blob.gen == op->gen) {
		set_disk_bytes(batch, 0);
		batch->has_blob = false;
		row_key(&op->id, bytes);
		rc = mdb_del(batch->txn, batch->index->blobs, &key, NULL);
		if (rc && rc != MDB_NOTFOUND)
			return rc;
	}
	return drop_units(batch, op);
}

/* The units of the row kept that lie in a range; whether the range ends in or
 * before that row. */
static bool drop_row_units(struct batch *batch, uint64_t start, uint64_t end)
{
	struct blob_row *blob = &batch->blob;
	bool is_past = false;

	for (uint32_t i = 0; i < batch->units.count; i++) {
		uint64_t *word = &batch->units.present[i / 64];
		const struct unit_row *unit = &batch->units.units[i];

		if (!(*word >> (i % 64) & 1))
			continue;
		is_past |= unit->offset >= end;
		if (unit->offset >= end || unit->offset + unit->length <= start)
			continue;
		*word &= ~(UINT64_C(1) << (i % 64));
		batch->units_is_dirty = true;
		blob->present_units -= blob->present_units > 0;
		blob->present_bytes -= blob->present_bytes < unit->length ?
					       blob->present_bytes :
					       unit->length;
	}
	return is_past;
}

/* From row op->unit on: a file of a blob in segments has gone. */
static int apply_drop_range(struct batch *batch, struct index_op *op)
{
	uint64_t rows, end = op->offset + (uint64_t)op->delta;
	bool is_past = false;

	if (!batch->has_blob || batch->blob.gen != op->gen) {
		op->result = -ESTALE;
		return 0;
	}
	rows = (batch->blob.unit_count + ROW_UNITS - 1) / ROW_UNITS;
	for (unsigned int i = 0; op->unit < rows && !is_past; i++) {
		int rc;

		if (i == DROP_ROWS_MAX) {
			op->result = 1;
			break;
		}
		rc = batch_load_units(batch, op->unit * ROW_UNITS);
		if (rc)
			return rc;
		is_past = drop_row_units(batch, op->offset, end);
		op->unit++;
	}
	batch->blob.has_mark = false;
	set_disk_bytes(batch, batch->blob.present_bytes);
	batch->blob_is_dirty = true;
	return 0;
}

static int apply_other(struct batch *batch, const struct index_op *op)
{
	uint64_t *other = &batch->other[op->unit % INDEX_DIRECTORIES];
	uint64_t before, after = op->disk_bytes;
	int rc = batch_load_other(batch);

	if (rc)
		return rc;
	before = *other;
	if (op->kind == INDEX_ADD_OTHER)
		after = op->delta < 0 && before < (uint64_t)-op->delta ?
				0 :
				before + (uint64_t)op->delta;
	if (after == before)
		return 0;
	*other = after;
	batch->other_is_dirty = true;
	batch->used = batch->used > before ? batch->used - before : 0;
	batch->used += after;
	return 0;
}

int batch_apply(struct batch *batch, struct index_op *op)
{
	int rc = 0;

	op->result = 0;
	op->is_complete = false;
	if (op->kind == INDEX_NOTHING)
		return 0;
	if (op->kind == INDEX_ADD_OTHER || op->kind == INDEX_SET_OTHER)
		return apply_other(batch, op);
	if (op->kind == INDEX_DROP_CHUNK)
		return apply_drop_chunk(batch, op);
	rc = batch_load_blob(batch, &op->id);
	if (rc)
		return rc;
	switch (op->kind) {
	case INDEX_RECORD:
		return apply_record(batch, op);
	case INDEX_CHUNK:
		return apply_chunk(batch, op);
	case INDEX_DROP_UNIT:
		return apply_drop_unit(batch, op);
	case INDEX_DROP_BLOB:
		return apply_drop_blob(batch, op);
	case INDEX_DROP_RANGE:
		return apply_drop_range(batch, op);
	case INDEX_MARK:
	case INDEX_UNMARK:
		return apply_mark(batch, op);
	case INDEX_MEASURE:
		if (batch->has_blob && batch->blob.gen == op->gen &&
		    batch->blob.disk_bytes != op->disk_bytes) {
			set_disk_bytes(batch, op->disk_bytes);
			batch->blob_is_dirty = true;
		}
		return 0;
	case INDEX_TOUCH:
		if (batch->has_blob && batch->blob.gen == op->gen &&
		    op->last_use > batch->blob.last_use) {
			batch->blob.last_use = op->last_use;
			batch->blob_is_dirty = true;
		}
		return 0;
	default:
		return 0;
	}
}
