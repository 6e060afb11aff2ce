/* SPDX-License-Identifier: Apache-2.0 */
/* Whole publishes with small parameters, so that a few megabytes have many
 * blobs, catalogs and recipe pages. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "publish/parallel.h"
#include "publish/publish.h"

#include "publish-env.h"

/* What was synced, in place of the library's function. */
static char synced[1 << 16];
static pthread_mutex_t synced_lock = PTHREAD_MUTEX_INITIALIZER;

int fsync(int fd)
{
	char link[32], path[256];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	assert_true(n > 0);
	path[n] = '\0';
	pthread_mutex_lock(&synced_lock);
	n = (ssize_t)strlen(synced);
	snprintf(synced + n, sizeof(synced) - (size_t)n, "%s\n", path);
	pthread_mutex_unlock(&synced_lock);
	return (int)syscall(SYS_fsync, fd);
}

static const struct catalog_params small = {
	.chunker = {.min_bytes = 256,
		    .average_bytes = 1024,
		    .max_bytes = 4096,
		    .normalisation = 2},
	.small_file_bytes = 4096,
	.shared_min_bytes = 8192,
	.shared_mean_bytes = 24576,
	.shared_max_bytes = 65536,
	.split_min_entries = 32,
	.split_mean_entries = 64,
	.split_max_entries = 128,
};

static struct publish_options options_for(const struct publish_env *env,
					  const char *mirror)
{
	return (struct publish_options){
		.tree = env->tree,
		.mirror = mirror,
		.name = "set",
		.params = &small,
		.threads = 4,
	};
}

static void publish(const struct publish_options *options,
		    struct publish_result *ret)
{
	struct err err = {0};
	int r = publish_run(options, ret, &err);

	if (r < 0)
		fail_msg("publish: %s", err_text(&err, r));
}

static void report_fault(void *arg, const char *path, const char *text)
{
	(void)arg;
	fprintf(stderr, "fault: %s: %s\n", path, text);
}

static uint64_t faults_of(const char *mirror)
{
	const struct check_options options = {
		.mirror = mirror,
		.threads = 3,
		.report = report_fault,
	};
	struct check_result result;

	assert_int_equal(check_mirror(&options, &result, NULL), 0);
	return result.bad;
}

/* 600 files in directories of very different sizes. */
static void make_tree(const struct publish_env *env)
{
	for (int i = 0; i < 600; i++) {
		char path[64];
		size_t len = (size_t)i * 7919 % 6000;

		if (i % 3 == 0)
			snprintf(path, sizeof(path), "wide/%04d", i);
		else
			snprintf(path, sizeof(path), "d%d/e%d/f%d", i % 7,
				 i % 5, i);
		if (i % 50 == 0)
			len = 300000;
		put_random(env, path, len, (uint64_t)(i % 200));
	}
	put_random(env, "large", 6 << 20, 99); /* pages of its recipe */
	put_file(env, "empty", "", 0);
}

/* Threads, what the mirror has, and the place of the mirror do not show. */
static void test_one_digest(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result first, again, other;
	char elsewhere[100];

	make_tree(env);
	publish(&options, &first);
	assert_false(first.is_unchanged);
	assert_int_equal(first.head.serial, 1);
	assert_int_equal(first.files, 602);
	assert_int_equal(faults_of(env->mirror), 0);

	options.threads = 1;
	publish(&options, &again);
	assert_true(again.is_unchanged);
	assert_int_equal(again.new_bytes, 0);
	assert_true(digest_equal(&first.head.catalog, &again.head.catalog));

	for (unsigned int threads = 1; threads < 10; threads += 4) {
		snprintf(elsewhere, sizeof(elsewhere), "%s/m%u", env->dir,
			 threads);
		options.mirror = elsewhere;
		options.threads = threads;
		options.level = (int)threads;
		publish(&options, &other);
		assert_true(
			digest_equal(&first.head.catalog, &other.head.catalog));
		assert_int_equal(faults_of(elsewhere), 0);
	}
}

