/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads are started with their signals blocked, and nothing else is done
 * for them here: the mask is set by the one who starts, because a new thread
 * could be interrupted before it has set its own.
 */
#include <config.h>

#include <signal.h>

#include "base/thread.h"

static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};

int thread_start(pthread_t *ret_thread, size_t stack_bytes,
		 void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int r;

	r = pthread_attr_init(&attr);
	if (r != 0)
		return -r;
	if (stack_bytes > 0)
		pthread_attr_setstacksize(&attr, stack_bytes);
	sigfillset(&all);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret_thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}
