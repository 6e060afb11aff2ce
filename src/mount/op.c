/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that may have to wait. A wake can come before the thread that parked
 * has noticed: the three states settle who goes on. A reader that is killed
 * while its request waits would stay in the kernel until the answer; the kernel
 * says only "interrupted", for harmless signals too, and nothing at all for
 * O_DIRECT, so such requests are watched: the thread's pending SIGKILL (set on
 * every thread by any fatal signal) decides whether it is let go with EINTR. A
 * normal reader never sees EINTR.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "mount"
#include "base/log.h"
#include "mount/op.h"
#include "mount/session.h"

#define GIVE_UP_BATCH 64
#define GROUPS_MAX 256

int parking_init(struct parking *parking, struct err *err)
{
	*parking = (struct parking){
		.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (parking->event_fd < 0)
		return err_set(err, errno, "cannot make an eventfd: %s",
			       strerror(errno));
	pthread_mutex_init(&parking->lock, NULL);
	return 0;
}

void parking_release(struct parking *parking)
{
	if (parking->event_fd <= 0)
		return;
	close(parking->event_fd);
	pthread_mutex_destroy(&parking->lock);
	*parking = (struct parking){0};
}

static void watch(struct parking *parking, struct op *op)
{
	uint64_t one = 1;

	op->is_watched = true;
	if (parking->watched_count++ == 0)
		(void)!write(parking->event_fd, &one, sizeof(one));
}

/* From here on the request may be given up and is not ours to touch. */
static void parking_insert(struct parking *parking, struct op *op)
{
	scoped_lock(&parking->lock);
	op->previous = NULL;
	op->next = parking->first;
	if (op->next)
		op->next->previous = op;
	parking->first = op;
	/* the kernel waits for O_DIRECT without a word to us, and the word for
	 * others may have come before they were in the list */
	if (op->req &&
	    (op->file.flags & O_DIRECT || fuse_req_interrupted(op->req)))
		watch(parking, op);
}

static void parking_remove(struct parking *parking, struct op *op)
{
	scoped_lock(&parking->lock);
	if (op->previous)
		op->previous->next = op->next;
	else
		parking->first = op->next;
	if (op->next)
		op->next->previous = op->previous;
	parking->watched_count -= op->is_watched;
	op->is_watched = false;
}

/* Called by libfuse with its lock of the request held: only a note is taken. */
static void on_interrupt(fuse_req_t req, void *data)
{
	struct parking *parking = data;
	scoped_lock(&parking->lock);

	for (struct op *op = parking->first; op; op = op->next) {
		if (op->req == req && !op->is_watched && !op->is_given_up) {
			watch(parking, op);
			return;
		}
	}
}

static bool thread_is_killed(pid_t tid)
{
	char path[40], text[4096];
	unsigned long long pending = 0;

	/* 0: a process namespace we cannot see into */
	if (tid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read_full(fd, text, sizeof(text) - 1);
	if (len < 0)
		return false;
	text[len] = '\0';
	char *line = strstr(text, "\nSigPnd:");
	return line && sscanf(line, "\nSigPnd: %llx", &pending) == 1 &&
	       (pending & (1ull << (SIGKILL - 1)));
}

bool parking_give_up_killed(struct parking *parking)
{
	fuse_req_t given_up[GIVE_UP_BATCH];
	size_t count = 0;
	uint64_t drained;
	bool is_more;

	(void)!read(parking->event_fd, &drained, sizeof(drained));
	pthread_mutex_lock(&parking->lock);
	for (struct op *op = parking->watched_count ? parking->first : NULL;
	     op && count < GIVE_UP_BATCH; op = op->next) {
		if (!op->is_watched ||
		    !thread_is_killed(fuse_req_ctx(op->req)->pid))
			continue;
		op->is_given_up = true;
		op->is_watched = false;
		parking->watched_count--;
		given_up[count++] = op->req;
	}
	is_more = parking->watched_count > 0;
	pthread_mutex_unlock(&parking->lock);
	for (size_t i = 0; i < count; i++)
		fuse_reply_err(given_up[i], EINTR);
	return is_more;
}

/* What a program may see. Anything unusual is "cannot read", and the log has
 * the words. */
static int errno_for_reader(int r)
{
	switch (-r) {
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case EACCES:
	case EINVAL:
	case EIO:
	case ENODATA:
	case ENOMEM:
	case ENAMETOOLONG:
	case ENFILE:
	case ENXIO:
	case EOPNOTSUPP:
	case ERANGE:
	case EROFS:
	case ESTALE:
	case ETIMEDOUT:
	case ELOOP:
		return -r;
	case ESHUTDOWN:
		return ENOTCONN;
	default:
		return EIO;
	}
}

static bool is_ordinary(int r)
{
	return r == -ENOENT || r == -ENODATA || r == -ERANGE || r == -EROFS ||
	       r == -ENOTDIR || r == -EISDIR || r == -EINVAL ||
	       r == -ESHUTDOWN || r == -ENAMETOOLONG || r == -EOPNOTSUPP;
}

static void op_free(struct op *op)
{
	waiter_release(&op->waiter);
	if (op->held)
		op->let_go(op->held);
	free(op->data);
	free(op);
}

/* Counted, so that the end can wait for those under way. */
bool fs_enter(struct fs *fs)
{
	atomic_fetch_add(&fs->running_count, 1);
	if (!atomic_load(&fs->is_closing))
		return true;
	fs_leave(fs);
	return false;
}

void fs_leave(struct fs *fs)
{
	atomic_fetch_sub(&fs->running_count, 1);
}

static int op_run(struct op *op, struct err *err)
{
	if (!fs_enter(op->fs))
		return -ESHUTDOWN;
	int r = op->run(op, err);
	fs_leave(op->fs);
	return r;
}

static void op_go(struct op *op)
{
	struct parking *parking = &op->fs->parking;
	int running;

	for (;;) {
		struct err err = {0};
		int r = op_run(op, &err);

		if (r < 0 && op->req) {
			if (!is_ordinary(r))
				log_limited(1000,
					    log_error("%s", err_text(&err, r)));
			fuse_reply_err(op->req, errno_for_reader(r));
		}
		if (r != DATASET_PARKED) {
			op_free(op);
			return;
		}
		if (op->req)
			fuse_req_interrupt_func(op->req, on_interrupt, parking);
		parking_insert(parking, op);
		running = OP_RUNNING;
		if (atomic_compare_exchange_strong(&op->state, &running,
						   OP_PARKED))
			return; /* from here on it belongs to the waker */
		parking_remove(parking, op);
		atomic_store(&op->state, OP_RUNNING);
		if (op->is_given_up) {
			op_free(op);
			return;
		}
	}
}

static void op_wake(struct waiter *waiter)
{
	struct op *op = (struct op *)waiter;

	if (atomic_exchange(&op->state, OP_WOKEN) == OP_RUNNING)
		return; /* the thread that parks it goes on */
	parking_remove(&op->fs->parking, op);
	if (op->is_given_up) {
		op_free(op);
		return;
	}
	atomic_store(&op->state, OP_RUNNING);
	op_go(op);
}

static void op_may_sleep(struct waiter *waiter)
{
	session_may_sleep(((struct op *)waiter)->fs->session);
}

static struct op *op_new(struct fs *fs, fuse_req_t req,
			 int (*run)(struct op *op, struct err *err),
			 uint64_t ino, uint64_t offset, size_t size,
			 const struct fuse_file_info *file, const char *name)
{
	size_t name_size = name ? strlen(name) + 1 : 0;
	struct op *op = malloc(sizeof(*op) + name_size);

	if (!op) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	*op = (struct op){.fs = fs,
			  .req = req,
			  .run = run,
			  .ino = ino,
			  .unique = session_unique(),
			  .offset = offset,
			  .size = size};
	if (file)
		op->file = *file;
	if (name)
		memcpy(op->name, name, name_size);
	waiter_init(&op->waiter, op_wake);
	op->waiter.may_sleep = op_may_sleep;
	return op;
}

void op_start(struct fs *fs, fuse_req_t req,
	      int (*run)(struct op *op, struct err *err), uint64_t ino,
	      uint64_t offset, size_t size, const struct fuse_file_info *file,
	      const char *name)
{
	struct op *op = op_new(fs, req, run, ino, offset, size, file, name);

	if (op)
		op_go(op);
}

void op_start_data(struct fs *fs, fuse_req_t req,
		   int (*run)(struct op *op, struct err *err), uint64_t ino,
		   const struct fuse_file_info *file, void *data)
{
	struct op *op;

	if (!data) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	op = op_new(fs, req, run, ino, 0, 0, file, NULL);
	if (!op) {
		free(data);
		return;
	}
	op->data = data;
	op_go(op);
}

static bool is_in_group(fuse_req_t req, gid_t group)
{
	gid_t groups[GROUPS_MAX];
	int count = fuse_req_getgroups(req, GROUPS_MAX, groups);

	if (fuse_req_ctx(req)->gid == group)
		return true;
	for (int i = 0; i < count && i < GROUPS_MAX; i++)
		if (groups[i] == group)
			return true;
	return false;
}

/*
 * Whom the kernel let in while the dataset was not open yet, when nobody knew
 * who may look. From the next look-up on the kernel decides by the modes.
 */
static bool may_look(const struct op *op, const struct slot *slot)
{
	const struct fs *fs = op->fs;
	struct stat st;

	if (!op->req || slot->mask == 0777 || fuse_req_ctx(op->req)->uid == 0)
		return true;
	attr_of_entry(fs, 0, slot->mask, &slot->root, &st);
	return fuse_req_ctx(op->req)->uid == st.st_uid ||
	       (slot->mask & 070 && is_in_group(op->req, st.st_gid));
}

int op_target_of(struct op *op, uint64_t ino, struct target *ret,
		 struct err *err)
{
	int r;

	uint32_t index = ino_slot(ino);

	*ret = (struct target){.number = ino_number(ino)};
	if (index) {
		ret->slot = tree_slot(&op->fs->tree, index);
		return ret->slot ? 0 :
				   err_set(err, ESTALE, "unknown inode number");
	}
	ret->dir = tree_get(&op->fs->tree, ret->number);
	if (!ret->dir)
		return err_set(err, ESTALE, "unknown inode number");
	ret->number = 0;
	if (!tree_is_dataset(ret->dir)) {
		/* the root of a view's snapshot, or no snapshot at all */
		ret->slot =
			tree_slot(&op->fs->tree, atomic_load(&ret->dir->slot));
		return 0;
	}
	r = tree_current(&op->fs->tree, ret->dir, &op->waiter, &ret->slot,
			 err);
	if (r == 0 && !may_look(op, ret->slot))
		return err_set(err, EACCES, "'%s' is not for everyone",
			       ret->dir->name);
	return r;
}

int op_target(struct op *op, struct target *ret, struct err *err)
{
	return op_target_of(op, op->ino, ret, err);
}
