/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that read: check, call the dataset, reply. Nothing here
 * remembers anything for the kernel: forget costs nothing, and file handles are
 * 0. lseek, access and flush are left out on purpose: the kernel does each by
 * itself after one ENOSYS, or never asks ("all data", default_permissions,
 * noflush).
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "mount/internal.h"
#include "mount/early.h"
#include "mount/op.h"
#include "mount/passthrough.h"
#include "mount/views.h"

/* Enum values of format/, which the attributes carry. */
#include "format/catalog.h"
#include "format/limits.h"

#define STATFS_BLOCK 4096u

static struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- lookup, getattr, readlink */

/*
 * Never waits, since the kernel holds the directory's lock meanwhile and would
 * keep us from invalidating a name in it. While a new snapshot is on its way
 * the last one is the answer, for a second.
 */
static int lookup_in_tree(struct op *op, struct tree_dir *dir, struct err *err)
{
	struct tree_dir *child = tree_find(&op->fs->tree, dir, op->name);
	struct fuse_entry_param entry = {.entry_timeout = TIMEOUT_TREE};
	int r = 0;

	if (child) {
		/* an open dataset: what is current? An unopened one stays so.
		 */
		if (atomic_load(&child->slot)) {
			struct slot *slot;

			r = tree_current(&op->fs->tree, child, &op->waiter,
					 &slot, err);
		}
		entry_of_dir(op->fs, child, &entry);
		if (r)
			entry.entry_timeout = TIMEOUT_CURRENT;
	}
	if (op->req)
		fuse_reply_entry(op->req, &entry);
	op->req = NULL;
	return r == DATASET_PARKED ? r : 0;
}

static int view_lookup(struct op *op, struct tree_dir *dir, struct err *err)
{
	struct fuse_entry_param entry = {.entry_timeout = TIMEOUT_CURRENT};
	int r = dir->ops->lookup(op, dir, &entry, err);

	if (r < 0 && r != DATASET_PARKED && err->text[0])
		refusals_note(&op->fs->refusals, dir->index, err);
	if (r && r != -ENOENT)
		return r;
	if (r)
		entry.ino = 0; /* not there, remember it */
	fuse_reply_entry(op->req, &entry);
	return 0;
}

/* As the names of this slot show it. Parks. */
static int attr_in_slot(struct op *op, const struct slot *slot,
			const struct entry_attr *attr, struct stat *ret,
			struct err *err)
{
	attr_of_entry(op->fs, ino_make(slot->index, attr->number), slot->mask,
		      attr, ret);
	return slot->has_links ? links_attr(op, slot, attr, ret, err) : 0;
}

static int run_lookup(struct op *op, struct err *err)
{
	struct fuse_entry_param entry = {0};
	struct entry_attr attr;
	struct target target;
	int r = op_target(op, &target, err);

	if (r)
		return r;
	if (!target.slot)
		return target.dir->ops ? view_lookup(op, target.dir, err) :
					 lookup_in_tree(op, target.dir, err);
	r = snapshot_lookup(target.slot->snapshot, target.number, op->name,
			    strlen(op->name), &op->waiter, &attr, err);
	entry.entry_timeout = target.dir ? TIMEOUT_CURRENT : TIMEOUT_SNAPSHOT;
	if (r == -ENOENT) {
		fuse_reply_entry(op->req,
				 &entry); /* ino 0: not there, remember it */
		return 0;
	}
	if (r)
		return r;
	entry.ino = ino_make(target.slot->index, attr.number);
	entry.attr_timeout = TIMEOUT_SNAPSHOT;
	r = attr_in_slot(op, target.slot, &attr, &entry.attr, err);
	if (!r)
		fuse_reply_entry(op->req, &entry);
	return r;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	/* the kernel lets 1024 bytes through; no catalog has such names */
	if (strlen(name) > LIMIT_NAME_BYTES) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	op_start(fs_of(req), req, run_lookup, parent, 0, 0, NULL, name);
}

