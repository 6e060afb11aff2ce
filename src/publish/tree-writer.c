/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the walk to blobs and catalogs.
 *
 * A shared blob also ends when a catalog that has files in it is closed.
 * The catalog needs the blob's id then, and so a change in one part of a
 * large tree leaves the catalogs of the other parts as they were. It is still
 * a function of the tree alone, because so is where catalogs are cut.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "format/catalog-writer.h"
#include "format/codec.h"
#include "publish/blob.h"
#include "publish/chunk-index.h"
#include "publish/file-digest.h"
#include "publish/mirror-store.h"
#include "publish/placing.h"
#include "publish/shared-cut.h"
#include "publish/tree-writer.h"

/* Catalogs are read by every node and written once. */
#define CATALOG_LEVEL 6

struct tree_writer {
	const struct tree_options *options;
	struct catalog_writer *catalogs;
	struct codec *codec;
	struct blob_handle *blobs; /* all that are alive */
	struct blob_job *shared;   /* the shared blob that is open, or NULL */
	struct recipe_record records[LIMIT_INLINE_CHUNKS];
	struct err err; /* of the callbacks below, which have no place for it */
};

static struct blob_handle *new_blob(struct tree_writer *tree)
{
	struct blob_handle *blob = blob_handle_new();

	if (!blob)
		return NULL;
	blob->next = tree->blobs;
	if (blob->next)
		blob->next->previous = blob;
	tree->blobs = blob;
	return blob;
}

static void drop_blob(struct tree_writer *tree, struct blob_handle *blob)
{
	if (blob->previous)
		blob->previous->next = blob->next;
	else
		tree->blobs = blob->next;
	if (blob->next)
		blob->next->previous = blob->previous;
	blob_handle_free(blob);
}

static int submit(struct tree_writer *tree, struct blob_job *job,
		  struct err *err)
{
	return pipeline_submit(tree->options->pipeline, job, err);
}

static int close_shared(struct tree_writer *tree, struct err *err)
{
	return tree->shared ? submit(tree, steal_ptr(tree->shared), err) : 0;
}

/* catalog_writer_ops */

static int give_blob(void *arg, struct blob_handle *blob,
		     struct catalog_blob *ret,
		     const struct recipe_record **ret_records)
{
	struct tree_writer *tree = arg;
	int r = 0;

	if (tree->shared && tree->shared->blob == blob)
		r = close_shared(tree, &tree->err);
	if (r == 0)
		r = pipeline_wait(tree->options->pipeline, blob, &tree->err);
	if (r < 0)
		return r;
	*ret = (struct catalog_blob){
		.id = blob->id,
		.kind = blob->piece_count > 0 ? BLOB_INLINE : BLOB_RECIPE,
		.size = blob->size,
		.inline_count = blob->piece_count,
	};
	for (uint32_t i = 0; i < blob->piece_count; i++)
		tree->records[i] = blob->pieces[i].record;
	*ret_records = tree->records;
	return 0;
}

static void free_blob(void *arg, struct blob_handle *blob)
{
	struct tree_writer *tree = arg;

	/* One that is not done can only mean that the run has failed; the
	 * pipeline may still hold it, and tree_write frees it. */
	if (blob->is_done)
		drop_blob(tree, blob);
}

static int add_places(struct tree_writer *tree, const struct digest *catalog,
		      struct blob_handle *const *blobs, size_t count)
{
	VEC(uint32_t) numbers = {0};
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		for (uint32_t k = 0; k < blobs[i]->piece_count; k++) {
			uint32_t *number = vec_push(&numbers);

			if (!number) {
				r = -ENOMEM;
				break;
			}
			*number = blobs[i]->pieces[k].number;
		}
	}
	if (r == 0 && numbers.count > 0)
		r = placing_add(tree->options->placing, catalog, numbers.items,
				numbers.count);
	vec_release(&numbers);
	return r;
}

