/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching from directories: the same classes as over HTTP, and a disk that
 * hangs holds nobody up. The hang is made by wrapping pread_full (--wrap).
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"

#include "fetch-waiting.h"
#include "origin-server.h"
#include "scratch.h"

#define SIZE (3u << 20)
#define TAG 0x6c61726465720002
#define SILENCE_MS 1000
#define GRACE_MS 10000

ssize_t __real_pread_full(int fd, void *data, size_t len, uint64_t offset);
ssize_t __wrap_pread_full(int fd, void *data, size_t len, uint64_t offset);

static char dir[64], healthy[96], hanging[96];

/* ---- a disk that hangs, fails, or loses its end */

static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t disk_back = PTHREAD_COND_INITIALIZER;
static bool hangs;	    /* files below `hanging` */
static unsigned hung;	    /* threads that wait there */
static _Atomic int errnum;  /* each read fails so */
static _Atomic bool is_cut; /* each read is a byte short */

static bool is_hanging_file(int fd)
{
	char link[64], path[256];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	return n > (ssize_t)strlen(hanging) &&
	       !strncmp(path, hanging, strlen(hanging));
}

ssize_t __wrap_pread_full(int fd, void *data, size_t len, uint64_t offset)
{
	if (errnum)
		return -errnum;
	pthread_mutex_lock(&disk_lock);
	if (hangs && is_hanging_file(fd)) {
		hung++;
		while (hangs)
			pthread_cond_wait(&disk_back, &disk_lock);
		hung--;
	}
	pthread_mutex_unlock(&disk_lock);
	return __real_pread_full(fd, data, is_cut && len ? len - 1 : len,
				 offset);
}

static void disk_hangs(bool now)
{
	pthread_mutex_lock(&disk_lock);
	hangs = now;
	pthread_cond_broadcast(&disk_back);
	pthread_mutex_unlock(&disk_lock);
}

/* ---- waiting for a request */

/* len 0: all of it. */
static void begin(struct waiting *waiting, const char *path, uint64_t offset,
		  uint64_t len)
{
	prepare_range(waiting, path, offset, len);
	waiting->request.has_range = len > 0;
	start(waiting);
}

static void get(struct waiting *waiting, const char *path, uint64_t offset,
		uint64_t len)
{
	begin(waiting, path, offset, len);
	wait_for(waiting);
}

static void assert_stamps(struct waiting *waiting, uint64_t offset,
			  uint64_t len)
{
	struct fetch_request *request = &waiting->request;

	if (request->result < 0)
		fail_msg("%d '%s'", request->result, request->err.text);
	assert_int_equal(request->body_len, len);
	assert_true(stamps_right(request->body, len, TAG, offset));
	assert_int_equal(waiting->len, len);
	assert_false(waiting->has_moved);
	free(request->body);
}

static void assert_class(struct waiting *waiting, enum fetch_class class)
{
	struct fetch_request *request = &waiting->request;

	if (request->class != class)
		fail_msg("%s '%s'", fetch_class_name(request->class),
			 request->err.text);
	assert_true(request->result < 0);
	assert_int_equal(request->result == -ENOENT, class == FETCH_ABSENT);
	assert_true(request->err.text[0]);
	free(request->body);
}

