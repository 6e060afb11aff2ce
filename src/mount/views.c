/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories of the Hub as directories, opened by looking for them. A
 * look-up of a name that was never seen asks the Hub and waits for the answer,
 * as long as a reader does at most: "not there" must be the Hub's word. Names
 * that cannot be a repository's, or that the rules keep out, cost no request,
 * and a bad answer is remembered for a while.
 *
 * ORG/ is a directory as soon as somebody names it: the Hub is not asked who
 * exists. An old repository without ORG is therefore NAME@REVISION here.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mount/view.h"

/* Names under models/ and the like before anything of theirs was opened. */
#define OWNERS_MAX 65536u

const char *view_kind_word(enum view_kind kind)
{
	static const char *const words[VIEW_KINDS] = {
		[VIEW_MODEL] = "models",
		[VIEW_DATASET] = "datasets",
		[VIEW_SPACE] = "spaces",
	};

	return words[kind];
}

struct hub_folder **view_folders(struct view *view)
{
	return &view->folders;
}

pthread_mutex_t *view_lock(struct view *view)
{
	return &view->lock;
}

/* ---- models/ORG/NAME[@REVISION] */

static int enter_slot(struct op *op, const struct slot *slot,
		      struct fuse_entry_param *ret)
{
	*ret = (struct fuse_entry_param){
		.ino = ino_make(slot->index, 0),
		.attr_timeout = TIMEOUT_SNAPSHOT,
		.entry_timeout = TIMEOUT_CURRENT,
	};
	attr_of_entry(op->fs, ret->ino, slot->mask, &slot->root, &ret->attr);
	return 0;
}

/* What dir and the name in it ask for. `id` is for its text. */
static int lookup_repo(struct op *op, struct view *view, enum view_kind kind,
		       const char *owner, struct fuse_entry_param *ret,
		       struct err *err)
{
	_cleanup_free_ char *id = NULL;
	const char *at = strchr(op->name, '@');
	struct wanted_repo wanted = {.kind = kind};
	struct slot *slot;
	int r;

	if (asprintf(&id, "%s%s%.*s", owner ?: "", owner ? "/" : "",
		     (int)(at ? at - op->name : (ptrdiff_t)strlen(op->name)),
		     op->name) < 0) {
		id = NULL;
		return -ENOMEM;
	}
	wanted.id = id;
	wanted.revision = at ? at + 1 : NULL;
	r = view_open_repo(op, view, &wanted, &slot, &ret->entry_timeout, err);
	return r ? r : enter_slot(op, slot, ret);
}

static enum view_kind kind_of(const struct view *view,
			      const struct tree_dir *dir)
{
	unsigned kind = 0;

	while (kind < VIEW_KINDS - 1 && view->kinds[kind] != dir)
		kind++;
	return (enum view_kind)kind;
}

static int lookup_child(struct op *op, struct tree_dir *child,
			struct fuse_entry_param *ret, struct err *err)
{
	struct slot *slot;
	int r;

	if (!child->dataset) {
		entry_of_dir(op->fs, child, ret);
		return 0;
	}
	r = tree_current(&op->fs->tree, child, &op->waiter, &slot, err);
	return r ? r : enter_slot(op, slot, ret);
}

static int lookup_in_owner(struct op *op, struct tree_dir *dir,
			   struct fuse_entry_param *ret, struct err *err)
{
	struct tree_dir *child = tree_find(&op->fs->tree, dir, op->name);
	struct view *view = dir->view;

	if (child)
		return lookup_child(op, child, ret, err);
	return lookup_repo(op, view,
			   kind_of(view, tree_get(&op->fs->tree, dir->parent)),
			   dir->name, ret, err);
}

static const struct view_ops owner_ops = {.lookup = lookup_in_owner};

