/* SPDX-License-Identifier: Apache-2.0 */
/* An index into which something was scribbled while nothing ran: whatever it
 * is, a row that is read is what was written, nothing crashes, and before
 * anything is written to it the damage is seen. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cache-env.h"
#include "cache/index-private.h"

#define BLOBS 300u
#define UNITS_MAX 150u
/* More with LARDER_FLIPS, as long as one has patience. */
#define FLIPS 150u

/* The same sequence each time: a failure can be had again. */
static uint64_t random_state;
static uint64_t random_below(uint64_t end)
{
	random_state = random_state * UINT64_C(6364136223846793005) +
		       UINT64_C(1442695040888963407);
	return (random_state >> 33) % end;
}

static uint64_t blob_units(unsigned int blob)
{
	return blob * 7 % UNITS_MAX + 1;
}

static struct index_op op_of(enum index_op_kind kind, unsigned int blob,
			     uint64_t unit)
{
	struct index_op op = {
		.kind = kind,
		.may_create = true,
		.id = env_id(blob),
		.gen = blob + 1,
		.unit = unit,
		.checksum = blob * 1000 + unit,
		.length = 10,
		.offset = unit * 10,
		.blob_bytes = blob_units(blob) * 10,
		.unit_count = blob_units(blob),
	};
	uint64_t name = op.checksum;

	digest_sha256(&name, sizeof(name), &op.chunk);
	return op;
}

static void write_ops(struct index *index, struct index_op *ops, size_t count)
{
	uint64_t used;

	assert_int_equal(index_write(index, ops, count, &used), 0);
}

static void write_blob(struct index *index, unsigned int blob)
{
	struct index_op ops[2 * UNITS_MAX];
	size_t count = 0;

	for (uint64_t unit = 0; unit < blob_units(blob); unit++) {
		ops[count++] = op_of(INDEX_RECORD, blob, unit);
		ops[count++] = op_of(INDEX_CHUNK, blob, unit);
	}
	write_ops(index, ops, count);
}

static void drop_blob(struct index *index, unsigned int blob)
{
	struct index_op ops[UNITS_MAX + 1];
	size_t count = 0;

	for (uint64_t unit = 0; unit < blob_units(blob); unit++)
		ops[count++] = op_of(INDEX_DROP_CHUNK, blob, unit);
	ops[count++] = op_of(INDEX_DROP_BLOB, blob, 0);
	write_ops(index, ops, count);
}

/* How many blobs are known, all as they were written. */
static unsigned int read_all(struct index *index)
{
	unsigned int found = 0;

	for (unsigned int blob = 0; blob < BLOBS; blob++) {
		uint64_t unit = random_below(blob_units(blob));
		struct index_op op = op_of(INDEX_RECORD, blob, unit);
		struct chunk_row chunk;
		struct unit_row row;
		struct blob_row known;

		if (index_blob(index, &op.id, &known) == 1) {
			assert_int_equal(known.gen, blob + 1);
			assert_int_equal(known.present_units, op.unit_count);
			found++;
		}
		if (index_unit(index, &op.id, op.gen, unit, &row) == 1) {
			assert_int_equal(row.checksum, op.checksum);
			assert_int_equal(row.offset, op.offset);
		}
		if (index_chunk(index, &op.chunk, &chunk) == 1)
			assert_true(digest_equal(&chunk.id, &op.id));
	}
	return found;
}

static void count_row(void *arg, const struct digest *id,
		      const struct blob_row *row)
{
	assert_true(row->gen > 0 && id->type == DIGEST_SHA256);
	++*(unsigned int *)arg;
}

static struct index *open_index(const char *dir)
{
	struct index *index = NULL;

	assert_int_equal(index_open(dir, 0, &index, NULL), 0);
	return index;
}

