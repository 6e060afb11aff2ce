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
#include "base/vec.h"
#include "format/catalog.h"
#include "mount/views.h"

#define COMMIT_XATTR "user.hub.commit"
#define COMMIT_LEN 40u
#define ID_MAX 200u /* two parts of 96 */
#define SEPARATOR "--"
#define HEX "0123456789abcdef"

struct blob_name {
	struct digest digest;
	uint64_t number; /* of the first file with these bytes */
};

struct hub_commit {
	struct hub_commit *next;
	char text[COMMIT_LEN + 1];
	struct slot *plain; /* as models/ORG/NAME shows it */
	struct tree_dir *snapshot;
	struct blob_name *names; /* sorted by digest */
	size_t count;
};

struct hub_folder {
	struct hub_folder *next;
	struct view *view;
	enum view_kind kind;
	char *id;
	struct tree_dir *dir, *refs, *snapshots, *absent;
	struct tree_dir *nothing; /* the empty file of .no_exist */
	/* only added to, at its head, with the view's lock */
	_Atomic(struct hub_commit *) commits;
};

static void commit_free(struct hub_commit *commit)
{
	free(commit->names);
	free(commit);
}

void hub_folders_free(struct hub_folder *folder)
{
	while (folder) {
		struct hub_folder *next = folder->next;
		struct hub_commit *commit = atomic_load(&folder->commits);

		while (commit) {
			struct hub_commit *older = commit->next;

			commit_free(commit);
			commit = older;
		}
		free(folder->id);
		free(folder);
		folder = next;
	}
}

/* ---- commits */

static int compare_names(const void *a, const void *b)
{
	const struct blob_name *x = a, *y = b;
	int order = memcmp(x->digest.bytes, y->digest.bytes, DIGEST_BYTES);

	if (order == 0)
		order = (x->number > y->number) - (x->number < y->number);
	return order;
}

/* Every blob once. Numbers go on to the end of the snapshot without a gap. */
static int list_names(struct op *op, struct snapshot *snapshot,
		      struct hub_commit *commit, struct err *err)
{
	_cleanup_free_ struct blob_name *names = NULL;
	VEC(struct blob_name) found = {0};
	size_t kept = 0;
	int r = 0;

	for (uint64_t number = 1; r == 0; number++) {
		struct file_location location;
		struct entry_attr attr;
		struct digest digest;
		struct blob_name *name;

		r = snapshot_getattr(snapshot, number, &op->waiter, &attr, err);
		if (r == 0)
			r = snapshot_locate(snapshot, number, &op->waiter,
					    &location, NULL, NULL, err);
		if (r || !links_blob_name(&location, &attr, &digest))
			continue;
		name = vec_push(&found);
		if (!name)
			r = -ENOMEM;
		else
			*name = (struct blob_name){digest, number};
	}
	names = found.items;
	if (r != -ESTALE)
		return r;
	err->text[0] = '\0';
	if (names)
		qsort(names, found.count, sizeof(*names), compare_names);
	for (size_t i = 0; i < found.count; i++)
		if (!kept || memcmp(names[kept - 1].digest.bytes,
				    names[i].digest.bytes, DIGEST_BYTES))
			names[kept++] = names[i];
	commit->names = steal_ptr(names);
	commit->count = kept;
	return 0;
}

static int read_commit(struct op *op, struct snapshot *snapshot,
		       char ret[COMMIT_LEN + 1], struct err *err)
{
	_cleanup_free_ void *text = NULL;
	size_t len = 0;
	int r = snapshot_xattr_get(snapshot, 0, COMMIT_XATTR, &op->waiter,
				   &text, &len, err);

	if (r)
		return r;
	if (len != COMMIT_LEN)
		return err_set(err, EIO, "a listing without its commit");
	memcpy(ret, text, COMMIT_LEN);
	ret[COMMIT_LEN] = '\0';
	return 0;
}

static struct hub_commit *find_commit(struct hub_folder *folder,
				      const char *text)
{
	struct hub_commit *commit =
		atomic_load_explicit(&folder->commits, memory_order_acquire);

	while (commit && strcmp(commit->text, text))
		commit = commit->next;
	return commit;
}

