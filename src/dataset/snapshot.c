/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot's tree. An entry number leads through the child catalogs that
 * own it, from the root down; which of them are in memory is the table's
 * business, so every step may park. No catalog is pinned: a mount of fifty
 * datasets costs what is in use.
 *
 * A directory that was cut has its names in children whose entry 0 stands
 * for it. Those entry 0s have numbers too, which are never handed out; asked
 * for one, we answer with the directory.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataset/hub.h"
#include "dataset/snapshot.h"

/* Children in children; a million entries have one level. */
#define PART_DEPTH_MAX 64u

struct snapshot *snapshot_new(struct dataset *dataset, const struct head *head)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

	if (!snapshot)
		return NULL;
	atomic_init(&snapshot->refs, 1);
	snapshot->dataset = dataset;
	snapshot->digest = head->catalog;
	snapshot->catalog_bytes = head->catalog_bytes;
	snapshot->entry_count = head->entry_count;
	snapshot->total_bytes = head->total_bytes;
	return snapshot;
}

struct snapshot *snapshot_ref(struct snapshot *snapshot)
{
	atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
	return snapshot;
}

void snapshot_unref(struct snapshot *snapshot)
{
	if (snapshot && atomic_fetch_sub(&snapshot->refs, 1) == 1)
		free(snapshot);
}

const struct digest *snapshot_digest(const struct snapshot *snapshot)
{
	return &snapshot->digest;
}

uint64_t snapshot_entry_count(const struct snapshot *snapshot)
{
	return snapshot->entry_count;
}

uint64_t snapshot_total_bytes(const struct snapshot *snapshot)
{
	return snapshot->total_bytes;
}

/* ---- parts */

void part_release(struct part *part)
{
	object_unref((struct object *)part->object);
	part->object = NULL;
}

static int root_part(struct snapshot *snapshot, struct waiter *waiter,
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

/* part becomes its child `index`. On failure it stays as it was. */
static int enter_child(struct snapshot *snapshot, struct part *part,
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
	int r = root_part(snapshot, waiter, &part, err);

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
		r = enter_child(snapshot, &part, index, waiter, err);
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

static bool is_text(const void *text, size_t len, const char *wanted)
{
	return len == strlen(wanted) && memcmp(text, wanted, len) == 0;
}

static void note_listing(struct snapshot *snapshot, const struct part *root)
{
	struct catalog_entry entry;
	uint32_t position = 0, value_len;
	const uint8_t *value;
	const char *name;
	uint16_t name_len;

	catalog_get(root->catalog, 0, &entry);
	while (catalog_xattr_next(&entry, &position, &name, &name_len, &value,
				  &value_len) == 1) {
		if (is_text(name, name_len, HUB_COMMIT_XATTR) &&
		    value_len < sizeof(snapshot->commit))
			memcpy(snapshot->commit, value, value_len);
		if (is_text(name, name_len, HUB_ACCESS_XATTR))
			snapshot->is_restricted =
				is_text(value, value_len, HUB_RESTRICTED);
	}
}

int snapshot_load(struct snapshot *snapshot, struct waiter *waiter,
		  struct err *err)
{
	struct node *node = snapshot->dataset->node;
	struct part part;
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = root_part(snapshot, waiter, &part, err);
	if (r == 0) {
		if (snapshot->dataset->hub)
			note_listing(snapshot, &part);
		part_release(&part);
	}
	return waiter_end(node, waiter, r, err);
}

/* ---- entries */

static void fill_attr(const struct part *part,
		      const struct catalog_entry *entry, struct entry_attr *ret)
{
	*ret = (struct entry_attr){
		.number = part->base + part->local,
		.type = entry->type,
		.mode = entry->mode,
		.size = entry->size,
		.mtime_s = entry->mtime_s,
		.mtime_ns = entry->mtime_ns,
		.has_owner = entry->has_owner,
		.uid = entry->uid,
		.gid = entry->gid,
		.entries_below = entry->entries_below,
		.bytes_below = entry->bytes_below,
	};
}

static void part_attr(const struct part *part, struct entry_attr *ret)
{
	struct catalog_entry entry;

	catalog_get(part->catalog, part->local, &entry);
	fill_attr(part, &entry, ret);
}

/* Ends a call: says what it was about, parks or releases. */
static int finish(struct snapshot *snapshot, struct waiter *waiter, int r,
		  const char *what, struct err *err)
{
	r = waiter_end(snapshot->dataset->node, waiter, r, err);
	if (r < 0 && r != -ENOENT && r != -ENODATA)
		err_prefix(err, r, "cannot %s '%s'", what,
			   snapshot->dataset->name);
	return r;
}

int snapshot_getattr(struct snapshot *snapshot, uint64_t number,
		     struct waiter *waiter, struct entry_attr *ret,
		     struct err *err)
{
	struct part part;
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = part_find(snapshot, number, waiter, &part, err);
	if (r == 0) {
		part_attr(&part, ret);
		part_release(&part);
	}
	return finish(snapshot, waiter, r, "look into", err);
}

/* part: a directory; becomes the entry of that name. */
static int find_name(struct snapshot *snapshot, struct part *part,
		     const char *name, size_t name_len, struct waiter *waiter,
		     struct err *err)
{
	for (unsigned depth = 0; depth < PART_DEPTH_MAX; depth++) {
		struct catalog_entry dir;
		uint32_t index;
		int r;

		catalog_get(part->catalog, part->local, &dir);
		if (dir.type != ENTRY_DIRECTORY)
			return err_set(err, ENOTDIR, "not a directory");
		if (dir.child_count == 0) {
			r = catalog_find(part->catalog, dir.first, dir.count,
					 name, name_len, &index);
			if (r < 0)
				return err_set(err, ENOENT,
					       "no entry of that name");
			part->local = index;
			return 0;
		}
		index = catalog_child_for_name(part->catalog, &dir, name,
					       name_len);
		r = enter_child(snapshot, part, index, waiter, err);
		if (r != 0)
			return r;
	}
	return err_set(err, EIO, "catalogs are nested too deep");
}

int snapshot_lookup(struct snapshot *snapshot, uint64_t dir, const char *name,
		    size_t name_len, struct waiter *waiter,
		    struct entry_attr *ret, struct err *err)
{
	struct part part = {0};
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = part_find(snapshot, dir, waiter, &part, err);
	if (r == 0)
		r = find_name(snapshot, &part, name, name_len, waiter, err);
	if (r == 0)
		part_attr(&part, ret);
	part_release(&part);
	return finish(snapshot, waiter, r, "look into", err);
}

int snapshot_resolve(struct snapshot *snapshot, const char *path,
		     struct waiter *waiter, struct entry_attr *ret,
		     struct err *err)
{
	struct part part = {0};
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = root_part(snapshot, waiter, &part, err);
	while (r == 0) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0)
			break;
		if (!(len == 1 && path[0] == '.'))
			r = find_name(snapshot, &part, path, len, waiter, err);
		path += len;
	}
	if (r == 0)
		part_attr(&part, ret);
	part_release(&part);
	return finish(snapshot, waiter, r, "look into", err);
}

