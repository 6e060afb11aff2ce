/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance, on one thread and never on the read path. A file that no row of
 * the index speaks of is lost space: a kill between two steps or a lost index
 * leaves some, so the directories are swept one by one.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/layout.h"
#include "cache/measure.h"

#define TICK_MS 1000u
#define SLOW_TICKS 60u  /* last uses, idle blobs */
#define SWEEP_TICKS 10u /* 256 directories in 43 minutes */
#define IDLE_S 60
#define HURRY_MS 200u /* of each second */
#define OBJECTS_SHARE 8 /* of the limit */
#define OBJECTS_AGE_S 3600
/* Data of a lost index that nobody has asked for in 14 days is dropped. */
#define CANDIDATE_AGE_S (INT64_C(14) * 86400)

/* ---- leftovers */

/* The row whose file has this name: 1, 0 none, negative errno. The type byte is
 * not in the name: any type of that length will do. */
static int find_row(struct cache *cache, const char *hex, uint64_t gen,
		    struct digest *ret_id, struct blob_row *ret)
{
	static const uint8_t types[] = {
		DIGEST_SHA256, DIGEST_GIT_SHA1, DIGEST_BLAKE3, DIGEST_REFERENCE,
	};

	for (size_t i = 0; i < sizeof(types); i++) {
		struct digest id = { .type = types[i] };
		int r;

		if (digest_size(types[i]) * 2 != strlen(hex) ||
		    hex_decode(hex, id.bytes, strlen(hex) / 2) < 0)
			continue;
		r = index_blob(cache->index, &id, ret);
		*ret_id = id;
		if (r < 0 || (r == 1 && ret->gen == gen))
			return r;
	}
	return 0;
}

int keeper_row_of(struct cache *cache, const char *directory, const char *name,
		  struct digest *ret_id, struct blob_row *ret)
{
	char hex[DIGEST_HEX_MAX];
	uint64_t gen;

	if (blob_name_parse(directory, name, hex, &gen) < 0)
		return 0;
	return find_row(cache, hex, gen, ret_id, ret);
}

static bool is_old(int dirfd, const char *name, int64_t age_s, bool is_link)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return st.st_mtime + age_s <= wall_seconds() &&
	       (S_ISREG(st.st_mode) || (is_link && S_ISLNK(st.st_mode)));
}

static bool is_in_use(int dirfd, const char *name)
{
	_cleanup_close_ int fd = open_regular(dirfd, name, O_RDWR, 0);

	return fd >= 0 && ofd_test(fd, F_WRLCK, 0, 1) != 0;
}

/* Whether the file it speaks of is being filled. */
static bool is_announcing(int dirfd, const char *name)
{
	char text[64] = "", file[NAME_MAX + 64];
	ssize_t n = readlinkat(dirfd, name, text, sizeof(text) - 1);

	if (n < 16)
		return false;
	/* cdef.new -> cdef.GEN; segments are not looked for: the price of a
	 * lost announcement is lost work at most. */
	snprintf(file, sizeof(file), "%.*s%.16s", (int)strlen(name) - 3, name,
		 text);
	return is_in_use(dirfd, file);
}

/* Data from before the index: long enough to be asked for. */
bool keeper_expects_candidates(struct cache *cache)
{
	int64_t since = index_old_data_s(cache->index);

	return since != 0 && wall_seconds() < since + CANDIDATE_AGE_S;
}

bool keeper_is_leftover(struct cache *cache, int dirfd, const char *directory,
			const char *name, int64_t age_s)
{
	char hex[DIGEST_HEX_MAX];
	struct blob_row row;
	struct digest id;
	uint64_t gen;

	/* Candidates, unless space is short: nobody may have asked yet. */
	if (age_s >= LEFTOVER_AGE_S && keeper_expects_candidates(cache))
		return false;
	if (ends_with(name, ".new"))
		return is_old(dirfd, name, age_s, true) &&
		       !is_announcing(dirfd, name);
	return blob_name_parse(directory, name, hex, &gen) == 0 &&
	       is_old(dirfd, name, age_s, false) && !is_in_use(dirfd, name) &&
	       find_row(cache, hex, gen, &id, &row) == 0;
}