static int lookup_absent(struct op *op, struct tree_dir *dir,
			 struct fuse_entry_param *ret, struct err *err);
static const struct view_ops absent_ops = {.lookup = lookup_absent};

/* Its directories; with the view's lock. */
static int show_commit(struct hub_folder *folder, struct hub_commit *commit,
		       struct fs *fs)
{
	const struct tree_leaf snapshot_leaf = {
		.options = commit->plain->dir->options};
	const struct tree_leaf absent_leaf = {.ops = &absent_ops,
					      .view = folder};
	struct tree *tree = &fs->tree;
	struct tree_dir *absent;
	scoped_lock(&tree->adding);

	commit->snapshot = tree_make(tree, folder->snapshots, commit->text,
				     &snapshot_leaf);
	absent = tree_make(tree, folder->absent, commit->text, &absent_leaf);
	if (!commit->snapshot || !absent ||
	    !tree_links(tree, commit->snapshot, commit->plain))
		return -ENFILE;
	commit->next = atomic_load(&folder->commits);
	atomic_store_explicit(&folder->commits, commit, memory_order_release);
	if (tree_show(tree, absent) < 0 ||
	    tree_show(tree, commit->snapshot) < 0)
		return -ENOMEM;
	return 0;
}

static int add_commit(struct op *op, struct hub_folder *folder,
		      struct hub_commit **made, struct hub_commit **ret,
		      struct err *err)
{
	int r;
	scoped_lock(view_lock(folder->view));

	*ret = find_commit(folder, (*made)->text);
	if (*ret)
		return 0;
	*ret = *made;
	r = show_commit(folder, *made, op->fs);
	if (r != -ENFILE)
		*made = NULL;
	return r == 0 ? 0 :
			err_set(err, ENFILE,
				"too many repositories are open: remount");
}

/* The commit that this slot shows. Parks. */
static int commit_of(struct op *op, struct hub_folder *folder,
		     struct slot *plain, struct hub_commit **ret,
		     struct err *err)
{
	char text[COMMIT_LEN + 1];
	struct hub_commit *made;
	int r = read_commit(op, plain->snapshot, text, err);

	*ret = r ? NULL : find_commit(folder, text);
	if (r || *ret)
		return r;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	memcpy(made->text, text, sizeof(made->text));
	made->plain = plain;
	r = list_names(op, plain->snapshot, made, err);
	if (!r)
		r = add_commit(op, folder, &made, ret, err);
	if (made)
		commit_free(made);
	return r;
}

/* ---- .no_exist/COMMIT */

static int lookup_absent(struct op *op, struct tree_dir *dir,
			 struct fuse_entry_param *ret, struct err *err)
{
	struct hub_folder *folder = dir->view;
	struct hub_commit *commit = find_commit(folder, dir->name);
	struct entry_attr attr;
	int r;

	if (!commit)
		return -ESTALE;
	r = snapshot_lookup(commit->plain->snapshot, 0, op->name,
			    strlen(op->name), &op->waiter, &attr, err);
	ret->entry_timeout = TIMEOUT_SNAPSHOT;
	if (r == 0)
		return -ENOENT;
	if (r == -ENOENT)
		entry_of_dir(op->fs, folder->nothing, ret);
	return r == -ENOENT ? 0 : r;
}

/* ---- blobs */

static bool parse_digest(const char *name, struct digest *ret)
{
	size_t len = strlen(name);

	*ret = (struct digest){.type = len == 40 ? DIGEST_GIT_SHA1 :
						   DIGEST_SHA256};
	if ((len != 40 && len != 64) || strspn(name, HEX) != len)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)(strchr(HEX, name[i]) - HEX);

		ret->bytes[i / 2] = (uint8_t)(ret->bytes[i / 2] << 4 | digit);
	}
	return true;
}