static int store_catalog(void *arg, const struct digest *digest,
			 const void *data, size_t len,
			 struct blob_handle *const *inline_blobs,
			 size_t inline_blob_count)
{
	struct tree_writer *tree = arg;
	const struct tree_options *options = tree->options;
	uint64_t stored;
	int r = mirror_object_write(options->mirror, tree->codec, digest, data,
				    len, CATALOG_LEVEL, options->is_dry_run,
				    &stored, &tree->err);

	if (r < 0)
		return r;
	atomic_fetch_add(&options->counts->object_bytes, stored);
	return add_places(tree, digest, inline_blobs, inline_blob_count);
}

/* walk_ops */

static void fill_entry(const struct tree_writer *tree,
		       const struct walk_entry *entry,
		       struct catalog_entry *ret)
{
	const struct stat *st = &entry->st;

	*ret = (struct catalog_entry){
		.name = entry->name,
		.name_len = (uint16_t)strlen(entry->name),
		.type = S_ISDIR(st->st_mode) ? ENTRY_DIRECTORY :
			S_ISLNK(st->st_mode) ? ENTRY_SYMLINK :
					       ENTRY_FILE,
		.mode = st->st_mode & 0777,
		.size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.has_owner = tree->options->want_owner,
		.uid = tree->options->want_owner ? st->st_uid : 0,
		.gid = tree->options->want_owner ? st->st_gid : 0,
		.text = entry->target,
		.text_len = (uint16_t)entry->target_len,
		.xattrs = entry->xattrs,
		.xattrs_len = (uint32_t)entry->xattrs_len,
	};
	if (entry->target)
		ret->size = entry->target_len;
}

/* The words for a failure of the catalog writer. */
static int explain(struct tree_writer *tree, int r,
		   const struct walk_entry *entry, struct err *err)
{
	if (r == 0)
		return 0;
	if (tree->err.text[0]) {
		if (err)
			*err = tree->err;
		return r;
	}
	return err_set(err, -r, "cannot record '%s': %s",
		       entry && *entry->path ? path_tail(entry->path) : ".",
		       strerror(-r));
}

static int enter_directory(void *arg, const struct walk_entry *entry,
			   struct err *err)
{
	struct tree_writer *tree = arg;
	struct catalog_entry record;

	fill_entry(tree, entry, &record);
	return explain(tree, catalog_writer_enter(tree->catalogs, &record),
		       entry, err);
}

static int leave_directory(void *arg, struct err *err)
{
	struct tree_writer *tree = arg;

	return explain(tree, catalog_writer_leave(tree->catalogs), NULL, err);
}

static int submit_large(struct tree_writer *tree,
			const struct walk_entry *entry,
			struct blob_handle **ret, struct err *err)
{
	struct blob_handle *blob = new_blob(tree);
	struct blob_job *job = blob ? blob_job_new(blob) : NULL;
	int r = job ? blob_job_add(job, entry->path, &entry->st) : -ENOMEM;

	if (r < 0) {
		blob_job_free(job);
		return err_set(err, -r, "out of memory");
	}
	*ret = blob;
	return submit(tree, job, err);
}

static int add_to_shared(struct tree_writer *tree,
			 const struct walk_entry *entry,
			 struct blob_handle **ret, uint64_t *ret_offset,
			 struct err *err)
{
	uint64_t size = (uint64_t)entry->st.st_size;
	int r = 0;

	if (tree->shared &&
	    shared_blob_ends_before(tree->options->params,
				    tree->shared->blob->size,
				    tree->shared->files.count, size))
		r = close_shared(tree, err);
	if (r < 0)
		return r;
	if (!tree->shared) {
		struct blob_handle *blob = new_blob(tree);

		tree->shared = blob ? blob_job_new(blob) : NULL;
	}
	*ret_offset = tree->shared ? tree->shared->blob->size : 0;
	r = tree->shared ? blob_job_add(tree->shared, entry->path, &entry->st) :
			   -ENOMEM;
	if (r < 0)
		return err_set(err, -r, "out of memory");
	*ret = tree->shared->blob;
	return 0;
}

