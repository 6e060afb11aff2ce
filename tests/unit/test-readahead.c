/* SPDX-License-Identifier: Apache-2.0 */
/* What to fetch ahead, by tables: a row is a read and what it must start. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "dataset/readahead.h"

#define K UINT64_C(1024)
#define M (1024 * K)
#define G (1024 * M)

struct row {
	uint64_t start, end;		 /* read */
	uint64_t ahead_start, ahead_end; /* 0, 0: nothing */
	bool ends_file;
};

static bool note(struct readahead *state, uint64_t start, uint64_t end,
		 uint64_t blob_bytes, bool ends_file, uint64_t *ret_start,
		 uint64_t *ret_end)
{
	const struct readahead_read read = {
		.start = start,
		.end = end,
		.blob_bytes = blob_bytes,
		.ends_file = ends_file,
		.window_max = READAHEAD_WINDOW_MAX,
	};

	return readahead_note(state, &read, ret_start, ret_end);
}

static void run_rows(const struct row *rows, size_t count, uint64_t blob_bytes)
{
	struct readahead state = {0};

	for (size_t i = 0; i < count; i++) {
		uint64_t start = 0, end = 0;
		bool is_ahead =
			note(&state, rows[i].start, rows[i].end, blob_bytes,
			     rows[i].ends_file, &start, &end);

		if (is_ahead != (rows[i].ahead_end > 0) ||
		    start != rows[i].ahead_start || end != rows[i].ahead_end)
			print_error("row %zu: %d %llu %llu\n", i, is_ahead,
				    (unsigned long long)start,
				    (unsigned long long)end);
		assert_int_equal(is_ahead, rows[i].ahead_end > 0);
		assert_int_equal(start, rows[i].ahead_start);
		assert_int_equal(end, rows[i].ahead_end);
	}
}
#define ROWS(rows, bytes) run_rows(rows, sizeof(rows) / sizeof(rows[0]), bytes)

static void the_window_doubles(void **state)
{
	static const struct row rows[] = {
		{0, 1 * M, 0, 0, false},
		{1 * M, 2 * M, 2 * M, 4 * M, false}, /* 2 MiB */
		{2 * M, 3 * M, 4 * M, 7 * M, false}, /* 4, from where it is */
		{3 * M, 4 * M, 0, 0, false}, /* more than half is left */
		{4 * M, 5 * M, 7 * M, 13 * M, false}, /* 8 */
		{5 * M, 8 * M, 0, 0, false},
		{8 * M, 9 * M, 13 * M, 25 * M, false},	/* 16 */
		{9 * M, 17 * M, 25 * M, 49 * M, false}, /* 32 */
		{17 * M, 32 * M, 0, 0, false},
		{32 * M, 33 * M, 49 * M, 65 * M, false}, /* and no more */
	};

	(void)state;
	ROWS(rows, 1 * G);
}

static void it_ends_at_the_end_of_the_blob(void **state)
{
	static const struct row rows[] = {
		{0, 1 * M, 0, 0, false},
		{1 * M, 2 * M, 2 * M, 3 * M, false},
		{2 * M, 3 * M, 0, 0, false},
	};

	(void)state;
	ROWS(rows, 3 * M);
}

static void beginnings_start_nothing(void **state)
{
	static const struct row rows[] = {
		{0, 16 * K, 0, 0, false}, /* whoever reads 4 KiB */
		{16 * K, 48 * K, 0, 0, false},
		{48 * K, 512 * K, 0, 0, false},
		{512 * K, 1 * M, 0, 0, false},
		{2 * M, 3 * M, 0, 0, false}, /* goes on, with a hole */
		{3 * M, 4 * M, 4 * M, 6 * M, false},
	};

	(void)state;
	ROWS(rows, 1 * G);
}

/* As the kernel sends its window. */
static void a_burst_in_any_order_is_one_stream(void **state)
{
	static const struct row rows[] = {
		{3584 * K, 4096 * K, 0, 0, false},
		{2560 * K, 3072 * K, 0, 0, false},
		{1536 * K, 2048 * K, 0, 0, false},
		{512 * K, 1024 * K, 0, 0, false},
		{0 * K, 512 * K, 0, 0, false},
		{1024 * K, 1536 * K, 0, 0, false},
		{2048 * K, 2560 * K, 0, 0, false},
		{3072 * K, 3584 * K, 0, 0, false},
		{4096 * K, 4608 * K, 4608 * K, 6656 * K, false},
	};

	(void)state;
	ROWS(rows, 1 * G);
}

static void strides_start_nothing(void **state)
{
	struct readahead ahead = {0};
	uint64_t start, end;

	(void)state;
	for (uint64_t i = 0; i < 300; i++)
		assert_false(note(&ahead, i * 3 * M, i * 3 * M + M, 1 * G,
				  false, &start, &end));
}

