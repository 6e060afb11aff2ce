/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The complete mark: set once all units are recorded and found on disk as they
 * were put; void as soon as somebody else touches the file, after which what
 * is wrong is found and what is right is marked anew.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cache-env.h"
#include "cache/internal.h"

#define UNITS 100u

/* Within 20 s; the descriptor of the sealed file. */
static int wait_sealed(struct cache_blob *blob)
{
	int fd = -1;

	for (int i = 0; i < 4000; i++) {
		if (cache_blob_sealed_fd(blob, &fd) == 1)
			return fd;
		usleep(5000);
	}
	fail_msg("not sealed within 20 s");
	return -1;
}

static void put_all(struct cache_blob *blob, unsigned int number)
{
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_put(blob, number, unit, NULL), 0);
}

static uint64_t dropped(struct cache *cache)
{
	struct cache_usage usage;

	cache_usage(cache, &usage);
	return usage.units_dropped_corrupt;
}

static void flip(const char *path, uint64_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char byte = 0;

	assert_true(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
	byte ^= 0x40;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

static int all_setup(void **state)
{
	*state = scratch_directory();
	return 0;
}

static int all_teardown(void **state)
{
	env_remove(*state);
	return 0;
}

static void test_marks_what_is_complete(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 1, UNITS);
	struct stat sealed, named;
	char path[600];
	int fd;

	for (uint64_t unit = 0; unit + 1 < UNITS; unit++)
		assert_int_equal(env_put(blob, 1, unit, NULL), 0);
	usleep(50000);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	assert_int_equal(env_put(blob, 1, UNITS - 1, NULL), 0);
	fd = wait_sealed(blob);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_true(env_blob_file(*state, 1, path, sizeof(path)));
	assert_int_equal(fstat(fd, &sealed), 0);
	assert_int_equal(stat(path, &named), 0);
	assert_int_equal(sealed.st_ino, named.st_ino);
	assert_int_equal(sealed.st_size, UNITS * UNIT);
	close(fd);
	/* It stays so, also when a unit comes twice. */
	assert_int_equal(env_put(blob, 1, 3, NULL), 0);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 1);
	close(fd);
	cache_blob_close(blob);
	cache_close(cache);
	/* And for the next process, at once. */
	cache = env_open(*state);
	blob = env_blob(cache, 1, UNITS);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 1);
	close(fd);
	cache_blob_close(blob);
	cache_close(cache);
}

/* A process that ends before it has marked: the next one does. */
static void test_marks_what_others_left(void **state)
{
	struct cache *cache;
	struct cache_blob *blob;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		_Atomic int recorded = 0;

		cache = env_open(*state);
		blob = env_blob(cache, 2, UNITS);
		for (uint64_t unit = 0; unit < UNITS; unit++)
			(void)env_put(blob, 2, unit, &recorded);
		env_wait(&recorded, UNITS);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	cache = env_open(*state);
	blob = env_blob(cache, 2, UNITS);
	close(wait_sealed(blob));
	cache_blob_close(blob);
	cache_close(cache);
}

static void test_change_in_place_is_seen(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 3, UNITS);
	uint64_t at, len;
	char path[600];
	int fd;

	put_all(blob, 3);
	close(wait_sealed(blob));
	assert_true(env_blob_file(*state, 3, path, sizeof(path)));
	assert_int_equal(env_check(blob, 3, 7), 1);
	flip(path, 7 * UNIT + 100);
	/* Not at the next start: now. */
	assert_int_equal(cache_blob_fd(blob, 7 * UNIT, &fd, &at, &len),
			 -EAGAIN);
	assert_int_equal(env_check(blob, 3, 7), 0);
	assert_int_equal(env_check(blob, 3, 8), 1);
	assert_int_equal(dropped(cache), 1);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	/* Who checks it for its mark may find it bad, too, and late. */
	for (int i = 0; cache_blob_sealed_fd(blob, &fd) == 0; i++) {
		assert_true(i < 4000);
		if (!env_check(blob, 3, 7))
			assert_int_equal(env_put(blob, 3, 7, NULL), 0);
		usleep(5000);
	}
	close(fd);
	assert_int_equal(env_check(blob, 3, 7), 1);
	cache_blob_close(blob);
	cache_close(cache);
}

