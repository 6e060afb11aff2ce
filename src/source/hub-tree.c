/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository's listing becomes a catalog of blobs by reference.
 *
 * Pages are taken as they come and keep only what the catalog needs; once all
 * are here the files are sorted and walked as a tree. Directories follow from
 * the files' paths: what the listing says of them beyond that is nothing
 * anybody reads. A listing with a name that no tree can have is refused whole:
 * it was made by somebody else than git.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/vec.h"
#include "format/catalog-layout.h"
#include "format/catalog-writer.h"
#include "source/hub-json.h"
#include "source/hub.h"

/* Ten times the largest public repositories. */
#define FILES_MAX (4u << 20)
#define UNKNOWN "the Hub does not say what this is (a submodule?)"

/* A file and where its bytes are: the catalog writer's handle. */
struct blob_handle {
	char *path;  /* below the root of the repository */
	size_t skip; /* of the path: what lies above the subtree */
	uint64_t size;
	struct digest content;
	bool is_file; /* false: of unknown type */
};

struct hub_tree {
	const struct hub_repo *repo;
	VEC(struct blob_handle) files;
	const struct hub_info *info;
	int (*catalog)(void *arg, const struct digest *digest, const void *data,
		       size_t len);
	void *arg;
	char *url; /* of the last blob handed to the writer */
	struct catalog_writer *writer;
};

struct hub_tree *hub_tree_new(const struct hub_repo *repo)
{
	struct hub_tree *tree = calloc(1, sizeof(*tree));

	if (tree)
		tree->repo = repo;
	return tree;
}

void hub_tree_free(struct hub_tree *tree)
{
	if (!tree)
		return;
	for (size_t i = 0; i < tree->files.count; i++)
		free(tree->files.items[i].path);
	vec_release(&tree->files);
	catalog_writer_free(tree->writer);
	free(tree->url);
	free(tree);
}

/* ---- entries */

static int hostile(const char *path, struct err *err)
{
	char shown[80];

	text_printable_cut(path, strlen(path), shown, sizeof(shown));
	return err_set(err, EBADMSG,
		       "the listing names '%s', which no tree has", shown);
}

static bool is_path(const char *path)
{
	unsigned depth = 0;

	for (;;) {
		size_t len = strcspn(path, "/");

		if (len > LIMIT_NAME_BYTES || !catalog_name_valid(path, len) ||
		    ++depth > LIMIT_PATH_DEPTH)
			return false;
		path += len;
		if (*path == '\0')
			return true;
		path++;
	}
}

/* How much of the path lies above the subtree; -1: it is not in it. */
static ssize_t below(const struct hub_tree *tree, const char *path)
{
	size_t len = strlen(tree->repo->subdir);

	if (len == 0)
		return 0;
	if (strncmp(path, tree->repo->subdir, len) != 0 || path[len] != '/')
		return -1;
	return (ssize_t)len + 1;
}

static bool size_of(const json_t *object, uint64_t *ret)
{
	const json_t *size = json_object_get(object, "size");

	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (uint64_t)json_integer_value(size) > LIMIT_BLOB_BYTES)
		return false;
	*ret = (uint64_t)json_integer_value(size);
	return true;
}

static bool digest_of(const char *hex, enum digest_type type,
		      struct digest *ret)
{
	size_t bytes = digest_size(type);

	*ret = (struct digest){.type = type};
	return hex && strlen(hex) == 2 * bytes &&
	       hex_decode(hex, ret->bytes, bytes) == 0;
}

/* Size and digest: of the content, not of the pointer to it. */
static int take_content(const json_t *item, struct blob_handle *file,
			struct err *err)
{
	const json_t *lfs = json_object_get(item, "lfs");
	bool is_good;

	if (json_is_object(lfs))
		is_good = size_of(lfs, &file->size) &&
			  digest_of(hub_json_text(lfs, "oid"), DIGEST_SHA256,
				    &file->content);
	else
		is_good = size_of(item, &file->size) &&
			  digest_of(hub_json_text(item, "oid"), DIGEST_GIT_SHA1,
				    &file->content);
	if (is_good)
		return 0;
	return err_set(err, EBADMSG,
		       "the listing has no size or digest of '%.100s'",
		       file->path);
}

