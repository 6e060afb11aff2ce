/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads. One pool verifies and moves jobs on, another calls wake():
 * a callback that replies to the kernel may read from the cache disk, and
 * that must not hold up the decompression of somebody else's chunk.
 *
 * One mutex guards the queues; a task is at least tens of microseconds of
 * work, and only reads that miss come here. What a disk that hangs holds is
 * replaced: handing every write to a thread of its own would cost a switch and
 * a cold cache each, for what happens once in a disk's life.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/thread.h"
#include "dataset/work.h"
#include "format/codec.h"

struct task_queue {
	struct task *first, **last;
};

struct work {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t added;
	struct task_queue queues[WORK_CLASSES];
	bool is_stopping;
	unsigned busy;
	struct worker *workers;

	bool has_codec;
	char name[16];
};

static struct task *take(struct work *work)
{
	for (int i = 0; i < WORK_CLASSES; i++) {
		struct task_queue *queue = &work->queues[i];
		struct task *task = queue->first;

		if (!task)
			continue;
		queue->first = task->next;
		if (!queue->first)
			queue->last = &queue->first;
		return task;
	}
	return NULL;
}

/* The next task, or NULL when the pool has stopped and is empty, or the worker
 * was relieved. */
static struct task *wait_for_task(struct work *work, struct worker *worker)
{
	scoped_lock(&work->lock);
	while (!worker->is_relieved) {
		struct task *task = take(work);

		if (task) {
			work->busy++;
			return task;
		}
		if (work->is_stopping && work->busy == 0) {
			pthread_cond_broadcast(&work->added);
			return NULL;
		}
		pthread_cond_wait(&work->added, &work->lock);
	}
	worker->has_ended = true;
	return NULL;
}

static void *work_thread(void *arg)
{
	struct worker *worker = arg;
	struct work *work = worker->work;
	struct task *task;

	if (work->has_codec)
		worker->codec = codec_new();
	while ((task = wait_for_task(work, worker))) {
		if (work->has_codec && !worker->codec)
			worker->codec = codec_new();
		task->run(task, worker);
		scoped_lock(&work->lock);
		work->busy--;
		if (work->is_stopping)
			pthread_cond_broadcast(&work->added);
	}
	codec_free(worker->codec);
	worker->codec = NULL;
	return NULL;
}

/* With the lock held. */
static int add_worker(struct work *work)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->work = work;
	r = thread_start(&worker->thread, 0, work_thread, worker);
	if (r < 0) {
		free(worker);
		return r;
	}
	pthread_setname_np(worker->thread, work->name);
	worker->next = work->workers;
	work->workers = worker;
	return 0;
}

int work_start(const char *name, unsigned thread_count, bool has_codec,
	       struct work **ret, struct err *err)
{
	struct work *work = calloc(1, sizeof(*work));
	int r = 0;

	if (!work)
		return -ENOMEM;
	pthread_mutex_init(&work->lock, NULL);
	pthread_cond_init(&work->added, NULL);
	for (int i = 0; i < WORK_CLASSES; i++)
		work->queues[i].last = &work->queues[i].first;
	work->has_codec = has_codec;
	snprintf(work->name, sizeof(work->name), "%s", name);
	pthread_mutex_lock(&work->lock);
	while (thread_count-- > 0 && r == 0)
		r = add_worker(work);
	pthread_mutex_unlock(&work->lock);
	if (!work->workers) {
		work_stop(work);
		return err_set(err, -r, "cannot start a thread");
	}
	*ret = work;
	return 0;
}

void work_add(struct work *work, struct task *task, enum work_class class)
{
	struct task_queue *queue = &work->queues[class];

	task->next = NULL;
	scoped_lock(&work->lock);
	*queue->last = task;
	queue->last = &task->next;
	pthread_cond_signal(&work->added);
}

void work_next(struct work *work, struct task *task,
	       void (*run)(struct task *task, struct worker *worker))
{
	task->run = run;
	work_add(work, task, WORK_FIRST);
}

void work_leave(struct worker *worker)
{
	scoped_lock(&worker->work->lock);
	worker->is_away = true;
}

void work_return(struct worker *worker)
{
	scoped_lock(&worker->work->lock);
	worker->is_away = false;
}

static void join_worker(struct worker *worker)
{
	pthread_join(worker->thread, NULL);
	free(worker);
}

/* With the lock held: who was relieved before, and needs it no more. */
static void reap(struct work *work)
{
	struct worker **at = &work->workers;

	while (*at) {
		struct worker *worker = *at;

		if (!worker->has_ended) {
			at = &worker->next;
			continue;
		}
		*at = worker->next;
		join_worker(worker);
	}
}

void work_relieve(struct work *work)
{
	scoped_lock(&work->lock);
	reap(work);
	for (struct worker *worker = work->workers; worker;
	     worker = worker->next)
		if (worker->is_away && !worker->is_relieved)
			worker->is_relieved = add_worker(work) == 0;
}

void work_stop(struct work *work)
{
	struct worker *worker;

	if (!work)
		return;
	pthread_mutex_lock(&work->lock);
	work->is_stopping = true;
	pthread_cond_broadcast(&work->added);
	pthread_mutex_unlock(&work->lock);
	while ((worker = work->workers)) {
		work->workers = worker->next;
		join_worker(worker);
	}
	pthread_cond_destroy(&work->added);
	pthread_mutex_destroy(&work->lock);
	free(work);
}