static void random_reads_start_nothing(void **state)
{
	struct readahead ahead = {0};
	uint64_t start, end, x = 1;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		uint64_t at;

		x = x * 6364136223846793005u + 1442695040888963407u;
		at = (x >> 20) % (256 * M);
		assert_false(note(&ahead, at, at + 100 * K, 257 * M, false,
				  &start, &end));
	}
}

static void a_short_link_keeps_windows_short(void **state)
{
	struct readahead ahead = {0};
	struct readahead_read read = {.blob_bytes = 1 * G};
	uint64_t start, end;

	(void)state;
	assert_int_equal(readahead_window(0), READAHEAD_WINDOW_MAX);
	assert_int_equal(readahead_window(1 * M), 2 * READAHEAD_WINDOW_MIN);
	assert_int_equal(readahead_window(8 * M), 16 * M);
	assert_int_equal(readahead_window(1 * G), READAHEAD_WINDOW_MAX);
	read.window_max = readahead_window(3 * M);
	for (uint64_t at = 0; at < 300 * M; at += M) {
		read.start = at;
		read.end = at + M;
		if (readahead_note(&ahead, &read, &start, &end))
			assert_true(end <= read.end + 6 * M);
	}
}

static void lone_reads_start_nothing(void **state)
{
	static const struct row rows[] = {
		{1 * G - 64 * K, 1 * G, 0, 0, false}, /* a footer */
		{0, 4 * K, 0, 0, false},
		{500 * M, 501 * M, 0, 0, false},
		{300 * M, 301 * M, 0, 0, false},
		{700 * M, 701 * M, 0, 0, false},
		{100 * M, 101 * M, 0, 0, false}, /* backwards */
		{50 * M, 51 * M, 0, 0, false},
		{0, 4 * K, 0, 0, false}, /* again */
	};

	(void)state;
	ROWS(rows, 1 * G);
}

static void small_files_in_a_row_are_one_stream(void **state)
{
	static const struct row rows[] = {
		{0, 3 * K, 0, 0, true},
		{3 * K, 9 * K, 9 * K, 2 * M + 9 * K, true},
		{9 * K, 10 * K, 0, 0, true},
		{40 * K, 50 * K, 0, 0, true}, /* one was skipped */
	};

	(void)state;
	ROWS(rows, 24 * M);
}

static void order_may_be_a_little_off(void **state)
{
	static const struct row rows[] = {
		{1 * M, 2 * M, 0, 0, false},
		{0, 1 * M, 0, 0, false}, /* late, nothing new */
		{3 * M, 4 * M, 4 * M, 6 * M, false},
		{2 * M, 3 * M, 0, 0, false},
	};

	(void)state;
	ROWS(rows, 1 * G);
}

static void several_streams_live_side_by_side(void **state)
{
	struct readahead ahead = {0};
	uint64_t start, end;

	(void)state;
	for (uint64_t step = 0; step < 40; step++)
		for (uint64_t stream = 0; stream < READAHEAD_STREAMS;
		     stream++) {
			uint64_t at = stream * G + step * M;
			bool is_ahead = note(&ahead, at, at + M, 64 * G, false,
					     &start, &end);

			if (step == 1) {
				assert_true(is_ahead);
				assert_int_equal(start, at + M);
			}
			if (is_ahead) {
				assert_true(start >= at + M);
				assert_true(end <=
					    at + M + READAHEAD_WINDOW_MAX);
			}
		}
}

static void what_was_dropped_is_proposed_again(void **state)
{
	struct readahead ahead = {0};
	uint64_t start, end;

	(void)state;
	assert_false(note(&ahead, 0, M, G, false, &start, &end));
	assert_true(note(&ahead, M, 2 * M, G, false, &start, &end));
	readahead_cut(&ahead, 3 * M, end);
	assert_true(note(&ahead, 2 * M, 3 * M, G, false, &start, &end));
	assert_int_equal(start, 3 * M);
	assert_int_equal(end, 5 * M); /* as long as before */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_window_doubles),
		cmocka_unit_test(it_ends_at_the_end_of_the_blob),
		cmocka_unit_test(beginnings_start_nothing),
		cmocka_unit_test(a_burst_in_any_order_is_one_stream),
		cmocka_unit_test(strides_start_nothing),
		cmocka_unit_test(random_reads_start_nothing),
		cmocka_unit_test(a_short_link_keeps_windows_short),
		cmocka_unit_test(lone_reads_start_nothing),
		cmocka_unit_test(small_files_in_a_row_are_one_stream),
		cmocka_unit_test(order_may_be_a_little_off),
		cmocka_unit_test(several_streams_live_side_by_side),
		cmocka_unit_test(what_was_dropped_is_proposed_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
