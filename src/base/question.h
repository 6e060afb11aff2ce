/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_QUESTION_H
#define LARDER_BASE_QUESTION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Asking what may never answer: a mount, a disk. A thread stuck in the kernel
 * cannot be given up and keeps its process from ending, so the question is put
 * by a short-lived child that is killed and left to init when time is over.
 */
struct question {
	pid_t child;
	int from_child;
	uint64_t end_ms;
};

/* Runs in the child; writes what it learns until its end or until it is
 * killed. */
typedef void question_fn(const void *arg, int to_parent);

/* Only where this process has one thread. 0 or a negative errno. */
int question_begin(struct question *question, question_fn *ask, const void *arg,
		   uint32_t limit_ms);
/* Exactly so many bytes: 1, 0 at the end, -ETIMEDOUT. */
int question_read(struct question *question, void *ret, size_t size);
/* r: of the last read; after -ETIMEDOUT the child is not waited for. */
void question_end(struct question *question, int r);

#endif
