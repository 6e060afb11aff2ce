/* SPDX-License-Identifier: Apache-2.0 */
/* A reader who wants what prefetch has queued does not wait for all that is
 * queued before it. */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "dataset/read.h"
#include "dataset/snapshot.h"

#include "origin-server.h"
#include "small-mirror.h"

#define QUEUED 30u
/* Long against everything else that happens. */
#define DELAY "add=delay&n=2000&path=*packs*"

static struct origin_server server;

static void prefetch(struct dataset *dataset, struct blob *blob,
		     const struct blob_source *source,
		     const struct recipe_record *record, uint64_t unit,
		     uint64_t start)
{
	struct object_key key = chunk_key(dataset, &record->digest);
	struct chunk_job *job =
		chunk_job_new(dataset, source, FETCH_PREFETCH, 1);
	struct flight *flight;
	bool is_new;

	flight = flight_get(dataset->node->flights, &key, &is_new);
	assert_true(job && flight && is_new);
	assert_true(budget_try(dataset->node, &dataset->share,
			       CHUNK_COST(record->length), FETCH_PREFETCH));
	chunk_job_add(job, flight, record, blob, source, unit, start);
	chunk_job_start(job);
}

static void wait_until_queued(struct node *node)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	unsigned count = 0;

	while (count < QUEUED) {
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&node->low_lock);
		count = 0;
		for (struct chunk_job *job = node->low_jobs; job;
		     job = job->low_next)
			count++;
		pthread_mutex_unlock(&node->low_lock);
	}
}

/* Returns where the last of them lies in the file. */
static uint64_t prefetch_all(struct dataset *dataset, struct snapshot *snapshot,
			     uint64_t number)
{
	struct waiter unused = {0};
	const struct recipe_page *page;
	struct blob_source source;
	struct catalog_entry entry;
	struct object *held;
	struct blob *blob;
	struct part part;
	uint64_t last;

	assert_int_equal(part_find(snapshot, number, &unused, &part, NULL), 0);
	catalog_get(part.catalog, part.local, &entry);
	assert_int_equal(blob_open(dataset, part.object, entry.blob, &unused,
				   &blob, &source, NULL),
			 0);
	assert_int_equal(
		blob_page(dataset, blob, 0, &unused, &page, &held, NULL), 0);
	assert_true(page->count > 4 * (QUEUED + 10));
	for (uint32_t i = 10; i < 10 + QUEUED; i++)
		prefetch(dataset, blob, &source, &page->records[4 * i],
			 page->first_chunk + 4 * i, page->starts[4 * i]);
	last = page->starts[4 * (9 + QUEUED)] - entry.blob_offset;
	object_unref(held);
	blob_unref(blob);
	part_release(&part);
	waiter_release(&unused);
	return last;
}

static void a_reader_overtakes_what_is_queued(void **state)
{
	struct small_mirror *mirror = small_mirror_new(5, 1, SMALL_PLAIN, NULL);
	const char *mirrors[1];
	char moved[200], url[128], *log;
	struct snapshot *snapshot;
	struct dataset *dataset;
	struct entry_attr attr;
	struct err err = {""};
	struct node *node;
	uint64_t last;
	uint8_t byte;

	(void)state;
	snprintf(moved, sizeof(moved), "%s/m", server.root);
	assert_int_equal(rename(mirror->dir, moved), 0);
	snprintf(url, sizeof(url), "%s/m", server.url);
	mirrors[0] = url;
	node = small_node(NULL, 30000);
	dataset = small_dataset(node, mirror, mirrors, 1);
	snapshot = small_snapshot(dataset);
	assert_int_equal(small_resolve(snapshot, "paged.bin", &attr, &err), 0);
	/* Until the server is trusted to have ranges. */
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(small_read(snapshot, attr.number,
					    attr.size / 2 + 8000 * i, 1, &byte,
					    &err),
				 1);
	assert_int_equal(small_read(snapshot, attr.number, 0, 1, &byte, &err),
			 1);
	free(origin_server_log(&server));
	origin_server_control(&server, DELAY);
	last = prefetch_all(dataset, snapshot, attr.number);
	wait_until_queued(node);
	assert_int_equal(
		small_read(snapshot, attr.number, last, 1, &byte, &err), 1);
	log = origin_server_log(&server);
	/* Eight at a time: behind them it would be among the last. */
	assert_in_range(log_count(log, "packs"), 1, QUEUED - 10);
	free(log);
	origin_server_control(&server, "clear");
	snapshot_unref(snapshot);
	node_close(node);
	small_mirror_free(mirror);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_overtakes_what_is_queued),
	};
	int r;

	if (!origin_server_start(&server)) {
		fputs("skipped: no httpd beside the test\n", stderr);
		return 77;
	}
	r = cmocka_run_group_tests(tests, NULL, NULL);
	origin_server_stop(&server);
	return r;
}
