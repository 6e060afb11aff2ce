/* SPDX-License-Identifier: Apache-2.0 */
/* A prefetch through its door: all or chosen files, beside readers, on mirrors
 * that lie or are slow; ended early by its owner or by the node. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "dataset/node.h"

#include "origin-server.h"
#include "small-mirror.h"

struct fixture {
	struct small_mirror *mirror;
	char *cache_dir;
	struct node *node;
	struct snapshot *snapshot;
	struct prefetch *prefetch;
	struct prefetch_info info;
	sem_t ended;
	atomic_bool is_enough;
};

static void open_node_for(struct fixture *f, const char *const *mirrors,
			  size_t count, uint32_t timeout_ms)
{
	f->node = small_node(f->cache_dir, timeout_ms);
	f->snapshot = small_snapshot(
		small_dataset(f->node, f->mirror, mirrors, count));
}

static void open_node(struct fixture *f, const char *const *mirrors,
		      size_t count)
{
	open_node_for(f, mirrors, count, 20000);
}

static void set_up(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->mirror = small_mirror_new(21, 1, SMALL_PLAIN, NULL);
	f->cache_dir = scratch_directory();
	sem_init(&f->ended, 0, 0);
}

static void open_own(struct fixture *f)
{
	const char *const mirrors[] = {f->mirror->dir};

	open_node(f, mirrors, 1);
}

static void close_node(struct fixture *f)
{
	snapshot_unref(f->snapshot);
	node_close(f->node);
	prefetch_free(f->prefetch);
	f->prefetch = NULL;
}

static void tear_down(struct fixture *f)
{
	small_directory_remove(f->cache_dir);
	small_mirror_free(f->mirror);
	sem_destroy(&f->ended);
}

static void on_end(void *arg)
{
	sem_post(&((struct fixture *)arg)->ended);
}

static void start(struct fixture *f, const char *const *globs, size_t count,
		  bool is_dry_run, uint64_t limit)
{
	const struct prefetch_options options = {
		.selection =
			{
				.snapshot = f->snapshot,
				.globs = globs,
				.glob_count = count,
			},
		.is_dry_run = is_dry_run,
		.limit_bytes_per_s = limit,
		.ended = on_end,
		.arg = f,
	};
	struct err err;

	assert_int_equal(prefetch_start(&options, &f->prefetch, &err), 0);
}

static void finish(struct fixture *f)
{
	while (sem_wait(&f->ended) < 0)
		assert_int_equal(errno, EINTR);
	prefetch_info(f->prefetch, &f->info);
	assert_int_equal(f->info.state, PREFETCH_ENDED);
}

static const char *const chosen[] = {SMALL_BIG, "sub"};

static void the_mirror_is_not_asked_again(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	open_own(&f);
	start(&f, chosen, 2, true, 0);
	finish(&f);
	assert_int_equal(f.info.result, 0);
	/* zeros need no fetching */
	assert_true(f.info.bytes_done < f.info.bytes);
	assert_int_equal(f.info.wire_bytes, 0);
	assert_true(f.info.bytes >= small_file(f.mirror, SMALL_BIG)->size);
	prefetch_free(f.prefetch);

	start(&f, chosen, 2, false, 0);
	finish(&f);
	if (f.info.result != 0)
		fail_msg("%s", f.info.err.text);
	assert_int_equal(f.info.bytes_done, f.info.bytes);
	assert_int_equal(f.info.files_done, f.info.files);
	assert_true(f.info.wire_bytes > 0);
	assert_int_equal(f.info.origins[0].wire_bytes, f.info.wire_bytes);
	close_node(&f);

	/* Another process, and no packs. */
	open_own(&f);
	small_mirror_remove(f.mirror, "packs");
	start(&f, chosen, 2, false, 0);
	finish(&f);
	assert_int_equal(f.info.result, 0);
	assert_int_equal(f.info.bytes_at_start, f.info.bytes);
	assert_int_equal(f.info.wire_bytes, 0);
	close_node(&f);
	tear_down(&f);
}

static void *read_all(void *arg)
{
	struct fixture *f = arg;

	small_check_all(f->snapshot, f->mirror);
	return NULL;
}

static void check_failure(void *arg, const char *path, const char *reason)
{
	(void)arg;
	if (!strstr(reason, "not there") && !strstr(reason, "withdrawn"))
		fail_msg("%s: %s", path, reason);
}

static void holes_are_the_only_failures(struct fixture *f)
{
	prefetch_failures(f->prefetch, check_failure, NULL);
	assert_int_equal(f->info.result, -EIO);
	assert_in_range(f->info.files_failed, 1, 4);
	assert_int_equal(f->info.files_done + f->info.files_failed,
			 f->info.files);
}

