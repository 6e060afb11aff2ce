/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_UNRECORDED_H
#define LARDER_CACHE_UNRECORDED_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Bytes that were written and are not in the index's total yet: what this
 * process has, and, by a file that all share, what the others have. Thread-safe,
 * never waits.
 */
struct unrecorded {
	int fd; /* of the shared file; -1: alone */
	unsigned int slot;
	_Atomic uint64_t own, told;
	_Atomic uint64_t others, seen_ms; /* as last looked at */
};

/* fd stays the caller's, and must be its own: the slot is held by a lock of it. */
void unrecorded_init(struct unrecorded *unrecorded, int fd);
void unrecorded_add(struct unrecorded *unrecorded, uint64_t bytes);
void unrecorded_remove(struct unrecorded *unrecorded, uint64_t bytes);
/* Once a second, so that the others see that they are still written. */
void unrecorded_renew(struct unrecorded *unrecorded);
uint64_t unrecorded_others(struct unrecorded *unrecorded);
/* As it was a few milliseconds ago. */
uint64_t unrecorded_others_lately(struct unrecorded *unrecorded);

#endif
