/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write transactions of the index: a batch of small changes, applied in
 * order. The row of the blob and of the units last touched are kept decoded
 * until another one is needed, so that a run of records for one blob writes
 * each row once. What a change does: index-changes.c.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "cache/fault.h"
#include "cache/files.h"
#include "cache/index-batch.h"

int index_row_put(MDB_txn *txn, MDB_dbi table, MDB_val *key, MDB_val *value)
{
	uint8_t row[INDEX_ROW_MAX + ROW_CHECK_BYTES];
	MDB_val sealed = {value->mv_size + ROW_CHECK_BYTES, row};

	assert(value->mv_size <= INDEX_ROW_MAX);
	memcpy(row, value->mv_data, value->mv_size);
	store_le64(row + value->mv_size,
		   row_check(key->mv_data, key->mv_size, row, value->mv_size));
	return mdb_put(txn, table, key, &sealed, 0);
}

static int units_flush(struct batch *batch)
{
	uint8_t bytes[ROW_UNITS_KEY_BYTES];
	uint8_t row[ROW_UNITS_MAX];
	MDB_val key = {sizeof(bytes), bytes}, value = {0, row};

	if (!batch->has_units || !batch->units_is_dirty)
		return 0;
	row_units_key(&batch->id, batch->units_number, bytes);
	value.mv_size = units_row_encode(&batch->units, row);
	batch->units_is_dirty = false;
	return index_row_put(batch->txn, batch->index->units, &key, &value);
}

static int blob_flush(struct batch *batch)
{
	uint8_t bytes[ROW_KEY_BYTES];
	uint8_t row[ROW_BLOB_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value = {sizeof(row), row};

	if (!batch->has_blob || !batch->blob_is_dirty)
		return 0;
	row_key(&batch->id, bytes);
	blob_row_encode(&batch->blob, row);
	batch->blob_is_dirty = false;
	return index_row_put(batch->txn, batch->index->blobs, &key, &value);
}

int batch_flush(struct batch *batch)
{
	int rc = units_flush(batch);

	return rc ? rc : blob_flush(batch);
}

/* Keep the blob's row; batch->has_blob tells whether there is one. */
int batch_load_blob(struct batch *batch, const struct digest *id)
{
	uint8_t bytes[ROW_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	int rc;

	if (batch->has_blob && digest_equal(&batch->id, id))
		return 0;
	rc = batch_flush(batch);
	if (rc)
		return rc;
	batch->has_blob = batch->has_units = false;
	batch->id = *id;
	row_key(id, bytes);
	rc = index_row_get(batch->txn, batch->index->blobs, &key, &value);
	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc)
		return rc;
	batch->has_blob = blob_row_decode(value.mv_data, value.mv_size,
					  &batch->blob) == 0;
	return 0;
}

int batch_load_units(struct batch *batch, uint64_t unit)
{
	uint32_t number = (uint32_t)(unit / ROW_UNITS);
	uint32_t count = units_row_count(batch->blob.unit_count, number);
	uint8_t bytes[ROW_UNITS_KEY_BYTES];
	MDB_val key = {sizeof(bytes), bytes}, value;
	int rc;

	if (batch->has_units && batch->units_number == number)
		return 0;
	rc = units_flush(batch);
	if (rc)
		return rc;
	batch->has_units = false;
	row_units_key(&batch->id, number, bytes);
	rc = index_row_get(batch->txn, batch->index->units, &key, &value);
	if (rc && rc != MDB_NOTFOUND)
		return rc;
	if (rc == MDB_NOTFOUND ||
	    units_row_decode(value.mv_data, value.mv_size, count,
			     &batch->units) < 0 ||
	    batch->units.gen != batch->blob.gen) {
		memset(&batch->units, 0, sizeof(batch->units));
		batch->units.gen = batch->blob.gen;
		batch->units.count = count;
	}
	batch->units_number = number;
	batch->has_units = true;
	return 0;
}

int batch_load_other(struct batch *batch)
{
	MDB_val key = index_meta_key("other"), value;
	int rc;

	if (batch->has_other)
		return 0;
	rc = index_row_get(batch->txn, batch->index->meta, &key, &value);
	if (rc && rc != MDB_NOTFOUND)
		return rc;
	batch->has_other = true;
	if (rc == 0 && value.mv_size == sizeof(batch->other))
		for (unsigned int i = 0; i < INDEX_DIRECTORIES; i++)
			batch->other[i] = load_le64(
				(const uint8_t *)value.mv_data + (size_t)i * 8);
	return 0;
}

static int other_store(struct batch *batch)
{
	uint8_t bytes[sizeof(batch->other)];
	MDB_val key = index_meta_key("other");
	MDB_val value = {sizeof(bytes), bytes};

	if (!batch->other_is_dirty)
		return 0;
	for (unsigned int i = 0; i < INDEX_DIRECTORIES; i++)
		store_le64(bytes + (size_t)i * 8, batch->other[i]);
	return index_row_put(batch->txn, batch->index->meta, &key, &value);
}

static int used_load(struct batch *batch, uint64_t *ret)
{
	MDB_val key = index_meta_key("used"), value;
	int rc = index_row_get(batch->txn, batch->index->meta, &key, &value);

	*ret = rc == 0 && value.mv_size == 8 ? load_le64(value.mv_data) : 0;
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int used_store(struct batch *batch)
{
	uint8_t bytes[8];
	MDB_val key = index_meta_key("used");
	MDB_val value = {sizeof(bytes), bytes};

	store_le64(bytes, batch->used);
	return index_row_put(batch->txn, batch->index->meta, &key, &value);
}

static int write_guarded(void *arg)
{
	struct batch *batch = arg;
	uint64_t used_before = 0;
	int rc = mdb_txn_begin(batch->index->env, NULL, 0, &batch->txn);

	if (rc)
		return rc;
	crash_point("write-begun");
	rc = used_load(batch, &used_before);
	batch->used = used_before;
	for (size_t i = 0; i < batch->count && rc == 0; i++)
		rc = batch_apply(batch, &batch->ops[i]);
	if (rc == 0)
		rc = batch_flush(batch);
	if (rc == 0)
		rc = other_store(batch);
	if (rc == 0 && batch->used != used_before)
		rc = used_store(batch);
	crash_point("write-applied");
	if (rc == 0)
		return mdb_txn_commit(batch->txn);
	mdb_txn_abort(batch->txn);
	return rc;
}

/* The gate keeps others out; who has another one, because somebody has put a
 * new file in its place, is met here. */
static int write_alone(struct batch *batch)
{
	int fd, r;

	if (mdb_env_get_fd(batch->index->env, &fd) != 0)
		return EINVAL;
	r = ofd_lock(fd, F_WRLCK, 0, 1);
	if (r < 0)
		return -r;
	r = fault_guard(write_guarded, batch);
	(void)ofd_lock(fd, F_UNLCK, 0, 1);
	return r;
}

int index_write(struct index *index, struct index_op *ops, size_t count,
		uint64_t *ret_used)
{
	struct batch batch = {.index = index, .ops = ops, .count = count};
	int rc;

	if (index_is_dead(index))
		return -EIO;
	if (index->is_readonly)
		return -EROFS;
	scoped_lock(&index->write_lock);
	rc = write_alone(&batch);
	if (rc) {
		int r = index_error(index, rc);

		return rc == -EFAULT ? -EFAULT : r;
	}
	*ret_used = batch.used;
	return 0;
}
