/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults in mapped files become an error of the call that hit them. LMDB
 * reads its file through a mapping; a disk that dies or a file that is
 * truncated would otherwise kill the whole mount. The jump restores the signal
 * mask, because a handler of somebody else (a sanitizer's) may stand between
 * the kernel and ours. The handler is process-wide by nature; the jump target
 * belongs to a thread.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "cache/fault.h"

static _Thread_local sigjmp_buf fault_jump;
static _Thread_local volatile sig_atomic_t fault_is_guarded;

/* SIGSEGV: a damaged page sent the library out of its mapping. */
static const int fault_signals[] = { SIGBUS, SIGSEGV };
#define FAULT_SIGNALS 2
static struct sigaction fault_previous[FAULT_SIGNALS];

static void fault_signal(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *previous =
		&fault_previous[signal == fault_signals[0] ? 0 : 1];
	struct sigaction plain = { .sa_handler = SIG_DFL };

	fault_raise();
	if (previous->sa_flags & SA_SIGINFO) {
		previous->sa_sigaction(signal, info, context);
		return;
	}
	if (previous->sa_handler != SIG_DFL &&
	    previous->sa_handler != SIG_IGN) {
		previous->sa_handler(signal);
		return;
	}
	/* Returning runs the faulting instruction again, now for good. */
	sigaction(signal, &plain, NULL);
}

void fault_install(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct sigaction action = { .sa_sigaction = fault_signal }, now;

	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigemptyset(&action.sa_mask);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < FAULT_SIGNALS; i++) {
		if (sigaction(fault_signals[i], NULL, &now) < 0 ||
		    ((now.sa_flags & SA_SIGINFO) &&
		     now.sa_sigaction == fault_signal))
			continue;
		fault_previous[i] = now;
		sigaction(fault_signals[i], &action, NULL);
	}
	pthread_mutex_unlock(&lock);
}

void fault_raise(void)
{
	if (!fault_is_guarded)
		return;
	fault_is_guarded = 0;
	siglongjmp(fault_jump, 1);
}

int fault_guard(int (*fn)(void *arg), void *arg)
{
	int r;

	if (sigsetjmp(fault_jump, 1))
		return -EFAULT;
	fault_is_guarded = 1;
	r = fn(arg);
	fault_is_guarded = 0;
	return r;
}
