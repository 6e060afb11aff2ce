/* SPDX-License-Identifier: Apache-2.0 */
/* Which snapshot a dataset is: whom it believes, what it falls back on, how
 * it notices a new one. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/io.h"
#include "dataset/head.h"
#include "small-mirror.h"

static struct small_mirror *first, *second; /* serials 1 and 2, one key */

static void move(const char *from, const char *to)
{
	assert_int_equal(rename(from, to), 0);
}

static int add(struct node *node, struct dataset_options options,
	       struct dataset **ret, struct err *err)
{
	const char *mirrors[] = {first->dir};

	if (!options.name)
		options.name = SMALL_NAME;
	if (!options.mirrors) {
		options.mirrors = mirrors;
		options.mirror_count = 1;
	}
	return dataset_add(node, &options, ret, err);
}

static void impossible_options_are_refused(void **state)
{
	struct node *node = small_node(NULL, 1000);
	const char *keys[] = {first->key_file}, *no_key[] = {"/nowhere"};
	const char *mirrors[17];
	struct dataset *dataset;
	struct err err = {""};

	(void)state;
	for (int i = 0; i < 17; i++)
		mirrors[i] = first->dir;
	assert_int_equal(add(node, (struct dataset_options){0}, &dataset, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, "no trusted key"));
	assert_int_equal(add(node,
			     (struct dataset_options){.key_files = no_key,
						      .key_count = 1},
			     &dataset, &err),
			 -ENOENT);
	assert_non_null(strstr(err.text, "/nowhere"));
	assert_int_equal(add(node,
			     (struct dataset_options){.remote_name = "../up",
						      .insecure = true},
			     &dataset, &err),
			 -EINVAL);
	assert_int_equal(add(node,
			     (struct dataset_options){.mirrors = mirrors,
						      .mirror_count = 17,
						      .key_files = keys,
						      .key_count = 1},
			     &dataset, &err),
			 -EINVAL);
	node_close(node);
}

static void a_wrong_key_is_not_believed(void **state)
{
	struct small_mirror *stranger =
		small_mirror_new(9, 1, SMALL_PLAIN, NULL);
	const char *mirrors[] = {first->dir};
	struct node *node = small_node(NULL, 5000);
	struct dataset *dataset = small_dataset(node, stranger, mirrors, 1);
	struct dataset_info info;
	struct snapshot *snapshot;
	struct err err = {""};

	(void)state;
	assert_int_equal(small_current(dataset, &snapshot, &err), -EACCES);
	assert_non_null(strstr(err.text, "cannot open dataset 'small'"));
	dataset_info(dataset, &info);
	assert_int_equal(info.state, DATASET_FAILED);
	assert_true(info.reason[0]);
	/* Unless nobody is asked to be believed. */
	assert_int_equal(add(node, (struct dataset_options){.insecure = true},
			     &dataset, &err),
			 0);
	assert_int_equal(small_current(dataset, &snapshot, &err), 0);
	snapshot_unref(snapshot);
	node_close(node);
	small_mirror_free(stranger);
}

static void what_is_missing_is_named(void **state)
{
	const char *keys[] = {first->key_file}, *nowhere[] = {"/nonexistent"};
	struct node *node = small_node(NULL, 1000);
	struct dataset *dataset;
	struct snapshot *snapshot;
	struct err err = {""};

	(void)state;
	assert_int_equal(add(node,
			     (struct dataset_options){.name = "x",
						      .remote_name = "other",
						      .key_files = keys,
						      .key_count = 1},
			     &dataset, &err),
			 0);
	/* Never -ENOENT: a mirror without it is no proof. */
	assert_int_equal(small_current(dataset, &snapshot, &err), -EIO);
	assert_non_null(
		strstr(err.text, "no dataset 'other' there (larder log"));
	assert_int_equal(add(node,
			     (struct dataset_options){.mirrors = nowhere,
						      .mirror_count = 1,
						      .key_files = keys,
						      .key_count = 1},
			     &dataset, &err),
			 0);
	assert_int_equal(small_current(dataset, &snapshot, &err), -EIO);
	assert_non_null(strstr(err.text, "/nonexistent"));
	node_close(node);
}

static void the_next_mirror_has_a_head_too(void **state)
{
	const char *mirrors[] = {"/nonexistent", "http://127.0.0.1:1/m",
				 first->dir};
	struct node *node = small_node(NULL, 5000);
	struct dataset *dataset = small_dataset(node, first, mirrors, 3);
	struct snapshot *snapshot = small_snapshot(dataset);
	struct dataset_info info;

	(void)state;
	dataset_info(dataset, &info);
	assert_int_equal(info.state, DATASET_OK);
	assert_int_equal(info.serial, 1);
	assert_true(info.entry_count > SMALL_MANY);
	snapshot_unref(snapshot);
	node_close(node);
}

