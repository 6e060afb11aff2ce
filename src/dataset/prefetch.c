/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefetch from its start to its end.
 *
 *   LISTING --> COUNTING --> FETCHING <--> CHECKING --> ENDED
 *                  \-- dry run, or it does not fit --------^
 *
 * It keeps entry numbers and no list of chunks, so its memory does not grow
 * with the bytes; the chunks are looked up anew by each pass. That makes it
 * resumable without a state of its own: what is here is not fetched.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/thread.h"
#include "cache/cache.h"
#include "dataset/prefetch.h"

static void set_state(struct prefetch *prefetch, enum prefetch_state state)
{
	scoped_lock(&prefetch->lock);
	prefetch->info.state = state;
}

static int add_file(void *arg, const struct selected_file *file)
{
	struct prefetch *prefetch = arg;
	struct number_run *last =
		prefetch->runs.count ?
			&prefetch->runs.items[prefetch->runs.count - 1] :
			NULL;

	if (last && last->first + last->count == file->number) {
		last->count++;
	} else {
		last = vec_push(&prefetch->runs);
		if (!last)
			return -ENOMEM;
		*last = (struct number_run){file->number, 1};
	}
	scoped_lock(&prefetch->lock);
	prefetch->info.files++;
	prefetch->info.bytes += file->size;
	return atomic_load(&prefetch->is_canceled) ? -ECANCELED : 0;
}

static int list_once(struct prefetch *prefetch, struct err *err)
{
	pthread_mutex_lock(&prefetch->lock);
	prefetch->info.files = prefetch->info.bytes = 0;
	pthread_mutex_unlock(&prefetch->lock);
	prefetch->runs.count = 0;
	return snapshot_select(&prefetch->options.selection, prefetch->waiter,
			       add_file, prefetch, err);
}

/* Catalogs that cannot be had just now are asked for again. */
static int list_files(struct prefetch *prefetch, struct err *err)
{
	struct waiter *waiter = blocking_waiter_get(prefetch->waiter);
	uint32_t round = 0;
	int r;

	for (;;) {
		r = list_once(prefetch, err);
		if (r >= 0 || waiter->class == FETCH_OK ||
		    waiter->class == FETCH_ABSENT ||
		    prefetch->options.is_dry_run ||
		    prefetch_stopped(prefetch, err) < 0)
			return r;
		prefetch_say(prefetch, err->text);
		prefetch_sleep(prefetch, retry_delay_ms(round++, 0, now_ns()));
	}
}

/* ---- does it fit */

static int check_room(struct prefetch *prefetch, struct err *err)
{
	char needed[FORMAT_MAX], room[FORMAT_MAX];
	struct cache_room have;
	uint64_t bytes, here, missing;

	cache_room(prefetch->node->cache, prefetch->options.spare_s, &have);
	scoped_lock(&prefetch->lock);
	bytes = prefetch->info.bytes;
	here = prefetch->info.bytes_done;
	missing = bytes - here;
	/* What is here of it must not go for the rest to come. */
	if (!prefetch->options.spare_s)
		have.evictable_bytes -= here < have.evictable_bytes ?
						here :
						have.evictable_bytes;
	prefetch->info.room_bytes = have.free_bytes + have.evictable_bytes;
	if (missing == 0)
		return 0;
	if (bytes > have.limit_bytes)
		return err_set(
			err, ENOSPC,
			"%s do not fit into the cache, which %s %s (option '%s')",
			format_size(bytes, needed),
			have.is_disk ? "has a disk with room for" :
				       "is limited to",
			format_size(have.limit_bytes, room),
			have.is_disk ? "min-free" : "size");
	if (missing <= prefetch->info.room_bytes)
		return 0;
	return err_set(err, ENOSPC,
		       "%s are missing, but the cache has room for %s only%s",
		       format_size(missing, needed),
		       format_size(prefetch->info.room_bytes, room),
		       have.is_disk ?
			       ": its disk is nearly full (option 'min-free')" :
		       prefetch->options.spare_s ?
			       " without dropping what was used lately" :
			       ": the rest is pinned");
}

