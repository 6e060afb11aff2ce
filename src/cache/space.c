/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the cache. The disk is asked once per budget of bytes rather than
 * per write; a budget is a quarter of what is left above min-free, so that
 * a few processes together do not fill the disk between two looks.
 */
#include <config.h>

#include <errno.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cache/space.h"

/* Writes go on this far above the limit while eviction runs. */
#define SLACK_MAX_BYTES (UINT64_C(64) << 20)
#define BUDGET_MAX_BYTES (UINT64_C(64) << 20)
#define BUDGET_SHARE 4
/* Others write too: a look at the disk is not trusted for longer. */
#define BUDGET_MS 200

struct space_limits space_limits_choose(uint64_t total_bytes,
					uint64_t limit_bytes,
					uint64_t min_free_bytes)
{
	struct space_limits limits = {
		.limit_bytes = limit_bytes, .min_free_bytes = min_free_bytes,
	};

	if (limit_bytes == 0)
		limits.limit_bytes = total_bytes / 5 * 4;
	if (min_free_bytes == 0)
		limits.min_free_bytes = total_bytes / 20;
	if (limits.min_free_bytes > total_bytes / 2) {
		limits.min_free_bytes = total_bytes / 2;
		limits.is_clamped = true;
	}
	if (limits.limit_bytes > total_bytes) {
		limits.limit_bytes = total_bytes - limits.min_free_bytes;
		limits.is_clamped = true;
	}
	return limits;
}

uint64_t space_usable(const struct space_limits *limits, uint64_t used_bytes,
		      uint64_t free_bytes)
{
	uint64_t room = bytes_left(free_bytes, limits->min_free_bytes);

	return used_bytes >= limits->limit_bytes ||
			       room >= limits->limit_bytes - used_bytes ?
		       limits->limit_bytes :
		       used_bytes + room;
}

static uint64_t beyond_limit(uint64_t limit_bytes, uint64_t used_bytes,
			     uint64_t refused_bytes)
{
	uint64_t goal = limit_bytes / 10 * 9;

	if (used_bytes + refused_bytes <= limit_bytes)
		return 0;
	if (refused_bytes > limit_bytes - goal)
		goal = bytes_left(limit_bytes, refused_bytes);
	return bytes_left(used_bytes, goal);
}

static uint64_t below_free(uint64_t min_free_bytes, uint64_t free_bytes,
			   uint64_t refused_bytes)
{
	/* So that a budget suffices for it, and for the next few. */
	uint64_t room = refused_bytes * BUDGET_SHARE;
	uint64_t more = min_free_bytes / 10;

	if (free_bytes >= min_free_bytes + room)
		return 0;
	if (room + room / 2 > more)
		more = room + room / 2;
	return min_free_bytes + more - free_bytes;
}

uint64_t space_excess(const struct space_limits *limits, uint64_t used_bytes,
		      uint64_t free_bytes, uint64_t refused_bytes)
{
	uint64_t excess = beyond_limit(limits->limit_bytes, used_bytes,
				       refused_bytes);
	uint64_t wanted = below_free(limits->min_free_bytes, free_bytes,
				     refused_bytes);

	if (wanted > excess)
		excess = wanted;
	return excess < used_bytes ? excess : used_bytes;
}

static int ask_disk(int dirfd, uint64_t *ret_total, uint64_t *ret_free)
{
	struct statvfs fs;

	if (fstatvfs(dirfd, &fs) < 0)
		return -errno;
	*ret_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	*ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	return 0;
}

int space_init(struct space *space, int dirfd, uint64_t limit_bytes,
	       uint64_t min_free_bytes)
{
	uint64_t total = 0;
	int r;

	*space = (struct space){ .dirfd = dirfd, .unrecorded.fd = -1 };
	pthread_mutex_init(&space->lock, NULL);
	r = ask_disk(dirfd, &total, &space->free_bytes);
	if (r < 0)
		return r;
	space->limits = space_limits_choose(total, limit_bytes, min_free_bytes);
	return 0;
}

void space_release(struct space *space)
{
	pthread_mutex_destroy(&space->lock);
}

uint64_t space_free_bytes(struct space *space)
{
	uint64_t total = 0, free_bytes = 0;

	scoped_lock(&space->lock);
	if (ask_disk(space->dirfd, &total, &free_bytes) == 0)
		space->free_bytes = free_bytes;
	return space->free_bytes;
}

static uint64_t used_here(struct space *space)
{
	return atomic_load(&space->used) +
	       atomic_load(&space->unrecorded.own) +
	       atomic_load(&space->unlinked);
}

uint64_t space_used(struct space *space)
{
	return used_here(space) + unrecorded_others(&space->unrecorded);
}

static uint64_t used_lately(struct space *space)
{
	return used_here(space) + unrecorded_others_lately(&space->unrecorded);
}

bool space_is_near(struct space *space)
{
	return used_lately(space) >= space->limits.limit_bytes / 2;
}

/* While it stands in the way, being within the limits is not enough: eviction
 * makes room for it. */
static int refuse(struct space *space, uint64_t length)
{
	uint64_t refused = atomic_load(&space->refused);

	while (refused < length &&
	       !atomic_compare_exchange_weak(&space->refused, &refused, length))
		;
	atomic_store(&space->wants_eviction, true);
	return -ENOSPC;
}

static int check_limit(struct space *space, uint64_t length)
{
	uint64_t limit = space->limits.limit_bytes;
	uint64_t slack = limit / 4 < SLACK_MAX_BYTES ? limit / 4 :
						       SLACK_MAX_BYTES;
	uint64_t used = length;

	used += space_is_near(space) ? space_used(space) : used_lately(space);
	if (used > limit)
		atomic_store(&space->wants_eviction, true);
	return used > limit + slack ? refuse(space, length) : 0;
}

/* Called with the lock held. */
static void renew_budget(struct space *space)
{
	uint64_t total = 0, free_bytes = 0, left;

	space->checked_ms = now_ms();
	space->budget = 0;
	if (ask_disk(space->dirfd, &total, &free_bytes) < 0)
		return;
	space->free_bytes = free_bytes;
	if (free_bytes <= space->limits.min_free_bytes)
		return;
	left = (free_bytes - space->limits.min_free_bytes) / BUDGET_SHARE;
	space->budget = left < BUDGET_MAX_BYTES ? left : BUDGET_MAX_BYTES;
}

int space_admit(struct space *space, uint64_t length)
{
	int r = check_limit(space, length);

	if (r < 0)
		return r;
	scoped_lock(&space->lock);
	if (space->budget < length ||
	    now_ms() - space->checked_ms > BUDGET_MS)
		renew_budget(space);
	if (space->budget < length)
		return refuse(space, length);
	space->budget -= length;
	return 0;
}

void space_failed(struct space *space, int r)
{
	if (r != -ENOSPC && r != -EDQUOT)
		return;
	atomic_store(&space->is_full, true);
	atomic_store(&space->wants_eviction, true);
}
