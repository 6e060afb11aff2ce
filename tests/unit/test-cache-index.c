/* SPDX-License-Identifier: Apache-2.0 */
/* A lost, damaged or failing index costs what was recorded, nothing else, and
 * is replaced while the process runs. */
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
#include "cache/index.h"

#define UNITS 8

static void fill(const char *dir)
{
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 1, UNITS);
	_Atomic int recorded = 0;

	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_put(blob, 1, unit, &recorded), 0);
	env_wait(&recorded, UNITS);
	cache_blob_close(blob);
	cache_close(cache);
}

static unsigned int present(const char *dir)
{
	struct cache *cache = env_open(dir);
	struct cache_blob *blob = env_blob(cache, 1, UNITS);
	unsigned int count = 0;

	for (uint64_t unit = 0; unit < UNITS; unit++)
		count += (unsigned int)env_check(blob, 1, unit);
	cache_blob_close(blob);
	cache_close(cache);
	return count;
}

static unsigned int kept_aside(const char *dir)
{
	unsigned int count = 0;
	struct dirent *entry;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((entry = readdir(d)))
		count += strncmp(entry->d_name, "index.bad-", 10) == 0;
	closedir(d);
	return count;
}

static void scribble(const char *path, off_t at, size_t len)
{
	uint8_t *noise = malloc(len);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	env_fill(99, 99, noise, len);
	assert_int_equal(pwrite(fd, noise, len, at), len);
	close(fd);
	free(noise);
}

static void test_damaged_is_moved_aside(void **state)
{
	char path[512];

	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		char *dir = scratch_directory();
		struct stat st;

		fill(dir);
		assert_int_equal(present(dir), UNITS);
		snprintf(path, sizeof(path), "%s/index/data.mdb", dir);
		assert_int_equal(stat(path, &st), 0);
		if (kind == 0) /* both meta pages */
			scribble(path, 0, 8192);
		else if (kind == 1)
			assert_int_equal(truncate(path, 100), 0);
		else if (kind == 2) /* metas stay, all pages gone */
			assert_int_equal(truncate(path, 8192), 0);
		else
			scribble(path, 8192, (size_t)st.st_size - 8192);
		assert_int_equal(present(dir), 0);
		assert_int_equal(kept_aside(dir), 1);
		fill(dir);
		assert_int_equal(present(dir), UNITS);
		assert_int_equal(kept_aside(dir), 1);
		env_remove(dir);
	}
}

