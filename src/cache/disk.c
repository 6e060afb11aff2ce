/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that hangs holds every thread that calls it, in the kernel, where
 * nothing ends it. No call can be asked to wait less, so it is noticed from
 * outside: whoever calls the disk announces it, and a watcher looks at the
 * oldest. Who can be spared makes the call himself; who cannot, since a reader
 * waits for him, lends it to a thread of the disk's and goes on without it.
 * One thing is decided for all: once the disk hangs nobody calls it, so that
 * as many threads are stuck as met it in the first moments.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/thread.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/internal.h"

/* A disk that is merely slow may come and go. */
#define SAY_AGAIN_MS 60000u

uint64_t disk_deadline(enum disk_kind kind, uint64_t begun_ms,
		       uint64_t written_ms)
{
	if (kind == DISK_SYNC)
		return begun_ms + DISK_SYNC_BOUND_MS;
	return (begun_ms > written_ms ? begun_ms : written_ms) + DISK_BOUND_MS;
}

/* ---- what is under way, with the lock held */

/* Of the one that is late first; what may be NULL. */
static uint64_t next_deadline(const struct disk *disk, const char **ret_what)
{
	uint64_t next = UINT64_MAX;

	for (const struct disk_op *op = disk->ops.next; op != &disk->ops;
	     op = op->next) {
		uint64_t until =
			disk_deadline(op->kind, op->begun_ms, disk->written_ms);

		if (until < next) {
			next = until;
			*ret_what = op->what;
		}
	}
	return next;
}

static void op_add(struct disk *disk, struct disk_op *op, const char *what,
		   enum disk_kind kind)
{
	op->begun_ms = now_ms();
	op->what = what;
	op->kind = kind;
	op->has_written = false;
	op->next = &disk->ops;
	op->prev = disk->ops.prev;
	op->prev->next = op;
	op->next->prev = op;
	if (disk->is_watcher_idle)
		pthread_cond_signal(&disk->begun);
}

static void op_remove(struct disk *disk, struct disk_op *op)
{
	op->prev->next = op->next;
	op->next->prev = op->prev;
	if (op->has_written)
		disk->written_ms = now_ms();
	if (disk->is_hanging)
		pthread_cond_signal(&disk->begun);
}

bool disk_begin(struct disk *disk, struct disk_op *op, const char *what,
		enum disk_kind kind)
{
	scoped_lock(&disk->lock);
	if (disk->is_hanging)
		return false;
	op_add(disk, op, what, kind);
	return true;
}

void disk_end(struct disk *disk, struct disk_op *op)
{
	scoped_lock(&disk->lock);
	op_remove(disk, op);
}

/* ---- the watcher */

static void say(struct disk *disk, bool is_hanging, const char *what)
{
	uint64_t now = now_ms();

	if (is_hanging) {
		disk->has_said = disk->said_ms == 0 ||
				 now - disk->said_ms >= SAY_AGAIN_MS;
		if (!disk->has_said)
			return;
		disk->said_ms = now;
		log_warning("the cache's disk does not answer, reading goes on "
			    "without: dir=%s waiting-for=%s",
			    disk->dir, what);
	} else if (disk->has_said) {
		log_warning("the cache's disk answers again: dir=%s",
			    disk->dir);
	}
}

static void wait_until(struct disk *disk, uint64_t until_ms)
{
	struct timespec until = {(time_t)(until_ms / 1000),
				 (long)(until_ms % 1000) * 1000000};

	if (until_ms == UINT64_MAX) {
		disk->is_watcher_idle = true;
		pthread_cond_wait(&disk->begun, &disk->lock);
		disk->is_watcher_idle = false;
	} else {
		pthread_cond_timedwait(&disk->begun, &disk->lock, &until);
	}
}

/* The calls that are under way may be later than the one before. */
static void *watcher_thread(void *arg)
{
	struct disk *disk = arg;

	pthread_mutex_lock(&disk->lock);
	while (!disk->is_stopping) {
		const char *what = NULL;
		uint64_t next = next_deadline(disk, &what);
		bool is_late = next <= now_ms();

		if (is_late == disk->is_hanging) {
			wait_until(disk, is_late ? UINT64_MAX : next);
			continue;
		}
		atomic_store(&disk->is_hanging, is_late);
		pthread_cond_broadcast(&disk->answered);
		pthread_mutex_unlock(&disk->lock);
		say(disk, is_late, what);
		disk->changed(disk->arg, is_late);
		pthread_mutex_lock(&disk->lock);
	}
	pthread_mutex_unlock(&disk->lock);
	return NULL;
}

/* ---- calls on other threads */

void disk_call_free(struct disk_call *call)
{
	if (call->release)
		call->release(call);
	free(call);
}

/* The next call, announced; NULL: the end. */
static struct disk_call *call_take(struct disk *disk, struct disk_op *op)
{
	struct disk_call *call;

