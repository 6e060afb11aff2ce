/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_LEASE_H
#define LARDER_PUBLISH_LEASE_H

#include <stddef.h>

#include "base/err.h"

struct mirror;

/*
 * MIRROR/lease: who is writing to the mirror now. One at a time; a lease that
 * was not renewed for LEASE_STALE_S, or whose process is known to be
 * dead, is taken over. Not thread-safe, but lease_renew may run on another
 * thread than take and release, one after the other.
 */
#define LEASE_RENEW_S 10
#define LEASE_STALE_S 60

#define LEASE_NAME "lease"
#define LEASE_LIMIT 4096u

/* All but the first is the mirror's business. */
struct lease {
	const struct mirror *mirror;
	int fd;
	char etag[128];
	char text[LEASE_LIMIT];
	size_t text_len;
};

/* -EBUSY names who holds it. what: "publish", "gc". */
int lease_take(const struct mirror *mirror, const char *what,
	       struct lease **ret, struct err *err);
/* -ESTALE when somebody has taken it over: stop writing. */
int lease_renew(struct lease *lease, struct err *err);
/* Removes the file if it is still ours. NULL is fine. */
void lease_release(struct lease *lease);

#endif
