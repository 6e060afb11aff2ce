/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching ahead: the state of the blobs that are being read, and the jobs
 * that readahead.c's answers become.
 *
 * The states are a fixed array indexed by the blob's id; two blobs in one
 * place take turns and lose a stream's memory, nothing else. The search for
 * what is missing runs behind, on the verify pool: the reader who caused it is
 * not kept. What the budget refuses is dropped and proposed again.
 */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/read.h"
#include "dataset/readahead.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define SLOTS 256u
#define SHARDS 32u

struct readaheads {
	struct {
		pthread_mutex_t lock;
	} __attribute__((aligned(64))) shards[SHARDS]; /* slot % SHARDS */
	struct ahead_slot {
		struct digest blob;
		struct readahead state;
	} slots[SLOTS];
};

struct readaheads *readaheads_new(void)
{
	struct readaheads *all;

	if (posix_memalign((void **)&all, 64, sizeof(*all)) != 0)
		return NULL;
	memset(all, 0, sizeof(*all));
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&all->shards[i].lock, NULL);
	return all;
}

void readaheads_free(struct readaheads *all)
{
	if (!all)
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&all->shards[i].lock);
	free(all);
}

static unsigned slot_of(const struct blob *blob)
{
	return (unsigned)(object_key_hash(&blob->object.key) % SLOTS);
}

static bool note(struct readaheads *all, const struct blob *blob,
		 const struct readahead_read *read, uint64_t *ret_start,
		 uint64_t *ret_end)
{
	unsigned index = slot_of(blob);
	struct ahead_slot *slot = &all->slots[index];

	scoped_lock(&all->shards[index % SHARDS].lock);
	if (!digest_equal(&slot->blob, &blob->id)) {
		memset(slot, 0, sizeof(*slot));
		slot->blob = blob->id;
	}
	return readahead_note(&slot->state, read, ret_start, ret_end);
}

static void cut(struct readaheads *all, const struct blob *blob, uint64_t until,
		uint64_t end)
{
	unsigned index = slot_of(blob);
	struct ahead_slot *slot = &all->slots[index];

	scoped_lock(&all->shards[index % SHARDS].lock);
	if (digest_equal(&slot->blob, &blob->id))
		readahead_cut(&slot->state, until, end);
}

struct ahead_task {
	struct task task; /* first */
	struct dataset *dataset;
	struct blob *blob;
	struct blob_source source;
	uint64_t start, end;
	struct chunk_job *job;
};

static void start_job(struct ahead_task *ahead)
{
	if (ahead->job)
		chunk_job_start(steal_ptr(ahead->job));
}

/* false: the budget says no. */
static bool fetch_ahead(struct ahead_task *ahead,
			const struct recipe_record *record, uint64_t unit,
			uint64_t start)
{
	struct dataset *dataset = ahead->dataset;
	struct node *node = dataset->node;
	struct object_key key = chunk_key(dataset, &record->digest);
	uint64_t cost = CHUNK_COST(record->length);
	struct flight *flight = flight_find(node->flights, &key);
	bool is_new;

	if (flight) {
		flight_unref(flight);
		return true;
	}
	if (!ahead->job)
		ahead->job = chunk_job_new(dataset, &ahead->source,
					   FETCH_READAHEAD, MISSING_MAX);
	if (!ahead->job ||
	    !budget_try(node, &dataset->share, cost, FETCH_READAHEAD))
		return false;
	flight = flight_get(node->flights, &key, &is_new);
	if (!flight || !is_new) {
		budget_leave(node, &dataset->share, cost, cost);
		flight_unref(flight);
		return flight;
	}
	chunk_job_add(ahead->job, flight, record, ahead->blob, &ahead->source,
		      unit, start);
	if (ahead->job->count == MISSING_MAX)
		start_job(ahead);
	return true;
}

static bool is_here(const struct blob *blob, const struct recipe_page *page,
		    uint32_t i)
{
	if (page->records[i].is_zero)
		return true;
	return blob->cached &&
	       cache_blob_recheck(blob->cached, page->first_chunk + i) == 1;
}

/* Returns how far it got. */
static uint64_t search(struct ahead_task *ahead)
{
	struct waiter unused = {0}; /* never parked */
	uint64_t at = ahead->start;

	while (at < ahead->end) {
		const struct recipe_page *page;
		struct object *held;
		uint32_t i;
		bool goes_on = true;

		if (blob_page(ahead->dataset, ahead->blob, at, &unused, &page,
			      &held, NULL) != 0)
			break;
		i = recipe_page_find(page, at);
		for (; i < page->count && at < ahead->end; i++) {
			goes_on = is_here(ahead->blob, page, i) ||
				  fetch_ahead(ahead, &page->records[i],
					      page->first_chunk + i,
					      page->starts[i]);
			if (!goes_on)
				break;
			at = page->starts[i + 1];
		}
		object_unref(held);
		if (!goes_on)
			break;
	}
	waiter_release(&unused);
	return at;
}

static void run_ahead(struct task *task, struct worker *worker)
{
	struct ahead_task *ahead = (struct ahead_task *)task;
	struct node *node = ahead->dataset->node;
	uint64_t until = ahead->start;

	(void)worker;
	if (!atomic_load(&node->is_closing))
		until = search(ahead);
	start_job(ahead);
	if (until < ahead->end)
		cut(node->readaheads, ahead->blob, until, ahead->end);
	blob_unref(ahead->blob);
	free(ahead);
	node_job_end(node);
}

void readahead_start(struct dataset *dataset, struct blob *blob,
		     const struct blob_source *source, uint64_t start,
		     uint64_t end)
{
	struct ahead_task *ahead;

	if (blob->cached && cache_blob_complete(blob->cached)) {
		atomic_store(&blob->is_complete, true);
		return;
	}
	ahead = calloc(1, sizeof(*ahead));
	if (!ahead)
		return;
	ahead->task.run = run_ahead;
	ahead->dataset = dataset;
	ahead->blob = blob_ref(blob);
	ahead->source = *source;
	ahead->start = start;
	ahead->end = end;
	node_job_begin(dataset->node);
	work_add(dataset->node->verify, &ahead->task, WORK_BEHIND);
}

void readahead_after(struct dataset *dataset, struct blob *blob,
		     const struct blob_source *source, uint64_t start,
		     uint64_t end, bool ends_file)
{
	struct node *node = dataset->node;
	const struct readahead_read read = {
		.start = start,
		.end = end,
		.blob_bytes = blob->bytes,
		.ends_file = ends_file,
		.window_max = atomic_load_explicit(&node->ahead_bytes_max,
						   memory_order_relaxed),
	};
	uint64_t ahead_start, ahead_end;
	char hex[DIGEST_HEX_MAX];

	log_debug("read blob=%.12s start=%" PRIu64 " end=%" PRIu64
		  " of=%" PRIu64 " ends_file=%d",
		  digest_hex(&blob->id, hex), start, end, blob->bytes,
		  ends_file);
	if (atomic_load_explicit(&blob->is_complete, memory_order_relaxed))
		return;
	if (!note(node->readaheads, blob, &read, &ahead_start, &ahead_end))
		return;
	readahead_start(dataset, blob, source, ahead_start, ahead_end);
}