static int setup(void **state)
{
	static const struct fetcher_options options = {
		.silence_timeout_ms = SILENCE_MS,
	};

	(void)state;
	assert_int_equal(fetcher_open(&options, &fetcher, NULL), 0);
	assert_int_equal(origin_open(fetcher, healthy, &origin, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	errnum = 0;
	is_cut = false;
	disk_hangs(false);
	fetcher_close(fetcher);
	origin_close(origin);
	return 0;
}

/* ---- tests */

static void test_ranges_and_whole_files(void **state)
{
	struct waiting waiting;

	(void)state;
	assert_true(origin_is_local(origin));
	get(&waiting, "file", 0, 0);
	assert_stamps(&waiting, 0, SIZE);
	assert_int_equal(waiting.request.total, SIZE);
	get(&waiting, "file", 5, 1);
	assert_stamps(&waiting, 5, 1);
	get(&waiting, "sub/a b%41", SIZE / 2 - 3, SIZE / 2 + 3);
	assert_stamps(&waiting, SIZE / 2 - 3, SIZE / 2 + 3);
	assert_int_equal(waiting.request.total, SIZE);
	get(&waiting, "empty", 0, 0);
	assert_stamps(&waiting, 0, 0);
}

static void test_not_modified(void **state)
{
	struct waiting waiting;
	char etag[128];

	(void)state;
	get(&waiting, "file", 0, 0);
	snprintf(etag, sizeof(etag), "%s", waiting.request.etag);
	assert_stamps(&waiting, 0, SIZE);
	begin(&waiting, "empty", 0, 0); /* another file: modified */
	wait_for(&waiting);
	assert_string_not_equal(waiting.request.etag, etag);
	prepare(&waiting, "file");
	waiting.request.if_none_match = etag;
	run(&waiting);
	assert_int_equal(waiting.request.result, 0);
	assert_true(waiting.request.not_modified);
	assert_null(waiting.request.body);
}

static void test_failures(void **state)
{
	static const struct {
		const char *path;
		uint64_t offset, len;
		enum fetch_class class;
	} rows[] = {
		{"no", 0, 0, FETCH_ABSENT},
		{"no/file", 0, 0, FETCH_ABSENT},
		{"file/below", 0, 0, FETCH_ABSENT},
		{"sub", 0, 0, FETCH_WRONG},
		{"fifo", 0, 0, FETCH_WRONG},
		{"loop", 0, 0, FETCH_WRONG},
		{"file", SIZE - 1, 2, FETCH_WRONG},
		{"file", SIZE, 1, FETCH_WRONG},
		{"empty", 0, 1, FETCH_WRONG},
		{"../healthy/file", 0, 0, FETCH_LOCAL},
		{"/etc/hostname", 0, 0, FETCH_LOCAL},
	};
	struct waiting waiting;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		get(&waiting, rows[i].path, rows[i].offset, rows[i].len);
		assert_class(&waiting, rows[i].class);
	}
	prepare(&waiting, "file");
	waiting.request.limit_bytes = SIZE - 1;
	run(&waiting);
	assert_class(&waiting, FETCH_WRONG);
}

/* A disk that is not mounted says nothing about what is on it. */
static void test_no_directory_is_not_absent(void **state)
{
	struct origin *none, *kept = origin;
	struct waiting waiting;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/none", dir);
	assert_int_equal(origin_open(fetcher, path, &none, NULL), 0);
	origin = none;
	get(&waiting, "file", 0, 0);
	assert_class(&waiting, FETCH_UNREACHABLE);
	assert_true(waiting.request.is_misnamed);
	origin_close(none);
	snprintf(path, sizeof(path), "%s/file", healthy);
	assert_int_equal(origin_open(fetcher, path, &none, NULL), 0);
	origin = none;
	get(&waiting, "file", 0, 0);
	assert_class(&waiting, FETCH_UNREACHABLE);
	assert_true(waiting.request.is_misnamed);
	origin_close(none);
	origin = kept;
}

/* Nor is a path wrong that leads to a disk that is not mounted. */
static void test_a_disk_that_is_late(void **state)
{
	static const struct {
		const char *below;
		bool is_misnamed;
	} rows[] = {
		{"late", false},	  {"late/a/b", false},
		{"full/a/b", true},	  {"full/other/a", true},
		{"full/late/a/b", false}, {"ful/late", true},
	};
	struct origin *kept = origin;
	struct waiting waiting;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/mounts/empty", dir);
	assert_int_equal(mkdir_parents(AT_FDCWD, path, 0777), 0);
	snprintf(path, sizeof(path), "%s/mounts/full/late", dir);
	assert_int_equal(mkdir_parents(AT_FDCWD, path, 0777), 0);
	snprintf(path, sizeof(path), "%s/mounts/full/other", dir);
	assert_int_equal(file_write(AT_FDCWD, path, "x", 1, 0666, 0), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_late = !strncmp(rows[i].below, "late", 4);

		snprintf(path, sizeof(path), "%s/mounts/%s%s", dir,
			 is_late ? "empty/" : "", rows[i].below);
		assert_int_equal(origin_open(fetcher, path, &origin, NULL), 0);
		get(&waiting, "file", 0, 0);
		assert_class(&waiting, FETCH_UNREACHABLE);
		if (waiting.request.is_misnamed != rows[i].is_misnamed)
			fail_msg("%s", rows[i].below);
		origin_close(origin);
	}
	origin = kept;
}

static void test_failing_disk(void **state)
{
	static const struct {
		int errnum;
		enum fetch_class class;
	} rows[] = {
		{EIO, FETCH_UNREACHABLE},	{ESTALE, FETCH_UNREACHABLE},
		{EHOSTDOWN, FETCH_UNREACHABLE}, {EACCES, FETCH_REFUSED},
		{ETIMEDOUT, FETCH_SLOW},	{ENOMEM, FETCH_LOCAL},
	};
	struct waiting waiting;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		errnum = rows[i].errnum;
		get(&waiting, "file", 0, 1000);
		assert_class(&waiting, rows[i].class);
	}
	errnum = 0;
	is_cut = true;
	get(&waiting, "file", 0, SIZE);
	assert_class(&waiting, FETCH_WRONG);
}