static int run_getattr(struct op *op, struct err *err)
{
	struct entry_attr attr;
	struct target target;
	struct stat st;
	int r = op_target(op, &target, err);

	if (r)
		return r;
	r = snapshot_getattr(target.slot->snapshot, target.number, &op->waiter,
			     &attr, err);
	if (!r)
		r = attr_in_slot(op, target.slot, &attr, &st, err);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	st.st_ino = op->ino;
	fuse_reply_attr(op->req, &st, TIMEOUT_SNAPSHOT);
	return 0;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *file)
{
	struct fs *fs = fs_of(req);
	struct tree_dir *dir =
		ino_slot(ino) ? NULL : tree_get(&fs->tree, ino_number(ino));
	struct stat st;

	(void)file;
	/* directories of the tree, the mount's root among them, answer at once
	 */
	if (dir) {
		attr_of_dir(fs, dir, &st);
		fuse_reply_attr(req, &st, TIMEOUT_CURRENT);
		return;
	}
	op_start(fs, req, run_getattr, ino, 0, 0, NULL, NULL);
}

static int run_readlink(struct op *op, struct err *err)
{
	struct target target;
	char *text;
	int r = op_target(op, &target, err);

	if (!r && !target.slot)
		return -EINVAL;
	if (!r && target.slot->has_links)
		r = links_read(op, &target, &text, err);
	else if (!r)
		r = snapshot_readlink(target.slot->snapshot, target.number,
				      &op->waiter, &text, err);
	if (r)
		return r;
	fuse_reply_readlink(op->req, text);
	free(text);
	return 0;
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	op_start(fs_of(req), req, run_readlink, ino, 0, 0, NULL, NULL);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	(void)ino;
	(void)nlookup;
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count,
			    struct fuse_forget_data *forgets)
{
	(void)count;
	(void)forgets;
	fuse_reply_none(req);
}

/* ---- open, read */

/* The small files of views. What the kernel has of them may be old. */
static int open_text(struct op *op, const struct tree_dir *dir)
{
	if (!dir->is_file)
		return -EISDIR;
	op->file.fh = 0;
	op->file.noflush = 1;
	fuse_reply_open(op->req, &op->file);
	return 0;
}

static int read_text(struct op *op, const struct tree_dir *dir)
{
	const char *text = tree_text(dir);
	size_t len = strlen(text);
	size_t at = op->offset < len ? (size_t)op->offset : len;

	if (!dir->is_file)
		return -EISDIR;
	fuse_reply_buf(op->req, text + at,
		       len - at < op->size ? len - at : op->size);
	return 0;
}

static int run_open(struct op *op, struct err *err)
{
	struct entry_attr attr;
	struct target target;
	bool is_unsettled;
	int r = op_target(op, &target, err);

	if (!r && !target.slot)
		return open_text(op, target.dir);
	if (!r)
		r = snapshot_getattr(target.slot->snapshot, target.number,
				     &op->waiter, &attr, err);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	if (attr.type == ENTRY_DIRECTORY)
		return -EISDIR;
	if (attr.type == ENTRY_TOMBSTONE)
		return err_set(err, EACCES, "this file was withdrawn");
	/* The kernel reads no byte of an empty file: nobody would be told. */
	if (attr.type == ENTRY_HOLE && attr.size == 0)
		return err_set(err, EIO, "this file's bytes are not there");
	r = snapshot_unsettled(target.slot->snapshot, target.number,
			       &op->waiter, &is_unsettled, err);
	if (r)
		return r;
	op->file.fh = 0;
	/* This inode number's bytes never change, unless they were wrong. */
	op->file.keep_cache = !is_unsettled;
	op->file.noflush = 1;
	return passthrough_open(op->fs->passthrough, op, &target,
				is_unsettled ? 0 : attr.size, err);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	if ((file->flags & O_ACCMODE) != O_RDONLY || (file->flags & O_TRUNC)) {
		fuse_reply_err(req, EROFS);
		return;
	}
	op_start(fs_of(req), req, run_open, ino, 0, 0, file, NULL);
}

static void op_release(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *file)
{
	(void)ino;
	passthrough_closed(fs_of(req)->passthrough, file->fh);
	fuse_reply_err(req, 0);
}

