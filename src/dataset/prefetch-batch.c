/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of a prefetch: chunks that lie side by side in a blob, fetched as one
 * job. Each batch is a waiter; the thread of the prefetch fills one, lets it
 * fly and goes on until pace or budget say that enough is under way.
 *
 * While anybody on the node waits for bytes, nothing new is started, except
 * now and then one batch: a prefetch beside a reader that never stops should
 * take long, not for ever. What is under way stands still meanwhile (fetch/).
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cache/cache.h"
#include "dataset/demand.h"
#include "dataset/prefetch.h"

/* Others' reads are noticed that late. */
#define LOOK_MS 50u
/* After it, a start in spite of readers. */
#define TRICKLE_MS 1000u
/* The cache takes nothing for so long: eviction does not help. */
#define REFUSED_MS 5000u
#define FAR_MS (UINT64_MAX / 4)

int prefetch_stopped(struct prefetch *prefetch, struct err *err)
{
	if (atomic_load(&prefetch->is_canceled))
		return err_set(err, ECANCELED, "stopped");
	if (atomic_load(&prefetch->node->is_closing))
		return err_set(err, ESHUTDOWN, "larder is stopping");
	return 0;
}

void prefetch_say(struct prefetch *prefetch, const char *reason)
{
	scoped_lock(&prefetch->lock);
	snprintf(prefetch->info.reason, sizeof(prefetch->info.reason), "%s",
		 reason);
}

static void wake_batch(struct waiter *waiter)
{
	struct batch *batch = (struct batch *)waiter;

	scoped_lock(&batch->prefetch->lock);
	batch->is_ended = true;
	pthread_cond_signal(&batch->prefetch->happened);
}

static struct batch *new_batch(struct prefetch *prefetch,
			       const struct blob_source *source)
{
	for (unsigned i = 0; i < BATCHES; i++) {
		struct batch *batch = &prefetch->batches[i];

		if (batch->is_flying)
			continue;
		waiter_init(&batch->waiter, wake_batch);
		batch->waiter.timeout_ms = FAR_MS;
		batch->prefetch = prefetch;
		batch->source = *source;
		batch->count = 0;
		batch->bytes = 0;
		batch->is_ended = false;
		return batch;
	}
	return NULL;
}

static void release_batch(struct prefetch *prefetch, struct batch *batch)
{
	waiter_release(&batch->waiter);
	prefetch->flying_bytes -= batch->bytes;
	batch->is_flying = false;
}

static void fly(struct prefetch *prefetch)
{
	struct batch *batch = steal_ptr(prefetch->filling);
	struct err err;
	int r;

	if (!batch)
		return;
	batch->is_flying = true;
	batch->started_ms = prefetch->last_start_ms = now_ms();
	prefetch->flying_bytes += batch->bytes;
	if (batch->job)
		chunk_job_start(steal_ptr(batch->job));
	if (batch->count == 0) {
		release_batch(prefetch, batch);
		return;
	}
	r = waiter_end(prefetch->node, &batch->waiter, DATASET_PARKED, &err);
	if (r != DATASET_PARKED)
		release_batch(prefetch, batch);
}

/* ---- what came */

static void count_wire(struct prefetch *prefetch, const struct flight *flight)
{
	struct prefetch_info *info = &prefetch->info;

	info->wire_bytes += flight->wire_bytes;
	if (flight->wire_bytes && (unsigned)flight->mirror < info->origin_count)
		info->origins[flight->mirror].wire_bytes += flight->wire_bytes;
}

static void item_came(struct prefetch *prefetch, const struct batch_item *item)
{
	prefetch->troubles = 0;
	prefetch->last_bytes_ms = now_ms();
	scoped_lock(&prefetch->lock);
	/* What another read fetched is not this prefetch's traffic. */
	if (item->is_ours)
		count_wire(prefetch, item->flight);
	prefetch->info.bytes_done += item->bytes;
	prefetch->info.files_done += item->files;
	prefetch->info.reason[0] = '\0';
}

