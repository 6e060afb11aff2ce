/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_FAULT_H
#define LARDER_CACHE_FAULT_H

/*
 * Runs fn(arg). Should a mapped file fail underneath it (SIGBUS: truncated
 * file, dead disk; SIGSEGV: led astray by damaged contents) or fault_raise
 * be called, fn is left at once and -EFAULT returned; what fn had begun stays
 * half done, so the caller must give up the object fn worked on. Not nested.
 */
int fault_guard(int (*fn)(void *arg), void *arg);
/* Leaves the guarded call of this thread; returns if there is none. */
void fault_raise(void);
/* Installs the signal handler unless it is in place; the one that was there
 * before is called for faults that are not ours. */
void fault_install(void);

#endif
