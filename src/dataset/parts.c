/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogs of a snapshot. An entry number leads through the child catalogs
 * that own it, from the root down; which of them are in memory is the table's
 * business, so every step may park. No catalog is pinned: a mount of fifty
 * datasets costs what is in use.
 *
 * A directory that was cut has its names in children whose entry 0 stands
 * for it. Those entry 0s have numbers too, which are never handed out; asked
 * for one, we answer with the directory.
 */
#include <config.h>

#include <errno.h>

#include "dataset/snapshot.h"

void part_release(struct part *part)
{
	object_unref((struct object *)part->object);
	part->object = NULL;
}

int part_root(struct snapshot *snapshot, struct waiter *waiter,
	      struct part *ret, struct err *err)
{
	struct catalog_object *object;
	int r = catalog_object_get(snapshot->dataset, &snapshot->digest,
				   snapshot->catalog_bytes, waiter, &object,
				   err);

	if (r != 0)
		return r;
	*ret = (struct part){.object = object, .catalog = object->catalog};
	return 0;
}

/* Whether the child is what its parent says: looked at once per pair. */
static int check_child(const struct part *parent, uint32_t index,
		       struct catalog_object *child, struct err *err)
{
	uint64_t mark = object_key_hash(&parent->object->object.key) + index;
	int r;

	if (atomic_load_explicit(&child->checked, memory_order_relaxed) == mark)
		return 0;
	r = catalog_check_child(parent->catalog, index, child->catalog, err);
	if (r < 0)
		return err_prefix(err, -EIO, "catalog");
	atomic_store_explicit(&child->checked, mark, memory_order_relaxed);
	return 0;
}

int part_enter_child(struct snapshot *snapshot, struct part *part,
		     uint32_t index, struct waiter *waiter, struct err *err)
{
	struct catalog_object *object;
	struct catalog_child child;
	int r;

	catalog_get_child(part->catalog, index, &child);
	r = catalog_object_get(snapshot->dataset, &child.digest,
			       child.object_bytes, waiter, &object, err);
	if (r != 0)
		return r;
	r = check_child(part, index, object, err);
	if (r < 0) {
		object_unref(&object->object);
		return r;
	}
	part->owner = child.owner == 0 && catalog_is_part(part->catalog) ?
			      part->owner :
			      part->base + child.owner;
	part->base += child.base;
	part->local = 0;
	object_unref(&part->object->object);
	part->object = object;
	part->catalog = object->catalog;
	return 0;
}

int part_find_visiting(struct snapshot *snapshot, uint64_t number,
		       struct waiter *waiter,
		       void (*visit)(void *arg, const struct digest *catalog),
		       void *arg, struct part *ret, struct err *err)
{
	struct part part;
	uint32_t index;
	int r = part_root(snapshot, waiter, &part, err);

	if (r != 0)
		return r;
	for (unsigned depth = 0; depth < PART_DEPTH_MAX; depth++) {
		uint64_t local = number - part.base;

		if (visit)
			visit(arg, &part.object->object.key.digest);
		if (local < catalog_entry_count(part.catalog)) {
			part.local = (uint32_t)local;
			if (local > 0 || part.base == 0) {
				*ret = part;
				return 0;
			}
			number = part.owner;
			part_release(&part);
			return part_find_visiting(snapshot, number, waiter,
						  visit, arg, ret, err);
		}
		r = catalog_child_for_number(part.catalog, local, &index);
		if (r < 0) {
			r = err_set(err, ESTALE, "no entry has that number");
			break;
		}
		r = part_enter_child(snapshot, &part, index, waiter, err);
		if (r != 0)
			break;
	}
	part_release(&part);
	return r == 0 ? err_set(err, EIO, "catalogs are nested too deep") : r;
}

int part_find(struct snapshot *snapshot, uint64_t number, struct waiter *waiter,
	      struct part *ret, struct err *err)
{
	return part_find_visiting(snapshot, number, waiter, NULL, NULL, ret,
				  err);
}
