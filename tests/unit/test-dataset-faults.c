/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors that lie, die, stall or lag: right bytes from the others, else an
 * error that names file and mirror, in bounded time. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/io.h"
#include "format/digest.h"
#include "origin-server.h"
#include "own-time.h"
#include "small-mirror.h"

static struct origin_server server;
static bool has_server;

/* ---- files */

static void move(const char *from_dir, const char *from, const char *to_dir,
		 const char *to)
{
	char source[400], target[400];

	snprintf(source, sizeof(source), "%s/%s", from_dir, from);
	snprintf(target, sizeof(target), "%s/%s", to_dir, to);
	assert_int_equal(rename(source, target), 0);
}

static void corrupt_frames_come_from_the_next_mirror(void **state)
{
	struct small_mirror *bad = small_mirror_new(2, 1, SMALL_PLAIN, NULL);
	struct small_mirror *good = small_mirror_new(2, 1, SMALL_REVERSED, bad);
	const char *mirrors[] = {bad->dir, good->dir};
	char *dir = scratch_directory();

	(void)state;
	small_mirror_corrupt(bad, 0);
	for (int with_cache = 0; with_cache < 2; with_cache++) {
		struct node *node = small_node(with_cache ? dir : NULL, 20000);
		struct dataset *dataset = small_dataset(node, bad, mirrors, 2);
		struct snapshot *snapshot = small_snapshot(dataset);
		struct node_stats stats;

		small_check_all(snapshot, bad);
		node_stats(node, &stats);
		assert_true(stats.chunks_corrupt > 0);
		snapshot_unref(snapshot);
		node_close(node);
	}
	small_directory_remove(dir);
	small_mirror_free(good);
	small_mirror_free(bad);
}

static void wrong_places_are_asked_for_again(void **state)
{
	struct small_mirror *mirror = small_mirror_new(3, 1, SMALL_PLAIN, NULL);
	struct small_mirror *other =
		small_mirror_new(3, 1, SMALL_REVERSED, mirror);
	const char *both[] = {mirror->dir, other->dir};
	char *dir = scratch_directory();
	struct snapshot *snapshot;
	struct dataset *dataset;
	struct entry_attr attr;
	struct err err = {""};
	struct node *node;
	uint8_t byte;

	(void)state;
	/* The first mirror has the second one's places: packs it lacks. */
	move(mirror->dir, "places", mirror->root, "places");
	move(other->dir, "places", mirror->dir, "places");
	node = small_node(dir, 20000);
	dataset = small_dataset(node, mirror, both, 1);
	snapshot = small_snapshot(dataset);
	assert_int_equal(small_resolve(snapshot, SMALL_BIG, &attr, &err), 0);
	assert_int_equal(small_read(snapshot, attr.number, 0, 1, &byte, &err),
			 -EIO);
	assert_non_null(strstr(err.text, "small/big.bin"));
	snapshot_unref(snapshot);
	node_close(node);
	/* Now it is whole; the wrong ones are still in the cache. */
	move(mirror->dir, "places", other->dir, "places");
	move(mirror->root, "places", mirror->dir, "places");
	node = small_node(dir, 20000);
	dataset = small_dataset(node, mirror, both, 1);
	snapshot = small_snapshot(dataset);
	small_check_all(snapshot, mirror);
	snapshot_unref(snapshot);
	node_close(node);
	/* And with places that stay wrong the second mirror is asked. */
	small_mirror_remove(mirror, "places");
	node = small_node(NULL, 20000);
	dataset = small_dataset(node, mirror, both, 2);
	snapshot = small_snapshot(dataset);
	small_check_all(snapshot, mirror);
	snapshot_unref(snapshot);
	node_close(node);
	small_directory_remove(dir);
	small_mirror_free(other);
	small_mirror_free(mirror);
}