/* The directory an entry of that part is in. */
static uint64_t parent_of(const struct part *part,
			  const struct catalog_entry *entry)
{
	if (entry->parent == 0 && catalog_is_part(part->catalog))
		return part->owner;
	return part->base + entry->parent;
}

int snapshot_parent(struct snapshot *snapshot, uint64_t dir,
		    struct waiter *waiter, uint64_t *ret, struct err *err)
{
	struct catalog_entry entry;
	struct part part;
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = part_find(snapshot, dir, waiter, &part, err);
	if (r == 0) {
		catalog_get(part.catalog, part.local, &entry);
		*ret = parent_of(&part, &entry);
		part_release(&part);
	}
	return finish(snapshot, waiter, r, "look into", err);
}

void entry_path(struct snapshot *snapshot, uint64_t number, char *text,
		size_t size)
{
	struct waiter unused = {0};
	size_t at = size - 1;

	/* From the end backwards; a waiter that is never parked only starts
	 * fetching a catalog that somebody will want. */
	text[at] = '\0';
	while (number != 0) {
		struct catalog_entry entry;
		struct part part;

		if (part_find(snapshot, number, &unused, &part, NULL) != 0)
			break;
		catalog_get(part.catalog, part.local, &entry);
		number = parent_of(&part, &entry);
		if (entry.name_len + 1u > at) {
			part_release(&part);
			break;
		}
		at -= entry.name_len;
		memcpy(text + at, entry.name, entry.name_len);
		text[--at] = '/';
		part_release(&part);
	}
	waiter_release(&unused);
	size -= at;
	if (strlen(snapshot->dataset->name) < at) {
		size_t len = strlen(snapshot->dataset->name);

		memcpy(text, snapshot->dataset->name, len);
		memmove(text + len, text + at, size);
	} else {
		memmove(text, text + at, size);
	}
}