static void readers_run_beside_it(void **state)
{
	struct fixture f;
	const char *mirrors[1];
	pthread_t readers[3];

	(void)state;
	set_up(&f);
	mirrors[0] = f.mirror->dir;
	open_node(&f, mirrors, 1);
	start(&f, NULL, 0, false, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			pthread_create(&readers[i], NULL, read_all, &f), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(readers[i], NULL);
	finish(&f);
	holes_are_the_only_failures(&f);
	close_node(&f);
	tear_down(&f);
}

static void count_failure(void *arg, const char *path, const char *reason)
{
	unsigned *count = arg;

	assert_non_null(strstr(path, "small/"));
	*count += strstr(reason, "wrong bytes") != NULL;
}

static void what_cannot_be_had_is_named(void **state)
{
	struct fixture f;
	struct small_mirror *good;
	const char *mirrors[2];
	unsigned count = 0;

	(void)state;
	set_up(&f);
	good = small_mirror_new(21, 1, SMALL_REVERSED, f.mirror);
	small_mirror_corrupt(f.mirror, 0);
	mirrors[0] = f.mirror->dir;
	mirrors[1] = good->dir;
	open_node(&f, mirrors, 1);
	start(&f, chosen, 2, false, 0);
	finish(&f);
	assert_int_equal(f.info.result, -EIO);
	assert_true(f.info.files_failed > 0);
	prefetch_failures(f.prefetch, count_failure, &count);
	assert_true(count > 0);
	close_node(&f);

	/* With a second mirror it can. */
	open_node(&f, mirrors, 2);
	start(&f, chosen, 2, false, 0);
	finish(&f);
	if (f.info.result != 0)
		fail_msg("%s", f.info.err.text);
	assert_true(f.info.origins[1].wire_bytes > 0);
	close_node(&f);
	small_mirror_free(good);
	tear_down(&f);
}

static void wait_until_fetching(struct fixture *f)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	do {
		nanosleep(&pause, NULL);
		prefetch_info(f->prefetch, &f->info);
	} while (f->info.state < PREFETCH_FETCHING);
}

/* So slow that it is under way for as long as it takes to end it. */
#define SLOWLY 1024u

static void it_ends_early(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f);
	open_own(&f);
	start(&f, NULL, 0, false, SLOWLY);
	prefetch_cancel(f.prefetch);
	finish(&f);
	assert_int_equal(f.info.result, -ECANCELED);
	prefetch_free(f.prefetch);

	start(&f, NULL, 0, false, SLOWLY);
	wait_until_fetching(&f);
	prefetch_cancel(f.prefetch);
	finish(&f);
	assert_int_equal(f.info.result, -ECANCELED);
	prefetch_free(f.prefetch);

	start(&f, NULL, 0, false, SLOWLY);
	wait_until_fetching(&f);
	close_node(&f);
	tear_down(&f);
}

static bool is_under_way(struct node *node)
{
	scoped_lock(&node->low_lock);
	return node->low_jobs != NULL;
}

static void *read_big(void *arg)
{
	struct fixture *f = arg;
	const struct small_file *file = small_file(f->mirror, SMALL_BIG);
	uint8_t *data = malloc(file->size);
	struct entry_attr attr;

	while (!atomic_load(&f->is_enough))
		if (small_resolve(f->snapshot, SMALL_BIG, &attr, NULL) == 0)
			(void)small_read(f->snapshot, attr.number, 0,
					 file->size, data, NULL);
	free(data);
	return NULL;
}

/* A reader of another process waits for what this one prefetches: it is a
 * prefetch no longer, which would stand still for readers. */
static void others_wait_for_it(void **state)
{
	struct origin_server server;
	struct fixture f, other;
	const char *mirrors[1];
	char url[128], path[128];
	pthread_t reader;

	(void)state;
	if (!origin_server_start(&server))
		skip();
	set_up(&f);
	snprintf(path, sizeof(path), "%s/m", server.root);
	snprintf(url, sizeof(url), "%s/m", server.url);
	assert_int_equal(symlink(f.mirror->dir, path), 0);
	origin_server_control(&server, "add=trickle&n=4096&path=*/packs/*");
	mirrors[0] = url;
	other = f;
	open_node(&f, mirrors, 1);
	open_node_for(&other, mirrors, 1, 1000);
	start(&f, chosen, 1, false, 0);
	while (!is_under_way(f.node))
		usleep(1000);
	assert_int_equal(pthread_create(&reader, NULL, read_big, &other), 0);
	while (is_under_way(f.node))
		usleep(1000);
	prefetch_info(f.prefetch, &f.info);
	assert_int_equal(f.info.state, PREFETCH_FETCHING);
	atomic_store(&other.is_enough, true);
	pthread_join(reader, NULL);
	close_node(&f);
	close_node(&other);
	tear_down(&f);
	origin_server_stop(&server);
}

static void a_node_without_cache_refuses(void **state)
{
	struct fixture f;
	const char *mirrors[1];

	(void)state;
	set_up(&f);
	mirrors[0] = f.mirror->dir;
	f.node = small_node(NULL, 20000);
	f.snapshot =
		small_snapshot(small_dataset(f.node, f.mirror, mirrors, 1));
	start(&f, NULL, 0, false, 0);
	finish(&f);
	assert_int_equal(f.info.result, -ENODEV);
	close_node(&f);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_mirror_is_not_asked_again),
		cmocka_unit_test(readers_run_beside_it),
		cmocka_unit_test(what_cannot_be_had_is_named),
		cmocka_unit_test(it_ends_early),
		cmocka_unit_test(others_wait_for_it),
		cmocka_unit_test(a_node_without_cache_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
