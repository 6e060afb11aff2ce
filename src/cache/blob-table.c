/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blobs a process has open: one struct each, counted. Closed ones are
 * kept for a while with their file and their checked bits, because readers
 * come back; they count as in use for the evictors of other processes, so
 * there are few and not for long.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "cache/internal.h"

#define IDLE_MAX 64u
/* Two bits per unit: 1 GiB of address space for the largest. */
#define UNITS_MAX (UINT64_C(1) << 32)

int blob_table_init(struct blob_table *table, int dirfd)
{
	memset(table, 0, sizeof(*table));
	table->dirfd = dirfd;
	pthread_mutex_init(&table->lock, NULL);
	return 0;
}

static void blob_free(struct cache_blob *blob)
{
	struct record touch = { .op = {
		.kind = INDEX_TOUCH, .id = blob->id, .gen = blob->gen,
		.last_use = atomic_load(&blob->last_use),
	} };

	if (atomic_load(&blob->is_attached) && !blob->is_unnamed &&
	    !blob->cache->is_readonly &&
	    touch.op.last_use > blob->recorded_use)
		(void)recorder_add(&blob->cache->recorder, &touch);
	for (uint64_t i = 0; blob->fds && i < blob->segment_count; i++) {
		int fd = atomic_load(&blob->fds[i]);

		if (fd >= 0)
			close(fd);
	}
	atomic_fetch_sub(&blob->cache->space.unlinked,
			 atomic_load(&blob->unlinked_bytes));
	pthread_mutex_destroy(&blob->lock);
	pthread_mutex_destroy(&blob->watch_lock);
	free(blob->watches);
	free(blob->fds);
	free(blob->sound);
	free(blob->bad);
	free(blob);
}

static struct cache_blob *blob_new(struct cache *cache, const struct digest *id,
				   uint64_t blob_bytes, uint64_t unit_count)
{
	struct cache_blob *blob = calloc(1, sizeof(*blob));
	size_t words = (size_t)((unit_count + 63) / 64);

	if (!blob)
		return NULL;
	blob->cache = cache;
	blob->id = *id;
	blob->blob_bytes = blob_bytes;
	blob->unit_count = unit_count;
	blob->refs = 1;
	atomic_store(&blob->last_use, atomic_load(&cache->now_s));
	pthread_mutex_init(&blob->lock, NULL);
	pthread_mutex_init(&blob->watch_lock, NULL);
	blob->sound = calloc(words + 1, sizeof(*blob->sound));
	blob->bad = calloc(words + 1, sizeof(*blob->bad));
	if (blob->sound && blob->bad)
		return blob;
	free(blob->sound);
	free(blob->bad);
	free(blob);
	return NULL;
}

static struct cache_blob **bucket_of(struct blob_table *table,
				     const struct digest *id)
{
	return &table->buckets[load_le32(id->bytes) % BLOB_BUCKETS];
}

/* The following are called with the table's lock held. */

static void unlist(struct blob_table *table, struct cache_blob *blob)
{
	struct cache_blob **at = bucket_of(table, &blob->id);

	if (!blob->is_listed)
		return;
	while (*at != blob)
		at = &(*at)->next;
	*at = blob->next;
	blob->is_listed = false;
}

static void idle_remove(struct blob_table *table, struct cache_blob *blob)
{
	if (blob->idle_prev)
		blob->idle_prev->idle_next = blob->idle_next;
	else
		table->idle_first = blob->idle_next;
	if (blob->idle_next)
		blob->idle_next->idle_prev = blob->idle_prev;
	else
		table->idle_last = blob->idle_prev;
	blob->idle_next = blob->idle_prev = NULL;
	table->idle_count--;
}

static void idle_append(struct blob_table *table, struct cache_blob *blob)
{
	blob->idle_prev = table->idle_last;
	if (table->idle_last)
		table->idle_last->idle_next = blob;
	else
		table->idle_first = blob;
	table->idle_last = blob;
	table->idle_count++;
}

static struct cache_blob *find(struct blob_table *table,
			       const struct digest *id)
{
	struct cache_blob *blob = *bucket_of(table, id);

	while (blob && !digest_equal(&blob->id, id))
		blob = blob->next;
	return blob;
}

static void ref_locked(struct blob_table *table, struct cache_blob *blob)
{
	if (blob->refs++ == 0)
		idle_remove(table, blob);
}

static struct cache_blob *take_idle(struct blob_table *table,
				    struct cache_blob *blob)
{
	idle_remove(table, blob);
	unlist(table, blob);
	return blob;
}

/* ---- */

