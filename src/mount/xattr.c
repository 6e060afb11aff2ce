/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes. Names that ls, cp and the security modules probe on
 * every file are answered here without a look at the snapshot. A dataset that
 * is not open yet is not opened by a probe: its directory tells its state and
 * the last reason.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "format/catalog.h"
#include "mount/internal.h"
#include "mount/op.h"
#include "mount/passthrough.h"
#include "mount/views.h"

#define TOLD_PREFIX "user.larder."

static void reply_value(fuse_req_t req, const void *value, size_t len,
			size_t size)
{
	if (size == 0)
		fuse_reply_xattr(req, len);
	else if (len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, value, len);
}

static const char *state_name(enum dataset_state state)
{
	static const char *const names[] = {
		[DATASET_COLD] = "cold",
		[DATASET_OK] = "ok",
		[DATASET_STALE] = "stale",
		[DATASET_FAILED] = "failed",
	};

	return names[state];
}

/* The directory that stands for a dataset, opened or not, or its snapshot's
 * root. */
static const struct tree_dir *dataset_dir(struct fs *fs, uint64_t ino)
{
	if (!ino_slot(ino))
		return tree_get(&fs->tree, ino_number(ino));
	struct slot *slot =
		ino_number(ino) ? NULL : tree_slot(&fs->tree, ino_slot(ino));
	return slot ? slot->dir : NULL;
}

static bool is_unopened(const struct tree_dir *dir)
{
	return !atomic_load(&dir->slot);
}

/* What the values of a directory's attributes point into. */
struct dir_info {
	struct dataset_info dataset;
	struct err why;
};

/* How the dataset is. NULL: no such attribute. */
static const char *dir_value(struct fs *fs, const struct tree_dir *dir,
			     const char *name, struct dir_info *told)
{
	struct dataset_info *info = &told->dataset;

	if (strcmp(name, MOUNT_VIEW_XATTR) == 0)
		return dir->ops == &view_hub_ops ? "hub" : NULL;
	if (dir->ops && strcmp(name, MOUNT_ERROR_XATTR) == 0)
		return refusals_read(&fs->refusals, dir->index, &told->why) ?
			       told->why.text :
			       NULL;
	if (!tree_is_dataset(dir))
		return NULL;
	if (dir->dataset) {
		dataset_info(dir->dataset, info);
	} else {
		*info = (struct dataset_info){.state = DATASET_FAILED};
		snprintf(info->reason, sizeof(info->reason), "%s", dir->fault);
	}
	if (strcmp(name, MOUNT_STATE_XATTR) == 0)
		return state_name(info->state);
	if (strcmp(name, MOUNT_ERROR_XATTR) == 0 && info->reason[0])
		return info->reason;
	return NULL;
}

static void reply_figures(fuse_req_t req, uint64_t ino,
			  const struct tree_dir *dir, size_t size)
{
	struct buf text;
	int r;

	buf_init(&text, 65536);
	r = figures_text(fuse_req_userdata(req), ino == FUSE_ROOT_ID, dir,
			 &text);
	if (r < 0 || text.len == 0)
		fuse_reply_err(req, r < 0 ? -r : ENODATA);
	else
		reply_value(req, text.data, text.len, size);
	buf_release(&text);
}

/* For the mount's user: there may be passwords in URLs. */
static void reply_options(fuse_req_t req, const struct tree_dir *dir,
			  size_t size)
{
	struct fs *fs = fuse_req_userdata(req);
	uid_t uid = fuse_req_ctx(req)->uid;
	struct buf text;
	int r = -ENODATA;

	buf_init(&text, 65536);
	if (dir && dir->options && (uid == 0 || uid == geteuid()))
		r = reopen_describe(fs->options, dir->options, &text);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		reply_value(req, text.data, text.len, size);
	buf_release(&text);
}

static int run_getxattr(struct op *op, struct err *err)
{
	struct target target;
	void *value;
	size_t len;
	int r = op_target(op, &target, err);

	if (!r && !target.slot)
		return -ENODATA;
	if (!r)
		r = snapshot_xattr_get(target.slot->snapshot, target.number,
				       op->name, &op->waiter, &value, &len,
				       err);
	if (r)
		return r == -ENOENT ? -ENODATA : r;
	reply_value(op->req, value, len, op->size);
	free(value);
	return 0;
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct fs *fs = fuse_req_userdata(req);
	const struct tree_dir *dir;
	struct dir_info info;
	const char *value;
	char text[PASSTHROUGH_TEXT];

	if (starts_with(name, "system.")) {
		fuse_reply_err(req, EOPNOTSUPP);
	} else if (!starts_with(name, "user.")) {
		fuse_reply_err(req, ENODATA);
	} else if (ino == FUSE_ROOT_ID && strcmp(name, MOUNT_PID_XATTR) == 0) {
		snprintf(text, sizeof(text), "%d", (int)getpid());
		reply_value(req, text, strlen(text), size);
	} else if (ino == FUSE_ROOT_ID &&
		   strcmp(name, MOUNT_PASSTHROUGH_XATTR) == 0) {
		passthrough_text(fs->passthrough, text);
		reply_value(req, text, strlen(text), size);
	} else if (strcmp(name, MOUNT_STATE_XATTR) == 0 &&
		   passthrough_has(fs->passthrough, ino)) {
		reply_value(req, "passthrough", strlen("passthrough"), size);
	} else if (strcmp(name, MOUNT_FIGURES_XATTR) == 0) {
		reply_figures(req, ino, dataset_dir(fs, ino), size);
	} else if (strcmp(name, MOUNT_OPTIONS_XATTR) == 0) {
		reply_options(req, dataset_dir(fs, ino), size);
	} else if ((dir = dataset_dir(fs, ino)) &&
		   (value = dir_value(fs, dir, name, &info))) {
		reply_value(req, value, strlen(value), size);
	} else if (dir && is_unopened(dir)) {
		fuse_reply_err(req, ENODATA);
	} else {
		op_start(fs, req, run_getxattr, ino, 0, size, NULL, name);
	}
}

/* What is told about a file is not listed: copies would carry it along, and
 * a later publish would record it. */
static size_t keep_published(char *names, size_t len)
{
	size_t kept = 0;

	for (size_t at = 0; at < len;) {
		size_t size = strnlen(names + at, len - at) + 1;

		if (at + size > len)
			break;
		if (!starts_with(names + at, TOLD_PREFIX)) {
			memmove(names + kept, names + at, size);
			kept += size;
		}
		at += size;
	}
	return kept;
}

static int run_listxattr(struct op *op, struct err *err)
{
	struct entry_attr attr;
	struct target target;
	char *names;
	size_t len;
	int r = op_target(op, &target, err);

	if (!r && target.slot)
		r = snapshot_getattr(target.slot->snapshot, target.number,
				     &op->waiter, &attr, err);
	/* a symlink has no user attributes: getxattr would deny what it lists
	 */
	if (!r && (!target.slot || attr.type == ENTRY_SYMLINK)) {
		reply_value(op->req, "", 0, op->size);
		return 0;
	}
	if (!r)
		r = snapshot_xattr_list(target.slot->snapshot, target.number,
					&op->waiter, &names, &len, err);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	reply_value(op->req, names, keep_published(names, len), op->size);
	free(names);
	return 0;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct fs *fs = fuse_req_userdata(req);
	const struct tree_dir *dir = dataset_dir(fs, ino);

	if (dir && is_unopened(dir))
		reply_value(req, "", 0, size);
	else
		op_start(fs, req, run_listxattr, ino, 0, size, NULL, NULL);
}