static void test_a_change_stores_little(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result first, second, third;

	make_tree(env);
	publish(&options, &first);
	put_random(env, "d3/new", 1000, 12345);
	publish(&options, &second);
	assert_int_equal(second.head.serial, 2);
	assert_true(second.new_bytes < 3 * small.shared_max_bytes);
	assert_false(digest_equal(&first.head.catalog, &second.head.catalog));
	assert_int_equal(faults_of(env->mirror), 0);

	/* and back again: nothing at all */
	assert_int_equal(unlinkat(env->tree_fd, "d3/new", 0), 0);
	options.threads = 1;
	publish(&options, &third);
	assert_int_equal(third.new_bytes, 0);
	/* the directory's time is part of the tree */
	assert_int_equal(third.head.serial, 3);
}

static void test_dry_run_writes_nothing(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result dry, wet;

	make_tree(env);
	options.is_dry_run = true;
	publish(&options, &dry);
	assert_int_equal(access(env->mirror, F_OK), -1);
	options.is_dry_run = false;
	publish(&options, &wet);
	assert_true(digest_equal(&dry.head.catalog, &wet.head.catalog));
	assert_int_equal(dry.stored_bytes, wet.stored_bytes);
	assert_int_equal(dry.new_bytes, wet.new_bytes);
}

static int expect_refusal(const struct publish_options *options,
			  const char *words)
{
	struct publish_result result;
	struct err err = {0};
	int r = publish_run(options, &result, &err);

	assert_true(r < 0);
	if (!strstr(err.text, words))
		fail_msg("said '%s', not '%s'", err.text, words);
	return r;
}

static void test_refusals(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);

	put_file(env, "f", "1", 1);
	options.name = "..";
	expect_refusal(&options, "'..' cannot be a dataset's name");
	options.name = "set";
	options.tag = "a/b";
	expect_refusal(&options, "'a/b' cannot be a tag");
	options.tag = NULL;
	options.tree = "/nowhere";
	expect_refusal(&options, "cannot open '/nowhere'");
	options.tree = env->tree;
	options.mirror = "http://host/m";
	expect_refusal(&options, "is for readers; this command takes");
	options.mirror = "file://host/m";
	expect_refusal(&options, "names another host");
	options.mirror = env->tree; /* has files and no marker */
	expect_refusal(&options, "is no mirror");
}

static void test_file_url(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, NULL);
	struct publish_result result;
	char url[120], path[120];

	put_file(env, "f", "1", 1);
	snprintf(url, sizeof(url), "file://%s/a%%20b", env->dir);
	snprintf(path, sizeof(path), "%s/a b/heads/set", env->dir);
	options.mirror = url;
	publish(&options, &result);
	assert_int_equal(access(path, F_OK), 0);
}

/* One that names a missing pack is written again. */
static void test_broken_mirror_is_mended(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result result;
	char packs[100], objects[100];

	make_tree(env);
	publish(&options, &result);
	snprintf(packs, sizeof(packs), "%s/packs", env->mirror);
	snprintf(objects, sizeof(objects), "%s/objects", env->mirror);
	assert_int_equal(remove_tree(AT_FDCWD, packs), 0);
	assert_true(faults_of(env->mirror) > 0); /* and it prints them */
	publish(&options, &result);
	assert_true(result.is_unchanged);
	assert_int_equal(faults_of(env->mirror), 0);
	assert_int_equal(remove_tree(AT_FDCWD, objects), 0);
	assert_true(faults_of(env->mirror) > 0);
	publish(&options, &result);
	assert_int_equal(result.new_bytes, 0);
	assert_int_equal(faults_of(env->mirror), 0);
}

static void test_stopping_keeps_what_was_packed(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	volatile sig_atomic_t stop = 1;
	struct publish_result result;

	make_tree(env);
	options.stop = &stop;
	/* so small a tree may be done before the first tick */
	if (publish_run(&options, &result, NULL) == 0)
		skip();
	stop = 0;
	publish(&options, &result);
	assert_int_equal(result.head.serial, 1);
	assert_int_equal(faults_of(env->mirror), 0);
}

