/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_THREAD_H
#define LARDER_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Starts a thread that no signal is delivered to but those it causes itself:
 * a fault in a mapped file that is blocked kills the process before any
 * handler is asked. stack_bytes 0: the default. 0 or a negative errno.
 */
int thread_start(pthread_t *ret_thread, size_t stack_bytes,
		 void *(*run)(void *arg), void *arg);

#endif
