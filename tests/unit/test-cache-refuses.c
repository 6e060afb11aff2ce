/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that cannot be a cache are refused by name, with the way out. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cache-env.h"

static void refused(const char *dir, int errnum, const char *words)
{
	struct cache_options options = { .dir = dir };
	struct cache *cache = NULL;
	struct err err = { "" };

	assert_int_equal(cache_open(&options, &cache, &err), -errnum);
	assert_null(cache);
	assert_non_null(strstr(err.text, dir));
	if (!strstr(err.text, words))
		fail_msg("'%s' lacks '%s'", err.text, words);
}

static void write_text(const char *dir, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(file_write(AT_FDCWD, path, text, strlen(text), 0600,
				    0), 0);
}

static void test_a_file(void **state)
{
	char *dir = scratch_directory(), path[512];

	(void)state;
	write_text(dir, "file", "");
	snprintf(path, sizeof(path), "%s/file", dir);
	refused(path, ENOTDIR, "not a directory");
	env_remove(dir);
}

static void test_other_version(void **state)
{
	char *dir = scratch_directory();

	(void)state;
	write_text(dir, "larder-cache", "larder-cache 2\n");
	refused(dir, EPROTONOSUPPORT, "'larder-cache 2'");
	write_text(dir, "larder-cache", "other");
	refused(dir, EPROTONOSUPPORT, "remove");
	env_remove(dir);
}

/* What a power cut may leave of a directory that was being made. */
static void test_empty_version(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct stat st;

	(void)state;
	write_text(dir, "larder-cache", "");
	write_text(dir, "thesis.tex", "years of work");
	refused(dir, ENOTEMPTY, "choose an empty directory");
	snprintf(path, sizeof(path), "%s/thesis.tex", dir);
	assert_int_equal(unlink(path), 0);
	write_text(dir, "CACHEDIR.TAG", "");
	cache_close(env_open(dir));
	snprintf(path, sizeof(path), "%s/larder-cache", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 0);
	snprintf(path, sizeof(path), "%s/CACHEDIR.TAG", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 0);
	env_remove(dir);
}

static void test_other_things(void **state)
{
	char *dir = scratch_directory();

	(void)state;
	write_text(dir, "thesis.tex", "years of work");
	refused(dir, ENOTEMPTY, "choose an empty directory");
	env_remove(dir);
}

static void test_world_writable(void **state)
{
	char *dir = scratch_directory();

	(void)state;
	assert_int_equal(chmod(dir, 0777), 0);
	refused(dir, EPERM, "chmod o-w");
	env_remove(dir);
}

static void test_foreign_owner(void **state)
{
	char *dir = scratch_directory();

	(void)state;
	if (chown(dir, 12345, 12345) < 0)
		skip();
	refused(dir, EPERM, "belongs to user 12345");
	env_remove(dir);
}

static void test_missing_parents_are_made(void **state)
{
	char *dir = scratch_directory(), path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s/a/b/c", dir);
	cache_close(env_open(path));
	cache_close(env_open(path));
	env_remove(dir);
}

static void test_read_only_disk(void **state)
{
	char *dir = scratch_directory();
	struct cache_blob *blob;
	struct cache *cache;
	_Atomic int recorded = 0;

	(void)state;
	if (mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=700") < 0)
		skip();
	cache = env_open(dir);
	blob = env_blob(cache, 1, 8);
	assert_int_equal(env_put(blob, 1, 3, &recorded), 0);
	env_wait(&recorded, 1);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, ""),
			 0);
	cache = env_open(dir);
	blob = env_blob(cache, 1, 8);
	assert_int_equal(env_check(blob, 1, 3), 1);
	assert_int_equal(env_put(blob, 1, 4, &recorded), -EROFS);
	assert_int_equal(cache_claim(cache, &(struct digest){ .type = 1 }), 1);
	cache_wait(cache, 10);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(atomic_load(&recorded), 1);
	assert_int_equal(umount(dir), 0);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file),
		cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_empty_version),
		cmocka_unit_test(test_other_things),
		cmocka_unit_test(test_world_writable),
		cmocka_unit_test(test_foreign_owner),
		cmocka_unit_test(test_missing_parents_are_made),
		cmocka_unit_test(test_read_only_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
