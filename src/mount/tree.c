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

/* As the catalogs of Hub repositories have it. */
#define HUB_ACCESS "user.hub.access"
#define HUB_RESTRICTED "restricted"

/* Only the pages in use take memory. */
static void *map_table(size_t size)
{
	void *table = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return table == MAP_FAILED ? NULL : table;
}

int tree_init(struct tree *tree, struct err *err)
{
	*tree = (struct tree){
		.slot_count = 1,
		.slots = map_table(SLOTS_MAX * sizeof(*tree->slots)),
		.dirs = map_table(TREE_DIRS_MAX * sizeof(*tree->dirs)),
	};
	pthread_mutex_init(&tree->lock, NULL);
	pthread_mutex_init(&tree->adding, NULL);
	if (tree->slots && tree->dirs)
		tree->dirs[0].name = strdup("");
	if (!tree->slots || !tree->dirs || !tree->dirs[0].name) {
		tree_release(tree);
		return err_set(err, ENOMEM, "out of memory");
	}
	tree->made_count = 1;
	atomic_store(&tree->dir_count, 1);
	return 0;
}

static void children_free(struct tree_children *children)
{
	while (children) {
		struct tree_children *older = children->older;

		free(children);
		children = older;
	}
}

static void dir_release(struct tree_dir *dir)
{
	free(dir->name);
	free(dir->fault);
	children_free(atomic_load(&dir->children));
}

void tree_release(struct tree *tree)
{
	if (tree->slots) {
		for (uint32_t i = 1; i < tree->slot_count; i++) {
			struct slot *slot = atomic_load(&tree->slots[i]);

			snapshot_unref(slot->snapshot);
			free(slot);
		}
		munmap(tree->slots, SLOTS_MAX * sizeof(*tree->slots));
	}
	if (tree->dirs) {
		for (uint32_t i = 0; i < tree->made_count; i++)
			dir_release(&tree->dirs[i]);
		munmap(tree->dirs, TREE_DIRS_MAX * sizeof(*tree->dirs));
	}
	pthread_mutex_destroy(&tree->lock);
	pthread_mutex_destroy(&tree->adding);
	*tree = (struct tree){0};
}

struct tree_dir *tree_get(struct tree *tree, uint64_t index)
{
	return index < atomic_load_explicit(&tree->dir_count,
					    memory_order_acquire) ?
		       &tree->dirs[index] :
		       NULL;
}

const struct tree_children *tree_children(const struct tree_dir *dir)
{
	static const struct tree_children none;
	const struct tree_children *children =
		atomic_load_explicit(&dir->children, memory_order_acquire);

	return children ? children : &none;
}

