/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot's tree: its entries, looked up by number, by name and by path, and
 * the names of its directories. Which catalog says so is found in parts.c.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataset/hub.h"
#include "dataset/snapshot.h"

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

/* ---- what the root catalog says of it */

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
		r = part_root(snapshot, waiter, &part, err);
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
		r = part_enter_child(snapshot, part, index, waiter, err);
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
		r = part_root(snapshot, waiter, &part, err);
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
		r = part_enter_child(listing->snapshot, &part, index, waiter, err);
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
