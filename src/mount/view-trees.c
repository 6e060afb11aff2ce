/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trees/COMMIT.json in a folder of hub/: the listing as huggingface_hub keeps
 * it, by which its programs know without the Hub whether a snapshot is whole.
 * Made when it is looked for and kept as long as the mount, so a listing that
 * would be large is left out: the file is optional. What the Hub calls a file
 * in LFS is git's digest of its pointer, which follows from the file's own.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "format/catalog.h"
#include "mount/view-hub.h"

#define TREE_BYTES_MAX (1u << 20)
#define PATH_BYTES_MAX 65536u
#define SUFFIX ".json"

struct child {
	char *name;
	struct entry_attr attr;
};

struct listing {
	struct op *op;
	struct snapshot *snapshot;
	struct hasher *hasher;
	struct buf text, path;
	bool has_files;
	struct err *err;
};

struct children {
	VEC(struct child) items;
	uint64_t next;
	bool is_short; /* of memory */
};

/* ---- one file */

static int put_name(struct buf *text, const char *name, size_t len)
{
	int r = buf_append(text, "\"", 1);

	for (size_t i = 0; r == 0 && i < len; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c == '"' || c == '\\')
			r = buf_printf(text, "\\%c", c);
		else if (c < 0x20)
			r = buf_printf(text, "\\u%04x", c);
		else
			r = buf_append(text, &name[i], 1);
	}
	return r == 0 ? buf_append(text, "\"", 1) : r;
}

static int put_pointer(struct listing *listing, const char *sha256,
		       uint64_t size)
{
	struct digest digest;
	char pointer[256], hex[DIGEST_HEX_MAX];
	int len = snprintf(pointer, sizeof(pointer),
			   "version https://git-lfs.github.com/spec/v1\n"
			   "oid sha256:%s\nsize %" PRIu64 "\n",
			   sha256, size);
	int r = hasher_start(listing->hasher, DIGEST_GIT_SHA1, (uint64_t)len);

	if (r < 0)
		return r;
	hasher_add(listing->hasher, pointer, (size_t)len);
	hasher_finish(listing->hasher, &digest);
	return buf_printf(&listing->text,
			  "\"%s\", \"lfs_sha256\": \"%s\", \"lfs_size\": "
			  "%" PRIu64,
			  digest_hex(&digest, hex), sha256, size);
}

static int put_file(struct listing *listing, const struct entry_attr *attr)
{
	struct file_location location;
	struct digest digest;
	char hex[DIGEST_HEX_MAX];
	int r = snapshot_locate(listing->snapshot, attr->number,
				&listing->op->waiter, &location, NULL, NULL,
				listing->err);

	if (r || !links_blob_name(&location, attr, &digest))
		return r;
	digest_hex(&digest, hex);
	r = buf_printf(&listing->text, listing->has_files ? ",\n" : "\n");
	listing->has_files = true;
	if (r == 0)
		r = put_name(&listing->text, (const char *)listing->path.data,
			     listing->path.len);
	if (r == 0)
		r = buf_printf(
			&listing->text,
			": {\"size\": %" PRIu64 ", \"blob_id\": ", attr->size);
	if (r == 0)
		r = digest.type == DIGEST_SHA256 ?
			    put_pointer(listing, hex, attr->size) :
			    buf_printf(&listing->text, "\"%s\"", hex);
	return r == 0 ? buf_append(&listing->text, "}", 1) : r;
}

/* ---- all of them */

static bool on_name(void *arg, const char *name, size_t name_len,
		    const struct entry_attr *attr, uint64_t index)
{
	struct children *children = arg;
	struct child *child = vec_push(&children->items);
	char *copy = child ? strndup(name, name_len) : NULL;

	if (child)
		*child = (struct child){copy, *attr};
	children->is_short = !copy;
	children->next = index + 1;
	return copy;
}

static int put_directory(struct listing *listing, uint64_t dir)
{
	struct children children = {0};
	size_t prefix = listing->path.len;
	bool is_end = false;
	int r = 0;

	while (r == 0 && !is_end) {
		r = snapshot_list(listing->snapshot, dir, children.next,
				  &listing->op->waiter, on_name, &children,
				  &is_end, listing->err);
		if (r == 0 && children.is_short)
			r = -ENOMEM;
	}
	for (size_t i = 0; i < children.items.count; i++) {
		struct child *child = &children.items.items[i];

		if (r == 0)
			r = buf_printf(&listing->path, "%s%s",
				       prefix ? "/" : "", child->name);
		if (r == 0 && child->attr.type == ENTRY_DIRECTORY)
			r = put_directory(listing, child->attr.number);
		else if (r == 0)
			r = put_file(listing, &child->attr);
		listing->path.len = prefix;
		free(child->name);
	}
	vec_release(&children.items);
	return r;
}

/* malloc. -EFBIG: too long. Parks. */
static int make_text(struct op *op, struct snapshot *snapshot, char **ret,
		     struct err *err)
{
	struct listing listing = {
		.op = op,
		.snapshot = snapshot,
		.hasher = hasher_new(),
		.err = err,
	};
	size_t len;
	int r;

	buf_init(&listing.text, TREE_BYTES_MAX);
	buf_init(&listing.path, PATH_BYTES_MAX);
	r = listing.hasher ?
		    buf_printf(&listing.text,
			       "{\"format_version\": 1, \"files\": {") :
		    -ENOMEM;
	if (r == 0)
		r = put_directory(&listing, 0);
	if (r == 0)
		r = buf_append(&listing.text, "\n}}\n", sizeof("\n}}\n"));
	if (r == 0)
		*ret = (char *)buf_steal(&listing.text, &len);
	buf_release(&listing.text);
	buf_release(&listing.path);
	hasher_free(listing.hasher);
	return r;
}

static bool parse_name(const char *name, char ret_commit[COMMIT_LEN + 1])
{
	if (strspn(name, HEX) != COMMIT_LEN ||
	    strcmp(name + COMMIT_LEN, SUFFIX))
		return false;
	memcpy(ret_commit, name, COMMIT_LEN);
	ret_commit[COMMIT_LEN] = '\0';
	return true;
}

static int lookup_tree(struct op *op, struct tree_dir *dir,
		       struct fuse_entry_param *ret, struct err *err)
{
	const struct tree_leaf leaf = {.is_file = true};
	struct hub_folder *folder = dir->view;
	_cleanup_free_ char *text = NULL;
	struct hub_commit *commit;
	struct tree_dir *child;
	char name[COMMIT_LEN + 1];

	if (!parse_name(op->name, name) ||
	    !(commit = hub_commit_find(folder, name)))
		return -ENOENT;
	if (!atomic_load(&commit->tree)) {
		char *none = NULL;
		int r = make_text(op, commit->plain->snapshot, &text, err);

		if (r)
			return r == -EFBIG ? -ENOENT : r;
		if (atomic_compare_exchange_strong(&commit->tree, &none, text))
			text = NULL;
	}
	child = hub_child(op, dir, op->name, &leaf);
	if (!child)
		return -ENFILE;
	atomic_store_explicit(&child->text, atomic_load(&commit->tree),
			      memory_order_release);
	entry_of_dir(op->fs, child, ret);
	return 0;
}

const struct view_ops hub_trees_ops = {.lookup = lookup_tree};