static void test_a_check_is_stopped(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	const volatile sig_atomic_t stop = 1;
	const struct check_options check = {
		.mirror = env->mirror,
		.threads = 1,
		.stop = &stop,
	};
	struct publish_result result;
	struct check_result checked;
	struct err err;

	put_random(env, "file", 100000, 1);
	publish(&options, &result);
	assert_int_equal(check_mirror(&check, &checked, &err), -ECANCELED);
	assert_string_equal(err.text, "stopped by a signal");
}

static int fail_at_seven(void *arg, size_t index, struct err *err)
{
	(void)arg;
	return index == 7 ? err_set(err, EDOM, "not %zu", index) : 0;
}

static void test_the_reason_of_a_thread_is_told(void **state)
{
	struct err err = {0};

	(void)state;
	for (unsigned int threads = 1; threads < 5; threads += 3)
		assert_int_equal(
			parallel_for(20, threads, fail_at_seven, NULL, &err),
			-EDOM);
	assert_string_equal(err.text, "not 7");
}

static bool was_synced(const struct publish_env *env, const char *path)
{
	char line[256];

	assert_true(snprintf(line, sizeof(line), "%s/%s\n", env->mirror, path) <
		    (int)sizeof(line));
	return strstr(synced, line);
}

/* After a power cut a head must not name what is not there. */
static void test_packs_and_their_names_are_synced(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result result;
	struct dirent *entry;
	char path[300];
	DIR *dir;

	synced[0] = '\0';
	put_random(env, "file", 100000, 1);
	publish(&options, &result);
	assert_non_null(strstr(synced, "/packs/.tmp-"));
	assert_true(was_synced(env, "packs"));
	snprintf(path, sizeof(path), "%s/packs", env->mirror);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "packs/%s", entry->d_name);
		if (entry->d_name[0] != '.')
			assert_true(was_synced(env, path));
	}
	closedir(dir);
}

static void test_only_zeros(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result result;
	char zeros[10000] = {0};
	int fd;

	put_file(env, "inline", zeros, sizeof(zeros));
	put_file(env, "hole", "", 0);
	fd = openat(env->tree_fd, "hole", O_WRONLY);
	assert_int_equal(ftruncate(fd, 20 << 20), 0);
	close(fd);
	publish(&options, &result);
	assert_int_equal(result.stored_bytes, 0);
	assert_int_equal(result.zero_bytes, (20 << 20) + sizeof(zeros));
	assert_int_equal(faults_of(env->mirror), 0);
}

static void test_empty_tree(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result result;

	publish(&options, &result);
	assert_int_equal(result.head.entry_count, 0);
	assert_int_equal(faults_of(env->mirror), 0);
}

/* Keys and heads. */

static void test_signed_stays_signed(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result result;
	struct secret_key key;
	struct head head;

	assert_int_equal(secret_key_new(&key), 0);
	put_file(env, "f", "1", 1);
	publish(&options, &result);
	options.key = &key; /* unsigned before: signs what is unchanged */
	publish(&options, &result);
	assert_int_equal(result.head.serial, 2);
	publish(&options, &result);
	assert_true(result.is_unchanged);
	options.key = NULL;
	assert_int_equal(expect_refusal(&options, "is signed by key"),
			 -EKEYREJECTED);
	assert_int_equal(publish_tag(env->mirror, NULL, "set", "t", 0, NULL, false,
				     &head, NULL),
			 -EKEYREJECTED);
	assert_int_equal(publish_rollback(env->mirror, NULL, "set", "1", NULL, false,
					  &head, NULL),
			 -EKEYREJECTED);
	options.is_forced = true;
	publish(&options, &result);
	assert_int_equal(result.head.serial, 3);
}