static void item_failed(struct prefetch *prefetch,
			const struct batch_item *item)
{
	const struct flight *flight = item->flight;
	struct digest *bad;

	if (flight->result == -ESHUTDOWN)
		return;
	prefetch_say(prefetch, flight->err.text);
	if (flight->class == FETCH_ABSENT) {
		bad = vec_push(&prefetch->bad);
		if (bad)
			*bad = flight->key.digest;
		prefetch_file_failed(prefetch, item->number, flight->err.text);
		return;
	}
	prefetch->hold_until_ms =
		now_ms() + retry_delay_ms(prefetch->troubles, 0, now_ns());
}

static void reap_batch(struct prefetch *prefetch, struct batch *batch)
{
	uint64_t took_ms = now_ms() - batch->started_ms;
	bool has_failed = false;

	for (uint32_t i = 0; i < batch->count; i++) {
		const struct batch_item *item = &batch->items[i];

		switch (flight_state(item->flight)) {
		case FLIGHT_DONE:
			item_came(prefetch, item);
			break;
		case FLIGHT_FAILED:
			has_failed = true;
			item_failed(prefetch, item);
			break;
		case FLIGHT_RUNNING: /* the node is closing */
			break;
		}
	}
	prefetch->troubles += has_failed;
	if (!has_failed)
		prefetch_pace_note(&prefetch->pace, took_ms);
	release_batch(prefetch, batch);
}

static bool has_ended(struct prefetch *prefetch, const struct batch *batch)
{
	scoped_lock(&prefetch->lock);
	return batch->is_ended;
}

static unsigned reap(struct prefetch *prefetch)
{
	unsigned flying = 0;

	for (unsigned i = 0; i < BATCHES; i++) {
		struct batch *batch = &prefetch->batches[i];

		if (!batch->is_flying)
			continue;
		if (has_ended(prefetch, batch))
			reap_batch(prefetch, batch);
		else
			flying++;
	}
	return flying;
}

/* What holds up those under way, for people. */
static void ask_trouble(struct prefetch *prefetch)
{
	for (unsigned i = 0; i < BATCHES; i++) {
		const struct batch *batch = &prefetch->batches[i];
		struct err err;

		for (uint32_t n = 0; batch->is_flying && n < batch->count; n++)
			if (flight_state(batch->items[n].flight) ==
				    FLIGHT_RUNNING &&
			    flight_trouble_read(batch->items[n].flight, &err) <
				    0) {
				prefetch_say(prefetch, err.text);
				return;
			}
	}
}

static void note_stall(struct prefetch *prefetch)
{
	uint64_t now = now_ms();

	ask_trouble(prefetch);
	scoped_lock(&prefetch->lock);
	prefetch->info.stalled_ms = now - prefetch->last_bytes_ms;
	prefetch->info.fetch_ms = now - prefetch->fetch_start_ms;
}

static bool any_ended(const struct prefetch *prefetch)
{
	for (unsigned i = 0; i < BATCHES; i++)
		if (prefetch->batches[i].is_flying &&
		    prefetch->batches[i].is_ended)
			return true;
	return atomic_load(&prefetch->is_canceled);
}

/* Those under way stand still for readers of other processes too, but for
 * what these wait for. */
static void stand_back(struct prefetch *prefetch)
{
	struct node *node = prefetch->node;
	uint64_t now = now_ms();

	if (!demand_is_active(node, now))
		return;
	fetch_hold(node->fetcher, now + 2 * LOOK_MS);
	for (unsigned i = 0; i < BATCHES; i++) {
		struct batch *batch = &prefetch->batches[i];

		for (uint32_t n = 0; batch->is_flying && n < batch->count;
		     n++) {
			struct flight *flight = batch->items[n].flight;

			if (flight_state(flight) == FLIGHT_RUNNING &&
			    demand_is_wanted(node, &flight->key.digest, now))
				chunk_raise(flight);
		}
	}
}

