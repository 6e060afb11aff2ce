/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings. A directory offset is how many names came before: it can be resumed
 * in any order, by any process, on any descriptor. In a directory that stands
 * for what is current it also carries the slot, so that a listing begun before
 * a new snapshot goes on in its own.
 *
 *     slot (16 bits) | names before, "." and ".." among them (44 bits)
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "format/catalog.h"
#include "format/limits.h"
#include "mount/op.h"
#include "mount/views.h"

#define OFFSET_SLOT_SHIFT 44
#define OFFSET_INDEX_MASK ((UINT64_C(1) << OFFSET_SLOT_SHIFT) - 1)
/* More than any kernel asks for at once today; bounds our memory. */
#define LISTING_BYTES_MAX (256u << 10)
#define DOTS 2u /* "." and ".." come first */

struct listing {
	struct op *op;
	struct target target;
	bool is_plus;
	uint64_t index, tag;
	char *buf;
	size_t size, used;
};

static bool add(struct listing *listing, const char *name,
		const struct fuse_entry_param *entry, uint64_t index)
{
	fuse_req_t req = listing->op->req;
	off_t next = (off_t)(listing->tag | (index + 1));
	char *at = listing->buf + listing->used;
	size_t left = listing->size - listing->used;
	size_t need = listing->is_plus ?
			      fuse_add_direntry_plus(req, at, left, name, entry,
						     next) :
			      fuse_add_direntry(req, at, left, name,
						&entry->attr, next);

	if (need > left)
		return false;
	listing->used += need;
	return true;
}

static bool add_dot(struct listing *listing, const char *name, uint64_t ino,
		    uint64_t index)
{
	/* ino 0 in the entry: no look-up is counted for it */
	struct fuse_entry_param entry = {
		.attr = {.st_ino = ino, .st_mode = S_IFDIR},
	};

	return add(listing, name, &entry, index);
}

static int parent_ino(struct listing *listing, uint64_t *ret, struct err *err)
{
	struct target *target = &listing->target;
	struct tree_dir *dir = target->dir;
	uint64_t parent;

	if (!dir && target->number == 0)
		dir = target->slot->dir;
	if (dir) {
		*ret = ino_make(0, dir->parent);
		return 0;
	}
	int r = snapshot_parent(target->slot->snapshot, target->number,
				&listing->op->waiter, &parent, err);
	if (r)
		return r;
	*ret = ino_of(listing->op->fs, target->slot, parent);
	return 0;
}

static int add_dots(struct listing *listing, struct err *err)
{
	uint64_t parent;

	if (listing->index == 0) {
		add_dot(listing, ".", listing->op->ino, 0);
		listing->index++;
	}
	if (listing->index == 1) {
		int r = parent_ino(listing, &parent, err);

		if (r)
			return r;
		add_dot(listing, "..", parent, 1);
		listing->index++;
	}
	return 0;
}

static void add_tree_names(struct listing *listing)
{
	struct fs *fs = listing->op->fs;
	const struct tree_children *children =
		tree_children(listing->target.dir);

	for (uint64_t i = listing->index - DOTS; i < children->count; i++) {
		struct tree_dir *child = tree_get(&fs->tree, children->at[i]);
		struct fuse_entry_param entry;

		entry_of_dir(fs, child, &entry);
		if (!add(listing, child->name, &entry, i + DOTS))
			return;
	}
}

/* Only what they are called: whoever wants more looks them up. */
static void add_view_names(struct listing *listing)
{
	struct tree_dir *dir = listing->target.dir;
	struct fuse_entry_param entry = {.attr = {.st_mode = S_IFREG}};
	char name[LIMIT_NAME_BYTES + 1];
	uint64_t i = listing->index - DOTS, ino;

	while (dir->ops->nth(dir, &i, name, &ino)) {
		entry.attr.st_ino = ino;
		if (!add(listing, name, &entry, i + DOTS))
			return;
		i++;
	}
}

