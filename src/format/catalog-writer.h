/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_CATALOG_WRITER_H
#define LARDER_FORMAT_CATALOG_WRITER_H

#include "format/catalog.h"

/*
 * Builds the catalogs of a snapshot from a tree given in order, cutting it
 * into child catalogs as it goes, so memory holds the open directories and
 * one part, never the tree. Deterministic: the bytes depend on the entries
 * and the params only.
 *
 * Cutting (larder-format(5)): the weight of an entry is 1 (and 1 for every
 * full KiB of its text, xattrs and references to parts), of a directory its own
 * plus its names' weights, unless that directory was itself cut. A directory
 * whose names weigh more than split_max_entries is cut into name ranges, left
 * to right: a range ends once it weighs split_min_entries and the XXH3 of the
 * next name says so (mean split_mean_entries), or before an entry that would
 * take it past split_max_entries. Nothing of the directory itself but its names
 * is in its parts.
 */
struct catalog_writer;

/* A blob whose id may not be known yet: the caller's handle. */
struct blob_handle;

struct catalog_writer_ops {
	/*
	 * Called when a catalog is being closed, once per distinct handle in
	 * it: waits if need be, then fills ret (and for BLOB_INLINE sets
	 * *ret_records to ret->inline_count records that live until the next
	 * call; inline_first is ignored). Equal blobs may have several
	 * handles. Files that share a blob with later ones are waited for
	 * here: whoever fills blobs must not wait for the writer.
	 */
	int (*blob)(void *arg, struct blob_handle *handle, struct catalog_blob *ret,
		    const struct recipe_record **ret_records);
	/* The writer has dropped its last use of a handle. It comes again if
	 * the handle is used again. */
	void (*blob_unused)(void *arg, struct blob_handle *handle);
	/*
	 * A finished catalog, children before parents, the root last. inline_blobs
	 * are the handles whose records stand in the catalog's inline table,
	 * in that order. data is valid during the call.
	 */
	int (*catalog)(void *arg, const struct digest *digest, const void *data, size_t len,
		       struct blob_handle *const *inline_blobs, size_t inline_blob_count);
};

/* NULL when out of memory or if the params are impossible. */
struct catalog_writer *catalog_writer_new(const struct catalog_params *params,
					  const struct catalog_writer_ops *ops, void *arg);
void catalog_writer_free(struct catalog_writer *writer);

/* The next entry: its name, type, mode, size, mtime, owner, text (target or
 * reason), label, xattrs (encoded by catalog_xattrs_add), sha256 and
 * blob_offset are read and copied, the rest is ignored.
 * Names of one directory must come in ascending byte order (-EINVAL if not,
 * or if the entry is impossible; -ENAMETOOLONG for a path that is too deep;
 * after these the writer is as before). An error of an op ends the writer.
 * A file's handle is NULL only when it has no bytes. Each call counts one use
 * of the handle. The root directory is opened first, with an empty name. */
int catalog_writer_file(struct catalog_writer *writer, const struct catalog_entry *entry,
			struct blob_handle *blob); /* also symlink, hole, tombstone */
int catalog_writer_enter(struct catalog_writer *writer, const struct catalog_entry *directory);
int catalog_writer_leave(struct catalog_writer *writer);
/* After the root was left. */
int catalog_writer_finish(struct catalog_writer *writer, struct digest *ret_root,
			  uint64_t *ret_root_bytes, uint64_t *ret_entries, uint64_t *ret_bytes);

struct buf;
/* Append one xattr in stored form; call in ascending name order. -E2BIG for a
 * name or value that is too long. Only "user." names are accepted in entries. */
int catalog_xattrs_add(struct buf *xattrs, const char *name, const void *value, size_t len);

#endif
