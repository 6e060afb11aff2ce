/* SPDX-License-Identifier: Apache-2.0 */
/* The directories above the datasets, and the numbers of inodes. */
#include <config.h>
#undef NDEBUG

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mount/tree.h"

/* Never looked into by what is tested here. */
static struct dataset *dataset_of(int number)
{
	return (struct dataset *)(uintptr_t)(0x1000 + number);
}

static int add(struct tree *tree, const char *path, int number, struct err *err)
{
	const struct tree_leaf leaf = {.dataset = dataset_of(number)};

	return tree_add(tree, path, &leaf, err);
}

static void test_inode_numbers_come_apart(void **state)
{
	static const struct {
		uint32_t slot;
		uint64_t number;
	} cases[] = {
		{0, 0},
		{1, 0},
		{65535, 0},
		{1, (UINT64_C(1) << 48) - 2},
		{65535, (UINT64_C(1) << 48) - 2},
		{7, 123456789},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ino = ino_make(cases[i].slot, cases[i].number);

		assert_int_equal(ino_slot(ino), cases[i].slot);
		assert_int_equal(ino_number(ino), cases[i].number);
	}
	assert_int_equal(ino_make(0, 0), 1); /* FUSE_ROOT_ID */
	/* what the kernel never got from us finds nothing */
	assert_true(ino_number(0) > UINT32_MAX);
	assert_true(ino_number(UINT64_C(1) << 48) > UINT32_MAX);
}

static void test_names_are_found_and_sorted(void **state)
{
	static const char *const names[] = {"b",  "a/z",  "c", "a/b/c", "a/b/d",
					    "aa", "a/b-", "B", "a-"};
	static const char *const top[] = {"B", "a", "a-", "aa", "b", "c"};
	static const char *const below[] = {"b", "b-", "z"};
	struct tree tree;

	assert_int_equal(tree_init(&tree, NULL), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(add(&tree, names[i], (int)i, NULL), 0);
	struct tree_dir *root = tree_get(&tree, 0);
	assert_int_equal(tree_children(root)->count, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_string_equal(
			tree_get(&tree, tree_children(root)->at[i])->name,
			top[i]);
	struct tree_dir *a = tree_find(&tree, root, "a");
	assert_non_null(a);
	assert_null(a->dataset);
	assert_int_equal(tree_children(a)->count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_string_equal(
			tree_get(&tree, tree_children(a)->at[i])->name,
			below[i]);
	struct tree_dir *b = tree_find(&tree, a, "b");
	assert_int_equal(b->parent, a->index);
	assert_ptr_equal(tree_find(&tree, b, "d")->dataset, dataset_of(4));
	assert_null(tree_find(&tree, root, "ab"));
	assert_null(tree_find(&tree, root, ""));
	assert_null(tree_get(&tree, atomic_load(&tree.dir_count)));
	assert_null(tree_get(&tree, UINT64_MAX));
	assert_null(tree_slot(&tree, 1));
	assert_null(tree_slot(&tree, SLOTS_MAX));
	tree_release(&tree);
}

static void test_datasets_do_not_overlap(void **state)
{
	struct err err = {0};
	struct tree tree;

	assert_int_equal(tree_init(&tree, NULL), 0);
	assert_int_equal(add(&tree, "a/b", 1, NULL), 0);
	assert_int_equal(add(&tree, "a/b", 2, &err), -EEXIST);
	assert_non_null(strstr(err.text, "twice"));
	assert_int_equal(add(&tree, "a/b/c", 2, &err), -EEXIST);
	assert_non_null(strstr(err.text, "'a/b/c' lies inside dataset 'a/b'"));
	assert_int_equal(add(&tree, "a", 2, &err), -EEXIST);
	assert_non_null(strstr(err.text, "inside dataset 'a'"));
	tree_release(&tree);
	/* the root itself */
	assert_int_equal(tree_init(&tree, NULL), 0);
	assert_int_equal(add(&tree, "", 1, NULL), 0);
	assert_ptr_equal(tree_get(&tree, 0)->dataset, dataset_of(1));
	tree_release(&tree);
}

static void test_many_names(void **state)
{
	struct tree tree;
	char name[32];

	assert_int_equal(tree_init(&tree, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "d%d/e%d", i % 50,
			 i * 7919 % 3000);
		assert_int_equal(add(&tree, name, i, NULL), 0);
	}
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "d%d", i % 50);
		struct tree_dir *dir =
			tree_find(&tree, tree_get(&tree, 0), name);
		snprintf(name, sizeof(name), "e%d", i * 7919 % 3000);
		assert_ptr_equal(tree_find(&tree, dir, name)->dataset,
				 dataset_of(i));
	}
	tree_release(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inode_numbers_come_apart),
		cmocka_unit_test(test_names_are_found_and_sorted),
		cmocka_unit_test(test_datasets_do_not_overlap),
		cmocka_unit_test(test_many_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