	scoped_lock(&disk->lock);
	disk->idle_count++;
	while (!disk->first && !disk->is_stopping)
		pthread_cond_wait(&disk->queued, &disk->lock);
	disk->idle_count--;
	call = disk->first;
	if (!call)
		return NULL;
	disk->first = call->next;
	if (!disk->first)
		disk->last = &disk->first;
	call->next = NULL;
	disk->queued_count--;
	op_add(disk, op, call->what, call->kind);
	return call;
}

static void call_end(struct disk *disk, struct disk_call *call,
		     struct disk_op *op, int result)
{
	bool is_left;

	pthread_mutex_lock(&disk->lock);
	op_remove(disk, op);
	/* Blocks may say so: not what it means here. */
	call->result = result == -ETIMEDOUT ? -EIO : result;
	call->is_done = true;
	is_left = call->is_left;
	if (!is_left)
		pthread_cond_broadcast(&disk->answered);
	pthread_mutex_unlock(&disk->lock);
	if (is_left)
		disk_call_free(call);
}

static void *call_thread(void *arg)
{
	struct disk *disk = arg;
	struct disk_call *call;
	struct disk_op op;

	while ((call = call_take(disk, &op)))
		call_end(disk, call, &op, call->run(call));
	return NULL;
}

/* With the lock held, as the two below. false: there is none. */
static bool thread_for_call(struct disk *disk)
{
	pthread_t *thread = &disk->threads[disk->thread_count];

	if (disk->idle_count > disk->queued_count ||
	    disk->thread_count == DISK_THREADS)
		return true;
	if (thread_start(thread, CACHE_STACK_BYTES, call_thread, disk) == 0) {
		pthread_setname_np(*thread, "larder-disk");
		disk->thread_count++;
	}
	return disk->thread_count > 0;
}

static bool unqueue(struct disk *disk, struct disk_call *call)
{
	struct disk_call **at = &disk->first;

	while (*at && *at != call)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = call->next;
	if (!*at)
		disk->last = at;
	disk->queued_count--;
	return true;
}

/* LEFT: whoever runs it frees it. */
enum outcome { CALL_DONE, CALL_REFUSED, CALL_LEFT, CALL_OWN };

static enum outcome await(struct disk *disk, struct disk_call *call)
{
	scoped_lock(&disk->lock);
	if (disk->is_stopping)
		return CALL_OWN;
	if (disk->is_hanging || !thread_for_call(disk))
		return CALL_REFUSED;
	*disk->last = call;
	disk->last = &call->next;
	disk->queued_count++;
	pthread_cond_signal(&disk->queued);
	while (!call->is_done && !disk->is_hanging)
		pthread_cond_wait(&disk->answered, &disk->lock);
	if (call->is_done)
		return CALL_DONE;
	if (unqueue(disk, call))
		return CALL_REFUSED;
	call->is_left = true;
	return CALL_LEFT;
}

int disk_run(struct disk *disk, struct disk_call *call)
{
	enum outcome outcome = await(disk, call);

	if (outcome == CALL_DONE)
		return call->result;
	if (outcome == CALL_OWN)
		return call->run(call);
	if (outcome == CALL_REFUSED)
		disk_call_free(call);
	return -ETIMEDOUT;
}

int disk_run_and_free(struct disk *disk, struct disk_call *call)
{
	int r = disk_run(disk, call);

	if (r != -ETIMEDOUT)
		disk_call_free(call);
	return r;
}

/* ---- */

int disk_start(struct disk *disk, const char *dir,
	       void (*changed)(void *arg, bool is_hanging), void *arg)
{
	int r;

	*disk = (struct disk){.dir = dir, .changed = changed, .arg = arg};
	pthread_mutex_init(&disk->lock, NULL);
	cond_init_monotonic(&disk->begun);
	pthread_cond_init(&disk->queued, NULL);
	pthread_cond_init(&disk->answered, NULL);
	disk->ops.next = disk->ops.prev = &disk->ops;
	disk->last = &disk->first;
	disk->is_running = true;
	r = thread_start(&disk->watcher, CACHE_STACK_BYTES, watcher_thread,
			 disk);
	if (r < 0)
		disk->is_running = false;
	else
		pthread_setname_np(disk->watcher, "larder-watch");
	return r;
}

void disk_stop(struct disk *disk)
{
	if (!disk->is_running)
		return;
	pthread_mutex_lock(&disk->lock);
	disk->is_stopping = true;
	pthread_cond_broadcast(&disk->begun);
	pthread_cond_broadcast(&disk->queued);
	pthread_mutex_unlock(&disk->lock);
	pthread_join(disk->watcher, NULL);
	for (unsigned int i = 0; i < disk->thread_count; i++)
		pthread_join(disk->threads[i], NULL);
	disk->is_running = false;
}

void disk_release(struct disk *disk)
{
	if (!disk->dir)
		return;
	pthread_mutex_destroy(&disk->lock);
	pthread_cond_destroy(&disk->begun);
	pthread_cond_destroy(&disk->queued);
	pthread_cond_destroy(&disk->answered);
}
