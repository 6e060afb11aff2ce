/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a cache, and the door's small calls. What can be done
 * without is done without: no index (damaged disk, a stopped process holding
 * its gate), no claims, no right to write; each costs speed and says so once.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/layout.h"

void cond_init_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* ---- open */

/* Nobody waits for a commit that hangs. */
static void on_hang(void *arg, bool is_hanging)
{
	struct cache *cache = arg;

	if (is_hanging)
		recorder_let_go(&cache->recorder);
	scoped_lock(&cache->hang_lock);
	if (cache->on_hang)
		cache->on_hang(cache->on_hang_arg, is_hanging);
}

void cache_on_hang(struct cache *cache,
		   void (*changed)(void *arg, bool is_hanging), void *arg)
{
	scoped_lock(&cache->hang_lock);
	cache->on_hang = changed;
	cache->on_hang_arg = arg;
}

static int no_threads(const struct cache *cache, int r, struct err *err)
{
	return err_set(err, -r, "cannot start threads for cache '%s': %s",
		       cache->dir, strerror(-r));
}

static int open_parts(struct cache *cache, const struct cache_options *options,
		      struct err *err)
{
	char limit[FORMAT_MAX], min_free[FORMAT_MAX];
	int fd, r;

	r = space_init(&cache->space, cache->dirfd, options->limit_bytes,
		       options->min_free_bytes);
	if (r < 0)
		return err_set(err, -r, "cannot ask the size of the disk "
			       "under '%s': %s", cache->dir, strerror(-r));
	r = disk_start(&cache->disk, cache->dir, on_hang, cache);
	if (r < 0)
		return no_threads(cache, r, err);
	if (options->tells_limits && cache->space.limits.is_clamped)
		log_warning(
			"limits brought down to what the disk has: dir=%s size=%s "
			"min-free=%s",
			cache->dir,
			format_size(cache->space.limits.limit_bytes, limit),
			format_size(cache->space.limits.min_free_bytes,
				    min_free));
	if (cache->is_readonly)
		log_warning("cache cannot be written, using what is there: "
			    "dir=%s", cache->dir);
	else
		cache->gate_fd = open_regular(cache->dirfd, LAYOUT_GATE,
					      O_RDWR | O_CREAT, 0600);
	claims_open(&cache->claims, &cache->disk,
		    cache->is_readonly ? -1 : cache->dirfd);
	unrecorded_init(&cache->space.unrecorded, cache->claims.wake_fd);
	pins_init(&cache->pins, cache->dirfd);
	evictor_init(&cache->evictor, cache->dirfd);
	keeper_init(&cache->keeper, cache);
	fd = openat(cache->dirfd, "blobs",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = blob_table_init(&cache->blobs, fd);
	if (r < 0)
		return r;
	if (!cache->is_readonly)
		layout_ballast_make(cache->dirfd);
	cache_index_open(cache);
	r = recorder_start(&cache->recorder, cache);
	if (r == 0)
		r = sealer_start(&cache->sealer, cache);
	if (r == 0)
		r = keeper_start(&cache->keeper);
	if (r < 0)
		return no_threads(cache, r, err);
	return 0;
}

int cache_open(const struct cache_options *options, struct cache **ret,
	       struct err *err)
{
	struct cache *cache = calloc(1, sizeof(*cache));
	int r;