static void test_few_are_kept_aside(void **state)
{
	char *dir = scratch_directory(), path[512];

	(void)state;
	fill(dir);
	for (int i = 0; i < 7; i++) {
		snprintf(path, sizeof(path), "%s/index.bad-100%d-1-0", dir, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_int_equal(present(dir), UNITS);
	assert_int_equal(kept_aside(dir), 4);
	assert_int_equal(access(path, F_OK), 0);
	env_remove(dir);
}

static void test_empty_index_is_new(void **state)
{
	char *dir = scratch_directory(), path[512];

	(void)state;
	fill(dir);
	snprintf(path, sizeof(path), "%s/index/data.mdb", dir);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(present(dir), 0);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/index", dir);
	assert_int_equal(remove_tree(AT_FDCWD, path), 0);
	assert_int_equal(present(dir), 0);
	fill(dir);
	assert_int_equal(present(dir), UNITS);
	env_remove(dir);
}

static void test_fails_while_running(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache_blob *blob, *other;
	struct cache_usage usage;
	struct cache *cache;
	_Atomic int recorded = 0;

	(void)state;
	fill(dir);
	cache = env_open(dir);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(env_check(blob, 1, 0), 1);
	snprintf(path, sizeof(path), "%s/index/data.mdb", dir);
	assert_int_equal(truncate(path, 0), 0);
	/* What is sound stays; what needs the index is a miss. */
	assert_int_equal(env_check(blob, 1, 0), 1);
	assert_int_equal(env_check(blob, 1, 1), 0);
	assert_int_equal(env_put(blob, 1, 1, &recorded), 0);
	assert_int_equal(env_check(blob, 1, 1), 1);
	/* New blobs work from memory and leave nothing behind. */
	other = env_blob(cache, 2, UNITS);
	assert_int_equal(env_put(other, 2, 0, &recorded), 0);
	assert_int_equal(env_check(other, 2, 0), 1);
	env_wait(&recorded, 2);
	assert_int_equal(cache_blob_bytes_present(other), UNIT);
	cache_usage(cache, &usage);
	if (!usage.records) /* it was not either when the blob was made */
		assert_false(env_blob_file(dir, 2, path, sizeof(path)));
	assert_int_equal(kept_aside(dir), 1);
	/* Soon there is a new one, and what is stored from then on is in it. */
	for (int i = 0; i < 4000 && !usage.records; i++) {
		usleep(5000);
		cache_usage(cache, &usage);
	}
	assert_true(usage.records);
	assert_int_equal(env_put(blob, 1, 2, &recorded), 0);
	env_wait(&recorded, 3);
	assert_int_equal(env_check(blob, 1, 0), 1);
	assert_int_equal(env_check(other, 2, 0), 1);
	cache_blob_close(blob);
	cache_blob_close(other);
	cache_close(cache);
	assert_in_range(present(dir), 1, 2);
	fill(dir);
	assert_int_equal(present(dir), UNITS);
	env_remove(dir);
}

/* Pages [first, end) of the index: as they are, or noise. */
static void rewrite(const char *path, off_t first, off_t end, bool is_noise)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t page[4096];

	assert_true(fd >= 0);
	for (off_t at = first * 4096; at < end * 4096; at += 4096) {
		assert_int_equal(pread(fd, page, sizeof(page), at), 4096);
		if (is_noise)
			env_fill(98, (uint64_t)at, page, sizeof(page));
		assert_int_equal(pwrite(fd, page, sizeof(page), at), 4096);
	}
	close(fd);
}

/* What others have written is not written on, whether it can be told from what
 * was there or not. */
static void test_written_by_others(void **state)
{
	char *dir = scratch_directory(), path[512];
	struct cache_usage usage = {0};
	_Atomic int recorded = 0;
	struct cache_blob *blob;
	struct cache *cache;
	struct stat st;
	int wanted = 0;

	(void)state;
	cache = env_open(dir);
	blob = env_blob(cache, 1, UNITS);
	snprintf(path, sizeof(path), "%s/index/data.mdb", dir);
	for (unsigned int i = 0; i < 4; i++) {
		/* known by then, and older than a tick of the clock */
		assert_int_equal(env_put(blob, 1, i, &recorded), 0);
		env_wait(&recorded, ++wanted);
		assert_int_equal(kept_aside(dir), i);
		usleep(50000);
		assert_int_equal(stat(path, &st), 0);
		rewrite(path, 2, i % 2 ? st.st_size / 4096 : 3, i % 2);
		assert_int_equal(env_put(blob, 1, UNITS - 1, &recorded), 0);
		env_wait(&recorded, ++wanted);
		assert_int_equal(kept_aside(dir), i + 1);
		usage.records = false;
		for (int n = 0; n < 12000 && !usage.records; n++) {
			usleep(5000);
			cache_usage(cache, &usage);
		}
		assert_true(usage.records);
		assert_int_equal(env_check(blob, 1, i), 1);
	}
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

static void test_full_disk(void **state)
{
	char *dir = scratch_directory(), path[512] = "";
	struct cache_blob *blob;
	struct cache *cache;
	struct cache_usage usage;
	_Atomic int recorded = 0;
	unsigned int stored = 0;
	struct stat st;
	int fd, r = 0;

	(void)state;
	if (mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=700") < 0)
		skip();
	snprintf(path, sizeof(path), "%s/filler", dir);
	cache = env_open_limited(dir, UINT64_C(16) << 20);
	blob = env_blob(cache, 1, 1000);
	assert_int_equal(env_put(blob, 1, 999, &recorded), 0);
	env_wait(&recorded, 1);
	/* Somebody else takes all there is. */
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (write(fd, path, sizeof(path)) > 0)
		;
	close(fd);
	usleep(300000);
	for (uint64_t unit = 0; unit < 100 && r == 0; unit++) {
		r = env_put(blob, 1, unit, &recorded);
		stored += r == 0;
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(env_check(blob, 1, 999), 1);
	cache_usage(cache, &usage);
	assert_true(usage.puts_failed >= 1);
	/* Holes need no space, but the index does: the ballast is given. */
	for (uint64_t unit = 600; unit < 900; unit++) {
		assert_int_equal(cache_blob_put(blob, unit, unit * UNIT, NULL,
						UNIT, env_count, &recorded),
				 0);
		stored++;
		if (unit % 10 == 0)
			env_wait(&recorded, (int)stored + 1);
	}
	env_wait(&recorded, (int)stored + 1);
	snprintf(path, sizeof(path), "%s/ballast", dir);
	assert_int_equal(stat(path, &st), -1);
	snprintf(path, sizeof(path), "%s/filler", dir);
	/* and gives it back */
	assert_int_equal(unlink(path), 0);
	usleep(300000);
	assert_int_equal(env_put(blob, 1, 500, &recorded), 0);
	env_wait(&recorded, (int)stored + 2);
	cache_blob_close(blob);
	cache_close(cache);
	cache = env_open_limited(dir, UINT64_C(16) << 20);
	blob = env_blob(cache, 1, 1000);
	assert_int_equal(env_check(blob, 1, 999), 1);
	assert_int_equal(env_check(blob, 1, 500), 1);
	for (uint64_t unit = 600; unit < 900; unit++)
		assert_int_equal(cache_blob_has(blob, unit, unit * UNIT, UNIT),
				 1);
	cache_blob_close(blob);
	cache_close(cache);
	assert_int_equal(umount(dir), 0);
	env_remove(dir);
}

static void test_stale_generation_is_void(void **state)
{
	char *dir = scratch_directory();
	struct index *index;
	struct index_op ops[3];
	struct blob_row row;
	struct unit_row unit;
	uint64_t used = 0;

	(void)state;
	assert_int_equal(index_open(dir, 0, &index, NULL), 0);
	for (int i = 0; i < 3; i++)
		ops[i] = (struct index_op){
			.kind = INDEX_RECORD,
			.id = env_id(1),
			.gen = 7,
			.may_create = true,
			.unit = (uint64_t)i * 100,
			.checksum = 40 + (uint64_t)i,
			.length = 10,
			.blob_bytes = 10000,
			.unit_count = 1000,
			.disk_bytes = 4096 * ((uint64_t)i + 1),
		};
	assert_int_equal(index_write(index, ops, 3, &used), 0);
	assert_int_equal(used, 3 * 4096);
	assert_int_equal(index_blob(index, &ops[0].id, &row), 1);
	assert_int_equal(row.present_units, 3);
	assert_int_equal(row.present_bytes, 30);
	assert_int_equal(index_unit(index, &ops[0].id, 7, 200, &unit), 1);
	assert_int_equal(unit.checksum, 42);
	assert_int_equal(index_unit(index, &ops[0].id, 8, 200, &unit), 0);
	assert_int_equal(index_unit(index, &ops[0].id, 7, 201, &unit), 0);

	/* Another generation: every change is refused. */
	ops[0].gen = ops[1].gen = ops[2].gen = 8;
	ops[1].kind = INDEX_DROP_UNIT;
	ops[2].kind = INDEX_DROP_BLOB;
	assert_int_equal(index_write(index, ops, 3, &used), 0);
	assert_int_equal(ops[0].result, -ESTALE);
	assert_int_equal(ops[1].result, -ESTALE);
	assert_int_equal(index_blob(index, &ops[0].id, &row), 1);
	assert_int_equal(row.gen, 7);
	assert_int_equal(row.present_units, 3);

	/* The right one goes, rows and total too, and is not made again by
	 * a late record. */
	ops[2].gen = 7;
	ops[2].unit = 0;
	assert_int_equal(index_write(index, &ops[2], 1, &used), 0);
	assert_int_equal(used, 0);
	assert_int_equal(index_blob(index, &ops[0].id, &row), 0);
	assert_int_equal(index_unit(index, &ops[0].id, 7, 200, &unit), 0);
	ops[0].gen = 7;
	ops[0].may_create = false;
	assert_int_equal(index_write(index, ops, 1, &used), 0);
	assert_int_equal(ops[0].result, -ESTALE);
	index_close(index);
	env_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_is_moved_aside),
		cmocka_unit_test(test_few_are_kept_aside),
		cmocka_unit_test(test_empty_index_is_new),
		cmocka_unit_test(test_fails_while_running),
		cmocka_unit_test(test_written_by_others),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_stale_generation_is_void),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
