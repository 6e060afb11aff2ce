/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are made on an open file: to prefetch, how that goes, and to
 * stop it. Having opened it proves the right to have its bytes here. The
 * kernel copies the structures by the size in the number, and each number has
 * one layout.
 */
#include <config.h>

#include <errno.h>
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

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *arg,
	      struct fuse_file_info *file, unsigned flags, const void *in,
	      size_t in_size, size_t out_size)
{
	struct fs *fs = fuse_req_userdata(req);
	void *data;

	(void)arg;
	(void)flags;
	(void)out_size;
	if (_IOC_SIZE(command) != in_size) {
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
	default:
		fuse_reply_err(req, ENOTTY);
	}
}