	if (!cache)
		return err_set(err, ENOMEM, "cannot open cache '%s': out of "
			       "memory", options->dir);
	cache->dirfd = cache->gate_fd = cache->blobs.dirfd = -1;
	cache->claims.fd = cache->claims.wake_fd = -1;
	pthread_mutex_init(&cache->hang_lock, NULL);
	atomic_store(&cache->now_s, wall_seconds());
	r = layout_open(options->dir, &cache->dir, &cache->dirfd,
			&cache->is_readonly, err);
	if (r < 0) {
		free(cache);
		return r;
	}
	pending_init(&cache->pending);
	r = open_parts(cache, options, err);
	if (r < 0) {
		cache_close(cache);
		return r;
	}
	*ret = cache;
	return 0;
}

void cache_close(struct cache *cache)
{
	if (!cache)
		return;
	keeper_stop(&cache->keeper);
	sealer_stop(&cache->sealer);
	blob_table_trim(&cache->blobs, INT64_MAX);
	disk_stop(&cache->disk); /* before what it calls */
	recorder_stop(&cache->recorder);
	blob_table_release(&cache->blobs);
	cache_index_close(cache);
	claims_close(&cache->claims);
	disk_release(&cache->disk);
	if (cache->keeper.cache) {
		evictor_release(&cache->evictor);
		pins_release(&cache->pins);
	}
	keeper_release(&cache->keeper);
	space_release(&cache->space);
	pending_release(&cache->pending);
	if (cache->gate_fd >= 0)
		close(cache->gate_fd);
	close(cache->dirfd);
	pthread_mutex_destroy(&cache->hang_lock);
	free(cache->dir);
	free(cache);
}

/* Written and not recorded: what a slow disk may owe. */
#define BEHIND_BYTES (UINT64_C(1) << 30)

bool cache_is_behind(const struct cache *cache)
{
	return atomic_load(&cache->space.unrecorded.own) > BEHIND_BYTES;
}

int cache_probe_fd(const struct cache *cache)
{
	int fd = openat(cache->dirfd, LAYOUT_VERSION_FILE,
			O_RDONLY | O_CLOEXEC | O_DIRECT | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

const char *cache_dir(const struct cache *cache)
{
	return cache->dir;
}

int cache_blob_info(struct cache *cache, const struct digest *id,
		    struct cache_blob_info *ret)
{
	struct blob_row row;
	int r = cache_has_index(cache) ? index_blob(cache->index, id, &row) :
					 -EIO;

	if (r == 1)
		*ret = (struct cache_blob_info){
			.blob_bytes = row.blob_bytes,
			.present_bytes = row.present_bytes,
			.disk_bytes = row.disk_bytes,
			.is_complete = row.present_units == row.unit_count,
			.last_use = row.last_use,
		};
	return r;
}

/* ---- claims */

int cache_claim(struct cache *cache, const struct digest *unit)
{
	return claims_take(&cache->claims, unit);
}

void cache_unclaim(struct cache *cache, const struct digest *unit)
{
	claims_drop(&cache->claims, unit);
}

void cache_progress(struct cache *cache, const struct digest *unit)
{
	claims_progress(&cache->claims, unit);
}

uint32_t cache_progress_read(struct cache *cache, const struct digest *unit)
{
	return claims_progress_read(&cache->claims, unit);
}

void cache_wait(struct cache *cache, uint32_t timeout_ms)
{
	claims_wait(&cache->claims, timeout_ms);
}

/* ---- */

void cache_usage(struct cache *cache, struct cache_usage *ret)
{
	uint64_t used;

	if (cache_has_index(cache) && index_used(cache->index, &used) == 0)
		atomic_store(&cache->space.used, used);
	*ret = (struct cache_usage){
		.used_bytes = space_used(&cache->space),
		.limit_bytes = cache->space.limits.limit_bytes,
		.disk_free_bytes = space_free_bytes(&cache->space),
		.blob_files = cache_has_index(cache) ?
				      index_blob_count(cache->index) : 0,
		.units_dropped_corrupt =
			atomic_load(&cache->units_dropped_corrupt),
		.puts_failed = atomic_load(&cache->puts_failed),
		.blobs_lost = atomic_load(&cache->blobs_lost),
		.blobs_evicted = atomic_load(&cache->blobs_evicted),
		.bytes_evicted = atomic_load(&cache->bytes_evicted),
		.records = !cache->is_readonly && cache_has_index(cache) &&
			   !atomic_load(&cache->recorder.is_suspended),
	};
	ret->usable_bytes = space_usable(&cache->space.limits, ret->used_bytes,
					 ret->disk_free_bytes);
	for (int i = 0; i < CACHE_WAITS; i++)
		ret->eviction_waits[i] =
			atomic_load(&cache->eviction_waits[i]);
	ret->is_hanging = disk_is_hanging(&cache->disk);
	if (atomic_load(&cache->recorder.is_suspended) && !ret->is_hanging)
		ret->index_holder = gate_holder(cache->gate_fd);
}

int cache_figures_text(struct cache *cache, uint64_t pinned_bytes,
		       struct buf *ret)
{
	struct cache_usage usage;
	int r;

	cache_usage(cache, &usage);
	r = buf_printf(ret,
		       "used %" PRIu64 "\nlimit %" PRIu64
		       "\nusable %" PRIu64 "\nfree %" PRIu64
		       "\npinned %" PRIu64 "\nblobs %" PRIu64
		       "\nevicted %" PRIu64 "\nevicted-blobs %" PRIu64
		       "\ncorrupt %" PRIu64 "\nlost %" PRIu64
		       "\nnot-stored %" PRIu64
		       "\nrecords %d\nhanging %d\nindex-holder %" PRId64
		       "\neviction-waits",
		       usage.used_bytes, usage.limit_bytes,
		       usage.usable_bytes, usage.disk_free_bytes, pinned_bytes, usage.blob_files,
		       usage.bytes_evicted, usage.blobs_evicted,
		       usage.units_dropped_corrupt, usage.blobs_lost,
		       usage.puts_failed, usage.records, usage.is_hanging,
		       usage.index_holder);
	for (int i = 0; i < CACHE_WAITS && r == 0; i++)
		r = buf_printf(ret, " %" PRIu64, usage.eviction_waits[i]);
	return r == 0 ? buf_printf(ret, "\ncache %s\n", cache_dir(cache)) : r;
}
