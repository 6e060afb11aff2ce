/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_SESSION_H
#define LARDER_MOUNT_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include "mount/op.h"

/*
 * The conversation with the kernel over one descriptor of /dev/fuse, wherever
 * it came from. The first request (INIT) is kept as it was read: a later
 * process that is handed the descriptor needs it to begin.
 */
#define SESSION_THREADS 16     /* a disk's queue, and little memory each */
#define SESSION_TURNS_MAX 8    /* of them at work */
#define SESSION_INIT_BYTES 256 /* header and body of INIT have 104 */

struct session {
	struct fuse_session *fuse;
	int fd;		   /* owned by fuse */
	char *mountpoint;  /* NULL: somebody else mounted it */
	bool is_by_helper; /* fusermount3 mounted it */
	uint8_t init[SESSION_INIT_BYTES];
	size_t init_len;
	_Atomic bool has_init, has_answered; /* INIT */
	pthread_t threads[SESSION_THREADS];
	unsigned thread_count;
	unsigned processors;
	_Atomic bool is_awaiting;   /* a thread looks for the next request */
	pthread_mutex_t turns_lock; /* guards turns */
	pthread_cond_t turn_is_free;
	unsigned turns; /* for one more thread to take requests */
	_Atomic unsigned ended_count;
	int end_fd; /* eventfd: a worker saw the end */
};

/* Nothing is mounted yet. */
int session_open(struct session *session, struct fs *fs, struct err *err);
/* Mounts, or takes the given descriptor. */
int session_mount(struct session *session, const struct mount_options *options,
		  struct err *err);
int session_start(struct session *session, struct err *err);
/* Ends the workers; the mount goes away lazily. */
void session_stop(struct session *session);
void session_close(struct session *session);
/* This thread may sleep for a disk now: another takes requests meanwhile. */
void session_may_sleep(struct session *session);
/* The kernel's number of the request that this thread has read last. */
uint64_t session_unique(void);

#endif
