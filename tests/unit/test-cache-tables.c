/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's pure parts: rows, limits, the choice of victims, filesystems. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "cache/blobs.h"
#include "cache/evict.h"
#include "cache/layout.h"
#include "cache/rows.h"
#include "cache/space.h"

#define GIB (UINT64_C(1) << 30)

static void test_filesystems(void **state)
{
	static const struct {
		uint64_t f_type;
		const char *name; /* NULL: accepted */
	} table[] = {
		{ 0x6969, "NFS" },
		{ 0x517b, "SMB" },
		{ 0xff534d42, "SMB" },
		{ 0xfe534d42, "SMB" },
		{ UINT64_C(0xffffffffff534d42), "SMB" }, /* sign-extended */
		{ 0x01021997, "9p" },
		{ 0x65735546, "FUSE" },
		{ 0x0bd00bd0, "Lustre" },
		{ 0x00c36400, "CephFS" },
		{ 0x5346414f, "AFS" },
		{ 0x6b414653, "AFS" },
		{ 0x01161970, "GFS2" },
		{ 0x47504653, "GPFS" },
		{ 0x7461636f, "OCFS2" },
		{ 0x19830326, "BeeGFS" },
		{ 0xef53, NULL },     /* ext4 */
		{ 0x58465342, NULL }, /* XFS */
		{ 0x9123683e, NULL }, /* btrfs */
		{ 0x01021994, NULL }, /* tmpfs */
		{ 0x2fc12fc1, NULL }, /* ZFS */
		{ 0xf2f52010, NULL }, /* F2FS */
		{ 0x794c7630, NULL }, /* overlayfs */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		const char *name = layout_refused_filesystem(table[i].f_type);

		if (table[i].name)
			assert_string_equal(name, table[i].name);
		else
			assert_null(name);
	}
}