static void test_tags_and_rollback(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	struct publish_result one, two;
	struct digest first;
	struct head head;
	char text[DIGEST_TEXT_MAX];

	put_file(env, "f", "1", 1);
	options.tag = "v1";
	publish(&options, &one);
	first = one.head.catalog;
	put_file(env, "f", "2", 1);
	expect_refusal(&options, "tag 'v1' is on serial 1");
	options.tag = NULL;
	publish(&options, &two);
	assert_int_equal(two.head.serial, 2);

	assert_int_equal(publish_tag(env->mirror, NULL, "set", "v2", 0, NULL, false,
				     &head, NULL),
			 0);
	assert_int_equal(head.serial, 2);
	assert_int_equal(publish_tag(env->mirror, NULL, "set", "v2", 1, NULL, false,
				     &head, NULL),
			 -EEXIST);
	assert_int_equal(publish_tag(env->mirror, NULL, "set", "v2", 1, NULL, true,
				     &head, NULL),
			 -EINVAL); /* readers would not follow */
	assert_int_equal(publish_tag(env->mirror, NULL, "set", "v3", 9, NULL, false,
				     &head, NULL),
			 -ENOENT);

	digest_text(&first, text);
	text[7 + 10] = '\0'; /* the start of it is enough */
	assert_int_equal(publish_rollback(env->mirror, NULL, "set", text + 7, NULL,
					  false, &head, NULL),
			 0);
	assert_int_equal(head.serial, 3);
	assert_true(digest_equal(&head.catalog, &first));
	assert_int_equal(publish_rollback(env->mirror, NULL, "set", "1", NULL, false,
					  &head, NULL),
			 -EEXIST);
	assert_int_equal(publish_rollback(env->mirror, NULL, "none", "1", NULL, false,
					  &head, NULL),
			 -ENOENT);
	assert_int_equal(publish_untag(env->mirror, NULL, "set", "v2", NULL), 0);
	assert_int_equal(publish_untag(env->mirror, NULL, "set", "v2", NULL),
			 -ENOENT);
}

static int count_head(void *arg, enum publish_head_kind kind, const char *path,
		      const struct head *head, const char *err_text)
{
	unsigned int *counts = arg;

	(void)path;
	(void)head;
	assert_null(err_text);
	counts[kind]++;
	return 0;
}

static void test_log_has_all(void **state)
{
	const struct publish_env *env = *state;
	struct publish_options options = options_for(env, env->mirror);
	unsigned int counts[3] = {0};
	struct publish_result result;
	struct err err;

	put_file(env, "f", "1", 1);
	options.name = "a/b";
	publish(&options, &result);
	put_file(env, "f", "2", 1);
	options.tag = "t";
	publish(&options, &result);
	options.tag = NULL;
	options.name = "a";
	expect_refusal(&options, "may not be a directory of another's");
	options.name = "a-b";
	publish(&options, &result);
	assert_int_equal(
		publish_log(env->mirror, NULL, NULL, count_head, counts, NULL), 0);
	assert_int_equal(counts[PUBLISH_CURRENT], 2);
	assert_int_equal(counts[PUBLISH_TAGGED], 1);
	assert_int_equal(counts[PUBLISH_HISTORY], 3);
	assert_int_equal(
		publish_log(env->mirror, NULL, "b", count_head, counts, &err),
		-ENOENT);
}

#define TEST(function)                                                         \
	cmocka_unit_test_setup_teardown(function, publish_env_setup,           \
					publish_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_digest),
		TEST(test_a_change_stores_little),
		TEST(test_dry_run_writes_nothing),
		TEST(test_refusals),
		TEST(test_file_url),
		TEST(test_broken_mirror_is_mended),
		TEST(test_stopping_keeps_what_was_packed),
		TEST(test_a_check_is_stopped),
		TEST(test_the_reason_of_a_thread_is_told),
		TEST(test_packs_and_their_names_are_synced),
		TEST(test_only_zeros),
		TEST(test_empty_tree),
		TEST(test_signed_stays_signed),
		TEST(test_tags_and_rollback),
		TEST(test_log_has_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