/* Grown, shrunk and grown again: with lists of free pages of every kind. */
static void make_index(const char *dir)
{
	struct index *index = open_index(dir);
	unsigned int count = 0;
	struct digest after = {.type = DIGEST_NONE};

	for (unsigned int blob = 0; blob < BLOBS; blob++) {
		write_blob(index, blob);
		if (blob % 20 == 0)
			assert_int_equal(index_check(index), 0);
	}
	for (unsigned int blob = 0; blob < BLOBS; blob += 2)
		drop_blob(index, blob);
	assert_int_equal(index_check(index), 0);
	for (unsigned int blob = 0; blob < BLOBS; blob += 2) {
		write_blob(index, blob);
		if (blob % 20 == 0)
			assert_int_equal(index_check(index), 0);
	}
	assert_int_equal(read_all(index), BLOBS);
	assert_int_equal(index_scan(index, &after, 1000, count_row, &count),
			 BLOBS);
	assert_int_equal(count, BLOBS);
	index_close(index);
}

static uint8_t *load_file(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_non_null(bytes);
	assert_int_equal(pread_full(fd, bytes, (size_t)st.st_size, 0),
			 st.st_size);
	close(fd);
	*ret_size = (size_t)st.st_size;
	return bytes;
}

/* Flips, a page of noise, of zeros or in another's place. */
static void damage(uint8_t *bytes, size_t size)
{
	uint8_t *page = bytes + random_below(size / 4096) * 4096;
	uint64_t kind = random_below(10);

	switch (kind) {
	case 0:
		env_fill(7, random_below(1000), page, 4096);
		break;
	case 1:
		memset(page, 0, 4096);
		break;
	case 2:
		memcpy(page, bytes + random_below(size / 4096) * 4096, 4096);
		break;
	case 3: /* the metas */
		bytes[random_below(2) * 4096 + random_below(152)] ^=
			(uint8_t)(1u << random_below(8));
		break;
	default: /* most often where headers are */
		page[kind < 8 ? random_below(64) : random_below(4096)] ^=
			(uint8_t)(1u << random_below(8));
		break;
	}
}

/* Whether it was seen. */
static bool use_damaged(const char *dir)
{
	struct index *index = open_index(dir);
	struct digest after = {.type = DIGEST_NONE};
	unsigned int count = 0, found = read_all(index);
	bool is_seen = true;

	(void)index_scan(index, &after, 1000, count_row, &count);
	if (!index_is_dead(index) && found > 0 && index_check(index) == 0) {
		is_seen = false;
		/* What is wrong in it lies where nobody looks, or it is the
		 * one before the last transaction, as after a power cut. */
		assert_in_range(found, BLOBS - 1, BLOBS);
		for (unsigned int i = 0; i < 20; i++) {
			unsigned int blob = (unsigned int)random_below(BLOBS);

			drop_blob(index, blob);
			write_blob(index, blob);
		}
		assert_int_equal(index_check(index), 0);
		assert_in_range(read_all(index), BLOBS - 1, BLOBS);
	}
	index_close(index);
	return is_seen;
}

static void test_scribbled(void **state)
{
	char *dir = scratch_directory(), path[512], index[256];
	const char *flips = getenv("LARDER_FLIPS");
	uint64_t count = FLIPS, seen = 0;
	uint8_t *good, *bad;
	size_t size;

	(void)state;
	random_state = 1;
	if (flips)
		assert_int_equal(parse_u64(flips, &count), 0);
	snprintf(index, sizeof(index), "%s/index", dir);
	assert_int_equal(mkdir(index, 0700), 0);
	make_index(index);
	snprintf(path, sizeof(path), "%s/data.mdb", index);
	good = load_file(path, &size);
	bad = malloc(size);
	assert_non_null(bad);
	for (uint64_t i = 0; i < count; i++) {
		int fd;

		assert_int_equal(remove_tree(AT_FDCWD, index), 0);
		assert_int_equal(mkdir(index, 0700), 0);
		memcpy(bad, good, size);
		for (uint64_t j = random_below(3) + 1; j > 0; j--)
			damage(bad, size);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(pwrite_full(fd, bad, size, 0), 0);
		close(fd);
		seen += use_damaged(index);
	}
	/* Most of the pages are in use. */
	assert_true(seen > count / 4);
	free(good);
	free(bad);
	env_remove(dir);
}

