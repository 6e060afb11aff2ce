/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refs/ in a folder of hub/: files that say which commit a revision is. The
 * client joins the revision to the path, so refs/pr/1 lies in refs/refs/pr/;
 * other revisions with a slash are not found here. What a file says is settled
 * at each look-up, from what its dataset shows now.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mount/view-hub.h"

static int lookup_ref(struct op *op, struct tree_dir *dir,
		      struct fuse_entry_param *ret, struct err *err);
const struct view_ops hub_refs_ops = {.lookup = lookup_ref};

/* Below refs/: what the client writes for refs/pr/N and refs/convert/NAME. */
static const struct {
	const char *prefix, *name, *child;
} nested[] = {
	{"", "refs", "refs/"},
	{"refs/", "pr", "refs/pr/"},
	{"refs/", "convert", "refs/convert/"},
};

static struct tree_dir *make_shown(struct tree *tree, struct tree_dir *parent,
				   const char *name,
				   const struct tree_leaf *leaf)
{
	struct tree_dir *child;
	scoped_lock(&tree->adding);

	child = tree_make(tree, parent, name, leaf);
	return child && tree_show(tree, child) == 0 ? child : NULL;
}

/* A file or directory in a directory of refs, made if need be. */
static struct tree_dir *ref_child(struct op *op, struct tree_dir *dir,
				  const char *name,
				  const struct tree_leaf *leaf)
{
	struct hub_folder *folder = dir->view;
	struct tree *tree = &op->fs->tree;
	struct tree_dir *child;
	scoped_lock(view_lock(folder->view));

	child = tree_find(tree, dir, name);
	return child ? child : make_shown(tree, dir, name, leaf);
}

/* refs/, refs/refs/, refs/refs/pr/: what names in it are revisions of. */
static const char *prefix_of(struct op *op, const struct tree_dir *dir)
{
	const struct hub_folder *folder = dir->view;
	const char *prefix = "";

	if (dir == folder->refs)
		return prefix;
	prefix = prefix_of(op, tree_get(&op->fs->tree, dir->parent));
	for (size_t i = 0; i < sizeof(nested) / sizeof(nested[0]); i++)
		if (strcmp(nested[i].prefix, prefix) == 0 &&
		    strcmp(nested[i].name, dir->name) == 0)
			return nested[i].child;
	return prefix;
}

static bool is_nested(const char *prefix, const char *name)
{
	for (size_t i = 0; i < sizeof(nested) / sizeof(nested[0]); i++)
		if (strcmp(nested[i].prefix, prefix) == 0 &&
		    strcmp(nested[i].name, name) == 0)
			return true;
	return false;
}

struct tree_dir *hub_ref_set(struct op *op, struct tree_dir *dir,
			     const char *name, const struct hub_commit *commit)
{
	const struct tree_leaf leaf = {.is_file = true, .is_changing = true};
	struct tree_dir *child = ref_child(op, dir, name, &leaf);

	if (child)
		atomic_store_explicit(&child->text, commit->text,
				      memory_order_release);
	return child;
}

static int lookup_file(struct op *op, struct tree_dir *dir, const char *prefix,
		       struct fuse_entry_param *ret, struct err *err)
{
	_cleanup_free_ char *revision = NULL;
	struct hub_commit *commit;
	struct tree_dir *child;
	int r;

	if (asprintf(&revision, "%s%s", prefix, op->name) < 0) {
		revision = NULL;
		return -ENOMEM;
	}
	r = hub_open_revision(op, dir->view,
			      strcmp(revision, "main") ? revision : NULL,
			      &commit, &ret->entry_timeout, err);
	if (r)
		return r;
	child = hub_ref_set(op, dir, op->name, commit);
	if (!child)
		return -ENFILE;
	entry_of_dir(op->fs, child, ret);
	return 0;
}

static int lookup_ref(struct op *op, struct tree_dir *dir,
		      struct fuse_entry_param *ret, struct err *err)
{
	const struct tree_leaf leaf = {.ops = &hub_refs_ops, .view = dir->view};
	const char *prefix = prefix_of(op, dir);
	struct tree_dir *child;

	if (!is_nested(prefix, op->name))
		/* refs/refs/X is no revision */
		return strcmp(prefix, "refs/") == 0 ?
			       -ENOENT :
			       lookup_file(op, dir, prefix, ret, err);
	child = ref_child(op, dir, op->name, &leaf);
	if (!child)
		return -ENFILE;
	entry_of_dir(op->fs, child, ret);
	return 0;
}