static void sweep_entry(struct cache *cache, int dirfd, const char *directory,
			const char *name, int64_t age_s)
{
	if (!keeper_is_leftover(cache, dirfd, directory, name, age_s))
		return;
	log_debug("removing a file the index does not know: %s/%s", directory,
		  name);
	unlinkat(dirfd, name, 0);
}

void keeper_sweep(struct cache *cache, unsigned int directory, int64_t age_s)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[3];

	if (cache->is_readonly || !cache_has_index(cache))
		return;
	snprintf(name, sizeof(name), "%02x", directory % 256);
	if (directory_open(cache->blobs.dirfd, name, O_NOFOLLOW, &dir) < 0)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			sweep_entry(cache, dirfd(dir), name, entry->d_name,
				    age_s);
	unlinkat(cache->blobs.dirfd, name, AT_REMOVEDIR);
}

/* ---- ticks */

static void touch_blob(void *arg, struct cache_blob *blob)
{
	struct record touch = { .op = {
		.kind = INDEX_TOUCH, .id = blob->id,
		.last_use = atomic_load(&blob->last_use),
	} };

	(void)arg;
	if (!atomic_load(&blob->is_attached) || blob->is_unnamed ||
	    touch.op.last_use <= blob->recorded_use)
		return;
	touch.op.gen = blob->gen;
	if (recorder_add(&blob->cache->recorder, &touch) == 0)
		blob->recorded_use = touch.op.last_use;
}

static void slow_tick(struct cache *cache)
{
	if (!cache->is_readonly)
		blob_table_each(&cache->blobs, touch_blob, NULL);
	blob_table_trim(&cache->blobs, atomic_load(&cache->now_s) - IDLE_S);
	if (cache->is_readonly || !cache_has_index(cache))
		return;
	if (space_free_bytes(&cache->space) > cache->space.limits.min_free_bytes)
		layout_ballast_make(cache->dirfd);
}

static void let_go_if_asked(struct keeper *keeper)
{
	uint32_t asked = claims_idle_asked(&keeper->cache->claims);

	if (asked != keeper->idle_asked)
		evictor_let_go(keeper->cache);
	keeper->idle_asked = asked;
}

/* A share of the cache for objects: when there are more, those not used lately
 * go. Known after all directories were measured. */
static void bound_objects(struct keeper *keeper)
{
	struct cache *cache = keeper->cache;
	uint64_t most = cache->space.limits.limit_bytes / OBJECTS_SHARE;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < 256; i++)
		sum += keeper->object_bytes[i];
	if (sum > most)
		measure_evict_objects(cache, sum - most / 10 * 9,
				      OBJECTS_AGE_S);
}

static void sweep_next(struct keeper *keeper)
{
	unsigned int number = keeper->next_directory++ % 256;

	keeper_sweep(keeper->cache, number, LEFTOVER_AGE_S);
	keeper->object_bytes[number] =
		measure_directory(keeper->cache, number);
	if (atomic_fetch_add(&keeper->swept, 1) % 256 == 255)
		bound_objects(keeper);
}

/* All of it for the first process that opens the cache: the one before it may
 * have been killed. In steps, so that eviction has its turn. */
static void hurry(struct keeper *keeper)
{
	uint64_t until_ms = now_ms() + HURRY_MS;

	while (keeper->hurried > 0 && now_ms() < until_ms) {
		keeper->hurried--;
		sweep_next(keeper);
	}
}

/* What lies there is not in the total of a new one. What is in use cannot be
 * told from what is being filled: it is looked at again when that has passed. */
