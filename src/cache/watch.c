/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noticing that a blob's file was changed by somebody else while it is open.
 * The times of the file tell, and asking for them costs nothing: its length is
 * asked with each descriptor that is handed out. Writes of our own change
 * them too, so what the file looks like after them is kept; a change by
 * others during one of ours is missed here, and found when the blob is
 * complete and checked for its mark.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/internal.h"

void watch_start(struct cache_blob *blob, uint64_t segment, int fd)
{
	struct watch *watch = &blob->watches[segment];
	struct stat st;

	scoped_lock(&blob->watch_lock);
	if (fstat(fd, &st) == 0)
		watch->mark = file_mark_of(&st);
}

void watch_write(struct cache_blob *blob, uint64_t segment, int fd)
{
	struct watch *watch = &blob->watches[segment];
	struct file_mark now;
	struct stat st;

	scoped_lock(&blob->watch_lock);
	if (watch->writers++ > 0)
		return;
	watch->is_ours = false;
	if (fstat(fd, &st) < 0)
		return;
	now = file_mark_of(&st);
	watch->is_ours = file_mark_equal(&now, &watch->mark);
}

void watch_written(struct cache_blob *blob, uint64_t segment, int fd)
{
	struct watch *watch = &blob->watches[segment];
	struct stat st;

	scoped_lock(&blob->watch_lock);
	if (--watch->writers == 0 && watch->is_ours && fstat(fd, &st) == 0)
		watch->mark = file_mark_of(&st);
}

static bool has_changed(struct cache_blob *blob, uint64_t segment, int fd,
			const struct stat *seen)
{
	struct watch *watch = &blob->watches[segment];
	struct file_mark now = file_mark_of(seen);
	int64_t now_s = atomic_load(&blob->cache->now_s);
	struct stat st;

	scoped_lock(&blob->watch_lock);
	if (file_mark_equal(&now, &watch->mark) || watch->writers > 0 ||
	    watch->looked_s == now_s || fstat(fd, &st) < 0)
		return false;
	/* It was seen before the lock was had; a write of ours may lie
	 * between the two. */
	now = file_mark_of(&st);
	if (file_mark_equal(&now, &watch->mark))
		return false;
	watch->mark = now;
	watch->looked_s = now_s;
	return true;
}

int watch_look(struct cache_blob *blob, uint64_t segment, int fd,
	       const struct stat *st)
{
	if (atomic_load(&blob->seal.is_sealed)) {
		if (seal_agrees(blob, st))
			return 0;
		seal_void(blob);
		return -EAGAIN;
	}
	if (!has_changed(blob, segment, fd, st))
		return 0;
	log_debug("blob file changed by somebody else, checking units again: "
		  "gen=%016" PRIx64, blob->gen);
	blob_distrust(blob);
	return -EAGAIN;
}
