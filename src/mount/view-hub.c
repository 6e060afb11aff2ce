/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of huggingface_hub's cache, read only:
 *
 *     models--ORG--NAME/refs/main          a file: the commit, 40 bytes
 *                      /refs/REVISION      tags and branches; refs/pr/N and
 *                                          refs/convert/NAME are nested
 *                      /snapshots/COMMIT/  directories, and links to blobs/
 *                      /blobs/ETAG         the bytes: the very files of
 *                                          models/ORG/NAME
 *                      /trees/COMMIT.json   the listing
 *                      /.no_exist/COMMIT/X an empty file for every X that is
 *                                          not in that commit
 *
 * A folder is there once its main branch could be opened; then all below it is
 * known, but for other revisions, which are opened when they are looked for.
 * A ref says which commit its dataset is at, at each look-up. Commits are only
 * added: who has an older one goes on in it.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mount/view-hub.h"

#define SEPARATOR "--"

void hub_folders_free(struct hub_folder *folder)
{
	while (folder) {
		struct hub_folder *next = folder->next;
		struct hub_commit *commit = atomic_load(&folder->commits);

		while (commit) {
			struct hub_commit *older = commit->next;

			hub_commit_free(commit);
			commit = older;
		}
		free(folder->id);
		free(folder);
		folder = next;
	}
}

/* ---- snapshots */

static bool is_commit(const char *name)
{
	return strlen(name) == COMMIT_LEN && strspn(name, HEX) == COMMIT_LEN;
}

int hub_open_revision(struct op *op, struct hub_folder *folder,
		      const char *revision, struct hub_commit **ret,
		      double *ret_timeout, struct err *err)
{
	const struct wanted_repo wanted = {
		.kind = folder->kind,
		.id = folder->id,
		.revision = revision,
	};
	struct slot *slot;
	int r = view_open_repo(op, folder->view, &wanted, &slot, ret_timeout,
			       err);

	return r ? r : hub_commit_of(op, folder, slot, ret, err);
}

static int lookup_snapshot(struct op *op, struct tree_dir *dir,
			   struct fuse_entry_param *ret, struct err *err)
{
	struct hub_folder *folder = dir->view;
	struct hub_commit *commit;
	int r;

	if (!is_commit(op->name))
		return -ENOENT;
	commit = hub_commit_find(folder, op->name);
	if (!commit) {
		r = hub_open_revision(op, folder, op->name, &commit,
				      &ret->entry_timeout, err);
		if (r)
			return r;
	}
	if (strcmp(commit->text, op->name))
		return err_set(err, EIO, "the Hub answers with another commit");
	entry_of_dir(op->fs, commit->snapshot, ret);
	return 0;
}

static const struct view_ops snapshots_ops = {.lookup = lookup_snapshot};

/* ---- folders */

bool hub_folder_parse(const char *name, enum view_kind *ret_kind,
		      char id[HUB_ID_MAX])
{
	const char *rest = strstr(name, SEPARATOR), *owner_end;

	if (!rest || strlen(rest) >= HUB_ID_MAX)
		return false;
	for (unsigned i = 0; i < VIEW_KINDS; i++) {
		const char *word = view_kind_word((enum view_kind)i);

		if (strncmp(name, word, strlen(word)) ||
		    name + strlen(word) != rest)
			continue;
		rest += strlen(SEPARATOR);
		owner_end = strstr(rest, SEPARATOR);
		*ret_kind = (enum view_kind)i;
		if (owner_end)
			snprintf(id, HUB_ID_MAX, "%.*s/%s", (int)(owner_end - rest),
				 rest, owner_end + strlen(SEPARATOR));
		else
			snprintf(id, HUB_ID_MAX, "%s", rest);
		return true;
	}
	return false;
}

static struct hub_folder *folder_new(struct view *view, enum view_kind kind,
				     const char *id)
{
	struct hub_folder *folder = calloc(1, sizeof(*folder));

	if (!folder)
		return NULL;
	folder->view = view;
	folder->kind = kind;
	folder->id = strdup(id);
	if (!folder->id) {
		free(folder);
		return NULL;
	}
	folder->next = *view_folders(view);
	*view_folders(view) = folder;
	return folder;
}