/* Also before it is complete, where our own writes change its times too. */
static void test_change_of_incomplete_is_seen(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 7, UNITS);
	_Atomic int recorded = 0;
	char path[600];

	for (uint64_t unit = 0; unit < 20; unit++)
		assert_int_equal(env_put(blob, 7, unit, &recorded), 0);
	env_wait(&recorded, 20);
	for (uint64_t unit = 0; unit < 20; unit++)
		assert_int_equal(env_check(blob, 7, unit), 1);
	assert_true(env_blob_file(*state, 7, path, sizeof(path)));
	usleep(20000);
	flip(path, 7 * UNIT + 100);
	/* The first to ask for a descriptor sees it, whatever it asks for. */
	assert_int_equal(env_check(blob, 7, 8), 1);
	assert_int_equal(env_check(blob, 7, 7), 0);
	assert_int_equal(dropped(cache), 1);
	assert_int_equal(env_put(blob, 7, 7, NULL), 0);
	assert_int_equal(env_check(blob, 7, 7), 1);
	cache_blob_close(blob);
	cache_close(cache);
}

/* Who sets the file's time back is not believed: there is another one, which
 * nobody can set. */
static void test_change_with_old_times_is_seen(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 9, UNITS);
	struct timespec times[2];
	struct stat before;
	char path[600];
	int fd;

	put_all(blob, 9);
	close(wait_sealed(blob));
	assert_true(env_blob_file(*state, 9, path, sizeof(path)));
	assert_int_equal(stat(path, &before), 0);
	flip(path, 7 * UNIT + 100);
	times[0] = before.st_atim;
	times[1] = before.st_mtim;
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	assert_int_equal(env_check(blob, 9, 7), 0);
	cache_blob_close(blob);
	cache_close(cache);
}

/* What is only touched is marked anew, nothing is dropped. */
static void test_touched_file_is_marked_anew(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 4, UNITS);
	char path[600];
	int fd;

	put_all(blob, 4);
	close(wait_sealed(blob));
	assert_true(env_blob_file(*state, 4, path, sizeof(path)));
	assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	close(wait_sealed(blob));
	assert_int_equal(dropped(cache), 0);
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(env_check(blob, 4, unit), 1);
	cache_blob_close(blob);
	cache_close(cache);
}

/* Changed while nobody had it open: the mark does not hold, and checking
 * finds the unit before anybody has asked for it. */
static void test_change_between_processes(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 5, UNITS);
	char path[600];
	int fd;

	put_all(blob, 5);
	close(wait_sealed(blob));
	cache_blob_close(blob);
	cache_close(cache);
	assert_true(env_blob_file(*state, 5, path, sizeof(path)));
	flip(path, 99 * UNIT);
	cache = env_open(*state);
	blob = env_blob(cache, 5, UNITS);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	for (int i = 0; i < 4000 && dropped(cache) == 0; i++)
		usleep(5000);
	assert_int_equal(dropped(cache), 1);
	assert_int_equal(env_check(blob, 5, 99), 0);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	cache_blob_close(blob);
	cache_close(cache);
}

/* A file put in its place is never handed out. */
static void test_replaced_file_is_not_sealed(void **state)
{
	struct cache *cache = env_open(*state);
	struct cache_blob *blob = env_blob(cache, 6, UNITS);
	char path[600], aside[700], fifo[700];
	int fd;

	put_all(blob, 6);
	close(wait_sealed(blob));
	assert_true(env_blob_file(*state, 6, path, sizeof(path)));
	snprintf(aside, sizeof(aside), "%s/aside", (char *)*state);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(aside, path), 0);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	/* Over it: an empty directory would be taken away. */
	snprintf(fifo, sizeof(fifo), "%s/fifo", (char *)*state);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(rename(fifo, path), 0);
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	/* What this process has open is what was put, or a miss once the sealer
	 * has given it up; never what lies there now. */
	(void)env_check(blob, 6, 0);
	cache_blob_close(blob);
	cache_close(cache);
}