static void the_last_good_head_serves_when_no_mirror_answers(void **state)
{
	char *dir = scratch_directory(), away[300];
	const char *mirrors[] = {first->dir};
	struct node *node = small_node(dir, 5000);
	struct dataset *dataset = small_dataset(node, first, mirrors, 1);
	struct snapshot *snapshot = small_snapshot(dataset);
	struct dataset_info info;
	uint64_t start;

	(void)state;
	small_check_all(snapshot, first);
	snapshot_unref(snapshot);
	node_close(node);
	snprintf(away, sizeof(away), "%s/away", first->root);
	move(first->dir, away);
	node = small_node(dir, 5000);
	dataset = small_dataset(node, first, mirrors, 1);
	start = now_ms();
	snapshot = small_snapshot(dataset);
	assert_true(now_ms() - start < 4000);
	dataset_info(dataset, &info);
	assert_int_equal(info.state, DATASET_STALE);
	assert_true(info.reason[0]);
	small_check_all(snapshot, first);
	snapshot_unref(snapshot);
	node_close(node);
	move(away, first->dir);
	small_directory_remove(dir);
}

static void note_change(void *arg, struct dataset *dataset)
{
	(void)dataset;
	atomic_store((atomic_bool *)arg, true);
}

static void a_new_head_is_noticed_and_an_old_one_refused(void **state)
{
	char *dir = scratch_directory(), live[300], spare[300];
	const char *keys[] = {first->key_file};
	struct dataset_options options = {
		.name = SMALL_NAME,
		.key_files = keys,
		.key_count = 1,
		.mirror_count = 1,
	};
	struct node_options node_options = {
		.cache_dir = dir,
		.cache_min_free_bytes = 1,
		.timeout_ms = 5000,
		.refresh_ms = 200,
	};
	const char *mirrors[1];
	struct snapshot *old, *new;
	struct dataset *dataset;
	struct dataset_info info;
	atomic_bool is_changed = false;
	struct err err = {""};
	struct node *node;

	(void)state;
	snprintf(live, sizeof(live), "%s/live", first->root);
	snprintf(spare, sizeof(spare), "%s/spare", first->root);
	mirrors[0] = live;
	options.mirrors = mirrors;
	move(first->dir, live);
	assert_int_equal(node_open(&node_options, &node, &err), 0);
	assert_int_equal(dataset_add(node, &options, &dataset, &err), 0);
	dataset_on_change(dataset, note_change, &is_changed);
	old = small_snapshot(dataset);
	usleep(600000);
	assert_false(is_changed);
	/* The second snapshot appears at the same place. */
	move(live, spare);
	move(second->dir, live);
	for (int i = 0; i < 500 && !is_changed; i++)
		usleep(10000);
	assert_true(is_changed);
	new = small_snapshot(dataset);
	assert_false(digest_equal(snapshot_digest(old), snapshot_digest(new)));
	small_check_all(new, second);
	/* Serial 1 again: readers stay where they are. */
	move(live, second->dir);
	move(spare, live);
	usleep(800000);
	dataset_info(dataset, &info);
	assert_int_equal(info.serial, 2);
	assert_int_equal(info.state, DATASET_STALE);
	snapshot_unref(old);
	snapshot_unref(new);
	node_close(node);
	/* And after a restart, from the cache. */
	assert_int_equal(node_open(&node_options, &node, &err), 0);
	assert_int_equal(dataset_add(node, &options, &dataset, &err), 0);
	new = small_snapshot(dataset);
	dataset_info(dataset, &info);
	assert_int_equal(info.serial, 2);
	snapshot_unref(new);
	node_close(node);
	move(live, first->dir);
	small_directory_remove(dir);
}

static void looks_are_spread(void **state)
{
	(void)state;
	assert_int_equal(refresh_delay_ms(60000, false, 0), 52500);
	assert_int_equal(refresh_delay_ms(60000, false, 7500), 60000);
	assert_int_equal(refresh_delay_ms(60000, false, 15000), 67500);
	assert_int_equal(refresh_delay_ms(60000, false, 15001), 52500);
	assert_int_equal(refresh_delay_ms(60000, true, 1250), 10000);
	assert_int_equal(refresh_delay_ms(4000, true, 0), 3500);
	assert_int_equal(refresh_delay_ms(0, false, 12345), 0);
}

static int make_mirrors(void **state)
{
	(void)state;
	first = small_mirror_new(30, 1, SMALL_PLAIN, NULL);
	second = small_mirror_new(31, 2, SMALL_PLAIN, first);
	return 0;
}

static int remove_mirrors(void **state)
{
	(void)state;
	small_mirror_free(second);
	small_mirror_free(first);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(impossible_options_are_refused),
		cmocka_unit_test(a_wrong_key_is_not_believed),
		cmocka_unit_test(what_is_missing_is_named),
		cmocka_unit_test(the_next_mirror_has_a_head_too),
		cmocka_unit_test(
			the_last_good_head_serves_when_no_mirror_answers),
		cmocka_unit_test(a_new_head_is_noticed_and_an_old_one_refused),
		cmocka_unit_test(looks_are_spread),
	};

	return cmocka_run_group_tests(tests, make_mirrors, remove_mirrors);
}
