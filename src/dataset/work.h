/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_WORK_H
#define LARDER_DATASET_WORK_H

#include <pthread.h>
#include <stdbool.h>

struct codec;
struct err;

/*
 * A pool of threads that run small tasks in order of class, then of arrival.
 * A task lives in the structure it works on and may be added again once it
 * runs. Tasks never wait for the network.
 */
struct worker {
	struct codec *codec; /* NULL in a pool without codecs */
	/* work.c's: */
	struct work *work;
	struct worker *next;
	pthread_t thread;
	bool is_away, is_relieved, has_ended;
};

struct task {
	void (*run)(struct task *task, struct worker *worker);
	struct task *next;
};

enum work_class { WORK_FIRST, WORK_DEMAND, WORK_BEHIND, WORK_CLASSES };

struct work;

int work_start(const char *name, unsigned thread_count, bool has_codec,
	       struct work **ret, struct err *err);
void work_add(struct work *work, struct task *task, enum work_class class);
/* What is under way goes on with that, before all that is new. */
void work_next(struct work *work, struct task *task,
	       void (*run)(struct task *task, struct worker *worker));
/* Between the two the worker may be stuck in a call that never ends. Whatever
 * waits for the task must have been answered. */
void work_leave(struct worker *worker);
void work_return(struct worker *worker);
/* A new thread for each worker that is away just now, which ends with its
 * task instead. */
void work_relieve(struct work *work);
/* Runs what is queued, also what that queues, then joins. */
void work_stop(struct work *work);

#endif