int blob_get(struct cache *cache, const struct digest *id, uint64_t blob_bytes,
	     uint64_t unit_count, struct cache_blob **ret)
{
	struct blob_table *table = &cache->blobs;
	struct cache_blob *blob, **bucket;

	if (unit_count > UNITS_MAX)
		return -EFBIG;
	scoped_lock(&table->lock);
	blob = find(table, id);
	if (blob && (blob->blob_bytes != blob_bytes ||
		     blob->unit_count != unit_count))
		return -EINVAL;
	if (blob) {
		ref_locked(table, blob);
		*ret = blob;
		return 0;
	}
	blob = blob_new(cache, id, blob_bytes, unit_count);
	if (!blob)
		return -ENOMEM;
	bucket = bucket_of(table, id);
	blob->next = *bucket;
	blob->is_listed = true;
	*bucket = blob;
	*ret = blob;
	return 0;
}

void blob_ref(struct cache_blob *blob)
{
	scoped_lock(&blob->cache->blobs.lock);
	ref_locked(&blob->cache->blobs, blob);
}

void blob_unref(struct cache_blob *blob)
{
	struct blob_table *table = &blob->cache->blobs;
	struct cache_blob *gone = NULL;

	pthread_mutex_lock(&table->lock);
	if (--blob->refs == 0) {
		if (!blob->is_listed || !atomic_load(&blob->is_attached)) {
			unlist(table, blob);
			gone = blob;
		} else {
			blob->idle_since_s = atomic_load(&blob->cache->now_s);
			idle_append(table, blob);
			if (table->idle_count > IDLE_MAX)
				gone = take_idle(table, table->idle_first);
		}
	}
	pthread_mutex_unlock(&table->lock);
	if (gone)
		blob_free(gone);
}

void blob_set_stale(struct cache_blob *blob)
{
	struct blob_table *table = &blob->cache->blobs;

	if (atomic_exchange(&blob->is_stale, true))
		return;
	pthread_mutex_lock(&table->lock);
	unlist(table, blob);
	pthread_mutex_unlock(&table->lock);
	/* No generation comes twice, so the name can only be ours. */
	if (atomic_load(&blob->is_attached) && !blob->cache->is_readonly)
		blob_unlink_own(blob);
}

unsigned int blob_table_trim(struct blob_table *table, int64_t before_s)
{
	struct cache_blob *blob;
	unsigned int count = 0;

	for (;; count++) {
		pthread_mutex_lock(&table->lock);
		blob = table->idle_first;
		if (blob && blob->idle_since_s < before_s)
			take_idle(table, blob);
		else
			blob = NULL;
		pthread_mutex_unlock(&table->lock);
		if (!blob)
			return count;
		blob_free(blob);
	}
}

void blob_table_each(struct blob_table *table,
		     void (*each)(void *arg, struct cache_blob *blob),
		     void *arg)
{
	for (unsigned int i = 0; i < BLOB_BUCKETS; i++) {
		struct cache_blob *blob, *next;

		pthread_mutex_lock(&table->lock);
		blob = table->buckets[i];
		if (blob)
			ref_locked(table, blob);
		pthread_mutex_unlock(&table->lock);
		while (blob) {
			each(arg, blob);
			pthread_mutex_lock(&table->lock);
			/* Unlisted meanwhile: the rest waits for next time. */
			next = blob->is_listed ? blob->next : NULL;
			if (next)
				ref_locked(table, next);
			pthread_mutex_unlock(&table->lock);
			blob_unref(blob);
			blob = next;
		}
	}
}

void blob_table_renew(struct blob_table *table)
{
	scoped_lock(&table->lock);
	for (unsigned int i = 0; i < BLOB_BUCKETS; i++) {
		struct cache_blob *blob = table->buckets[i], *next;

		for (; blob; blob = next) {
			next = blob->next;
			if (blob->refs > 0 && cache_blob_in_segments(blob))
				unlist(table, blob);
		}
	}
}

bool blob_table_forget(struct blob_table *table, const struct digest *id)
{
	struct cache_blob *blob;

	pthread_mutex_lock(&table->lock);
	blob = find(table, id);
	if (blob && blob->refs > 0) {
		pthread_mutex_unlock(&table->lock);
		return false;
	}
	if (blob)
		take_idle(table, blob);
	pthread_mutex_unlock(&table->lock);
	if (blob)
		blob_free(blob);
	return true;
}

void blob_table_release(struct blob_table *table)
{
	blob_table_trim(table, INT64_MAX);
	if (table->dirfd >= 0)
		close(table->dirfd);
	pthread_mutex_destroy(&table->lock);
}
