/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories above the datasets, and the slots. A slot keeps its snapshot for
 * the life of the mount: the kernel may hold inode numbers of it as long as it
 * likes, and a snapshot at rest costs a few kilobytes. When all numbers are
 * used the mount stays on its last snapshot: after 65,535 changes of content a
 * remount is due.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#define LOG_MODULE "mount"
#include "base/log.h"
#include "mount/tree.h"

int tree_init(struct tree *tree, struct err *err)
{
	*tree = (struct tree){.slot_count = 1};
	/* only the pages in use take memory */
	void *slots = mmap(NULL, SLOTS_MAX * sizeof(*tree->slots),
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (slots == MAP_FAILED)
		return err_set(err, ENOMEM, "out of memory");
	tree->slots = slots;
	pthread_mutex_init(&tree->lock, NULL);
	struct tree_dir *root = vec_push(&tree->dirs);
	if (root)
		root->name = strdup("");
	if (!root || !root->name) {
		tree_release(tree);
		return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

void tree_release(struct tree *tree)
{
	if (!tree->slots)
		return;
	for (uint32_t i = 1; i < tree->slot_count; i++) {
		struct slot *slot = atomic_load(&tree->slots[i]);

		snapshot_unref(slot->snapshot);
		free(slot);
	}
	for (size_t i = 0; i < tree->dirs.count; i++) {
		free(tree->dirs.items[i].name);
		free(tree->dirs.items[i].children);
		free(tree->dirs.items[i].fault);
	}
	vec_release(&tree->dirs);
	munmap(tree->slots, SLOTS_MAX * sizeof(*tree->slots));
	pthread_mutex_destroy(&tree->lock);
	*tree = (struct tree){0};
}

struct tree_dir *tree_get(struct tree *tree, uint64_t index)
{
	return index < tree->dirs.count ? &tree->dirs.items[index] : NULL;
}

/* Where the name is among the children, or would be. */
static uint32_t child_position(struct tree *tree, const struct tree_dir *dir,
			       const char *name, size_t len, bool *ret_found)
{
	uint32_t low = 0, high = dir->child_count;

	*ret_found = false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const char *other =
			tree->dirs.items[dir->children[middle]].name;
		int order = strncmp(name, other, len);

		if (order == 0 && other[len])
			order = -1;
		if (order == 0)
			*ret_found = true;
		if (order <= 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct tree_dir *tree_find(struct tree *tree, const struct tree_dir *dir,
			   const char *name)
{
	bool found;
	uint32_t position =
		child_position(tree, dir, name, strlen(name), &found);

	return found ? &tree->dirs.items[dir->children[position]] : NULL;
}

static int child_add(struct tree *tree, uint32_t parent, uint32_t position,
		     const char *name, size_t len)
{
	uint32_t index = (uint32_t)tree->dirs.count;
	_cleanup_free_ char *copy = strndup(name, len);
	struct tree_dir *child = copy ? vec_push(&tree->dirs) : NULL;

	if (!child)
		return -ENOMEM;
	/* vec_push may have moved them all */
	struct tree_dir *dir = &tree->dirs.items[parent];
	uint32_t *children = reallocarray(dir->children, dir->child_count + 1,
					  sizeof(*children));
	if (!children) {
		tree->dirs.count--;
		return -ENOMEM;
	}
	memmove(children + position + 1, children + position,
		(dir->child_count - position) * sizeof(*children));
	children[position] = index;
	dir->children = children;
	dir->child_count++;
	child->name = steal_ptr(copy);
	child->index = index;
	child->parent = parent;
	return 0;
}

/* The directory of a dataset that is not there yet. */
static int tree_make(struct tree *tree, const char *path, struct tree_dir **ret,
		     struct err *err)
{
	uint32_t at = 0;

	for (const char *part = path; *part;) {
		size_t len = strcspn(part, "/");
		bool found;

		if (tree_is_dataset(&tree->dirs.items[at]))
			return err_set(
				err, EEXIST,
				"dataset '%s' lies inside dataset '%.*s'", path,
				(int)(part - path - 1), path);
		uint32_t position = child_position(tree, &tree->dirs.items[at],
						   part, len, &found);
		if (!found && child_add(tree, at, position, part, len) < 0)
			return err_set(err, ENOMEM, "out of memory");
		at = tree->dirs.items[at].children[position];
		part += len;
		part += *part == '/';
	}
	struct tree_dir *dir = &tree->dirs.items[at];
	if (tree_is_dataset(dir))
		return err_set(err, EEXIST, "dataset '%s' is configured twice",
			       path);
	if (dir->child_count)
		return err_set(err, EEXIST,
			       "dataset '%s/%s...' lies inside dataset '%s'",
			       path, tree->dirs.items[dir->children[0]].name,
			       path);
	*ret = dir;
	return 0;
}

int tree_add(struct tree *tree, const char *path, struct dataset *dataset,
	     struct err *err)
{
	struct tree_dir *dir;
	int r = tree_make(tree, path, &dir, err);

	if (r == 0)
		dir->dataset = dataset;
	return r;
}

int tree_add_fault(struct tree *tree, const char *path, const char *fault,
		   struct err *err)
{
	struct tree_dir *dir;
	int r = tree_make(tree, path, &dir, err);

	if (r < 0)
		return r;
	dir->fault = strdup(fault);
	return dir->fault ? 0 : err_set(err, ENOMEM, "out of memory");
}

struct slot *tree_slot(const struct tree *tree, uint32_t index)
{
	return index < SLOTS_MAX ? atomic_load_explicit(&tree->slots[index],
							memory_order_acquire) :
				   NULL;
}

/* Takes the reference to the snapshot. */
static struct slot *slot_make(struct tree *tree, struct tree_dir *dir,
			      struct snapshot *snapshot,
			      const struct entry_attr *root)
{
	scoped_lock(&tree->lock);
	for (uint32_t i = 1; i < tree->slot_count; i++) {
		struct slot *slot = atomic_load(&tree->slots[i]);

		if (slot->dir == dir &&
		    digest_equal(snapshot_digest(slot->snapshot),
				 snapshot_digest(snapshot))) {
			snapshot_unref(snapshot);
			atomic_store(&dir->slot, slot->index);
			return slot;
		}
	}
	struct slot *slot =
		tree->slot_count < SLOTS_MAX ? malloc(sizeof(*slot)) : NULL;
	if (!slot) {
		snapshot_unref(snapshot);
		log_limited(
			60000,
			log_error(
				"no slot left: remount to see new content dataset=%s",
				dataset_name(dir->dataset)));
		return tree_slot(tree, atomic_load(&dir->slot));
	}
	*slot = (struct slot){.index = tree->slot_count++,
			      .dir = dir,
			      .snapshot = snapshot,
			      .root = *root};
	atomic_store_explicit(&tree->slots[slot->index], slot,
			      memory_order_release);
	atomic_store(&dir->slot, slot->index);
	return slot;
}

int tree_current(struct tree *tree, struct tree_dir *dir, struct waiter *waiter,
		 struct slot **ret, struct err *err)
{
	struct slot *slot = tree_slot(tree, atomic_load(&dir->slot));
	struct snapshot *snapshot;
	struct entry_attr root;

	if (dir->fault)
		return err_set(err, EIO, "%s", dir->fault);
	int r = dataset_current(dir->dataset, waiter, &snapshot, err);

	/* nothing below may look as if a name were not there */
	if (r)
		return r == -ENOENT ? -EIO : r;
	if (slot && slot->snapshot == snapshot) {
		snapshot_unref(snapshot);
		*ret = slot;
		return 0;
	}
	r = snapshot_getattr(snapshot, 0, waiter, &root, err);
	if (r) {
		snapshot_unref(snapshot);
		return r == -ENOENT ? -EIO : r;
	}
	*ret = slot_make(tree, dir, snapshot, &root);
	return *ret ? 0 : err_set(err, ENOMEM, "out of memory");
}
