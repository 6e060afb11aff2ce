/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files whose bytes are a file of the cache, and nothing more: the kernel may
 * read them there. What a blob is made of is not asked: the index knows how
 * many chunks it has, so opening a complete file needs no recipe.
 */
#include <config.h>

#include <errno.h>
#include <unistd.h>

#include "cache/cache.h"
#include "dataset/snapshot.h"

int node_probe_fd(struct node *node)
{
	return node->cache ? cache_probe_fd(node->cache) : -ENOENT;
}

/* The blob that the entry is the whole of. */
static bool whole_blob(const struct part *part, struct catalog_blob *ret)
{
	struct catalog_entry entry;

	catalog_get(part->catalog, part->local, &entry);
	if (entry.type != ENTRY_FILE || entry.blob == CATALOG_NO_BLOB ||
	    entry.blob_offset != 0)
		return false;
	catalog_get_blob(part->catalog, entry.blob, ret);
	return ret->size == entry.size;
}

static int find_backing(struct cache *cache, const struct catalog_blob *info,
			struct cache_blob **ret, int *ret_fd)
{
	struct cache_blob *blob;

	if (cache_blob_find(cache, &info->id, info->size, &blob) != 1)
		return 0;
	if (cache_blob_sealed_fd(blob, ret_fd) != 1) {
		cache_blob_close(blob);
		return 0;
	}
	*ret = blob;
	return SNAPSHOT_BACKED;
}

int snapshot_backing(struct snapshot *snapshot, uint64_t number,
		     struct waiter *waiter, struct cache_blob **ret,
		     int *ret_fd, struct err *err)
{
	struct node *node = snapshot->dataset->node;
	struct catalog_blob info;
	struct part part;
	int r = waiter_begin(waiter, err);

	if (r == 0 && !node->cache)
		return 0;
	if (r == 0)
		r = part_find(snapshot, number, waiter, &part, err);
	if (r == 0) {
		if (whole_blob(&part, &info))
			r = find_backing(node->cache, &info, ret, ret_fd);
		part_release(&part);
	}
	return waiter_end(node, waiter, r, err);
}

int snapshot_unsettled(struct snapshot *snapshot, uint64_t number,
		       struct waiter *waiter, bool *ret, struct err *err)
{
	struct node *node = snapshot->dataset->node;
	struct cache_blob *backing = NULL;
	struct catalog_blob info;
	struct part part;
	int r = waiter_begin(waiter, err), fd = -1;

	if (r == 0)
		r = part_find(snapshot, number, waiter, &part, err);
	if (r == 0) {
		*ret = whole_blob(&part, &info) &&
		       info.kind == BLOB_REFERENCE &&
		       (!node->cache ||
			find_backing(node->cache, &info, &backing, &fd) == 0);
		part_release(&part);
	}
	if (backing) {
		close(fd);
		cache_blob_close(backing);
	}
	return waiter_end(node, waiter, r, err);
}

void snapshot_backing_release(struct cache_blob *backing)
{
	if (!backing)
		return;
	cache_blob_touch(backing);
	cache_blob_close(backing);
}
