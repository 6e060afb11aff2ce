/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_OP_H
#define LARDER_MOUNT_OP_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "mount/mount.h"
#include "mount/refusals.h"
#include "mount/tree.h"

/*
 * One request of the kernel, from its arrival to its answer. `run` makes the
 * whole answer and is run again, from its start, each time what it waited for
 * has come: on a worker at first, on a thread of the node later. Nothing waits.
 *
 *   RUNNING --run says PARKED--> PARKED --wake--> RUNNING (on the waker's
 * thread)
 *      \--wake comes before that--> WOKEN --run returns--> RUNNING (same
 * thread)
 */
enum op_state { OP_RUNNING, OP_PARKED, OP_WOKEN };

struct early;
struct fs;
struct passthrough;
struct prefetches;
struct session;
struct view;
struct op {
	struct waiter waiter; /* first: wake() finds the op by it */
	struct fs *fs;
	fuse_req_t req; /* NULL: answered already, goes on for later ones */
	/* 0: answered; DATASET_PARKED; a negative errno to answer with */
	int (*run)(struct op *op, struct err *err);
	uint64_t ino;
	uint64_t unique; /* the kernel's number of the request */
	uint64_t offset;
	size_t size;
	struct fuse_file_info file;
	void *data; /* malloc, freed with it; or NULL */
	void *held; /* let go with it; or NULL */
	void (*let_go)(void *held);
	_Atomic int state;
	/* guarded by parking.lock */
	struct op *next, *previous;
	bool is_watched, is_given_up;
	char name[]; /* or attribute name */
};

/* Requests that wait, so that a killed reader can be let go. */
struct parking {
	pthread_mutex_t lock;
	struct op *first;
	size_t watched_count;
	int event_fd; /* readable: there is a first one to watch */
};

struct fs {
	const struct mount_options *options;
	struct node *node;
	struct tree tree;
	struct session *session;
	struct passthrough *passthrough;
	struct early *early;
	struct prefetches *prefetches;
	struct view *views;
	struct refusals refusals;
	struct parking parking;
	uid_t uid; /* where a snapshot records no owner */
	gid_t gid;
	int64_t start_s;
	/* the end: operations under way are counted out, waiting ones are
	 * answered without another look at the snapshots */
	_Atomic bool is_closing;
	_Atomic unsigned running_count;
};

/* Between these two the tree and its slots stay; false: the end has come. */
bool fs_enter(struct fs *fs);
void fs_leave(struct fs *fs);

int parking_init(struct parking *parking, struct err *err);
void parking_release(struct parking *parking);
/* Let go of watched requests whose thread was killed. True while there are
 * watched ones left: come back soon. */
bool parking_give_up_killed(struct parking *parking);

/* Starts an op: name may be NULL. */
void op_start(struct fs *fs, fuse_req_t req,
	      int (*run)(struct op *op, struct err *err), uint64_t ino,
	      uint64_t offset, size_t size, const struct fuse_file_info *file,
	      const char *name);

/* With bytes that belong to it from here on; NULL: out of memory. */
void op_start_data(struct fs *fs, fuse_req_t req,
		   int (*run)(struct op *op, struct err *err), uint64_t ino,
		   const struct fuse_file_info *file, void *data);

/* What an inode number means. dir: a directory of the tree; slot: the
 * snapshot that `number` is an entry of, NULL for a plain directory. Both for
 * a dataset's directory: then number is 0 and answers must not live long. */
struct target {
	struct tree_dir *dir;
	struct slot *slot;
	uint64_t number;
};
/* Parks while a dataset is opened. */
int op_target(struct op *op, struct target *ret, struct err *err);
int op_target_of(struct op *op, uint64_t ino, struct target *ret,
		 struct err *err);

/* How long the kernel may believe us, in seconds. */
#define TIMEOUT_SNAPSHOT 31536000.0 /* content that cannot change: a year */
#define TIMEOUT_CURRENT 1.0	    /* names of "the current snapshot" */
#define TIMEOUT_TREE 60.0 /* names above: a changed head tells the kernel */

/* mask: the slot's. */
void attr_of_entry(const struct fs *fs, uint64_t ino, mode_t mask,
		   const struct entry_attr *attr, struct stat *ret);
void attr_of_dir(const struct fs *fs, const struct tree_dir *dir,
		 struct stat *ret);
/* As a look-up in its parent would answer; never parks for an unopened dataset.
 */
void entry_of_dir(const struct fs *fs, const struct tree_dir *dir,
		  struct fuse_entry_param *ret);
/* The inode number of `number` of this slot, as names lead to it. */
uint64_t ino_of(const struct fs *fs, const struct slot *slot, uint64_t number);

/* The table of operations: ops.c, readdir.c, xattr.c, readonly.c. */
extern const struct fuse_lowlevel_ops mount_ops;
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *file);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *file);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
/* Answer with these pieces. */
int read_reply(fuse_req_t req, const struct read_result *result);
/* All of these pieces in memory, as long as the result is held and this thread
 * collects no other. 0 or a negative errno. */
int read_collect(struct fs *fs, const struct read_result *result,
		 struct iovec iov[READ_PIECES_MAX]);

/* Every operation that would change something: EROFS. */
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *file);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t rdev);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
		const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t new_parent, const char *new_name, unsigned int flags);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent,
	     const char *new_name);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *file);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t offset, struct fuse_file_info *file);
void op_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *data,
		  off_t offset, struct fuse_file_info *file);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *file);
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
/* ioctl.c */
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *arg,
	      struct fuse_file_info *file, unsigned flags, const void *in,
	      size_t in_size, size_t out_size);

#endif
