/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_TREE_H
#define LARDER_MOUNT_TREE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "dataset/dataset.h"

/*
 * The directories above the datasets, made from the sections' names, and the
 * slots: a table of every (dataset, snapshot) shown so far. Both only grow: one
 * thread adds while others look. Together they give inode numbers a meaning without
 * any memory per file:
 *
 *     slot (16 bits) | entry number + 1 (48 bits)     an entry of a snapshot
 *     0              | directory's index + 1          a directory of this tree
 *
 * The root is directory 0, inode number 1. A directory that is a dataset stands
 * for the root of the dataset's current snapshot. Views (views.h) add
 * directories and small files while they are looked up.
 */
#define INO_ENTRY_BITS 48
#define INO_ENTRY_MASK ((UINT64_C(1) << INO_ENTRY_BITS) - 1)
#define SLOTS_MAX 65536u /* the slot's 16 bits */
#define TREE_DIRS_MAX (1u << 18) /* 65536 sections, and what views add */

static inline uint64_t ino_make(uint32_t slot, uint64_t number)
{
	return (uint64_t)slot << INO_ENTRY_BITS | (number + 1);
}

static inline uint32_t ino_slot(uint64_t ino)
{
	return (uint32_t)(ino >> INO_ENTRY_BITS);
}

/* Wraps for an impossible 0, which no table has. */
static inline uint64_t ino_number(uint64_t ino)
{
	return (ino & INO_ENTRY_MASK) - 1;
}

/* Never changed; a new one takes its place. */
struct tree_children {
	struct tree_children *older; /* others may still look at it */
	uint32_t count;
	uint32_t at[]; /* indexes, in the order of their names */
};

struct view_ops;

/* All but children, slot and text is written before others see it. */
struct tree_dir {
	char *name;
	uint32_t index, parent;
	_Atomic(struct tree_children *) children; /* NULL: none */
	struct dataset *dataset; /* NULL: only a directory, or: */
	char *fault; /* why the dataset of this name can never work */
	const struct dataset_options *options; /* it was made with */
	_Atomic uint32_t slot; /* of the current snapshot; 0: not opened yet */
	const struct view_ops *ops; /* finds the names in it, or NULL */
	void *view;		    /* what ops know it by */
	bool is_changing; /* its name may lead elsewhere in a second */
	bool is_file;
	_Atomic(const char *) text; /* what is in the file */
};

static inline bool tree_is_dataset(const struct tree_dir *dir)
{
	return dir->dataset || dir->fault;
}

/* Written once, before it is published in the table. */
struct slot {
	uint32_t index;
	struct tree_dir *dir;
	struct snapshot *snapshot;
	struct entry_attr root;
	mode_t mask;   /* of all modes below: who may look */
	bool has_links; /* files are shown as links to blobs (links.c) */
};

struct tree {
	struct tree_dir *dirs; /* TREE_DIRS_MAX */
	_Atomic uint32_t dir_count;
	uint32_t made_count; /* of them and those not shown yet; adding's */
	pthread_mutex_t adding; /* held by who adds directories */
	mode_t restricted_mask; /* of what is not for everyone */
	_Atomic(struct slot *) *slots; /* SLOTS_MAX; entry 0 is not used */
	uint32_t slot_count;	       /* guarded by lock */
	pthread_mutex_t lock;
};

/* A tree with only a root. */
int tree_init(struct tree *tree, struct err *err);
void tree_release(struct tree *tree);
/* What to put at a path: a dataset, or in its place what every use of it fails
 * with (copied). options live as long as the tree. */
struct tree_leaf {
	struct dataset *dataset;
	const char *fault;
	const struct dataset_options *options;
	/* or instead of these */
	const struct view_ops *ops;
	void *view;
	bool is_changing, is_file;
};
/* "" puts the dataset at the root. -EEXIST when a name is there already or one
 * dataset would lie inside another. */
int tree_add(struct tree *tree, const char *path, const struct tree_leaf *leaf,
	     struct err *err);
/* For views, with `adding` held: a new directory, which is found once it is
 * shown, or its parent is. NULL: too many, or out of memory. */
struct tree_dir *tree_make(struct tree *tree, const struct tree_dir *parent,
			   const char *name, const struct tree_leaf *leaf);
int tree_show(struct tree *tree, const struct tree_dir *dir);
/* The directory of exactly this path, or NULL. */
struct tree_dir *tree_find_path(struct tree *tree, const char *path);
/* NULL if no such name or number. */
struct tree_dir *tree_find(struct tree *tree, const struct tree_dir *dir,
			   const char *name);
static inline const char *tree_text(const struct tree_dir *dir)
{
	const char *text =
		atomic_load_explicit(&dir->text, memory_order_acquire);

	return text ? text : "";
}
struct tree_dir *tree_get(struct tree *tree, uint64_t index);
const struct tree_children *tree_children(const struct tree_dir *dir);

/* Without a lock; NULL for a number that was never given. */
struct slot *tree_slot(const struct tree *tree, uint32_t index);
/* The slot of the dataset's current snapshot, made at its first use. Parks. */
int tree_current(struct tree *tree, struct tree_dir *dir, struct waiter *waiter,
		 struct slot **ret, struct err *err);
/* One more slot of the same snapshot, its files as links, for this directory;
 * NULL: no slot left. */
struct slot *tree_links(struct tree *tree, struct tree_dir *dir,
			const struct slot *plain);

#endif
