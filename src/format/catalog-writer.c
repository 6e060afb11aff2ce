/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting a tree into catalogs while it comes in.
 *
 * Each open directory keeps its names in a list, and where ranges of it would
 * end if it had to be cut. The day its weight passes the limit it is known to
 * be cut: the ranges that are complete become catalogs and leave memory. A
 * directory that is closed before stays whole and moves, with everything
 * below it, into the list of its parent. So what is in memory is at most one
 * uncut list (split_max) for each open directory and, nearly always, one part.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "format/catalog-build.h"
#include "format/handle-uses.h"

/* What one unit of weight pays for in strings and references to parts, so
 * that a part stays within LIMIT_CATALOG_BYTES whatever is in it. */
#define WEIGHT_BYTES 1024

struct open_directory {
	struct catalog_node *node;
	struct catalog_node *first, *last; /* names not in a part yet */
	uint64_t weight;		   /* of all names so far */
	uint64_t range_weight;		   /* since the last range ended */
	uint64_t part_names;		   /* names in parts */
	size_t child_capacity;
	uint16_t last_name_len;
	char last_name[LIMIT_NAME_BYTES];
};

struct catalog_writer {
	struct catalog_params params;
	const struct catalog_writer_ops *ops;
	void *arg;
	struct catalog_build build;
	VEC(struct open_directory) open;
	struct catalog_node *root; /* once it was left */
	struct handle_uses uses;
	int failure;
};

static void drop_use(struct catalog_writer *writer, struct blob_handle *handle)
{
	if (handle_uses_drop(&writer->uses, handle))
		writer->ops->blob_unused(writer->arg, handle);
}

/* Nodes. */

static void free_nodes(struct catalog_writer *writer, struct catalog_node *list)
{
	/* A list of lists: names go to the front, so depth costs no stack. */
	while (list) {
		struct catalog_node *node = list, *last = node->names;

		list = node->next;
		if (last) {
			while (last->next)
				last = last->next;
			last->next = list;
			list = node->names;
		}
		if (node->handle)
			drop_use(writer, node->handle);
		for (uint32_t i = 0; node->children && i < node->count; i++)
			free((char *)node->children[i].first_name);
		free(node->children);
		free(node);
	}
}

static bool text_valid(const struct catalog_entry *entry)
{
	bool wants_text = entry->type == ENTRY_SYMLINK ||
			  entry->type == ENTRY_HOLE ||
			  entry->type == ENTRY_TOMBSTONE;

	if (!wants_text)
		return true;
	return entry->text && entry->text_len > 0 &&
	       entry->text_len <= LIMIT_SYMLINK_BYTES &&
	       !memchr(entry->text, '\0', entry->text_len);
}

static bool entry_valid(const struct catalog_entry *entry,
			const struct blob_handle *blob)
{
	if (entry->mode > 0777 || entry->mtime_ns >= 1000000000 ||
	    !text_valid(entry))
		return false;
	if (entry->label && entry->label_len > LIMIT_NAME_BYTES)
		return false;
	if (entry->xattrs && entry->xattrs_len > 0 &&
	    !catalog_xattrs_valid(entry->xattrs, entry->xattrs_len))
		return false;
	if (entry->type != ENTRY_DIRECTORY && entry->type != ENTRY_SYMLINK &&
	    entry->size > LIMIT_BLOB_BYTES)
		return false;
	return (blob != NULL) == (entry->type == ENTRY_FILE && entry->size > 0);
}

/* The next name of a directory: after the one before. */
static bool name_follows(const struct open_directory *dir,
			 const struct catalog_entry *entry)
{
	return entry->name_len <= LIMIT_NAME_BYTES &&
	       catalog_name_valid(entry->name, entry->name_len) &&
	       (dir->last_name_len == 0 ||
		catalog_name_compare(dir->last_name, dir->last_name_len,
				     entry->name, entry->name_len) < 0);
}

static uint8_t *put(uint8_t *at, const void *data, size_t len)
{
	if (len > 0)
		memcpy(at, data, len);
	return at + len;
}

