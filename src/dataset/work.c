/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads. One pool verifies and moves jobs on, another calls wake():
 * a callback that replies to the kernel may read from the cache disk, and
 * that must not hold up the decompression of somebody else's chunk.
 *
 * One mutex guards the queues; a task is at least tens of microseconds of
 * work, and only reads that miss come here.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
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

	bool has_codec;
	unsigned thread_count;
	pthread_t threads[];
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

/* The next task, or NULL when the pool has stopped and is empty. */
static struct task *wait_for_task(struct work *work)
{
	scoped_lock(&work->lock);
	for (;;) {
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
}

static void *work_thread(void *arg)
{
	struct work *work = arg;
	struct worker worker = {0};
	struct task *task;

	if (work->has_codec)
		worker.codec = codec_new();
	while ((task = wait_for_task(work))) {
		if (work->has_codec && !worker.codec)
			worker.codec = codec_new();
		task->run(task, &worker);
		scoped_lock(&work->lock);
		work->busy--;
		if (work->is_stopping)
			pthread_cond_broadcast(&work->added);
	}
	codec_free(worker.codec);
	return NULL;
}

int work_start(const char *name, unsigned thread_count, bool has_codec,
	       struct work **ret, struct err *err)
{
	struct work *work =
		calloc(1, sizeof(*work) + thread_count * sizeof(pthread_t));
	int r = 0;

	if (!work)
		return -ENOMEM;
	pthread_mutex_init(&work->lock, NULL);
	pthread_cond_init(&work->added, NULL);
	for (int i = 0; i < WORK_CLASSES; i++)
		work->queues[i].last = &work->queues[i].first;
	work->has_codec = has_codec;
	while (work->thread_count < thread_count && r == 0) {
		pthread_t *thread = &work->threads[work->thread_count];

		r = thread_start(thread, 0, work_thread, work);
		if (r == 0) {
			pthread_setname_np(*thread, name);
			work->thread_count++;
		}
	}
	if (r != 0 && work->thread_count == 0) {
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

void work_stop(struct work *work)
{
	if (!work)
		return;
	pthread_mutex_lock(&work->lock);
	work->is_stopping = true;
	pthread_cond_broadcast(&work->added);
	pthread_mutex_unlock(&work->lock);
	for (unsigned i = 0; i < work->thread_count; i++)
		pthread_join(work->threads[i], NULL);
	pthread_cond_destroy(&work->added);
	pthread_mutex_destroy(&work->lock);
	free(work);
}