static void test_limits(void **state)
{
	static const struct {
		uint64_t total, limit, min_free;
		uint64_t ret_limit, ret_min_free;
		bool is_clamped;
	} table[] = {
		{ 100 * GIB, 0, 0, 80 * GIB, 5 * GIB, false },
		{ 100 * GIB, 10 * GIB, GIB, 10 * GIB, GIB, false },
		{ 100 * GIB, 100 * GIB, GIB, 100 * GIB, GIB, false },
		{ 100 * GIB, 2000 * GIB, GIB, 99 * GIB, GIB, true },
		{ 100 * GIB, GIB, 60 * GIB, GIB, 50 * GIB, true },
		{ 100 * GIB, UINT64_MAX, UINT64_MAX, 50 * GIB, 50 * GIB, true },
		{ 0, 0, 0, 0, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct space_limits limits = space_limits_choose(
			table[i].total, table[i].limit, table[i].min_free);

		assert_int_equal(limits.limit_bytes, table[i].ret_limit);
		assert_int_equal(limits.min_free_bytes, table[i].ret_min_free);
		assert_int_equal(limits.is_clamped, table[i].is_clamped);
	}
}

static void test_excess(void **state)
{
	static const struct space_limits limits = {
		.limit_bytes = 1000, .min_free_bytes = 100,
	};
	static const struct {
		uint64_t used, free, refused, excess;
	} table[] = {
		{ 0, 500, 0, 0 },
		{ 1000, 100, 0, 0 },    /* at both limits: fine */
		{ 1001, 500, 0, 101 },  /* down to 900 */
		{ 500, 99, 0, 11 },     /* up to 110 free */
		{ 1001, 0, 0, 110 },    /* whichever is more */
		{ 50, 0, 0, 50 },       /* not more than there is */
		{ 0, 0, 0, 0 },
		{ 500, 119, 5, 11 },    /* four times that, then six */
		{ 500, 120, 5, 0 },
		{ 500, 120, 20, 100 },
		{ 990, 500, 10, 0 },    /* it fits */
		{ 990, 500, 11, 90 },
		{ 800, 9000, 201, 1 },   /* down to where it fits */
		{ 800, 9000, 1200, 800 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		assert_int_equal(space_excess(&limits, table[i].used,
					      table[i].free, table[i].refused),
				 table[i].excess);
}

static void test_space_usable(void **state)
{
	static const struct {
		uint64_t limit, min_free, used, free, usable;
	} rows[] = {
		{100, 10, 0, 1000, 100}, {100, 10, 0, 110, 100},
		{100, 10, 0, 109, 99},	 {100, 10, 30, 50, 70},
		{100, 10, 30, 10, 30},	 {100, 10, 30, 0, 30},
		{100, 10, 120, 0, 100},	 {UINT64_MAX, 0, 1, UINT64_MAX - 2,
					  UINT64_MAX - 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct space_limits limits = {
			.limit_bytes = rows[i].limit,
			.min_free_bytes = rows[i].min_free,
		};

		assert_int_equal(
			space_usable(&limits, rows[i].used, rows[i].free),
			rows[i].usable);
	}
}

static void test_evict_choose(void **state)
{
	struct evict_candidate c[] = {
		{ .gen = 1, .disk_bytes = 10, .last_use = 300 },
		{ .gen = 2, .disk_bytes = 10, .last_use = 100 },
		{ .gen = 3, .disk_bytes = 30, .last_use = 200 },
		{ .gen = 4, .disk_bytes = 50, .last_use = 200 },
	};

	(void)state;
	assert_int_equal(evict_choose(NULL, 0, 10), 0);
	assert_int_equal(evict_choose(c, 4, 0), 0);
	assert_int_equal(evict_choose(c, 4, 10), 1);
	assert_int_equal(c[0].gen, 2);
	assert_int_equal(c[1].gen, 4); /* equally old: the larger first */
	assert_int_equal(c[2].gen, 3);
	assert_int_equal(c[3].gen, 1);
	assert_int_equal(evict_choose(c, 4, 11), 2);
	assert_int_equal(evict_choose(c, 4, 60), 2);
	assert_int_equal(evict_choose(c, 4, 61), 3);
	assert_int_equal(evict_choose(c, 4, 1000), 4);
}

static void test_blob_rows(void **state)
{
	const struct blob_row row = {
		.gen = UINT64_MAX, .blob_bytes = 1000, .unit_count = 10,
		.segment_bytes = 7, .present_units = 9, .present_bytes = 900,
		.disk_bytes = 4096, .last_use = 1234567890123,
		.has_mark = true,
		.mark = { 1, UINT64_MAX, 1000, 1234567890123456789, -5 },
	};
	uint8_t bytes[ROW_BLOB_BYTES], bytes_again[ROW_BLOB_BYTES];
	struct blob_row again;

	(void)state;
	blob_row_encode(&row, bytes);
	assert_int_equal(blob_row_decode(bytes, sizeof(bytes), &again), 0);
	assert_true(again.has_mark && file_mark_equal(&row.mark, &again.mark));
	assert_int_equal(again.last_use, row.last_use);
	blob_row_encode(&again, bytes_again);
	assert_memory_equal(bytes, bytes_again, sizeof(bytes));
	memset(bytes_again + 64, 0, 8); /* none */
	assert_int_equal(blob_row_decode(bytes_again, sizeof(bytes), &again), 0);
	assert_false(again.has_mark);
	assert_int_equal(blob_row_decode(bytes, sizeof(bytes) - 1, &again),
			 -EINVAL);
	bytes[32] = 11; /* more present than there are */
	assert_int_equal(blob_row_decode(bytes, sizeof(bytes), &again),
			 -EINVAL);
	memset(bytes, 0, sizeof(bytes)); /* generation 0 */
	assert_int_equal(blob_row_decode(bytes, sizeof(bytes), &again),
			 -EINVAL);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(blob_row_decode(bytes, sizeof(bytes), &again),
			 -EINVAL);
}

static void test_units_rows(void **state)
{
	struct units_row row = { .gen = 5, .count = 50 }, again;
	uint8_t bytes[ROW_UNITS_MAX], bytes_again[ROW_UNITS_MAX];
	size_t len;

	(void)state;
	row.present[0] = UINT64_C(1) << 40;
	row.units[40] = (struct unit_row){ 42, UINT64_C(1) << 50, 4096 };
	len = units_row_encode(&row, bytes);
	assert_int_equal(len, 16 + 50 * 20);
	assert_int_equal(units_row_decode(bytes, len, 50, &again), 0);
	assert_int_equal(again.units[40].offset, UINT64_C(1) << 50);
	assert_int_equal(units_row_encode(&again, bytes_again), len);
	assert_memory_equal(bytes, bytes_again, len);
	assert_int_equal(units_row_decode(bytes, len, 49, &again), -EINVAL);
	assert_int_equal(units_row_decode(bytes, len - 1, 50, &again),
			 -EINVAL);
	assert_int_equal(units_row_decode(bytes, len, 65, &again), -EINVAL);

	assert_int_equal(units_row_count(0, 0), 0);
	assert_int_equal(units_row_count(1, 0), 1);
	assert_int_equal(units_row_count(64, 0), 64);
	assert_int_equal(units_row_count(64, 1), 0);
	assert_int_equal(units_row_count(65, 1), 1);
	assert_int_equal(units_row_count(UINT64_MAX, UINT64_MAX), 0);
}

static void test_row_checks(void **state)
{
	uint8_t row[100 + ROW_CHECK_BYTES];
	const uint8_t key[] = {1, 2, 3}, other[] = {1, 2, 4};

	(void)state;
	memset(row, 7, sizeof(row));
	store_le64(row + 100, row_check(key, sizeof(key), row, 100));
	assert_int_equal(row_length(key, sizeof(key), row, sizeof(row)), 100);
	assert_int_equal(row_length(other, sizeof(other), row, sizeof(row)),
			 -EBADMSG);
	assert_int_equal(row_length(key, sizeof(key), row, sizeof(row) - 1),
			 -EBADMSG);
	assert_int_equal(row_length(key, sizeof(key), row, 7), -EBADMSG);
	for (size_t i = 0; i < sizeof(row) * 8; i++) {
		row[i / 8] ^= (uint8_t)(1u << (i % 8));
		assert_int_equal(row_length(key, sizeof(key), row,
					    sizeof(row)), -EBADMSG);
		row[i / 8] ^= (uint8_t)(1u << (i % 8));
	}
	/* Of nothing, and zeros are not its checksum. */
	memset(row, 0, sizeof(row));
	assert_int_equal(row_length(key, sizeof(key), row, sizeof(row)),
			 -EBADMSG);
	store_le64(row, row_check(key, sizeof(key), row, 0));
	assert_int_equal(row_length(key, sizeof(key), row, 8), 0);
}

static void test_blob_names(void **state)
{
	char path[BLOB_PATH_MAX], hex[DIGEST_HEX_MAX], want[DIGEST_HEX_MAX];
	struct digest id;
	uint64_t gen;

	(void)state;
	digest_sha256("x", 1, &id);
	digest_hex(&id, want);
	for (uint64_t segment = 0; segment < 3; segment++) {
		blob_path(&id, 0xabcdef, segment ? 100 : 0, segment, path);
		path[2] = '\0';
		assert_int_equal(blob_name_parse(path, path + 3, hex, &gen), 0);
		assert_string_equal(hex, want);
		assert_int_equal(gen, 0xabcdef);
	}
	blob_announcement_path(&id, path);
	path[2] = '\0';
	assert_int_equal(blob_name_parse(path, path + 3, hex, &gen), -EINVAL);
	assert_int_equal(blob_name_parse("ab", "", hex, &gen), -EINVAL);
	assert_int_equal(blob_name_parse("ab", "cd.0123", hex, &gen), -EINVAL);
	assert_int_equal(blob_name_parse("ab", "cd.0123456789abcdeg", hex,
					 &gen), -EINVAL);
	assert_int_equal(blob_name_parse("ab", "cd.0123456789abcdef0", hex,
					 &gen), -EINVAL);
	assert_int_equal(blob_name_parse("ab", "cd.0123456789abcdef", hex,
					 &gen), 0);
	assert_string_equal(hex, "abcd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filesystems),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_excess),
		cmocka_unit_test(test_space_usable),
		cmocka_unit_test(test_evict_choose),
		cmocka_unit_test(test_blob_rows),
		cmocka_unit_test(test_units_rows),
		cmocka_unit_test(test_row_checks),
		cmocka_unit_test(test_blob_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
