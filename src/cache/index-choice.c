/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which index a cache uses. It is opened with the cache and replaced when it is
 * lost while we run: damaged, moved aside by another process, removed. The
 * new one starts empty; blob files that were there before it are candidates,
 * whose bytes are used again once somebody has compared them with their
 * digest. An index that was replaced stays open until the cache is closed,
 * because look-ups may be in it.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/text.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/internal.h"
#include "cache/layout.h"

/* A disk that is dead is asked less and less often. */
#define RETRY_MIN_MS 1000u
#define RETRY_MAX_MS 60000u

/* Some seven million chunks; a larger one is checked before it is written to,
 * so that no start waits for it. */
#define CHECK_BYTES_MAX (UINT64_C(1) << 30)

/* Damaged ones, for whoever wants to know why. */
#define ASIDE_KEPT 4u

/* Directories below blobs are made with the first file in them. */
static bool has_blob_files(const struct cache *cache)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;

	if (directory_open(cache->blobs.dirfd, ".", 0, &dir) < 0)
		return false;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			return true;
	return false;
}

/* Before anybody relies on it: what it is replaced by knows that there is data
 * to be proven. */
static int open_checked(struct cache *cache, const char *path, int flags,
			struct index **ret, struct err *err)
{
	struct index *index;
	int r = index_open(path, flags, &index, err);

	if (r == 0 && index_bytes(index) <= CHECK_BYTES_MAX) {
		if (index_watch_begin(index, cache->gate_fd) == 0)
			index_watch_end(index, cache->gate_fd);
		if (index_is_dead(index)) {
			index_close(index);
			r = index_open(path, flags, &index, err);
		}
	}
	if (r == 0)
		*ret = index;
	return r;
}

static int open_gated(struct cache *cache, const char *path, struct index **ret,
		      struct err *err)
{
	int flags = has_blob_files(cache) ? INDEX_OPEN_OLD_DATA : 0, r;

	if (cache->is_readonly)
		return index_open(path, INDEX_OPEN_READONLY, ret, err);
	r = gate_enter(cache->gate_fd, GATE_WRITER, GATE_TIMEOUT_MS);
	if (r < 0)
		return index_open(path, INDEX_OPEN_EXISTING, ret, err);
	if (mkdirat(cache->dirfd, LAYOUT_INDEX, 0700) < 0 && errno != EEXIST)
		r = err_set(err, errno, "cannot make '%s'", path);
	else
		r = open_checked(cache, path, flags, ret, err);
	gate_leave(cache->gate_fd, GATE_WRITER);
	return r;
}

static int open_index(struct cache *cache, struct index **ret, struct err *err)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/" LAYOUT_INDEX, cache->dir) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return open_gated(cache, path, ret, err);
}

/* The oldest by name of those that were moved aside, and how many there are. */
static unsigned int find_aside(const struct cache *cache,
			       char ret_oldest[NAME_MAX + 1])
{
	_cleanup_closedir_ DIR *dir = NULL;
	unsigned int count = 0;
	struct dirent *entry;

	if (directory_open(cache->dirfd, ".", 0, &dir) < 0)
		return 0;
	while ((entry = readdir(dir))) {
		if (!starts_with(entry->d_name, LAYOUT_INDEX ".bad-"))
			continue;
		if (count++ == 0 || strcmp(entry->d_name, ret_oldest) < 0)
			snprintf(ret_oldest, NAME_MAX + 1, "%s",
				 entry->d_name);
	}
	return count;
}

static void drop_aside(const struct cache *cache)
{
	char oldest[NAME_MAX + 1];

	while (!cache->is_readonly &&
	       find_aside(cache, oldest) > ASIDE_KEPT &&
	       remove_tree(cache->dirfd, oldest) == 0)
		;
}

/* Failure only means that nothing is recorded. */
void cache_index_open(struct cache *cache)
{
	struct index *index;
	struct err err = {""};
	uint64_t used;
	int r = open_index(cache, &index, &err);

	if (r < 0) {
		log_limited(60000, log_warning("going on without the index of "
					       "what is cached: dir=%s "
					       "reason=%s",
					       cache->dir, err_text(&err, r)));
		return;
	}
	if (index_used(index, &used) == 0)
		atomic_store(&cache->space.used, used);
	cache->index = index;
	drop_aside(cache);
}

/* What was stored for the lost index: its next record makes a new row. */
static void expect_row(void *arg, struct cache_blob *blob)
{
	(void)arg;
	if (!blob->is_unnamed)
		atomic_store(&blob->is_recorded, false);
}

/* Made without an index: nothing could ever find its file again. */
static void give_up_unnamed(void *arg, struct cache_blob *blob)
{
	(void)arg;
	if (atomic_load(&blob->is_attached) && blob->is_unnamed)
		blob_set_stale(blob);
}

bool cache_index_renew(struct cache *cache)
{
	struct index *old = cache->index, **kept;
	uint64_t now = now_ms();

	if (cache->is_readonly || (old && index_is_current(old)))
		return false;
	if (now < cache->index_retry_ms)
		return false;
	cache->index_pause_ms = cache->index_pause_ms == 0 || !old ?
					RETRY_MIN_MS :
					cache->index_pause_ms * 2;
	if (cache->index_pause_ms > RETRY_MAX_MS)
		cache->index_pause_ms = RETRY_MAX_MS;
	cache->index_retry_ms = now + cache->index_pause_ms;
	blob_table_each(&cache->blobs, expect_row, NULL);
	kept = vec_push(&cache->old_indexes);
	if (!kept)
		return false;
	*kept = old;
	cache_index_open(cache);
	if (cache->index == old) {
		cache->old_indexes.count--;
		return false;
	}
	blob_table_each(&cache->blobs, give_up_unnamed, NULL);
	log_warning("recording again: dir=%s", cache->dir);
	return true;
}

void cache_index_close(struct cache *cache)
{
	index_close(cache->index);
	for (size_t i = 0; i < cache->old_indexes.count; i++)
		index_close(cache->old_indexes.items[i]);
	vec_release(&cache->old_indexes);
}