static void wait_for_hung(unsigned count)
{
	for (int i = 0; i < 500; i++) {
		pthread_mutex_lock(&disk_lock);
		if (hung >= count) {
			pthread_mutex_unlock(&disk_lock);
			return;
		}
		pthread_mutex_unlock(&disk_lock);
		usleep(10000);
	}
	fail_msg("nobody hangs");
}

static void test_hanging_disk(void **state)
{
	struct origin *kept = origin, *other;
	static struct waiting waiting[12];
	struct waiting fine;
	uint64_t begun = now_ms();

	(void)state;
	disk_hangs(true);
	assert_int_equal(origin_open(fetcher, hanging, &other, NULL), 0);
	origin = other;
	/* Four threads hang; the others cannot be read at all. */
	for (int i = 0; i < 12; i++)
		begin(&waiting[i], "file", 0, SIZE);
	/* Another disk does not notice. */
	origin = kept;
	for (int i = 0; i < 20; i++) {
		get(&fine, "file", (uint64_t)i, 1000);
		assert_stamps(&fine, (uint64_t)i, 1000);
	}
	for (int i = 0; i < 12; i++) {
		wait_for(&waiting[i]);
		assert_class(&waiting[i], FETCH_SLOW);
	}
	assert_in_range(now_ms() - begun, SILENCE_MS, SILENCE_MS + GRACE_MS);
	/* While it hangs, the next fails at once. */
	origin = other;
	begun = now_ms();
	get(&fine, "file", 0, 10);
	assert_class(&fine, FETCH_SLOW);
	assert_true(now_ms() - begun < SILENCE_MS);
	assert_string_equal(fine.request.err.text, "the disk does not answer");
	/* It comes back by itself. */
	disk_hangs(false);
	for (int i = 0; i < 100; i++) {
		get(&fine, "file", 0, 10);
		if (fine.request.result == 0)
			break;
		free(fine.request.body);
		usleep(10000);
	}
	assert_stamps(&fine, 0, 10);
	origin_close(other);
	origin = kept;
}

