/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that would change something. The kernel refuses them by itself on
 * a read-only mount; a session on a descriptor that somebody else mounted may
 * not be one. copy_file_range is left out: after one ENOSYS the kernel copies
 * by reading.
 */
#include <config.h>

#include <errno.h>

#include "mount/op.h"

#define UNUSED __attribute__((unused))

void op_setattr(fuse_req_t req, fuse_ino_t ino UNUSED, struct stat *attr UNUSED,
		int to_set UNUSED, struct fuse_file_info *file UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent UNUSED, const char *name UNUSED,
	      mode_t mode UNUSED, dev_t rdev UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent UNUSED, const char *name UNUSED,
	      mode_t mode UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent UNUSED,
	       const char *name UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent UNUSED, const char *name UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_symlink(fuse_req_t req, const char *link UNUSED,
		fuse_ino_t parent UNUSED, const char *name UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_rename(fuse_req_t req, fuse_ino_t parent UNUSED,
	       const char *name UNUSED, fuse_ino_t new_parent UNUSED,
	       const char *new_name UNUSED, unsigned int flags UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_link(fuse_req_t req, fuse_ino_t ino UNUSED,
	     fuse_ino_t new_parent UNUSED, const char *new_name UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_create(fuse_req_t req, fuse_ino_t parent UNUSED,
	       const char *name UNUSED, mode_t mode UNUSED,
	       struct fuse_file_info *file UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_write(fuse_req_t req, fuse_ino_t ino UNUSED, const char *data UNUSED,
	      size_t size UNUSED, off_t offset UNUSED,
	      struct fuse_file_info *file UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_write_buf(fuse_req_t req, fuse_ino_t ino UNUSED,
		  struct fuse_bufvec *data UNUSED, off_t offset UNUSED,
		  struct fuse_file_info *file UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino UNUSED, int mode UNUSED,
		  off_t offset UNUSED, off_t length UNUSED,
		  struct fuse_file_info *file UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino UNUSED, const char *name UNUSED,
		 const char *value UNUSED, size_t size UNUSED, int flags UNUSED)
{
	fuse_reply_err(req, EROFS);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino UNUSED,
		    const char *name UNUSED)
{
	fuse_reply_err(req, EROFS);
}