/* Until a batch has ended, at most so long. */
static void nap(struct prefetch *prefetch, uint64_t ms)
{
	uint64_t until_ms = now_ms() + (ms < LOOK_MS ? ms : LOOK_MS);
	const struct timespec until = {
		.tv_sec = (time_t)(until_ms / 1000),
		.tv_nsec = (long)(until_ms % 1000) * 1000000,
	};

	pthread_mutex_lock(&prefetch->lock);
	if (!any_ended(prefetch))
		pthread_cond_timedwait(&prefetch->happened, &prefetch->lock,
				       &until);
	pthread_mutex_unlock(&prefetch->lock);
	reap(prefetch);
	stand_back(prefetch);
	note_stall(prefetch);
}

void prefetch_sleep(struct prefetch *prefetch, uint64_t ms)
{
	uint64_t until_ms = now_ms() + ms;

	while (now_ms() < until_ms && prefetch_stopped(prefetch, NULL) == 0)
		nap(prefetch, until_ms - now_ms());
}

/* ---- when to start */

int prefetch_refused(struct prefetch *prefetch, struct err *err)
{
	struct cache_usage usage;

	cache_usage(prefetch->node->cache, &usage);
	return err_set(
		err, ENOSPC,
		"the cache takes nothing more: it has %llu MiB of %llu, its disk %llu MiB free",
		(unsigned long long)(usage.used_bytes >> 20),
		(unsigned long long)(usage.limit_bytes >> 20),
		(unsigned long long)(usage.disk_free_bytes >> 20));
}

/* A full or broken disk: what comes is not kept. Refusals that follow each
 * other are one trouble, and looks between them do not end it. */
static int check_disk(struct prefetch *prefetch, struct err *err)
{
	struct cache_usage usage;
	uint64_t now = now_ms();

	cache_usage(prefetch->node->cache, &usage);
	if (usage.puts_failed == prefetch->puts_failed)
		return 0;
	prefetch->puts_failed = usage.puts_failed;
	prefetch->hold_until_ms = now + REFUSED_MS / 10;
	if (now > prefetch->refused_ms + REFUSED_MS / 2)
		prefetch->refused_since_ms = now;
	prefetch->refused_ms = now;
	if (now < prefetch->refused_since_ms + REFUSED_MS)
		return 0;
	return prefetch_refused(prefetch, err);
}

/* How long to wait before more may be started; 0: now. */
static uint64_t hold_ms(struct prefetch *prefetch)
{
	const struct prefetch_options *options = &prefetch->options;
	uint64_t now = now_ms(), wait;

	if (now < prefetch->hold_until_ms)
		return prefetch->hold_until_ms - now;
	if (prefetch->flying_bytes > 0 &&
	    prefetch->flying_bytes >= prefetch_window(&prefetch->pace))
		return LOOK_MS;
	wait = prefetch_wait_ms(
		options->limit_bytes_per_s, prefetch->info.wire_bytes,
		prefetch->flying_bytes, now - prefetch->fetch_start_ms);
	if (wait > 0)
		return wait;
	if (demand_is_active(prefetch->node, now) &&
	    now < prefetch->last_start_ms + TRICKLE_MS)
		return LOOK_MS;
	return 0;
}

/* Until another batch may be begun. */
static int wait_turn(struct prefetch *prefetch, struct err *err)
{
	int r;

	reap(prefetch);
	for (;;) {
		uint64_t ms;

		r = prefetch_stopped(prefetch, err);
		if (r == 0)
			r = check_disk(prefetch, err);
		if (r < 0)
			return r;
		ms = hold_ms(prefetch);
		if (ms == 0)
			return 0;
		nap(prefetch, ms);
	}
}

/* Those that fly end by themselves, soon if the node is closing. */
void batches_finish(struct prefetch *prefetch)
{
	fly(prefetch);
	while (reap(prefetch) > 0)
		nap(prefetch, LOOK_MS);
}

/* ---- filling */

/* Whether a chunk of this source may still go into it: one job has the places
 * of one list. */