static const struct blob_name *find_name(const struct hub_commit *commit,
					 const struct digest *digest)
{
	size_t low = 0, high = commit->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(digest->bytes,
				   commit->names[middle].digest.bytes,
				   DIGEST_BYTES);

		if (order == 0)
			return &commit->names[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int lookup_blob(struct op *op, struct tree_dir *dir,
		       struct fuse_entry_param *ret, struct err *err)
{
	struct hub_folder *folder = dir->view;
	struct hub_commit *commit = atomic_load(&folder->commits);
	const struct blob_name *name = NULL;
	struct entry_attr attr;
	struct digest digest;
	struct slot *slot;
	int r;

	if (!parse_digest(op->name, &digest))
		return -ENOENT;
	for (; commit && !(name = find_name(commit, &digest));)
		commit = commit->next;
	if (!commit)
		return -ENOENT;
	slot = commit->plain;
	r = snapshot_getattr(slot->snapshot, name->number, &op->waiter, &attr,
			     err);
	if (r)
		return r == -ENOENT ? -EIO : r;
	*ret = (struct fuse_entry_param){
		.ino = ino_make(slot->index, name->number),
		.attr_timeout = TIMEOUT_SNAPSHOT,
		.entry_timeout = TIMEOUT_SNAPSHOT,
	};
	attr_of_entry(op->fs, ret->ino, slot->mask, &attr, &ret->attr);
	return 0;
}

static bool is_in_older(const struct hub_commit *commit,
			const struct digest *digest)
{
	for (commit = commit->next; commit; commit = commit->next)
		if (find_name(commit, digest))
			return true;
	return false;
}

/* Positions: from the first commit on, so that they stay when one is added. */
static bool nth_blob(const struct tree_dir *dir, uint64_t *index,
		     char *ret_name, uint64_t *ret_ino)
{
	struct hub_folder *folder = dir->view;
	struct hub_commit *newest = atomic_load(&folder->commits), *at;
	uint64_t below;

	for (;; (*index)++) {
		struct hub_commit *found = NULL;
		uint64_t start = 0;

		below = *index;
		for (at = newest; at; at = at->next)
			start += at->count;
		/* the oldest one that reaches so far */
		for (at = newest; at && !found; at = at->next) {
			start -= at->count;
			if (below >= start && below - start < at->count)
				found = at;
		}
		if (!found)
			return false;
		const struct blob_name *name = &found->names[below - start];
		if (is_in_older(found, &name->digest))
			continue;
		digest_hex(&name->digest, ret_name);
		*ret_ino = ino_make(found->plain->index, name->number);
		return true;
	}
}

static const struct view_ops blobs_ops = {
	.lookup = lookup_blob,
	.nth = nth_blob,
};

/* ---- snapshots */

static bool is_commit(const char *name)
{
	return strlen(name) == COMMIT_LEN && strspn(name, HEX) == COMMIT_LEN;
}

static int open_revision(struct op *op, struct hub_folder *folder,
			 const char *revision, struct slot **ret_slot,
			 struct hub_commit **ret, double *ret_timeout,
			 struct err *err)
{
	const struct wanted_repo wanted = {
		.kind = folder->kind,
		.id = folder->id,
		.revision = revision,
	};
	int r = view_open_repo(op, folder->view, &wanted, ret_slot, ret_timeout,
			       err);

	return r ? r : commit_of(op, folder, *ret_slot, ret, err);
}

static int lookup_snapshot(struct op *op, struct tree_dir *dir,
			   struct fuse_entry_param *ret, struct err *err)
{
	struct hub_folder *folder = dir->view;
	struct hub_commit *commit;
	struct slot *slot;
	int r;

	if (!is_commit(op->name))
		return -ENOENT;
	commit = find_commit(folder, op->name);
	if (!commit) {
		r = open_revision(op, folder, op->name, &slot, &commit,
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

/* ---- refs */

static int lookup_ref(struct op *op, struct tree_dir *dir,
		      struct fuse_entry_param *ret, struct err *err);
static const struct view_ops refs_ops = {.lookup = lookup_ref};

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

static int ref_file(struct op *op, struct tree_dir *dir, const char *prefix,
		    struct fuse_entry_param *ret, struct err *err)
{
	const struct tree_leaf leaf = {.is_file = true, .is_changing = true};
	struct hub_folder *folder = dir->view;
	_cleanup_free_ char *revision = NULL;
	struct hub_commit *commit;
	struct tree_dir *child;
	struct slot *slot;
	int r;

	if (asprintf(&revision, "%s%s", prefix, op->name) < 0) {
		revision = NULL;
		return -ENOMEM;
	}
	r = open_revision(op, folder,
			  strcmp(revision, "main") ? revision : NULL, &slot,
			  &commit, &ret->entry_timeout, err);
	if (r)
		return r;
	child = ref_child(op, dir, op->name, &leaf);
	if (!child)
		return -ENFILE;
	atomic_store_explicit(&child->text, commit->text, memory_order_release);
	entry_of_dir(op->fs, child, ret);
	return 0;
}

static int lookup_ref(struct op *op, struct tree_dir *dir,
		      struct fuse_entry_param *ret, struct err *err)
{
	const struct tree_leaf leaf = {.ops = &refs_ops, .view = dir->view};
	const char *prefix = prefix_of(op, dir);
	struct tree_dir *child;

	if (!is_nested(prefix, op->name))
		/* refs/refs/X is no revision */
		return strcmp(prefix, "refs/") == 0 ?
			       -ENOENT :
			       ref_file(op, dir, prefix, ret, err);
	child = ref_child(op, dir, op->name, &leaf);
	if (!child)
		return -ENFILE;
	entry_of_dir(op->fs, child, ret);
	return 0;
}

/* ---- folders */

/* "models--ORG--NAME"; id has ID_MAX bytes. */
static bool parse_folder(const char *name, enum view_kind *ret_kind, char *id)
{
	const char *rest = strstr(name, SEPARATOR), *owner_end;

	if (!rest || strlen(rest) >= ID_MAX)
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
			snprintf(id, ID_MAX, "%.*s/%s", (int)(owner_end - rest),
				 rest, owner_end + strlen(SEPARATOR));
		else
			snprintf(id, ID_MAX, "%s", rest);
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
	struct tree_dir *blobs;
	scoped_lock(&tree->adding);

	folder->dir = tree_make(tree, hub, name, &plain);
	if (!folder->dir)
		return -ENFILE;
	blobs = make_below(tree, folder, "blobs", &blobs_ops);
	folder->refs = make_below(tree, folder, "refs", &refs_ops);
	folder->snapshots =
		make_below(tree, folder, "snapshots", &snapshots_ops);
	folder->absent = tree_make(tree, folder->dir, ".no_exist", &plain);
	if (!blobs || !folder->refs || !folder->snapshots || !folder->absent)
		return -ENFILE;
	folder->nothing = tree_make(tree, folder->absent, "", &empty);
	if (!folder->nothing || tree_show(tree, blobs) < 0 ||
	    tree_show(tree, folder->refs) < 0 ||
	    tree_show(tree, folder->snapshots) < 0 ||
	    tree_show(tree, folder->absent) < 0)
		return -ENFILE;
	return 0;
}

/* The folder of that name; made, but shown by its maker later. */
static struct hub_folder *get_folder(struct op *op, struct tree_dir *hub,
				     enum view_kind kind, const char *id)
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
	struct tree_leaf main_leaf = {.is_file = true, .is_changing = true};
	struct wanted_repo wanted = {0};
	struct hub_folder *folder;
	struct hub_commit *commit;
	struct tree_dir *ref;
	char id[ID_MAX];
	struct slot *slot;
	int r;

	if (!parse_folder(op->name, &wanted.kind, id))
		return -ENOENT;
	wanted.id = id;
	r = view_open_repo(op, hub->view, &wanted, &slot, &ret->entry_timeout,
			   err);
	if (r)
		return r;
	folder = get_folder(op, hub, wanted.kind, id);
	if (!folder)
		return err_set(err, ENFILE,
			       "too many repositories are open: remount");
	r = commit_of(op, folder, slot, &commit, err);
	if (r)
		return r;
	/* a listing of refs shows at least this one */
	ref = ref_child(op, folder->refs, "main", &main_leaf);
	if (!ref)
		return -ENFILE;
	atomic_store_explicit(&ref->text, commit->text, memory_order_release);
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