static struct catalog_node *node_new(const struct catalog_entry *entry)
{
	bool has_text = entry->type == ENTRY_SYMLINK ||
			entry->type == ENTRY_HOLE ||
			entry->type == ENTRY_TOMBSTONE;
	bool has_sha256 = entry->sha256 && entry->type != ENTRY_DIRECTORY &&
			  entry->type != ENTRY_SYMLINK;
	uint16_t text_len = has_text ? entry->text_len : 0;
	uint16_t label_len = entry->label ? entry->label_len : 0;
	uint32_t xattrs_len = entry->xattrs ? entry->xattrs_len : 0;
	struct catalog_node *node = calloc(
		1, sizeof(*node) + entry->name_len + text_len + label_len +
			   xattrs_len + (has_sha256 ? DIGEST_BYTES : 0));
	uint8_t *at;

	if (!node)
		return NULL;
	node->type = entry->type;
	node->mode = entry->mode;
	node->mtime_s = entry->mtime_s;
	node->mtime_ns = entry->mtime_ns;
	node->name_len = entry->name_len;
	node->text_len = text_len;
	node->label_len = label_len;
	node->xattrs_len = xattrs_len;
	node->has_sha256 = has_sha256;
	node->has_owner = entry->has_owner;
	store_le32(node->owner + OWNER_UID, entry->uid);
	store_le32(node->owner + OWNER_GID, entry->gid);
	node->weight = 1 + (text_len + xattrs_len) / WEIGHT_BYTES;
	if (entry->type == ENTRY_SYMLINK)
		node->size = text_len;
	else if (entry->type != ENTRY_DIRECTORY)
		node->size = entry->size;
	at = put(node->data, entry->name, entry->name_len);
	at = put(at, entry->text, text_len);
	at = put(at, entry->label, label_len);
	at = put(at, entry->xattrs, xattrs_len);
	put(at, entry->sha256, has_sha256 ? DIGEST_BYTES : 0);
	return node;
}

/* Cutting. */

/* Does a range end before this name, once it is heavy enough? A name of
 * weight w cuts with probability w / (mean - min), so that the mean holds
 * for directories of directories too. */
static bool name_cuts(const struct catalog_params *params,
		      const struct catalog_node *node)
{
	uint32_t gap = params->split_mean_entries - params->split_min_entries;

	if (node->weight >= gap)
		return true;
	return checksum_xxh3(node->data, node->name_len) <
	       UINT64_MAX / gap * node->weight;
}

static int add_totals(struct catalog_node *directory,
		      const struct catalog_node *list)
{
	for (; list; list = list->next) {
		bool has_bytes = list->type == ENTRY_FILE ||
				 list->type == ENTRY_DIRECTORY;

		directory->entries_below += 1 + list->entries_below;
		if (has_bytes &&
		    !add_checked(directory->size, list->size, &directory->size))
			return -EFBIG;
	}
	return 0;
}

static struct catalog_child *push_child(struct open_directory *dir)
{
	struct catalog_node *node = dir->node;

	if (node->count == dir->child_capacity &&
	    vec_grow_((void **)&node->children, &dir->child_capacity,
		      sizeof(*node->children)) < 0)
		return NULL;
	return &node->children[node->count];
}

/* The names up to last become a part and are freed; dir->first moves on. */
static int emit_range(struct catalog_writer *writer, struct open_directory *dir,
		      struct catalog_node *last)
{
	struct catalog_node top = {.type = ENTRY_DIRECTORY,
				   .names = dir->first};
	struct catalog_node *rest = last->next;
	_cleanup_free_ char *first_name = NULL;
	struct catalog_child *child = push_child(dir);
	int r;