/* ---- names of a directory */

struct listing {
	struct snapshot *snapshot;
	uint64_t position; /* of the next name */
	bool (*each)(void *arg, const char *name, size_t name_len,
		     const struct entry_attr *attr, uint64_t index);
	void *arg;
	bool is_stopped, has_called;
};

/* Names [skip, count) of a directory that is not cut. */
static void list_names(struct listing *listing, struct part *part,
		       const struct catalog_entry *dir, uint64_t skip)
{
	for (uint64_t i = skip; i < dir->count && !listing->is_stopped; i++) {
		struct catalog_entry entry;
		struct entry_attr attr;

		part->local = dir->first + (uint32_t)i;
		catalog_get(part->catalog, part->local, &entry);
		fill_attr(part, &entry, &attr);
		listing->has_called = true;
		listing->is_stopped =
			!listing->each(listing->arg, entry.name, entry.name_len,
				       &attr, listing->position);
		if (!listing->is_stopped)
			listing->position++;
	}
}

/* One stretch of names: those of a directory that is not cut, or of one
 * child. *ret_end: there are none after it. Enters children on the way. */
static int list_stretch(struct listing *listing, struct part part,
			struct waiter *waiter, bool *ret_end, struct err *err)
{
	uint64_t start = 0; /* position of the part's first name */
	struct catalog_entry dir;
	bool is_last = true;
	int r = 0;

	object_ref(&part.object->object);
	for (;;) {
		struct catalog_child child;
		uint32_t index;

		catalog_get(part.catalog, part.local, &dir);
		if (dir.child_count == 0)
			break;
		index = catalog_child_for_index(part.catalog, &dir,
						listing->position - start);
		catalog_get_child(part.catalog, index, &child);
		is_last &= index + 1 == dir.first_child + dir.child_count;
		start += child.name_start;
		r = enter_child(listing->snapshot, &part, index, waiter, err);
		if (r != 0)
			break;
	}
	if (r == 0) {
		uint64_t skip = listing->position - start;

		list_names(listing, &part, &dir, skip);
		*ret_end = is_last && !listing->is_stopped;
	}
	part_release(&part);
	return r;
}

static int list_all(struct listing *listing, const struct part *part,
		    struct waiter *waiter, bool *ret_end, struct err *err)
{
	bool is_end = false;

	while (!is_end && !listing->is_stopped) {
		int r = list_stretch(listing, *part, waiter, &is_end, err);

		if (r != 0 && listing->has_called)
			break;
		if (r != 0)
			return r;
	}
	*ret_end = is_end;
	return 0;
}

int snapshot_list(struct snapshot *snapshot, uint64_t dir, uint64_t index,
		  struct waiter *waiter,
		  bool (*each)(void *arg, const char *name, size_t name_len,
			       const struct entry_attr *attr, uint64_t index),
		  void *arg, bool *ret_end, struct err *err)
{
	struct listing listing = {
		.snapshot = snapshot,
		.position = index,
		.each = each,
		.arg = arg,
	};
	struct catalog_entry entry;
	struct part part = {0};
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = part_find(snapshot, dir, waiter, &part, err);
	if (r == 0) {
		catalog_get(part.catalog, part.local, &entry);
		if (entry.type != ENTRY_DIRECTORY)
			r = err_set(err, ENOTDIR, "not a directory");
		else
			r = list_all(&listing, &part, waiter, ret_end, err);
	}
	part_release(&part);
	return finish(snapshot, waiter, r, "list", err);
}

int snapshot_readlink(struct snapshot *snapshot, uint64_t number,
		      struct waiter *waiter, char **ret, struct err *err)
{
	struct catalog_entry entry;
	struct part part = {0};
	int r = waiter_begin(waiter, err);

	if (r == 0)
		r = part_find(snapshot, number, waiter, &part, err);
	if (r == 0) {
		catalog_get(part.catalog, part.local, &entry);
		if (entry.type != ENTRY_SYMLINK && entry.type != ENTRY_HOLE &&
		    entry.type != ENTRY_TOMBSTONE) {
			r = err_set(err, EINVAL, "not a symbolic link");
		} else {
			*ret = calloc(1, (size_t)entry.text_len + 1);
			r = *ret ? 0 : -ENOMEM;
			if (r == 0 && entry.text_len)
				memcpy(*ret, entry.text, entry.text_len);
		}
	}
	part_release(&part);
	return finish(snapshot, waiter, r, "read a link in", err);
}