static int run_read(struct op *op, struct err *err)
{
	struct read_result result;
	struct target target;
	int r = op_target(op, &target, err);

	if (!r && !target.slot)
		return read_text(op, target.dir);
	early_missed(op->fs->early, op->ino);
	for (int tries = 0; !r; tries++) {
		r = snapshot_read(target.slot->snapshot, target.number,
				  op->offset, op->size, &op->waiter, &result,
				  err);
		if (r)
			break;
		r = read_reply(op->req, &result);
		if (r != -EIO || tries > 0) {
			read_result_release(&result);
			return r;
		}
		/* A cache file failed under us: without it. */
		read_result_failed(&result, &op->waiter);
		r = 0;
	}
	return r == -ENOENT ? -EIO : r;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *file)
{
	op_start(fs_of(req), req, run_read, ino, (uint64_t)offset, size, file,
		 NULL);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *file)
{
	file->fh = 0;
	/* The kernel may keep the listing of a snapshot's directory, not that
	 * of a directory which stands for what is current. */
	file->keep_cache = file->cache_readdir = ino_slot(ino) != 0;
	fuse_reply_open(req, file);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino,
			  struct fuse_file_info *file)
{
	(void)ino;
	(void)file;
	fuse_reply_err(req, 0);
}

/* ---- statfs: everything used, nothing free, never zero in total */

static void add_totals(const struct slot *slot, uint64_t *bytes,
		       uint64_t *entries)
{
	if (slot) {
		*bytes += snapshot_total_bytes(slot->snapshot);
		*entries += snapshot_entry_count(slot->snapshot);
	}
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = fs_of(req);
	uint64_t bytes = 0, entries = 1;

	if (ino_slot(ino)) {
		add_totals(tree_slot(&fs->tree, ino_slot(ino)), &bytes,
			   &entries);
	} else {
		struct tree_dir *dir;

		for (size_t i = 0; (dir = tree_get(&fs->tree, i)); i++) {
			uint32_t slot = atomic_load(&dir->slot);

			if (slot)
				add_totals(tree_slot(&fs->tree, slot), &bytes,
					   &entries);
		}
	}
	struct statvfs st = {
		.f_bsize = STATFS_BLOCK,
		.f_frsize = STATFS_BLOCK,
		.f_blocks = bytes / STATFS_BLOCK + 1,
		.f_files = entries,
		.f_namemax = LIMIT_NAME_BYTES,
		.f_flag = ST_RDONLY | ST_NOSUID,
	};
	fuse_reply_statfs(req, &st);
}

static void unset(struct fuse_conn_info *conn, unsigned flag)
{
	conn->want &= ~flag;
}

static void set_if_capable(struct fuse_conn_info *conn, unsigned flag)
{
	conn->want |= conn->capable & flag;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	set_if_capable(conn, FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
				     FUSE_CAP_ASYNC_DIO | FUSE_CAP_READDIRPLUS |
				     FUSE_CAP_READDIRPLUS_AUTO |
				     FUSE_CAP_CACHE_SYMLINKS |
				     FUSE_CAP_SPLICE_WRITE |
				     FUSE_CAP_SPLICE_MOVE);
	/* requests are small, and nothing changes behind the kernel's back */
	unset(conn, FUSE_CAP_SPLICE_READ | FUSE_CAP_AUTO_INVAL_DATA);
	passthrough_ask(fs->passthrough, conn);
	conn->max_read = MOUNT_READ_BYTES;
	/* Stuck requests count here until they fail: 500 readers of a silent
	 * mirror, each with a readahead window of 8 requests, must leave room
	 * for others. */
	conn->max_background = 16384;
	conn->congestion_threshold = 12288;
}

const struct fuse_lowlevel_ops mount_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.open = op_open,
	.read = op_read,
	.release = op_release,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	/* readonly.c */
	.setattr = op_setattr,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.create = op_create,
	.write = op_write,
	.write_buf = op_write_buf,
	.fallocate = op_fallocate,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
	.ioctl = op_ioctl,
};
