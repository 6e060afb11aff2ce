/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stat shows: of entries of a snapshot, and of the directories above them,
 * which nobody published.
 */
#include <config.h>

#include <string.h>

#include "mount/op.h"

/* Enum values of format/, which the attributes carry. */
#include "format/catalog.h"

/* Whole chunks fit a read; st_blksize is what cp and friends read at once. */
#define BLOCK_SIZE (1u << 20)

static mode_t mode_of(const struct entry_attr *attr, mode_t mask)
{
	switch (attr->type) {
	case ENTRY_DIRECTORY:
		return S_IFDIR | (attr->mode & mask);
	case ENTRY_SYMLINK:
		return S_IFLNK | 0777;
	default:
		return S_IFREG | (attr->mode & mask);
	}
}

void attr_of_entry(const struct fs *fs, uint64_t ino, mode_t mask,
		   const struct entry_attr *attr, struct stat *ret)
{
	const struct mount_options *options = fs->options;

	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = mode_of(attr, mask),
		.st_nlink = attr->type == ENTRY_DIRECTORY ? 2 : 1,
		.st_uid = options->has_uid ? options->uid :
			  attr->has_owner  ? attr->uid :
					     fs->uid,
		.st_gid = options->has_gid ? options->gid :
			  attr->has_owner  ? attr->gid :
					     fs->gid,
		.st_size = (off_t)attr->size,
		.st_blocks =
			(blkcnt_t)(attr->size / 512 + (attr->size % 512 != 0)),
		.st_blksize = BLOCK_SIZE,
		.st_mtim = {.tv_sec = attr->mtime_s, .tv_nsec = attr->mtime_ns},
	};
	ret->st_atim = ret->st_ctim = ret->st_mtim;
}

void attr_of_dir(const struct fs *fs, const struct tree_dir *dir,
		 struct stat *ret)
{
	struct slot *slot = tree_slot(&fs->tree, atomic_load(&dir->slot));
	uint64_t ino = ino_make(0, dir->index);

	if (slot) {
		attr_of_entry(fs, ino, slot->mask, &slot->root, ret);
		return;
	}
	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = dir->is_file ? S_IFREG | 0444 : S_IFDIR | 0555,
		.st_nlink = dir->is_file ? 1 : 2,
		.st_size = dir->is_file ? (off_t)strlen(tree_text(dir)) : 0,
		.st_uid = fs->options->has_uid ? fs->options->uid : fs->uid,
		.st_gid = fs->options->has_gid ? fs->options->gid : fs->gid,
		.st_blksize = BLOCK_SIZE,
		.st_mtim = {.tv_sec = fs->start_s},
	};
	ret->st_atim = ret->st_ctim = ret->st_mtim;
}

/* An unopened dataset is shown by its directory of the tree, so that ls -l
 * never waits for a mirror; once open, by its snapshot's root. */
void entry_of_dir(const struct fs *fs, const struct tree_dir *dir,
		  struct fuse_entry_param *ret)
{
	struct slot *slot = tree_slot(&fs->tree, atomic_load(&dir->slot));

	*ret = (struct fuse_entry_param){.attr_timeout = TIMEOUT_CURRENT};
	if (slot) {
		ret->ino = ino_make(slot->index, 0);
		attr_of_entry(fs, ret->ino, slot->mask, &slot->root,
			      &ret->attr);
		ret->attr_timeout = TIMEOUT_SNAPSHOT;
		ret->entry_timeout =
			dir->is_changing ? TIMEOUT_CURRENT : TIMEOUT_TREE;
		return;
	}
	ret->ino = ino_make(0, dir->index);
	attr_of_dir(fs, dir, &ret->attr);
	ret->entry_timeout = dir->dataset || dir->is_changing ?
				     TIMEOUT_CURRENT :
				     TIMEOUT_TREE;
}

uint64_t ino_of(const struct fs *fs, const struct slot *slot, uint64_t number)
{
	return number == 0 && fs->options->is_single ?
		       FUSE_ROOT_ID :
		       ino_make(slot->index, number);
}