	if (!child)
		return -ENOMEM;
	first_name = malloc(dir->first->name_len);
	if (!first_name)
		return -ENOMEM;
	memcpy(first_name, dir->first->data, dir->first->name_len);
	last->next = NULL;
	for (struct catalog_node *node = dir->first; node; node = node->next)
		top.count++;
	*child = (struct catalog_child){.name_start = dir->part_names,
					.name_count = top.count,
					.first_name_len = dir->first->name_len};
	r = add_totals(&top, dir->first);
	if (r == 0)
		r = catalog_build_run(&writer->build, &top, true, child);
	last->next = rest;
	if (r < 0)
		return r;
	child->first_name = steal_ptr(first_name);
	dir->node->count++;
	dir->node->entries_below += child->entry_count;
	if (!add_checked(dir->node->size, child->total_bytes, &dir->node->size))
		return -EFBIG;
	dir->part_names += top.count;
	last->next = NULL;
	free_nodes(writer, dir->first);
	dir->first = rest;
	if (!rest)
		dir->last = NULL;
	return 0;
}

/* The directory was just found to be cut: what ended before goes now. */
static int emit_old_ranges(struct catalog_writer *writer,
			   struct open_directory *dir)
{
	struct catalog_node *node = dir->first;

	while (node->next) {
		struct catalog_node *next = node->next;

		if (next->starts_range) {
			int r = emit_range(writer, dir, node);

			if (r < 0)
				return r;
		}
		node = next;
	}
	return 0;
}

/* A complete entry, which is dir's from here on also if this fails. */
static int append_node(struct catalog_writer *writer,
		       struct open_directory *dir, struct catalog_node *node)
{
	const struct catalog_params *params = &writer->params;
	struct catalog_node *before = dir->last;

	if (dir->range_weight > 0 &&
	    (dir->range_weight + node->weight > params->split_max_entries ||
	     (dir->range_weight >= params->split_min_entries &&
	      name_cuts(params, node)))) {
		node->starts_range = true;
		dir->range_weight = 0;
	}
	if (before)
		before->next = node;
	else
		dir->first = node;
	dir->last = node;
	dir->range_weight += node->weight;
	dir->weight += node->weight;
	if (dir->node->is_cut)
		return node->starts_range ? emit_range(writer, dir, before) : 0;
	if (dir->weight <= params->split_max_entries)
		return 0;
	dir->node->is_cut = true;
	return emit_old_ranges(writer, dir);
}

/* A directory without more names to come. */
static int close_directory(struct catalog_writer *writer,
			   struct open_directory *dir)
{
	struct catalog_node *node = dir->node;
	int r;

	if (node->is_cut) {
		r = emit_range(writer, dir, dir->last);
		node->weight +=
			(uint64_t)node->count * CHILD_BYTES / WEIGHT_BYTES;
		return r;
	}
	for (const struct catalog_node *name = dir->first; name;
	     name = name->next)
		node->count++;
	node->weight += dir->weight;
	r = add_totals(node, dir->first);
	node->names = steal_ptr(dir->first);
	return r;
}

/* The door. */

struct catalog_writer *catalog_writer_new(const struct catalog_params *params,
					  const struct catalog_writer_ops *ops,
					  void *arg)
{
	struct catalog_writer *writer;

	if (!catalog_params_valid(params))
		return NULL;
	writer = calloc(1, sizeof(*writer));
	if (!writer)
		return NULL;
	writer->params = *params;
	writer->ops = ops;
	writer->arg = arg;
	catalog_build_init(&writer->build, &writer->params, ops, arg);
	return writer;
}

void catalog_writer_free(struct catalog_writer *writer)
{
	if (!writer)
		return;
	for (size_t i = 0; i < writer->open.count; i++) {
		free_nodes(writer, writer->open.items[i].first);
		free_nodes(writer, writer->open.items[i].node);
	}
	free_nodes(writer, writer->root);
	catalog_build_release(&writer->build);
	vec_release(&writer->open);
	handle_uses_release(&writer->uses);
	free(writer);
}

static int fail(struct catalog_writer *writer, int r)
{
	if (r < 0 && writer->failure == 0)
		writer->failure = r;
	return r;
}

static struct open_directory *innermost(struct catalog_writer *writer)
{
	return writer->open.count > 0 ?
		       &writer->open.items[writer->open.count - 1] :
		       NULL;
}

static void remember_name(struct open_directory *dir,
			  const struct catalog_node *node)
{
	dir->last_name_len = node->name_len;
	memcpy(dir->last_name, node->data, node->name_len);
}