static bool add_name(void *arg, const char *name, size_t name_len,
		     const struct entry_attr *attr, uint64_t index)
{
	struct listing *listing = arg;
	struct slot *slot = listing->target.slot;
	struct fuse_entry_param entry = {
		.ino = ino_make(slot->index, attr->number),
		.attr_timeout = TIMEOUT_SNAPSHOT,
		.entry_timeout = listing->target.dir ? TIMEOUT_CURRENT :
						       TIMEOUT_SNAPSHOT,
	};
	char text[LIMIT_NAME_BYTES + 1];

	if (name_len > LIMIT_NAME_BYTES)
		return true;
	memcpy(text, name, name_len);
	text[name_len] = '\0';
	attr_of_entry(listing->op->fs, entry.ino, slot->mask, attr,
		      &entry.attr);
	/* where it points to is found out when somebody looks */
	if (slot->has_links && attr->type == ENTRY_FILE)
		entry = (struct fuse_entry_param){
			.attr = {.st_ino = entry.ino, .st_mode = S_IFLNK}};
	if (!add(listing, text, &entry, index + DOTS))
		return false;
	listing->index = index + DOTS + 1;
	return true;
}

static int add_snapshot_names(struct listing *listing, struct err *err)
{
	struct target *target = &listing->target;
	bool is_end = false;

	/* an answer without names would mean the end: ask again until there is
	 * one, it is the end, or the next part is waited for */
	while (!is_end) {
		uint64_t before = listing->index;
		int r = snapshot_list(target->slot->snapshot, target->number,
				      listing->index - DOTS,
				      &listing->op->waiter, add_name, listing,
				      &is_end, err);
		if (r)
			return r;
		if (listing->used || listing->index == before)
			break;
	}
	return 0;
}

static int listing_target(struct listing *listing, struct err *err)
{
	struct op *op = listing->op;
	uint32_t slot = (uint32_t)(op->offset >> OFFSET_SLOT_SHIFT);

	listing->index = op->offset & OFFSET_INDEX_MASK;
	if (slot && !ino_slot(op->ino)) {
		listing->target = (struct target){
			.dir = tree_get(&op->fs->tree, ino_number(op->ino)),
			.slot = tree_slot(&op->fs->tree, slot),
		};
		if (!listing->target.slot ||
		    listing->target.slot->dir != listing->target.dir)
			return err_set(err, EINVAL, "unknown directory offset");
	} else {
		int r = op_target(op, &listing->target, err);

		if (r)
			return r;
	}
	if (listing->target.dir && listing->target.slot)
		listing->tag = (uint64_t)listing->target.slot->index
			       << OFFSET_SLOT_SHIFT;
	return 0;
}

static int list(struct op *op, bool is_plus, struct err *err)
{
	size_t size =
		op->size < LISTING_BYTES_MAX ? op->size : LISTING_BYTES_MAX;
	_cleanup_free_ char *buf = malloc(size);
	struct listing listing = {
		.op = op, .is_plus = is_plus, .buf = buf, .size = size};

	if (!buf)
		return -ENOMEM;
	int r = listing_target(&listing, err);
	if (!r)
		r = add_dots(&listing, err);
	if (!r && listing.target.slot)
		r = add_snapshot_names(&listing, err);
	else if (!r && listing.target.dir->ops && listing.target.dir->ops->nth)
		add_view_names(&listing);
	else if (!r)
		add_tree_names(&listing);
	if (r)
		return r == -ENOENT ? -EIO : r;
	fuse_reply_buf(op->req, buf, listing.used);
	return 0;
}

static int run_readdir(struct op *op, struct err *err)
{
	return list(op, false, err);
}

static int run_readdirplus(struct op *op, struct err *err)
{
	return list(op, true, err);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *file)
{
	(void)file;
	op_start(fuse_req_userdata(req), req, run_readdir, ino,
		 (uint64_t)offset, size, NULL, NULL);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *file)
{
	(void)file;
	op_start(fuse_req_userdata(req), req, run_readdirplus, ino,
		 (uint64_t)offset, size, NULL, NULL);
}
