/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are made on an open file: to prefetch, how that goes, and to
 * stop it, and to look for new snapshots. Having opened it proves the right to
 * have its bytes here. The kernel copies the structures by the size in the
 * number, and each number has one layout.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mount/op.h"
#include "mount/prefetches.h"

static int run_prefetch(struct op *op, struct err *err)
{
	struct larder_prefetch *request = op->data;
	struct target target;
	int r = op_target(op, &target, err);

	if (r)
		return r;
	if (!target.slot)
		return -EINVAL; /* above the datasets */
	r = prefetches_add(op->fs->prefetches, fuse_req_ctx(op->req)->uid,
			   target.slot->snapshot, target.number, request);
	if (r == 0)
		fuse_reply_ioctl(op->req, 0, request, sizeof(*request));
	else
		fuse_reply_err(op->req, -r);
	return 0;
}

static void look(struct fs *fs, fuse_req_t req, const void *in)
{
	struct larder_prefetch_state state;
	int r;

	memcpy(&state, in, sizeof(state));
	r = prefetches_look(fs->prefetches, fuse_req_ctx(req)->uid, &state);
	if (r == 0)
		fuse_reply_ioctl(req, 0, &state, sizeof(state));
	else
		fuse_reply_err(req, -r);
}

static void stop(struct fs *fs, fuse_req_t req, const void *in)
{
	struct larder_prefetch_stop stopped;
	int r;

	memcpy(&stopped, in, sizeof(stopped));
	r = prefetches_stop(fs->prefetches, fuse_req_ctx(req)->uid,
			    stopped.job);
	if (r == 0)
		fuse_reply_ioctl(req, 0, NULL, 0);
	else
		fuse_reply_err(req, -r);
}

/* ---- refresh */

/* How far it is: datasets one after another. */
struct refresh {
	struct larder_refresh answer;
	struct tree_dir *only; /* the dataset it is about, or NULL: */
	uint32_t above;	       /* those below this directory */
	uint64_t next;	       /* directory of the tree */
	bool is_begun;
	enum dataset_look look;
	struct digest before;
};

static bool is_below(struct fs *fs, const struct tree_dir *dir, uint32_t above)
{
	while (dir->index != above && dir->index != 0)
		dir = tree_get(&fs->tree, dir->parent);
	return dir->index == above;
}

/* NULL: that was all. */
static struct tree_dir *next_dataset(struct fs *fs, struct refresh *refresh)
{
	struct tree_dir *dir;

	if (refresh->only)
		return refresh->next == 0 ? refresh->only : NULL;
	for (; (dir = tree_get(&fs->tree, refresh->next)); refresh->next++)
		if (dir->dataset && atomic_load(&dir->slot) &&
		    is_below(fs, dir, refresh->above))
			return dir;
	return NULL;
}

static void begin(struct fs *fs, struct refresh *refresh, uint64_t ino)
{
	struct slot *slot = tree_slot(&fs->tree, ino_slot(ino));
	struct tree_dir *dir = tree_get(&fs->tree, ino_number(ino));

	refresh->is_begun = true;
	if (slot)
		refresh->only = slot->dir;
	else if (dir && dir->dataset)
		refresh->only = dir;
	else if (dir)
		refresh->above = dir->index;
}

static void count(struct refresh *refresh, const struct tree_dir *dir, int r,
		  const struct err *err)
{
	struct larder_refresh *answer = &refresh->answer;
	struct dataset_info info;

	answer->count++;
	refresh->next++;
	refresh->look = LOOK_NONE;
	dataset_info(dir->dataset, &info);
	answer->changed += !digest_is_none(&refresh->before) &&
			   !digest_equal(&info.snapshot, &refresh->before);
	if (r < 0) {
		answer->failed++;
		snprintf(answer->error, sizeof(answer->error), "%s",
			 err_text(err, r));
	}
}

static int run_refresh(struct op *op, struct err *err)
{
	struct refresh *refresh = op->data;
	struct fs *fs = op->fs;
	struct tree_dir *dir;
	struct dataset_info info;

	if (!refresh->is_begun)
		begin(fs, refresh, op->ino);
	while ((dir = next_dataset(fs, refresh))) {
		struct slot *slot;
		int r;

		if (!dir->dataset)
			return -EINVAL; /* a commit of hub/ stays what it is */
		if (refresh->look == LOOK_NONE) {
			dataset_info(dir->dataset, &info);
			refresh->before = info.snapshot;
		}
		r = dataset_refresh(dir->dataset, &op->waiter, &refresh->look,
				    err);
		/* listings show it from now on, too */
		if (r == 0)
			r = tree_current(&fs->tree, dir, &op->waiter, &slot,
					 err);
		if (r == DATASET_PARKED)
			return r;
		count(refresh, dir, r, err);
	}
	fuse_reply_ioctl(op->req, 0, &refresh->answer, sizeof(refresh->answer));
	return 0;
}

/* It moves the names for everyone. */
static bool may_refresh(const struct fs *fs, fuse_req_t req)
{
	uid_t uid = fuse_req_ctx(req)->uid;

	return uid == 0 || uid == fs->uid;
}

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *arg,
	      struct fuse_file_info *file, unsigned flags, const void *in,
	      size_t in_size, size_t out_size)
{
	struct fs *fs = fuse_req_userdata(req);
	void *data;

	(void)arg;
	(void)flags;
	(void)out_size;
	if (_IOC_DIR(command) & _IOC_WRITE && _IOC_SIZE(command) != in_size) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	switch (command) {
	case (unsigned)LARDER_IOC_PREFETCH:
		data = malloc(in_size);
		if (data)
			memcpy(data, in, in_size);
		op_start_data(fs, req, run_prefetch, ino, file, data);
		break;
	case (unsigned)LARDER_IOC_PREFETCH_STATE:
		look(fs, req, in);
		break;
	case (unsigned)LARDER_IOC_PREFETCH_STOP:
		stop(fs, req, in);
		break;
	case (unsigned)LARDER_IOC_REFRESH:
		if (may_refresh(fs, req))
			op_start_data(fs, req, run_refresh, ino, file,
				      calloc(1, sizeof(struct refresh)));
		else
			fuse_reply_err(req, EPERM);
		break;
	default:
		fuse_reply_err(req, ENOTTY);
	}
}