static void renew_index(struct keeper *keeper)
{
	if (cache_index_renew(keeper->cache)) {
		evictor_let_go(keeper->cache);
		keeper->hurried = 256;
		keeper->hurry_again_ms = now_ms() + 2000 * IDLE_S;
	} else if (keeper->hurry_again_ms != 0 &&
		   now_ms() >= keeper->hurry_again_ms) {
		keeper->hurried = 256;
		keeper->hurry_again_ms = 0;
	}
}

static void tick(struct keeper *keeper, unsigned int number, bool is_tick)
{
	struct cache *cache = keeper->cache;

	atomic_store(&cache->now_s, wall_seconds());
	if (disk_is_hanging(&cache->disk))
		return;
	atomic_store(&cache->space.wants_eviction, false);
	let_go_if_asked(keeper);
	if (is_tick) {
		unrecorded_renew(&cache->space.unrecorded);
		renew_index(keeper);
	}
	evictor_run(cache);
	if (!is_tick)
		return;
	if (number % SLOW_TICKS == 0)
		slow_tick(cache);
	hurry(keeper);
	if (number % SWEEP_TICKS == 0)
		sweep_next(keeper);
}

static bool wait_tick(struct keeper *keeper, bool *ret_is_tick)
{
	uint64_t until_ms = now_ms() + TICK_MS;
	struct timespec until = { (time_t)(until_ms / 1000),
				  (long)(until_ms % 1000) * 1000000 };

	scoped_lock(&keeper->lock);
	if (!keeper->is_stopping && !keeper->is_kicked)
		pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until);
	/* However often it is kicked. */
	*ret_is_tick = now_ms() - keeper->tick_ms >= TICK_MS;
	if (*ret_is_tick)
		keeper->tick_ms = now_ms();
	keeper->is_kicked = false;
	return !keeper->is_stopping;
}

static void *keeper_thread(void *arg)
{
	struct keeper *keeper = arg;
	unsigned int number = 0;
	bool is_tick;

	while (wait_tick(keeper, &is_tick)) {
		if (is_tick)
			number++;
		tick(keeper, number, is_tick);
	}
	if (!keeper->cache->is_readonly)
		blob_table_each(&keeper->cache->blobs, touch_blob, NULL);
	return NULL;
}

void keeper_init(struct keeper *keeper, struct cache *cache)
{
	uint32_t random = (uint32_t)now_ns();

	keeper->cache = cache;
	keeper->next_directory = random % 256;
	pthread_mutex_init(&keeper->lock, NULL);
	cond_init_monotonic(&keeper->wake);
	keeper->idle_asked = claims_idle_asked(&cache->claims);
	keeper->tick_ms = now_ms();
	if (!gate_is_first(cache->gate_fd))
		return;
	keeper->hurried = 256;
	(void)index_watch_reset(cache->gate_fd);
}

void keeper_release(struct keeper *keeper)
{
	if (!keeper->cache)
		return;
	pthread_mutex_destroy(&keeper->lock);
	pthread_cond_destroy(&keeper->wake);
}

int keeper_start(struct keeper *keeper)
{
	int r;

	keeper->is_running = true; /* before anybody can look at it */
	r = thread_start(&keeper->thread, CACHE_STACK_BYTES, keeper_thread,
			 keeper);
	if (r < 0)
		keeper->is_running = false;
	return r;
}

void keeper_kick(struct keeper *keeper)
{
	if (!keeper->is_running)
		return;
	scoped_lock(&keeper->lock);
	keeper->is_kicked = true;
	pthread_cond_signal(&keeper->wake);
}

void keeper_stop(struct keeper *keeper)
{
	if (!keeper->is_running)
		return;
	pthread_mutex_lock(&keeper->lock);
	keeper->is_stopping = true;
	pthread_cond_signal(&keeper->wake);
	pthread_mutex_unlock(&keeper->lock);
	pthread_join(keeper->thread, NULL);
	keeper->is_running = false;
}
