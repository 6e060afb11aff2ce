/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit in a folder of hub/: its directory below snapshots/, what its blobs
 * are called, and what .no_exist/ says. Files of all commits are found in
 * blobs/ by digest; each is the very file of the repository's own directory, so
 * what is known of it to the kernel and to the cache is known once.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "format/catalog.h"
#include "mount/view-hub.h"

#define COMMIT_XATTR "user.hub.commit"

void hub_commit_free(struct hub_commit *commit)
{
	free(commit->names);
	free(atomic_load(&commit->tree));
	free(commit);
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

struct hub_commit *hub_commit_find(struct hub_folder *folder, const char *text)
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

	*ret = hub_commit_find(folder, (*made)->text);
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
int hub_commit_of(struct op *op, struct hub_folder *folder, struct slot *plain,
		  struct hub_commit **ret, struct err *err)
{
	char text[COMMIT_LEN + 1];
	struct hub_commit *made;
	int r = read_commit(op, plain->snapshot, text, err);

	*ret = r ? NULL : hub_commit_find(folder, text);
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
		hub_commit_free(made);
	return r;
}

/* ---- .no_exist/COMMIT */

static int lookup_absent(struct op *op, struct tree_dir *dir,
			 struct fuse_entry_param *ret, struct err *err)
{
	struct hub_folder *folder = dir->view;
	struct hub_commit *commit = hub_commit_find(folder, dir->name);
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

const struct view_ops hub_blobs_ops = {
	.lookup = lookup_blob,
	.nth = nth_blob,
};