static int check_cache(struct prefetch *prefetch, struct err *err)
{
	struct cache_usage usage;

	if (!prefetch->node->cache)
		return err_set(err, ENODEV, "there is no cache to fill");
	cache_usage(prefetch->node->cache, &usage);
	prefetch->puts_failed = usage.puts_failed;
	if (usage.records || prefetch->options.is_dry_run)
		return 0;
	return err_set(err, EROFS,
		       "the cache cannot be written (larder status says more)");
}

/* ---- passes */

static int count(struct prefetch *prefetch, struct err *err)
{
	int r;

	set_state(prefetch, PREFETCH_COUNTING);
	prefetch->is_counting = true;
	r = prefetch_pass(prefetch, err);
	prefetch->is_counting = false;
	pthread_mutex_lock(&prefetch->lock);
	prefetch->info.bytes_at_start = prefetch->info.bytes_done;
	pthread_mutex_unlock(&prefetch->lock);
	return r < 0 ? r : check_room(prefetch, err);
}

static int check_records(struct prefetch *prefetch, struct err *err)
{
	struct cache_usage usage;

	cache_usage(prefetch->node->cache, &usage);
	if (usage.records)
		return 0;
	return err_set(
		err, EIO,
		"the cache's index cannot be written, so what came may be lost");
}

/* What came through others was not counted as it came. */
static void count_here(struct prefetch *prefetch)
{
	scoped_lock(&prefetch->lock);
	prefetch->info.bytes_done = prefetch->here_bytes;
	prefetch->info.files_done = prefetch->here_files;
}

/* Passes in a row that left as much missing as there was, though the cache was
 * given something. On a slow link they are too far apart for a time limit. */
#define FRUITLESS_MAX 10u

static bool is_fruitless(const struct prefetch *prefetch, uint64_t missing,
			 uint64_t refused)
{
	struct cache_usage usage;

	cache_usage(prefetch->node->cache, &usage);
	return prefetch->missing >= missing && usage.puts_failed > refused;
}

/* Files by reference have a digest of their own, of which the cache looks
 * after the last block has come. */
static int prove(struct prefetch *prefetch, struct err *err)
{
	int r;

	set_state(prefetch, PREFETCH_CHECKING);
	prefetch->is_proving = true;
	r = prefetch_pass(prefetch, err);
	prefetch->is_proving = false;
	return r;
}

static int fetch(struct prefetch *prefetch, struct err *err)
{
	uint64_t missing = UINT64_MAX, refused = prefetch->puts_failed;
	unsigned fruitless = 0;
	int r;

	prefetch->fetch_start_ms = prefetch->last_bytes_ms = now_ms();
	set_state(prefetch, PREFETCH_FETCHING);
	for (;;) {
		r = prefetch_pass(prefetch, err);
		if (r < 0)
			return r;
		if (prefetch->missing == 0) {
			count_here(prefetch);
			r = prefetch->dataset->hub ? prove(prefetch, err) : 0;
		}
		if (r < 0)
			return r;
		if (prefetch->missing == 0)
			return check_records(prefetch, err);
		if (prefetch->bad.count > BAD_CHUNKS_MAX)
			return err_set(err, EIO,
				       "too much of it cannot be fetched");
		fruitless = is_fruitless(prefetch, missing, refused) ?
				    fruitless + 1 :
				    0;
		if (fruitless >= FRUITLESS_MAX)
			return prefetch_refused(prefetch, err);
		missing = prefetch->missing;
		refused = prefetch->puts_failed;
		set_state(prefetch, PREFETCH_CHECKING);
	}
}

static int run(struct prefetch *prefetch, struct err *err)
{
	uint64_t failed;
	int r = check_cache(prefetch, err);

	if (r == 0)
		r = list_files(prefetch, err);
	if (r == 0)
		r = count(prefetch, err);
	if (r == 0 && !prefetch->options.is_dry_run)
		r = fetch(prefetch, err);
	if (r < 0)
		return r;
	failed = prefetch->info.files_failed;
	if (failed > 0)
		return err_set(err, EIO, "%llu file%s cannot be fetched",
			       (unsigned long long)failed,
			       failed == 1 ? "" : "s");
	return 0;
}