static void a_failed_file_says_why_until_it_reads_again(void **state)
{
	struct small_mirror *mirror = small_mirror_new(4, 1, SMALL_PLAIN, NULL);
	const char *mirrors[] = {mirror->dir};
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct node *node = small_node(NULL, 20000);
	struct dataset *dataset = small_dataset(node, mirror, mirrors, 1);
	struct snapshot *snapshot = small_snapshot(dataset);
	struct entry_attr attr;
	struct err err = {""};
	uint8_t data[100];
	int64_t start;
	size_t len;
	char *text;
	int r;

	(void)state;
	assert_int_equal(small_resolve(snapshot, SMALL_BIG, &attr, &err), 0);
	move(mirror->dir, "packs", mirror->root, "packs");
	start = own_ms();
	assert_int_equal(small_read(snapshot, attr.number, 0, 100, data, &err),
			 -EIO);
	assert_true(is_within(start, 5000));
	assert_non_null(strstr(err.text, "cannot fetch 'small/big.bin'"));
	/* Remembered: the second answer costs nothing. */
	start = own_ms();
	assert_int_equal(small_read(snapshot, attr.number, 0, 100, data, &err),
			 -EIO);
	assert_true(is_within(start, 200));
	while ((r = snapshot_xattr_get(
			snapshot, attr.number, "user.larder.error",
			blocking_waiter_get(waiter), (void **)&text, &len,
			&err)) == DATASET_PARKED)
		waiter_block(waiter);
	assert_int_equal(r, 0);
	assert_true(len > 0);
	free(text);
	move(mirror->root, "packs", mirror->dir, "packs");
	usleep(1200000);
	assert_int_equal(small_read(snapshot, attr.number, 0, 100, data, &err),
			 100);
	assert_memory_equal(data, mirror->files[0].data, 100);
	while ((r = snapshot_xattr_get(
			snapshot, attr.number, "user.larder.error",
			blocking_waiter_get(waiter), (void **)&text, &len,
			&err)) == DATASET_PARKED)
		waiter_block(waiter);
	assert_int_equal(r, -ENODATA);
	blocking_waiter_free(waiter);
	snapshot_unref(snapshot);
	node_close(node);
	small_mirror_free(mirror);
}

/* ---- a server that fails on demand */

/* One mirror behind the server for all of them. */
static struct small_mirror *served_mirror;
static char served_url[128];

struct served {
	struct node *node;
	struct dataset *dataset;
};

static void serve(struct served *served, const char *cache_dir,
		  uint32_t timeout_ms)
{
	const char *mirrors[] = {served_url};

	served->node = small_node(cache_dir, timeout_ms);
	served->dataset =
		small_dataset(served->node, served_mirror, mirrors, 1);
	free(origin_server_log(&server));
}

static void unserve(struct served *served)
{
	node_close(served->node);
	origin_server_control(&server, "clear");
}

/* The snapshot and the big file, its recipe loaded. */
static struct snapshot *open_big(struct served *served,
				 struct entry_attr *ret_attr)
{
	struct snapshot *snapshot = small_snapshot(served->dataset);
	struct err err = {""};
	uint8_t byte;

	assert_int_equal(small_resolve(snapshot, SMALL_BIG, ret_attr, &err), 0);
	assert_int_equal(small_read(snapshot, ret_attr->number,
				    ret_attr->size - 1, 1, &byte, &err),
			 1);
	return snapshot;
}

#define NEEDS_SERVER()                                                         \
	do {                                                                   \
		if (!has_server)                                               \
			skip();                                                \
	} while (0)

static void transfers_break_and_go_on(void **state)
{
	static const char *const faults[] = {
		"add=drop_after&n=100000&path=*packs*&every=3&times=6",
		"add=status&n=503&path=*packs*&every=3&times=6",
		"add=short_body&n=5000&path=*packs*&every=4&times=5",
		"add=html200&path=*packs*&times=2",
		"add=html200&path=*objects*&times=1",
		"add=html200&path=*places*&times=1",
		"add=ignore_range&path=*packs*&every=2",
		"add=flip&n=5000&path=*packs*&times=1",
		"add=close&path=*&every=5&times=6",
	};

	(void)state;
	NEEDS_SERVER();
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct snapshot *snapshot;
		struct served s = {0};

		serve(&s, NULL, 30000);
		origin_server_control(&server, faults[i]);
		snapshot = small_snapshot(s.dataset);
		small_check_all(snapshot, served_mirror);
		snapshot_unref(snapshot);
		unserve(&s);
	}
}