static bool has_room(const struct prefetch *prefetch, const struct batch *batch,
		     const struct blob_source *source)
{
	uint64_t limit = prefetch->options.limit_bytes_per_s;

	return digest_equal(&batch->source.places, &source->places) &&
	       batch->count < MISSING_MAX &&
	       batch->bytes < prefetch_batch(&prefetch->pace, limit);
}

static int open_batch(struct prefetch *prefetch,
		      const struct blob_source *source, struct err *err)
{
	if (prefetch->filling && !has_room(prefetch, prefetch->filling, source))
		fly(prefetch);
	while (!prefetch->filling) {
		int r = wait_turn(prefetch, err);

		if (r < 0)
			return r;
		prefetch->filling = new_batch(prefetch, source);
		if (!prefetch->filling)
			nap(prefetch, LOOK_MS);
	}
	return 0;
}

/* The flight of a chunk, made by us or by somebody else; NULL: not now. */
static struct flight *get_flight(struct prefetch *prefetch,
				 const struct recipe_record *record,
				 bool *ret_is_new)
{
	struct node *node = prefetch->node;
	struct batch *batch = prefetch->filling;
	struct budget_share *share = &prefetch->dataset->share;
	struct object_key key = chunk_key(prefetch->dataset, &record->digest);
	uint64_t cost = CHUNK_COST(record->length);
	struct flight *flight = flight_find(node->flights, &key);

	*ret_is_new = false;
	if (flight && flight_state(flight) != FLIGHT_FAILED)
		return flight;
	flight_unref(flight);
	if (!batch->job)
		batch->job = chunk_job_new(prefetch->dataset, &batch->source,
					   FETCH_PREFETCH, MISSING_MAX);
	if (!batch->job || !budget_try(node, share, cost, FETCH_PREFETCH))
		return NULL;
	flight = flight_get(node->flights, &key, ret_is_new);
	if (!*ret_is_new)
		budget_leave(node, share, cost, cost);
	return flight;
}

static int add_item(struct batch *batch, struct flight *flight, bool is_new,
		    const struct batch_chunk *chunk)
{
	const struct recipe_record *record = chunk->record;

	if (is_new) {
		chunk_job_add(batch->job, flight_ref(flight), record,
			      chunk->blob, chunk->source, chunk->unit,
			      chunk->start);
	} else if (flight_add_target(flight, chunk->blob, chunk->unit,
				     chunk->start) &&
		   flight_state(flight) == FLIGHT_DONE) {
		chunk_give_late(flight);
	}
	batch->items[batch->count++] = (struct batch_item){
		.flight = flight,
		.is_ours = is_new,
		.number = chunk->number,
		.bytes = chunk->bytes,
		.files = chunk->files,
	};
	batch->bytes += record->length;
	return waiter_hold(&batch->waiter, flight);
}

/* Small files share a chunk. */
static bool joins_last(struct prefetch *prefetch,
		       const struct batch_chunk *chunk)
{
	struct batch *batch = prefetch->filling;
	struct batch_item *last;

	if (!batch || batch->count == 0)
		return false;
	last = &batch->items[batch->count - 1];
	if (!digest_equal(&last->flight->key.digest, &chunk->record->digest))
		return false;
	last->bytes += chunk->bytes;
	last->files += chunk->files;
	return true;
}

int batch_add(struct prefetch *prefetch, const struct batch_chunk *chunk,
	      struct err *err)
{
	struct flight *flight;
	bool is_new;

	if (joins_last(prefetch, chunk))
		return 0;
	for (;;) {
		int r = open_batch(prefetch, chunk->source, err);

		if (r < 0)
			return r;
		flight = get_flight(prefetch, chunk->record, &is_new);
		if (flight)
			return add_item(prefetch->filling, flight, is_new,
					chunk);
		/* No memory: first what was gathered, then patience. */
		fly(prefetch);
		r = prefetch_stopped(prefetch, err);
		if (r < 0)
			return r;
		nap(prefetch, LOOK_MS);
	}
}