/* 264 MiB of zeros that claim to have this digest, all put; proven or not. */
static struct cache_blob *put_segments(struct cache *cache,
				       const struct digest *id)
{
	enum { COUNT = 66, LENGTH = 4 << 20 };
	uint8_t *zeros = calloc(1, LENGTH);
	_Atomic int recorded = 0;
	struct cache_blob *blob;

	assert_int_equal(cache_blob_open(cache, id, (uint64_t)COUNT * LENGTH,
					 COUNT, &blob, NULL), 0);
	cache_blob_expect(blob);
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_equal(cache_blob_put(blob, i, i * LENGTH, zeros,
						LENGTH, env_count, &recorded),
				 0);
	free(zeros);
	env_wait(&recorded, COUNT);
	for (int i = 0; i < 12000 && !cache_blob_is_proven(blob) &&
			cache_blob_rejections(blob) == 0; i++)
		usleep(5000);
	return blob;
}

static void test_segments_have_their_digest(void **state)
{
	const size_t size = (size_t)264 << 20;
	char *dir = scratch_directory();
	struct cache *cache = env_open_limited(dir, UINT64_C(2) << 30);
	void *zeros = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	struct digest right, wrong = env_id(9);
	struct cache_blob *blob;
	int fd;

	(void)state;
	assert_true(zeros != MAP_FAILED);
	digest_sha256(zeros, size, &right);
	munmap(zeros, size);

	blob = put_segments(cache, &wrong);
	assert_int_equal(cache_blob_rejections(blob), 1);
	assert_false(cache_blob_is_proven(blob));
	for (int i = 0; i < 12000 && cache_blob_bytes_present(blob) > 0; i++)
		usleep(5000);
	assert_int_equal(cache_blob_bytes_present(blob), 0);
	assert_false(cache_blob_complete(blob));
	cache_blob_close(blob);

	blob = put_segments(cache, &right);
	assert_true(cache_blob_is_proven(blob));
	assert_int_equal(cache_blob_sealed_fd(blob, &fd), 0);
	cache_blob_close(blob);
	cache_close(cache);

	cache = env_open_limited(dir, UINT64_C(2) << 30);
	assert_int_equal(cache_blob_open(cache, &right, size, 66, &blob, NULL),
			 0);
	assert_true(cache_blob_is_proven(blob));
	cache_blob_close(blob);
	cache_close(cache);
	env_remove(dir);
}

/* ---- a disk that takes its time */

static struct cache *_Atomic ending;
static _Atomic int pieces;

int __real_sync_file_range(int fd, off_t offset, off_t len,
			   unsigned int flags);
int __wrap_sync_file_range(int fd, off_t offset, off_t len,
			   unsigned int flags);

/* As long as somebody wants to end and has not said so. */
int __wrap_sync_file_range(int fd, off_t offset, off_t len,
			   unsigned int flags)
{
	struct cache *cache = atomic_load(&ending);

	atomic_fetch_add(&pieces, 1);
	while (cache && !atomic_load(&cache->sealer.is_stopping))
		usleep(1000);
	return __real_sync_file_range(fd, offset, len, flags);
}

/* Nobody who ends waits until the disk has all of a large file. */
static void test_sync_ends_with_its_process(void **state)
{
	const uint64_t units = (UINT64_C(40) << 20) / UNIT;
	struct cache *cache = env_open(*state);
	struct cache_blob *blob;

	atomic_store(&pieces, 0);
	atomic_store(&ending, cache);
	env_put_blob(cache, 20, units);
	env_wait(&pieces, 1);
	cache_close(cache);
	assert_int_equal(atomic_load(&pieces), 1);

	atomic_store(&ending, NULL);
	cache = env_open(*state);
	blob = env_blob(cache, 20, units);
	close(wait_sealed(blob));
	cache_blob_close(blob);
	cache_close(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks_what_is_complete),
		cmocka_unit_test(test_marks_what_others_left),
		cmocka_unit_test(test_change_in_place_is_seen),
		cmocka_unit_test(test_change_of_incomplete_is_seen),
		cmocka_unit_test(test_change_with_old_times_is_seen),
		cmocka_unit_test(test_touched_file_is_marked_anew),
		cmocka_unit_test(test_change_between_processes),
		cmocka_unit_test(test_replaced_file_is_not_sealed),
		cmocka_unit_test(test_segments_have_their_digest),
		cmocka_unit_test(test_sync_ends_with_its_process),
	};

	return cmocka_run_group_tests(tests, all_setup, all_teardown);
}
