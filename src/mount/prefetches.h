/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_PREFETCHES_H
#define LARDER_MOUNT_PREFETCHES_H

#include <sys/types.h>

#include "mount/larder-ioctl.h"
#include "mount/mount.h"

/*
 * The prefetches that users of a mount have queued. One runs at a time, the
 * users take turns. An ended one is remembered until its place is needed.
 */
#define PREFETCHES_MAX 64u
#define PREFETCHES_PER_UID 8u

struct prefetches;

int prefetches_new(uid_t owner, struct prefetches **ret);
/* -EINVAL, -EAGAIN when the user has too many, -ENOMEM. */
int prefetches_add(struct prefetches *all, uid_t uid, struct snapshot *snapshot,
		   uint64_t number, struct larder_prefetch *request);
/* -ENOENT: no such job of this user's. */
int prefetches_look(struct prefetches *all, uid_t uid,
		    struct larder_prefetch_state *state);
int prefetches_stop(struct prefetches *all, uid_t uid, uint64_t job);
/* Before node_close: none starts any more, what runs is stopped. */
void prefetches_close(struct prefetches *all);
/* After node_close. NULL is fine. */
void prefetches_free(struct prefetches *all);

#endif