/* ---- what looks like damage and is none */

#define HUGE_ROW (400u << 10)
#define LONG_ROW 9000u
#define SHORT_ROW 5000u

static void put_row(struct index *index, MDB_txn *txn, uint64_t name,
		    uint8_t *row, size_t len)
{
	MDB_val key = {sizeof(name), &name}, value = {len, row};

	store_le64(row + len - ROW_CHECK_BYTES,
		   row_check(&name, sizeof(name), row, len - ROW_CHECK_BYTES));
	assert_int_equal(mdb_put(txn, index->meta, &key, &value, 0), 0);
}

static uint64_t file_pages(struct index *index, uint64_t *ret_spoken_of)
{
	MDB_envinfo info;

	assert_int_equal(mdb_env_info(index->env, &info), 0);
	*ret_spoken_of = info.me_last_pgno + 1;
	return index_bytes(index) / (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A transaction gives back the last pages that it took: they are not written.
 */
static void make_unwritten(struct index *index)
{
	static uint8_t row[HUGE_ROW];
	uint64_t spoken_of, name = 1;
	MDB_val key = {sizeof(name), &name};
	MDB_txn *txn;

	for (unsigned int blob = 3; blob < 10; blob++)
		write_blob(index, blob);
	assert_int_equal(mdb_txn_begin(index->env, NULL, 0, &txn), 0);
	put_row(index, txn, name, row, HUGE_ROW);
	assert_int_equal(mdb_del(txn, index->meta, &key, NULL), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	assert_true(file_pages(index, &spoken_of) < spoken_of);
}

/* One that has got shorter keeps its pages. */
static void make_shorter(struct index *index)
{
	uint8_t row[LONG_ROW] = {0};
	MDB_txn *txn;

	assert_int_equal(mdb_txn_begin(index->env, NULL, 0, &txn), 0);
	put_row(index, txn, 1, row, LONG_ROW);
	put_row(index, txn, 1, row, SHORT_ROW);
	assert_int_equal(mdb_txn_commit(txn), 0);
}

static void test_sound(void **state)
{
	void (*const make[])(struct index *) = {make_unwritten, make_shorter};
	char *dir = scratch_directory();

	(void)state;
	for (size_t i = 0; i < sizeof(make) / sizeof(*make); i++) {
		char path[256];
		struct index *index;
		struct blob_row row;
		struct index_op op = op_of(INDEX_RECORD, 1, 0);

		snprintf(path, sizeof(path), "%s/index-%zu", dir, i);
		assert_int_equal(mkdir(path, 0700), 0);
		index = open_index(path);
		write_blob(index, 1);
		make[i](index);
		assert_int_equal(index_check(index), 0);
		index_close(index);
		index = open_index(path);
		assert_int_equal(index_check(index), 0);
		assert_int_equal(index_blob(index, &op.id, &row), 1);
		write_blob(index, 2);
		assert_int_equal(index_check(index), 0);
		index_close(index);
	}
	env_remove(dir);
}

/* A page that is in use is behind the end. */
static void test_cut(void **state)
{
	char *dir = scratch_directory(), path[256];
	struct index *index;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	index = open_index(path);
	for (unsigned int blob = 0; blob < 20; blob++)
		write_blob(index, blob);
	assert_int_equal(mdb_env_get_fd(index->env, &fd), 0);
	assert_int_equal(ftruncate(fd, (off_t)(index_bytes(index) / 2)), 0);
	assert_true(index_check(index) != 0);
	index_close(index);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sound),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_scribbled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
