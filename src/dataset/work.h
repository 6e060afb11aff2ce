/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_WORK_H
#define LARDER_DATASET_WORK_H

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
/* Runs what is queued, also what that queues, then joins. */
void work_stop(struct work *work);

#endif