static struct tree_dir *make_below(struct tree *tree, struct hub_folder *folder,
				   const char *name, const struct view_ops *ops)
{
	const struct tree_leaf leaf = {.ops = ops, .view = folder};

	return tree_make(tree, folder->dir, name, &leaf);
}

/* With the view's lock. Its directories, found by nobody yet. */
static int make_folder(struct hub_folder *folder, struct tree *tree,
		       const struct tree_dir *hub, const char *name)
{
	const struct tree_leaf plain = {0}, empty = {.is_file = true};
	struct tree_dir *blobs, *trees;
	scoped_lock(&tree->adding);

	folder->dir = tree_make(tree, hub, name, &plain);
	if (!folder->dir)
		return -ENFILE;
	blobs = make_below(tree, folder, "blobs", &hub_blobs_ops);
	folder->refs = make_below(tree, folder, "refs", &hub_refs_ops);
	folder->snapshots =
		make_below(tree, folder, "snapshots", &snapshots_ops);
	trees = make_below(tree, folder, "trees", &hub_trees_ops);
	folder->absent = tree_make(tree, folder->dir, ".no_exist", &plain);
	if (!blobs || !trees || !folder->refs || !folder->snapshots || !folder->absent)
		return -ENFILE;
	folder->nothing = tree_make(tree, folder->absent, "", &empty);
	if (!folder->nothing || tree_show(tree, blobs) < 0 ||
	    tree_show(tree, folder->refs) < 0 ||
	    tree_show(tree, folder->snapshots) < 0 ||
	    tree_show(tree, trees) < 0 ||
	    tree_show(tree, folder->absent) < 0)
		return -ENFILE;
	return 0;
}

/* The folder of that name; made, but shown by its maker later. */
static struct hub_folder *get_folder(struct op *op, struct tree_dir *hub,
				     enum view_kind kind, const char *id,
				     const struct slot *plain)
{
	struct view *view = hub->view;
	struct hub_folder *folder;
	scoped_lock(view_lock(view));

	for (folder = *view_folders(view); folder; folder = folder->next)
		if (folder->kind == kind && strcmp(folder->id, id) == 0)
			return folder->absent ? folder : NULL;
	folder = folder_new(view, kind, id);
	if (!folder || make_folder(folder, &op->fs->tree, hub, op->name) < 0) {
		if (folder)
			folder->absent = NULL;
		return NULL;
	}
	folder->dataset = plain->dir->dataset;
	return folder;
}

static int show_dir(struct tree *tree, struct tree_dir *parent,
		    const struct tree_dir *dir)
{
	scoped_lock(&tree->adding);
	return tree_find(tree, parent, dir->name) ? 0 : tree_show(tree, dir);
}

static int open_folder(struct op *op, struct tree_dir *hub,
		       struct fuse_entry_param *ret, struct err *err)
{
	struct wanted_repo wanted = {0};
	struct hub_folder *folder;
	struct hub_commit *commit;
	char id[HUB_ID_MAX];
	struct slot *slot;
	int r;

	if (!hub_folder_parse(op->name, &wanted.kind, id))
		return -ENOENT;
	wanted.id = id;
	r = view_open_repo(op, hub->view, &wanted, &slot, &ret->entry_timeout,
			   err);
	if (r)
		return r;
	folder = get_folder(op, hub, wanted.kind, id, slot);
	if (!folder)
		return err_set(err, ENFILE,
			       "too many repositories are open: remount");
	r = hub_commit_of(op, folder, slot, &commit, err);
	if (r)
		return r;
	/* a listing of refs shows at least this one */
	if (!hub_ref_set(op, folder->refs, "main", commit))
		return -ENFILE;
	r = show_dir(&op->fs->tree, hub, folder->dir);
	if (r < 0)
		return r;
	entry_of_dir(op->fs, folder->dir, ret);
	return 0;
}

static int lookup_folder(struct op *op, struct tree_dir *dir,
			 struct fuse_entry_param *ret, struct err *err)
{
	struct tree_dir *child = tree_find(&op->fs->tree, dir, op->name);

	if (!child)
		return open_folder(op, dir, ret, err);
	entry_of_dir(op->fs, child, ret);
	return 0;
}

const struct view_ops view_hub_ops = {.lookup = lookup_folder};
