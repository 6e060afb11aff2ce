/* SPDX-License-Identifier: Apache-2.0 */
/* Files chosen by patterns, below directories of every kind. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "format/catalog.h"
#include "small-mirror.h"

static struct small_mirror *mirror;

struct tally {
	size_t count;
	uint64_t bytes;
	char last[256];
	size_t limit;
};

static int count(void *arg, const struct selected_file *file)
{
	struct tally *tally = arg;

	tally->count++;
	tally->bytes += file->type == ENTRY_FILE ? file->size : 0;
	snprintf(tally->last, sizeof(tally->last), "%s", file->path);
	return tally->count == tally->limit ? 7 : 0;
}

static int select_files(const char *root, const char *const *globs,
			size_t glob_count, struct tally *tally, struct err *err)
{
	struct node *node = small_node(NULL, 20000);
	const char *mirrors[] = {mirror->dir};
	struct dataset *dataset = small_dataset(node, mirror, mirrors, 1);
	struct selection selection = {
		.snapshot = small_snapshot(dataset),
		.globs = globs,
		.glob_count = glob_count,
	};
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct entry_attr attr;
	int r;

	assert_int_equal(small_resolve(selection.snapshot, root, &attr, err),
			 0);
	selection.root = attr.number;
	r = snapshot_select(&selection, waiter, count, tally, err);
	blocking_waiter_free(waiter);
	snapshot_unref(selection.snapshot);
	node_close(node);
	return r;
}

static void patterns_choose(void **state)
{
	static const struct {
		const char *root, *glob;
		size_t count;
		const char *last; /* NULL: not looked at */
	} cases[] = {
		{"", "big.bin", 1, "big.bin"},
		{"", "/big.bin", 1, "big.bin"},
		{"", "004.txt", 1, "dir/sub/004.txt"},
		{"", "dir/sub/004.*", 1, "dir/sub/004.txt"},
		{"dir", "sub/004.txt", 1, "sub/004.txt"},
		{"dir/sub", "004.txt", 1, "004.txt"},
		{"many", NULL, SMALL_MANY, NULL},
		{"", "many", SMALL_MANY, NULL},
		{"", "many/0000?", 10, NULL},
		{"big.bin", NULL, 1, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *globs[] = {"nothing-at-all", cases[i].glob};
		struct tally tally = {0};
		struct err err = {0};
		int r = select_files(cases[i].root, globs,
				     cases[i].glob ? 2 : 0, &tally, &err);

		if (r != 0 || tally.count != cases[i].count)
			fail_msg("case %zu: %d, %zu files: %s", i, r,
				 tally.count, err.text);
		if (cases[i].last)
			assert_string_equal(tally.last, cases[i].last);
	}
}

static void everything_is_chosen(void **state)
{
	struct tally tally = {0};
	struct err err;
	uint64_t bytes = 0;

	(void)state;
	for (size_t i = 0; i < mirror->file_count; i++)
		bytes += mirror->files[i].size;
	assert_int_equal(select_files("", NULL, 0, &tally, &err), 0);
	assert_int_equal(tally.bytes, bytes);
}

static void what_cannot_be_is_said(void **state)
{
	const char *globs[] = {"nothing", "at-all"};
	struct tally tally = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(select_files("", globs, 2, &tally, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'nothing'"));
	assert_int_equal(select_files("big.bin", globs, 1, &tally, &err),
			 -ENOTDIR);
	assert_int_equal(tally.count, 0);
	tally.limit = 3;
	assert_int_equal(select_files("", NULL, 0, &tally, &err), 7);
	assert_int_equal(tally.count, 3);
}

static int set_up(void **state)
{
	(void)state;
	mirror = small_mirror_new(11, 1, SMALL_PLAIN, NULL);
	return mirror ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	small_mirror_free(mirror);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_choose),
		cmocka_unit_test(everything_is_chosen),
		cmocka_unit_test(what_cannot_be_is_said),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