static void end(struct prefetch *prefetch, int r, const struct err *err)
{
	scoped_lock(&prefetch->lock);
	prefetch->info.state = PREFETCH_ENDED;
	prefetch->info.result = r;
	prefetch->info.stalled_ms = 0;
	prefetch->info.reason[0] = '\0';
	if (r < 0)
		prefetch->info.err = *err;
}

static void *prefetch_main(void *arg)
{
	struct prefetch *prefetch = arg;
	struct node *node = prefetch->node;
	struct err err = {0};
	int r;

	pthread_setname_np(pthread_self(), "larder-prefetch");
	prefetch->fetch_start_ms = prefetch->last_bytes_ms = now_ms();
	r = run(prefetch, &err);

	if (r < 0 && !err.text[0])
		err_set(&err, -r, "%s", strerror(-r));
	blocking_waiter_free(prefetch->waiter);
	snapshot_unref(prefetch->snapshot);
	end(prefetch, r, &err);
	if (prefetch->options.ended)
		prefetch->options.ended(prefetch->options.arg);
	node_job_end(node);
	return NULL;
}

/* ---- the door */

static void name_origins(struct prefetch *prefetch)
{
	struct prefetch_info *info = &prefetch->info;

	static_assert(PREFETCH_ORIGINS >= MIRRORS_MAX, "one for each");
	info->origin_count = prefetch->dataset->mirror_count;
	for (unsigned i = 0; i < info->origin_count; i++)
		info->origins[i].name =
			origin_name(prefetch->dataset->mirrors[i].origin);
}

static void release(struct prefetch *prefetch)
{
	pthread_mutex_destroy(&prefetch->lock);
	pthread_cond_destroy(&prefetch->happened);
	vec_release(&prefetch->runs);
	vec_release(&prefetch->bad);
	vec_release(&prefetch->failed);
	free(prefetch);
}

int prefetch_start(const struct prefetch_options *options,
		   struct prefetch **ret, struct err *err)
{
	struct prefetch *prefetch = calloc(1, sizeof(*prefetch));
	pthread_condattr_t attributes;
	int r;

	if (!prefetch)
		return err_set(err, ENOMEM, "out of memory");
	prefetch->options = *options;
	prefetch->snapshot = snapshot_ref(options->selection.snapshot);
	prefetch->dataset = prefetch->snapshot->dataset;
	prefetch->node = prefetch->dataset->node;
	pthread_mutex_init(&prefetch->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&prefetch->happened, &attributes);
	pthread_condattr_destroy(&attributes);
	name_origins(prefetch);
	prefetch->waiter = blocking_waiter_new();
	node_job_begin(prefetch->node);
	r = prefetch->waiter ? thread_start(&prefetch->thread, 0, prefetch_main,
					    prefetch) :
			       -ENOMEM;
	if (r < 0) {
		blocking_waiter_free(prefetch->waiter);
		snapshot_unref(prefetch->snapshot);
		node_job_end(prefetch->node);
		release(prefetch);
		return err_set(err, -r, "cannot start a thread: %s",
			       strerror(-r));
	}
	*ret = prefetch;
	return 0;
}

void prefetch_info(struct prefetch *prefetch, struct prefetch_info *ret)
{
	scoped_lock(&prefetch->lock);
	*ret = prefetch->info;
	if (ret->bytes_done > ret->bytes)
		ret->bytes_done = ret->bytes;
	/* The last chunk of a failed file may be here all the same. */
	if (ret->files_done > ret->files - ret->files_failed)
		ret->files_done = ret->files - ret->files_failed;
}

void prefetch_failures(struct prefetch *prefetch,
		       void (*each)(void *arg, const char *path,
				    const char *reason),
		       void *arg)
{
	scoped_lock(&prefetch->lock);
	for (unsigned i = 0; i < prefetch->failure_count; i++)
		each(arg, prefetch->failures[i].path,
		     prefetch->failures[i].reason);
}

void prefetch_cancel(struct prefetch *prefetch)
{
	atomic_store(&prefetch->is_canceled, true);
	scoped_lock(&prefetch->lock);
	pthread_cond_signal(&prefetch->happened);
}

void prefetch_free(struct prefetch *prefetch)
{
	if (!prefetch)
		return;
	prefetch_cancel(prefetch);
	pthread_join(prefetch->thread, NULL);
	release(prefetch);
}