/* Called with the lock held. Made if need be; NULL: too many. */
struct tree_dir *view_owner(struct view *view, enum view_kind kind,
			    const char *name)
{
	const struct tree_leaf leaf = {.ops = &owner_ops, .view = view};
	struct tree *tree = &view->fs->tree;
	struct tree_dir *dir = tree_find(tree, view->kinds[kind], name);

	if (dir || view->owner_count >= OWNERS_MAX)
		return dir;
	scoped_lock(&tree->adding);
	dir = tree_make(tree, view->kinds[kind], name, &leaf);
	if (!dir || tree_show(tree, dir) < 0)
		return NULL;
	view->owner_count++;
	return dir;
}

/* Whether a repository can be called so. */
static int check_owner(struct view *view, const char *name, struct err *err)
{
	struct hub_options hub = *view->options->hub;
	_cleanup_free_ char *source = NULL;

	if (asprintf(&source, "hf://models/%s/x", name) < 0) {
		source = NULL;
		return -ENOMEM;
	}
	hub.source = source;
	return dataset_hub_check(&hub, err) == -EINVAL ? -ENOENT : 0;
}

static int lookup_in_kind(struct op *op, struct tree_dir *dir,
			  struct fuse_entry_param *ret, struct err *err)
{
	struct tree_dir *child = tree_find(&op->fs->tree, dir, op->name);
	struct view *view = dir->view;
	int r;

	if (child)
		return lookup_child(op, child, ret, err);
	if (strchr(op->name, '@'))
		return lookup_repo(op, view, kind_of(view, dir), NULL, ret,
				   err);
	ret->entry_timeout = TIMEOUT_SNAPSHOT;
	r = check_owner(view, op->name, err);
	if (r)
		return r;
	pthread_mutex_lock(&view->lock);
	child = view_owner(view, kind_of(view, dir), op->name);
	pthread_mutex_unlock(&view->lock);
	if (!child)
		return err_set(err, ENFILE,
			       "too many names below '%s' were looked for: "
			       "remount",
			       dir->name);
	entry_of_dir(op->fs, child, ret);
	return 0;
}

static const struct view_ops kind_ops = {.lookup = lookup_in_kind};

/* ---- life */

static int add_dir(struct view *view, const char *path, const char *name,
		   const struct view_ops *ops, struct tree_dir **ret,
		   struct err *err)
{
	const struct tree_leaf leaf = {.ops = ops, .view = view};
	_cleanup_free_ char *full = NULL;
	int r;

	if (asprintf(&full, "%s%s%s", path, path[0] ? "/" : "", name) < 0) {
		full = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	r = tree_add(&view->fs->tree, full, &leaf, err);
	if (r == 0 && ret)
		*ret = tree_find_path(&view->fs->tree, full);
	return r;
}

int views_add(struct fs *fs, const struct mount_dataset *wanted,
	      struct err *err)
{
	struct view *view = calloc(1, sizeof(*view));
	const char *path = wanted->path;
	int r = 0;

	if (!view)
		return err_set(err, ENOMEM, "out of memory");
	view->fs = fs;
	view->options = &wanted->options;
	view->path = path;
	pthread_mutex_init(&view->lock, NULL);
	view->next = fs->views;
	fs->views = view;
	for (unsigned i = 0; r == 0 && i < VIEW_KINDS; i++)
		r = add_dir(view, path, view_kind_word((enum view_kind)i),
			    &kind_ops, &view->kinds[i], err);
	if (r == 0)
		r = add_dir(view, path, "hub", &view_hub_ops, NULL, err);
	return r;
}

const struct dataset_options *views_find(struct fs *fs, const char *path)
{
	struct view *view = fs->views;

	while (view && strcmp(view->path, path))
		view = view->next;
	return view ? view->options : NULL;
}

void views_close(struct fs *fs)
{
	for (struct view *view = fs->views; view; view = view->next)
		view_drop_repos(view);
}

void views_free(struct fs *fs)
{
	while (fs->views) {
		struct view *view = fs->views;

		fs->views = view->next;
		view_free_repos(view);
		hub_folders_free(view->folders);
		pthread_mutex_destroy(&view->lock);
		free(view);
	}
}