static int take_item(struct hub_tree *tree, const json_t *item, struct err *err)
{
	const char *type = hub_json_text(item, "type"), *path = hub_json_text(item, "path");
	struct blob_handle file = {0}, *kept;
	ssize_t skip;
	int r = 0;

	if (!type || !path)
		return err_set(err, EBADMSG,
			       "the listing has an entry without "
			       "type or path");
	if (!is_path(path))
		return hostile(path, err);
	skip = below(tree, path);
	if (skip < 0 || strcmp(type, "directory") == 0)
		return 0;
	if (tree->files.count >= FILES_MAX)
		return err_set(err, EFBIG, "more than %u files", FILES_MAX);
	file.path = strdup(path);
	file.skip = (size_t)skip;
	file.is_file = strcmp(type, "file") == 0;
	if (file.path && file.is_file)
		r = take_content(item, &file, err);
	kept = file.path && r == 0 ? vec_push(&tree->files) : NULL;
	if (!kept) {
		free(file.path);
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	}
	*kept = file;
	return 0;
}

int hub_tree_add(struct hub_tree *tree, const void *body, size_t len,
		 struct err *err)
{
	_cleanup_json_ json_t *json = hub_json_load(body, len, err);
	json_t *item;
	size_t i;

	if (!json)
		return -EBADMSG;
	if (!json_is_array(json))
		return err_set(err, EBADMSG, "the Hub's answer is no listing");
	json_array_foreach(json, i, item)
	{
		int r = take_item(tree, item, err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the catalog */

/* As the writer wants them: part by part, so "a/b" comes before "a-b". */
static int compare_paths(const void *a, const void *b)
{
	const char *x = ((const struct blob_handle *)a)->path;
	const char *y = ((const struct blob_handle *)b)->path;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	if (*x == *y)
		return 0;
	if (*x == '\0' || *y == '\0')
		return *x == '\0' ? -1 : 1;
	if (*x == '/' || *y == '/')
		return *x == '/' ? -1 : 1;
	return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
}

static int give_blob(void *arg, struct blob_handle *file,
		     struct catalog_blob *ret,
		     const struct recipe_record **ret_records)
{
	struct hub_tree *tree = arg;

	free(tree->url);
	tree->url = hub_file_path(tree->repo, tree->info->commit, file->path);
	if (!tree->url)
		return -ENOMEM;
	if (strlen(tree->url) > LIMIT_URL_BYTES)
		return -ENAMETOOLONG;
	*ret_records = NULL;
	*ret = (struct catalog_blob){
		.id = file->content,
		.kind = BLOB_REFERENCE,
		.size = file->size,
		.url = tree->url,
		.url_len = (uint16_t)strlen(tree->url),
		.validator = "",
		.content = file->content,
	};
	return 0;
}

static void blob_unused(void *arg, struct blob_handle *file)
{
	(void)arg;
	(void)file;
}

static int give_catalog(void *arg, const struct digest *digest,
			const void *data, size_t len,
			struct blob_handle *const *inline_blobs, size_t count)
{
	struct hub_tree *tree = arg;

	(void)inline_blobs;
	(void)count;
	return tree->catalog(tree->arg, digest, data, len);
}

static struct catalog_entry entry_of(const struct hub_tree *tree, uint8_t type,
				     const char *name, size_t len)
{
	return (struct catalog_entry){
		.type = type,
		.name = name,
		.name_len = (uint16_t)len,
		.mode = type == ENTRY_DIRECTORY ? 0755 : 0644,
		.mtime_s = tree->info->modified,
	};
}

static int write_file(struct hub_tree *tree, struct blob_handle *file,
		      const char *name)
{
	struct catalog_entry entry =
		entry_of(tree, ENTRY_FILE, name, strlen(name));

	entry.size = file->size;
	if (file->content.type == DIGEST_SHA256)
		entry.sha256 = file->content.bytes;
	if (!file->is_file) {
		entry.type = ENTRY_HOLE;
		entry.text = UNKNOWN;
		entry.text_len = sizeof(UNKNOWN) - 1;
	}
	return catalog_writer_file(tree->writer, &entry,
				   file->is_file && file->size ? file : NULL);
}

/* Length of what both paths have in common, in whole directories. */
static size_t common(const char *a, const char *b)
{
	size_t same = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			same = i + 1;
	return same;
}

static int leave(struct hub_tree *tree, const char *dirs)
{
	int r = 0;

	for (; r == 0 && (dirs = strchr(dirs, '/')); dirs++)
		r = catalog_writer_leave(tree->writer);
	return r;
}

static int enter(struct hub_tree *tree, const char **name)
{
	const char *slash;
	int r = 0;

	for (; r == 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
		struct catalog_entry entry = entry_of(
			tree, ENTRY_DIRECTORY, *name, (size_t)(slash - *name));

		r = catalog_writer_enter(tree->writer, &entry);
	}
	return r;
}

static int write_files(struct hub_tree *tree, struct err *err)
{
	const char *open = ""; /* path of the last file */
	int r = 0;

	for (size_t i = 0; r == 0 && i < tree->files.count; i++) {
		struct blob_handle *file = &tree->files.items[i];
		const char *path = file->path + file->skip;
		size_t same = common(open, path);
		const char *name = path + same;

		r = leave(tree, open + same);
		if (r == 0)
			r = enter(tree, &name);
		if (r == 0)
			r = write_file(tree, file, name);
		if (r == -EINVAL || r == -ENAMETOOLONG)
			return err_set(err, EBADMSG,
				       "the listing names '%.100s' twice, or "
				       "in an impossible way",
				       path);
		open = path;
	}
	return r == 0 ? leave(tree, open) : r;
}

static int write_root(struct hub_tree *tree, struct buf *xattrs)
{
	struct catalog_entry root = entry_of(tree, ENTRY_DIRECTORY, "", 0);
	int r = 0;

	/* in the order of their names */
	if (tree->info->is_restricted)
		r = catalog_xattrs_add(xattrs, HUB_ACCESS_XATTR, HUB_RESTRICTED,
				       strlen(HUB_RESTRICTED));
	if (r == 0)
		r = catalog_xattrs_add(xattrs, HUB_COMMIT_XATTR,
				       tree->info->commit,
				       strlen(tree->info->commit));
	root.xattrs = xattrs->data;
	root.xattrs_len = (uint32_t)xattrs->len;
	return r < 0 ? r : catalog_writer_enter(tree->writer, &root);
}

static int build(struct hub_tree *tree, struct hub_totals *ret, struct err *err)
{
	static const struct catalog_writer_ops ops = {
		.blob = give_blob,
		.blob_unused = blob_unused,
		.catalog = give_catalog,
	};
	struct buf xattrs;
	int r;

	tree->writer = catalog_writer_new(&catalog_params_defaults, &ops, tree);
	if (!tree->writer)
		return -ENOMEM;
	buf_init(&xattrs, LIMIT_XATTRS_BYTES);
	r = write_root(tree, &xattrs);
	if (r == 0)
		r = write_files(tree, err);
	if (r == 0)
		r = catalog_writer_leave(tree->writer);
	if (r == 0)
		r = catalog_writer_finish(tree->writer, &ret->catalog,
					  &ret->catalog_bytes,
					  &ret->entry_count, &ret->total_bytes);
	buf_release(&xattrs);
	return r;
}

int hub_tree_finish(struct hub_tree *tree, const struct hub_info *info,
		    int (*catalog)(void *arg, const struct digest *digest,
				   const void *data, size_t len),
		    void *arg, struct hub_totals *ret, struct err *err)
{
	int r;

	if (tree->files.count == 0 && tree->repo->subdir[0])
		return err_set(err, ENOENT, "'%s' has no files below '%s'",
			       tree->repo->id, tree->repo->subdir);
	tree->info = info;
	tree->catalog = catalog;
	tree->arg = arg;
	if (tree->files.count > 0)
		qsort(tree->files.items, tree->files.count,
		      sizeof(tree->files.items[0]), compare_paths);
	r = build(tree, ret, err);
	if (r < 0 && err && !err->text[0])
		err_set(err, -r, "cannot write its catalog: %s", strerror(-r));
	return r;
}