static void a_range_is_one_request_and_nothing_comes_twice(void **state)
{
	char *dir = scratch_directory(), *log;
	struct snapshot *snapshot;
	struct served s = {0};
	struct entry_attr attr;
	struct err err = {""};
	uint8_t *data = malloc(8u << 20);

	(void)state;
	if (!has_server) {
		free(data);
		small_directory_remove(dir);
		skip();
	}
	serve(&s, dir, 30000);
	snapshot = open_big(&s, &attr);
	free(origin_server_log(&server));
	assert_int_equal(
		small_read(snapshot, attr.number, 0, 3u << 20, data, &err),
		3u << 20);
	log = origin_server_log(&server);
	assert_int_equal(log_count(log, "packs"), 1);
	free(log);
	small_check_all(snapshot, served_mirror);
	snapshot_unref(snapshot);
	unserve(&s);
	small_directory_remove(dir);
	free(data);
}

static void a_deadline_holds_and_names_the_mirror(void **state)
{
	struct blocking_waiter *waiter = blocking_waiter_new();
	struct read_result result;
	struct snapshot *snapshot;
	struct served s = {0};
	struct entry_attr attr;
	struct err err = {""};
	uint64_t asked;
	int64_t start;
	int r;

	(void)state;
	if (!has_server) {
		blocking_waiter_free(waiter);
		skip();
	}
	serve(&s, NULL, 30000);
	snapshot = open_big(&s, &attr);
	origin_server_control(&server, "add=silent&path=*packs*");
	blocking_waiter_get(waiter)->timeout_ms = 700;
	asked = now_ms();
	start = own_ms();
	while ((r = snapshot_read(snapshot, attr.number, 0, 100,
				  blocking_waiter_get(waiter), &result,
				  &err)) == DATASET_PARKED)
		waiter_block(waiter);
	assert_int_equal(r, -ETIMEDOUT);
	assert_true(now_ms() - asked >= 690 && is_within(start, 2000));
	assert_non_null(strstr(err.text, "small/big.bin"));
	/* Names and attributes answer meanwhile. */
	start = own_ms();
	assert_int_equal(small_resolve(snapshot, "many/00042", &attr, &err), 0);
	assert_true(is_within(start, 500));
	blocking_waiter_free(waiter);
	snapshot_unref(snapshot);
	unserve(&s);
}

static void a_dead_mirror_is_paid_for_once(void **state)
{
	struct snapshot *snapshot;
	struct served s = {0};
	struct entry_attr attr;
	struct err err = {""};
	int64_t start;
	uint8_t byte;
	long n;

	(void)state;
	NEEDS_SERVER();
	serve(&s, NULL, 30000);
	snapshot = open_big(&s, &attr);
	origin_server_control(&server, "add=close&path=*");
	start = own_ms();
	assert_int_equal(small_read(snapshot, attr.number, 0, 1, &byte, &err),
			 -EIO);
	assert_true(is_within(start, 16000));
	print_message("dead: %s\n", err.text);
	/* Known dead: other chunks fail within a second. */
	for (int i = 1; i < 5; i++) {
		start = own_ms();
		assert_int_equal(small_read(snapshot, attr.number,
					    (uint64_t)i * 3000000, 1, &byte,
					    &err),
				 -EIO);
		assert_true(is_within(start, 1100));
	}
	origin_server_control(&server, "clear");
	start = own_ms();
	do {
		n = small_read(snapshot, attr.number, 0, 1, &byte, &err);
		if (n < 0)
			usleep(100000);
	} while (n < 0 && is_within(start, 10000));
	assert_int_equal(n, 1);
	assert_true(is_within(start, 5000));
	snapshot_unref(snapshot);
	unserve(&s);
}

/* ---- waiters */

struct counted {
	struct waiter waiter; /* first */
	atomic_int woken;
};

static void count_wake(struct waiter *waiter)
{
	atomic_fetch_add(&((struct counted *)waiter)->woken, 1);
}

static void release_on_wake(struct waiter *waiter)
{
	waiter_release(waiter);
	count_wake(waiter);
}

