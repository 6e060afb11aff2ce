/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_REFUSALS_H
#define LARDER_MOUNT_REFUSALS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Why the last name that was looked for in a directory of a view was refused:
 * what is refused has no inode that could tell it, so its directory does
 * (user.larder.error). The last few directories are remembered; all zeros but
 * for the lock is none. Thread-safe.
 */
#define REFUSALS_MAX 64u
struct refusals {
	pthread_mutex_t lock;
	struct refusal {
		uint32_t dir; /* its index in the tree, which is not its root */
		struct err why;
	} items[REFUSALS_MAX];
	unsigned next;
};

void refusals_init(struct refusals *refusals);
void refusals_release(struct refusals *refusals);
void refusals_note(struct refusals *refusals, uint32_t dir,
		   const struct err *why);
bool refusals_read(struct refusals *refusals, uint32_t dir, struct err *ret);

#endif