/* The file's blob, and its place there. NULL for an empty file. */
static int lay_file(struct tree_writer *tree, const struct walk_entry *entry,
		    struct blob_handle **ret, uint64_t *ret_offset,
		    struct err *err)
{
	uint64_t size = (uint64_t)entry->st.st_size;

	*ret = NULL;
	*ret_offset = 0;
	if (size == 0)
		return 0;
	if (size > LIMIT_BLOB_BYTES)
		return err_set(err, EFBIG, "'%s' is larger than 1 PiB",
			       path_tail(entry->path));
	if (size > tree->options->params->small_file_bytes)
		return submit_large(tree, entry, ret, err);
	return add_to_shared(tree, entry, ret, ret_offset, err);
}

/* digest: room for the record's, which outlives this call. */
static int add_file(struct tree_writer *tree, const struct walk_entry *entry,
		    struct catalog_entry *record, struct digest *digest,
		    struct err *err)
{
	struct blob_handle *blob = NULL;
	int r = 0;

	if (tree->options->want_file_digests) {
		r = file_digest(tree->options->root_fd, entry->path, &entry->st,
				digest, err);
		record->sha256 = digest->bytes;
	}
	if (r == 0)
		r = lay_file(tree, entry, &blob, &record->blob_offset, err);
	if (r < 0)
		return r;
	r = catalog_writer_file(tree->catalogs, record, blob);
	if (r < 0)
		return explain(tree, r, entry, err);
	if (tree->shared && tree->shared->blob == blob &&
	    shared_blob_ends_after(tree->options->params, blob->size,
				   entry->path, strlen(entry->path),
				   record->size))
		r = close_shared(tree, err);
	return r;
}

static int add_entry(void *arg, const struct walk_entry *entry, struct err *err)
{
	struct tree_writer *tree = arg;
	struct catalog_entry record;
	struct digest digest;

	fill_entry(tree, entry, &record);
	if (record.type == ENTRY_FILE)
		return add_file(tree, entry, &record, &digest, err);
	return explain(tree, catalog_writer_file(tree->catalogs, &record, NULL),
		       entry, err);
}

static int finish(struct tree_writer *tree, struct snapshot_totals *ret,
		  struct err *err)
{
	int r = close_shared(tree, err);

	if (r < 0)
		return r;
	r = catalog_writer_finish(tree->catalogs, &ret->catalog,
				  &ret->catalog_bytes, &ret->entry_count,
				  &ret->total_bytes);
	return explain(tree, r, NULL, err);
}

int tree_write(const struct tree_options *options,
	       const struct walk_options *walk, struct walk_counts *ret_counts,
	       struct snapshot_totals *ret, struct err *err)
{
	static const struct catalog_writer_ops catalog_ops = {
		.blob = give_blob,
		.blob_unused = free_blob,
		.catalog = store_catalog,
	};
	static const struct walk_ops walk_ops = {
		.enter = enter_directory,
		.leave = leave_directory,
		.entry = add_entry,
	};
	struct tree_writer tree = {.options = options};
	int r;

	tree.codec = codec_new();
	tree.catalogs =
		catalog_writer_new(options->params, &catalog_ops, &tree);
	if (!tree.codec || !tree.catalogs)
		r = err_set(err, ENOMEM, "out of memory");
	else
		r = walk_tree(options->root_fd, walk, &walk_ops, &tree,
			      ret_counts, err);
	if (r == 0)
		r = finish(&tree, ret, err);
	/* Blobs may still be in the pipeline: nothing may be freed before it
	 * has stopped. */
	if (r < 0)
		pipeline_fail(options->pipeline, r, err);
	pipeline_stop(options->pipeline);
	catalog_writer_free(tree.catalogs);
	blob_job_free(tree.shared);
	while (tree.blobs)
		drop_blob(&tree, tree.blobs);
	codec_free(tree.codec);
	return r;
}