static void closing_wakes_whom_it_parked(void **state)
{
	struct counted *waiters = calloc(50, sizeof(*waiters));
	struct snapshot *snapshot;
	struct served s = {0};
	struct entry_attr attr;
	struct err err = {""};
	struct read_result result;
	int64_t start;

	(void)state;
	if (!has_server) {
		free(waiters);
		skip();
	}
	serve(&s, NULL, 30000);
	snapshot = open_big(&s, &attr);
	origin_server_control(&server, "add=silent&path=*packs*");
	for (int i = 0; i < 50; i++) {
		waiter_init(&waiters[i].waiter, release_on_wake);
		/* All before the zeros, which need nobody. */
		assert_int_equal(snapshot_read(snapshot, attr.number,
					       (uint64_t)i * 30000, 100,
					       &waiters[i].waiter, &result,
					       &err),
				 DATASET_PARKED);
	}
	snapshot_unref(snapshot);
	start = own_ms();
	node_close(s.node);
	assert_true(is_within(start, 5000));
	for (int i = 0; i < 50; i++) {
		assert_int_equal(atomic_load(&waiters[i].woken), 1);
		assert_int_equal(waiters[i].waiter.result, -ESHUTDOWN);
	}
	origin_server_control(&server, "clear");
	free(waiters);
}

/* Readers stuck on one dataset do not hold up another. */
static void stuck_readers_leave_others_alone(void **state)
{
	enum { STUCK = 500 };
	struct counted *waiters = calloc(STUCK, sizeof(*waiters));
	struct small_mirror *mirror;
	struct snapshot *snapshot, *other;
	struct served s = {0};
	struct entry_attr attr;
	struct err err = {""};
	struct read_result result;
	const char *mirrors[1];
	uint64_t begun;

	(void)state;
	if (!has_server) {
		free(waiters);
		skip();
	}
	mirror = small_mirror_new(10, 1, SMALL_PLAIN, NULL);
	mirrors[0] = mirror->dir;
	serve(&s, NULL, 6000);
	snapshot = open_big(&s, &attr);
	origin_server_control(&server, "add=silent&path=*packs*");
	for (int i = 0; i < STUCK; i++) {
		waiter_init(&waiters[i].waiter, count_wake);
		waiters[i].waiter.timeout_ms = 60000;
		assert_int_equal(snapshot_read(snapshot, attr.number,
					       (uint64_t)(i % 60) * 20000,
					       500000, &waiters[i].waiter,
					       &result, &err),
				 DATASET_PARKED);
	}
	other = small_snapshot(small_dataset(s.node, mirror, mirrors, 1));
	begun = now_ms();
	small_check_all(other, mirror);
	print_message("with %d stuck readers: %llu ms\n", STUCK,
		      (unsigned long long)(now_ms() - begun));
	/* The flights give up after the node's time, not the waiters'. */
	for (int i = 0; i < STUCK; i++) {
		for (int n = 0; n < 9000 && !atomic_load(&waiters[i].woken);
		     n++)
			usleep(10000);
		assert_int_equal(atomic_load(&waiters[i].woken), 1);
		waiter_release(&waiters[i].waiter);
	}
	snapshot_unref(other);
	snapshot_unref(snapshot);
	unserve(&s);
	small_mirror_free(mirror);
	free(waiters);
}

static int start_server(void **state)
{
	(void)state;
	has_server = origin_server_start(&server);
	if (!has_server)
		return 0;
	served_mirror = small_mirror_new(20, 1, SMALL_PLAIN, NULL);
	move(served_mirror->root, "m", server.root, "m");
	snprintf(served_url, sizeof(served_url), "%s/m", server.url);
	return 0;
}

static int stop_server(void **state)
{
	(void)state;
	if (!has_server)
		return 0;
	origin_server_stop(&server);
	small_mirror_free(served_mirror);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(corrupt_frames_come_from_the_next_mirror),
		cmocka_unit_test(wrong_places_are_asked_for_again),
		cmocka_unit_test(a_failed_file_says_why_until_it_reads_again),
		cmocka_unit_test(transfers_break_and_go_on),
		cmocka_unit_test(
			a_range_is_one_request_and_nothing_comes_twice),
		cmocka_unit_test(a_deadline_holds_and_names_the_mirror),
		cmocka_unit_test(a_dead_mirror_is_paid_for_once),
		cmocka_unit_test(closing_wakes_whom_it_parked),
		cmocka_unit_test(stuck_readers_leave_others_alone),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