/* Where the name is among the children, or would be. */
static uint32_t child_position(const struct tree *tree,
			       const struct tree_children *children,
			       const char *name, size_t len, bool *ret_found)
{
	uint32_t low = 0, high = children->count;

	*ret_found = false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const char *other = tree->dirs[children->at[middle]].name;
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

static struct tree_dir *find_child(struct tree *tree,
				   const struct tree_dir *dir, const char *name,
				   size_t len)
{
	const struct tree_children *children = tree_children(dir);
	bool found;
	uint32_t position = child_position(tree, children, name, len, &found);

	return found ? &tree->dirs[children->at[position]] : NULL;
}

struct tree_dir *tree_find(struct tree *tree, const struct tree_dir *dir,
			   const char *name)
{
	return find_child(tree, dir, name, strlen(name));
}

struct tree_dir *tree_find_path(struct tree *tree, const char *path)
{
	struct tree_dir *dir = &tree->dirs[0];

	while (dir && *path) {
		size_t len = strcspn(path, "/");

		dir = find_child(tree, dir, path, len);
		path += len;
		path += *path == '/';
	}
	return dir;
}

static struct tree_dir *dir_new(struct tree *tree, uint32_t parent,
				const char *name, size_t len)
{
	uint32_t index = tree->made_count;
	struct tree_dir *dir = &tree->dirs[index];

	if (index == TREE_DIRS_MAX)
		return NULL;
	*dir = (struct tree_dir){
		.name = strndup(name, len),
		.index = index,
		.parent = parent,
	};
	if (!dir->name)
		return NULL;
	tree->made_count++;
	return dir;
}

/* From here on others find it. */
static int child_show(struct tree *tree, struct tree_dir *parent,
		      const struct tree_dir *child)
{
	struct tree_children *old = atomic_load(&parent->children);
	uint32_t count = old ? old->count : 0, position;
	struct tree_children *children = malloc(
		sizeof(*children) + (count + 1) * sizeof(children->at[0]));
	bool found;

	if (!children)
		return -ENOMEM;
	position = child_position(tree, tree_children(parent), child->name,
				  strlen(child->name), &found);
	children->older = old;
	children->count = count + 1;
	for (uint32_t i = 0; i < count; i++)
		children->at[i + (i >= position)] = old->at[i];
	children->at[position] = child->index;
	atomic_store_explicit(&parent->children, children,
			      memory_order_release);
	return 0;
}

static int set_leaf(struct tree_dir *dir, const struct tree_leaf *leaf)
{
	dir->options = leaf->options;
	dir->dataset = leaf->dataset;
	dir->ops = leaf->ops;
	dir->view = leaf->view;
	dir->is_changing = leaf->is_changing;
	dir->is_file = leaf->is_file;
	if (leaf->fault)
		dir->fault = strdup(leaf->fault);
	return leaf->fault && !dir->fault ? -ENOMEM : 0;
}

struct tree_dir *tree_make(struct tree *tree, const struct tree_dir *parent,
			   const char *name, const struct tree_leaf *leaf)
{
	struct tree_dir *dir = dir_new(tree, parent->index, name, strlen(name));

	return dir && set_leaf(dir, leaf) == 0 ? dir : NULL;
}

int tree_show(struct tree *tree, const struct tree_dir *dir)
{
	atomic_store_explicit(&tree->dir_count, tree->made_count,
			      memory_order_release);
	return child_show(tree, &tree->dirs[dir->parent], dir);
}

/* The directories of `path`, which are not there yet. */
static int make_below(struct tree *tree, const struct tree_dir *dir,
		      const char *path, const struct tree_leaf *leaf,
		      struct tree_dir **ret)
{
	size_t len = strcspn(path, "/");
	struct tree_dir *child = dir_new(tree, dir->index, path, len), *below;
	int r;

	if (!child)
		return -ENOMEM;
	*ret = child;
	if (!path[len])
		return set_leaf(child, leaf);
	r = make_below(tree, child, path + len + 1, leaf, &below);
	return r == 0 ? child_show(tree, child, below) : r;
}

/* No name is seen before all it leads to. */
static int add_below(struct tree *tree, struct tree_dir *dir, const char *path,
		     const struct tree_leaf *leaf)
{
	struct tree_dir *child;
	int r = make_below(tree, dir, path, leaf, &child);

	atomic_store_explicit(&tree->dir_count, tree->made_count,
			      memory_order_release);
	return r == 0 ? child_show(tree, dir, child) : r;
}

static int refuse_inside(const char *path, const char *rest, struct err *err)
{
	return err_set(err, EEXIST, "dataset '%s' lies inside dataset '%.*s'",
		       path, (int)(rest - path - 1), path);
}

static int refuse_above(const struct tree *tree, const char *path,
			const struct tree_dir *dir, struct err *err)
{
	return err_set(err, EEXIST,
		       "dataset '%s/%s...' lies inside dataset '%s'", path,
		       tree->dirs[tree_children(dir)->at[0]].name, path);
}

static bool is_leaf(const struct tree_dir *dir)
{
	return tree_is_dataset(dir) || dir->ops;
}

int tree_add(struct tree *tree, const char *path, const struct tree_leaf *leaf,
	     struct err *err)
{
	struct tree_dir *dir = &tree->dirs[0], *child;
	const char *rest = path;
	scoped_lock(&tree->adding);

	while (*rest && !is_leaf(dir) &&
	       (child = find_child(tree, dir, rest, strcspn(rest, "/")))) {
		dir = child;
		rest += strcspn(rest, "/");
		rest += *rest == '/';
	}
	if (is_leaf(dir) && *rest)
		return refuse_inside(path, rest, err);
	if (is_leaf(dir))
		return err_set(err, EEXIST, "dataset '%s' is configured twice",
			       path);
	if (!*rest && tree_children(dir)->count)
		return refuse_above(tree, path, dir, err);
	if ((*rest ? add_below(tree, dir, rest, leaf) : set_leaf(dir, leaf)) <
	    0)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

struct slot *tree_slot(const struct tree *tree, uint32_t index)
{
	return index < SLOTS_MAX ? atomic_load_explicit(&tree->slots[index],
							memory_order_acquire) :
				   NULL;
}

static bool is_slot_of(const struct slot *slot, const struct slot *wanted)
{
	return slot->dir == wanted->dir &&
	       slot->has_links == wanted->has_links &&
	       digest_equal(snapshot_digest(slot->snapshot),
			    snapshot_digest(wanted->snapshot));
}

/* Takes the reference to the snapshot. NULL: none is left. */
static struct slot *slot_make(struct tree *tree, const struct slot *wanted)
{
	struct slot *slot;
	scoped_lock(&tree->lock);

	for (uint32_t i = 1; i < tree->slot_count; i++) {
		slot = atomic_load(&tree->slots[i]);
		if (is_slot_of(slot, wanted)) {
			snapshot_unref(wanted->snapshot);
			atomic_store(&wanted->dir->slot, slot->index);
			return slot;
		}
	}
	slot = tree->slot_count < SLOTS_MAX ? malloc(sizeof(*slot)) : NULL;
	if (!slot) {
		snapshot_unref(wanted->snapshot);
		log_limited(
			60000,
			log_error(
				"no slot left: remount to see new content dir=%s",
				wanted->dir->name));
		return NULL;
	}
	*slot = *wanted;
	slot->index = tree->slot_count++;
	atomic_store_explicit(&tree->slots[slot->index], slot,
			      memory_order_release);
	atomic_store(&slot->dir->slot, slot->index);
	return slot;
}

struct slot *tree_links(struct tree *tree, struct tree_dir *dir,
			const struct slot *plain)
{
	const struct slot wanted = {
		.dir = dir,
		.snapshot = snapshot_ref(plain->snapshot),
		.root = plain->root,
		.mask = plain->mask,
		.has_links = true,
	};

	return slot_make(tree, &wanted);
}

/* Whom the Hub lets in is on the root of what it has listed. */
static int root_of(struct tree *tree, struct snapshot *snapshot,
		   struct waiter *waiter, struct slot *ret, struct err *err)
{
	void *access;
	size_t len;
	int r = snapshot_getattr(snapshot, 0, waiter, &ret->root, err);

	ret->mask = 0777;
	if (r)
		return r;
	r = snapshot_xattr_get(snapshot, 0, HUB_ACCESS, waiter, &access, &len,
			       NULL);
	if (r == -ENODATA)
		return 0;
	if (r)
		return r;
	if (len == strlen(HUB_RESTRICTED) &&
	    memcmp(access, HUB_RESTRICTED, len) == 0)
		ret->mask = tree->restricted_mask;
	free(access);
	return 0;
}

int tree_current(struct tree *tree, struct tree_dir *dir, struct waiter *waiter,
		 struct slot **ret, struct err *err)
{
	struct slot *slot = tree_slot(tree, atomic_load(&dir->slot));
	struct slot wanted = {.dir = dir};

	if (dir->fault)
		return err_set(err, EIO, "%s", dir->fault);
	int r = dataset_current(dir->dataset, waiter, &wanted.snapshot, err);

	/* nothing below may look as if a name were not there */
	if (r)
		return r == -ENOENT ? -EIO : r;
	if (slot && slot->snapshot == wanted.snapshot) {
		snapshot_unref(wanted.snapshot);
		*ret = slot;
		return 0;
	}
	r = root_of(tree, wanted.snapshot, waiter, &wanted, err);
	if (r) {
		snapshot_unref(wanted.snapshot);
		return r == -ENOENT ? -EIO : r;
	}
	*ret = slot_make(tree, &wanted) ?: slot;
	return *ret ? 0 : err_set(err, ENFILE, "no slot left: remount");
}
