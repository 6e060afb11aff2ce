/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_PASSTHROUGH_H
#define LARDER_MOUNT_PASSTHROUGH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "mount/op.h"

/*
 * Files that the kernel reads from the cache file by itself. It is asked for
 * at INIT and tried once with a file of the cache; what came of it is
 * remembered: without the kernel, the privilege or the filesystem for it every
 * open is an ordinary one.
 */
#define PASSTHROUGH_TEXT 96u

struct passthrough {
	int fd;			    /* the session's */
	struct opened *opened;	    /* NULL: not to be had */
	bool is_wanted;
	_Atomic bool is_asked;	    /* the kernel was told that we may */
	_Atomic bool is_on;	    /* and took a file */
	pthread_mutex_t lock;	    /* guards why */
	char why[PASSTHROUGH_TEXT]; /* it is off */
};

void passthrough_init(struct passthrough *passthrough, bool is_wanted);
void passthrough_release(struct passthrough *passthrough);

/* Our part of INIT, one or the other by the version of libfuse: before the
 * reply is made, or while it is sent (its body then lies in `room`). */
#define PASSTHROUGH_ROOM 64u
void passthrough_ask(struct passthrough *passthrough,
		     struct fuse_conn_info *conn);
void passthrough_complete(struct passthrough *passthrough, const void *request,
			  size_t request_len, struct iovec *body,
			  char room[PASSTHROUGH_ROOM]);
/* INIT is over: whether the kernel takes this file decides. probe_fd: a file
 * on the cache's filesystem, or a negative errno. */
void passthrough_begin(struct passthrough *passthrough, int session_fd,
		       int probe_fd);

/* The answer to an open that is allowed: 0, DATASET_PARKED, or why not. The
 * file's bytes are given before it where they are at most early_bytes
 * (early.h). */
int passthrough_open(struct passthrough *passthrough, struct op *op,
		     const struct target *target, uint64_t early_bytes,
		     struct err *err);
void passthrough_closed(struct passthrough *passthrough, uint64_t handle);

bool passthrough_has(struct passthrough *passthrough, uint64_t ino);
/* "on, 3 files" or "off: " and why. */
void passthrough_text(struct passthrough *passthrough,
		      char ret[PASSTHROUGH_TEXT]);

#endif
