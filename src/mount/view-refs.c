/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refs/ in a folder of hub/: files that say which commit a revision is. The
 * client joins the revision to the path, so refs/pr/1 lies in refs/refs/pr/.
 * Of other revisions with a slash the directory is there once one below it was
 * opened as models/ORG/NAME@REVISION: the Hub does not answer to a part. What
 * a file says is settled at each look-up, from what its dataset shows now.
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

/* What the client writes for refs/pr/N and refs/convert/NAME. */
static const char *const nested[] = {"refs/", "refs/pr/", "refs/convert/"};
#define NESTED_COUNT (sizeof(nested) / sizeof(nested[0]))

static struct tree_dir *make_shown(struct tree *tree, struct tree_dir *parent,
				   const char *name,
				   const struct tree_leaf *leaf)
{
	struct tree_dir *child;
	scoped_lock(&tree->adding);

	child = tree_make(tree, parent, name, leaf);
	return child && tree_show(tree, child) == 0 ? child : NULL;
}

struct tree_dir *hub_child(struct op *op, struct tree_dir *dir,
			   const char *name, const struct tree_leaf *leaf)
{
	struct hub_folder *folder = dir->view;
	struct tree *tree = &op->fs->tree;
	struct tree_dir *child;
	scoped_lock(view_lock(folder->view));

	child = tree_find(tree, dir, name);
	return child ? child : make_shown(tree, dir, name, leaf);
}

/* "", "refs/", "refs/pr/", "feature/": what the revisions in it begin with.
 * malloc */
static char *prefix_of(struct op *op, const struct tree_dir *dir)
{
	const struct hub_folder *folder = dir->view;
	char *above, *prefix;

	if (dir == folder->refs)
		return strdup("");
	above = prefix_of(op, tree_get(&op->fs->tree, dir->parent));
	if (!above || asprintf(&prefix, "%s%s/", above, dir->name) < 0)
		prefix = NULL;
	free(above);
	return prefix;
}

/* Whether revisions begin with this: git has no other that is all of it. */
static bool is_prefix(const struct hub_folder *folder, const char *prefix)
{
	for (size_t i = 0; i < NESTED_COUNT; i++)
		if (strcmp(nested[i], prefix) == 0)
			return true;
	return view_knows_below(folder->view, folder->kind, folder->id,
				prefix) ||
	       dataset_refs_below(folder->dataset, prefix);
}

struct tree_dir *hub_ref_set(struct op *op, struct tree_dir *dir,
			     const char *name, const struct hub_commit *commit)
{
	const struct tree_leaf leaf = {.is_file = true, .is_changing = true};
	struct tree_dir *child = hub_child(op, dir, name, &leaf);

	if (child)
		atomic_store_explicit(&child->text, commit->text,
				      memory_order_release);
	return child;
}

static int lookup_file(struct op *op, struct tree_dir *dir,
		       const char *revision, struct fuse_entry_param *ret,
		       struct err *err)
{
	struct hub_commit *commit;
	struct tree_dir *child;
	int r;

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

static int enter_below(struct op *op, struct tree_dir *dir,
		       struct fuse_entry_param *ret)
{
	const struct tree_leaf leaf = {.ops = &hub_refs_ops, .view = dir->view};
	struct tree_dir *child = hub_child(op, dir, op->name, &leaf);

	if (!child)
		return -ENFILE;
	entry_of_dir(op->fs, child, ret);
	return 0;
}

/* A revision; what is none may be the first part of others' names. */
static int lookup_revision(struct op *op, struct tree_dir *dir,
			   const char *revision, const char *below,
			   struct fuse_entry_param *ret, struct err *err)
{
	const struct hub_folder *folder = dir->view;
	int r = lookup_file(op, dir, revision, ret, err);

	/* without words: nobody's name */
	if (r != -ENOENT || !err->text[0])
		return r;
	r = dataset_refs_ask(folder->dataset, &op->waiter, err);
	if (r)
		return r;
	return dataset_refs_below(folder->dataset, below) ?
		       enter_below(op, dir, ret) :
		       -ENOENT;
}

static int lookup_ref(struct op *op, struct tree_dir *dir,
		      struct fuse_entry_param *ret, struct err *err)
{
	_cleanup_free_ char *prefix = prefix_of(op, dir);
	_cleanup_free_ char *revision = NULL, *below = NULL;

	if (prefix && asprintf(&revision, "%s%s", prefix, op->name) < 0)
		revision = NULL;
	if (revision && asprintf(&below, "%s/", revision) < 0)
		below = NULL;
	if (!below)
		return -ENOMEM;
	if (is_prefix(dir->view, below))
		return enter_below(op, dir, ret);
	/* refs/X is no revision */
	if (strcmp(prefix, "refs/") == 0)
		return -ENOENT;
	return lookup_revision(op, dir, revision, below, ret, err);
}