static void test_deadline_and_cancel_of_a_hanging_read(void **state)
{
	struct origin *kept = origin, *other;
	struct waiting waiting;
	uint64_t begun = now_ms();

	(void)state;
	disk_hangs(true);
	assert_int_equal(origin_open(fetcher, hanging, &other, NULL), 0);
	origin = other;
	prepare_range(&waiting, "file", 0, 10);
	waiting.request.deadline_ms = begun + 100;
	run(&waiting);
	assert_class(&waiting, FETCH_SLOW);
	assert_in_range(now_ms() - begun, 100, SILENCE_MS - 1);
	begin(&waiting, "file", 0, 10);
	wait_for_hung(2);
	fetch_cancel(fetcher, &waiting.request);
	wait_for(&waiting);
	assert_class(&waiting, FETCH_CANCELED);
	origin_close(other);
	origin = kept;
}

static void test_close_while_a_read_hangs(void **state)
{
	struct origin *other;
	struct waiting waiting;
	uint64_t begun;

	(void)state;
	disk_hangs(true);
	assert_int_equal(origin_open(fetcher, hanging, &other, NULL), 0);
	origin_close(origin);
	origin = other;
	begin(&waiting, "file", 0, 10);
	wait_for_hung(1);
	begun = now_ms();
	fetcher_close(fetcher);
	assert_true(now_ms() - begun < GRACE_MS);
	wait_for(&waiting);
	assert_class(&waiting, FETCH_CANCELED);
	origin_close(origin);
	/* The thread comes back to a fetcher that is closed. */
	disk_hangs(false);
	usleep(50000);
	setup(NULL);
}

static void test_many_at_once(void **state)
{
	static struct waiting waiting[300];

	(void)state;
	for (unsigned i = 0; i < 300; i++)
		begin(&waiting[i], "file", i * 1000, 100000 + i);
	for (unsigned i = 0; i < 300; i += 3)
		fetch_cancel(fetcher, &waiting[i].request);
	for (unsigned i = 0; i < 300; i++) {
		wait_for(&waiting[i]);
		if (i % 3 == 0 && waiting[i].request.result < 0)
			free(waiting[i].request.body);
		else
			assert_stamps(&waiting[i], i * 1000, 100000 + i);
	}
}

static void test_close_while_busy(void **state)
{
	static struct waiting waiting[100];

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		begin(&waiting[i], "file", 0, SIZE);
	usleep(2000);
	fetcher_close(fetcher);
	for (unsigned i = 0; i < 100; i++) {
		wait_for(&waiting[i]);
		if (waiting[i].request.result < 0)
			free(waiting[i].request.body);
		else
			assert_stamps(&waiting[i], 0, SIZE);
	}
	origin_close(origin);
	setup(NULL);
}

static int make_files(void **state)
{
	char path[128];

	(void)state;
	scratch_directory_at(dir, sizeof(dir));
	snprintf(healthy, sizeof(healthy), "%s/healthy", dir);
	snprintf(hanging, sizeof(hanging), "%s/hanging", dir);
	snprintf(path, sizeof(path), "%s/sub", healthy);
	assert_int_equal(mkdir(healthy, 0777), 0);
	assert_int_equal(mkdir(hanging, 0777), 0);
	assert_int_equal(mkdir(path, 0777), 0);
	stamp_file(healthy, "file", TAG, SIZE);
	stamp_file(healthy, "empty", TAG, 0);
	stamp_file(hanging, "file", TAG, SIZE);
	stamp_file(path, "a b%41", TAG, SIZE);
	snprintf(path, sizeof(path), "%s/fifo", healthy);
	assert_int_equal(mkfifo(path, 0666), 0);
	snprintf(path, sizeof(path), "%s/loop", healthy);
	assert_int_equal(symlink("loop", path), 0);
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	return remove_tree(AT_FDCWD, dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_ranges_and_whole_files),
		TEST(test_not_modified),
		TEST(test_failures),
		TEST(test_no_directory_is_not_absent),
		TEST(test_a_disk_that_is_late),
		TEST(test_failing_disk),
		TEST(test_hanging_disk),
		TEST(test_deadline_and_cancel_of_a_hanging_read),
		TEST(test_close_while_a_read_hangs),
		TEST(test_many_at_once),
		TEST(test_close_while_busy),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