int catalog_writer_file(struct catalog_writer *writer,
			const struct catalog_entry *entry,
			struct blob_handle *blob)
{
	struct open_directory *dir = innermost(writer);
	struct catalog_node *node;
	int r;

	if (writer->failure < 0)
		return writer->failure;
	if (!dir || entry->type < ENTRY_FILE || entry->type > ENTRY_TOMBSTONE ||
	    entry->type == ENTRY_DIRECTORY || !name_follows(dir, entry) ||
	    !entry_valid(entry, blob))
		return -EINVAL;
	node = node_new(entry);
	if (!node)
		return fail(writer, -ENOMEM);
	if (blob) {
		r = handle_uses_add(&writer->uses, blob);
		if (r < 0) {
			free(node);
			return fail(writer, r);
		}
		node->handle = blob;
		node->blob_offset = entry->blob_offset;
	}
	remember_name(dir, node);
	return fail(writer, append_node(writer, dir, node));
}

int catalog_writer_enter(struct catalog_writer *writer,
			 const struct catalog_entry *directory)
{
	struct open_directory *parent = innermost(writer), *dir;
	struct catalog_node *node;

	if (writer->failure < 0)
		return writer->failure;
	if (directory->type != ENTRY_DIRECTORY ||
	    !entry_valid(directory, NULL) ||
	    (parent ? !name_follows(parent, directory) :
		      writer->root || directory->name_len != 0))
		return -EINVAL;
	if (writer->open.count > LIMIT_PATH_DEPTH)
		return -ENAMETOOLONG;
	node = node_new(directory);
	if (!node)
		return fail(writer, -ENOMEM);
	if (parent)
		remember_name(parent, node);
	dir = vec_push(&writer->open);
	if (!dir) {
		free(node);
		return fail(writer, -ENOMEM);
	}
	dir->node = node;
	return 0;
}

int catalog_writer_leave(struct catalog_writer *writer)
{
	struct open_directory *dir = innermost(writer);
	struct catalog_node *node;
	int r;

	if (writer->failure < 0)
		return writer->failure;
	if (!dir)
		return -EINVAL;
	r = close_directory(writer, dir);
	if (r < 0)
		return fail(writer, r);
	node = dir->node;
	writer->open.count--;
	dir = innermost(writer);
	if (dir)
		return fail(writer, append_node(writer, dir, node));
	writer->root = node;
	return 0;
}

int catalog_writer_finish(struct catalog_writer *writer,
			  struct digest *ret_root, uint64_t *ret_root_bytes,
			  uint64_t *ret_entries, uint64_t *ret_bytes)
{
	struct catalog_child root = {0};
	int r;

	if (writer->failure < 0)
		return writer->failure;
	if (!writer->root)
		return -EINVAL;
	r = catalog_build_run(&writer->build, writer->root, false, &root);
	free_nodes(writer, steal_ptr(writer->root));
	if (r < 0)
		return fail(writer, r);
	*ret_root = root.digest;
	*ret_root_bytes = root.object_bytes;
	*ret_entries = root.entry_count;
	*ret_bytes = root.total_bytes;
	/* Once only. */
	writer->failure = -EINVAL;
	return 0;
}

int catalog_xattrs_add(struct buf *xattrs, const char *name, const void *value,
		       size_t len)
{
	size_t name_len = strlen(name);
	uint8_t head[XATTR_HEAD_BYTES];
	int r;

	if (name_len > LIMIT_XATTR_NAME_BYTES || len > LIMIT_XATTR_VALUE_BYTES)
		return -E2BIG;
	store_le16(head + XATTR_NAME_LEN, (uint16_t)name_len);
	store_le32(head + XATTR_VALUE_LEN, (uint32_t)len);
	r = buf_reserve(xattrs, xattrs->len + sizeof(head) + name_len + len);
	if (r == 0)
		r = buf_append(xattrs, head, sizeof(head));
	if (r == 0)
		r = buf_append(xattrs, name, name_len);
	if (r == 0)
		r = buf_append(xattrs, value, len);
	return r;
}
