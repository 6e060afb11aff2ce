/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_CATALOG_H
#define LARDER_FORMAT_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/chunker.h"
#include "format/digest.h"
#include "format/limits.h"
#include "format/recipe.h"

struct err;

/*
 * The directory tree of a snapshot, or of one part of it, as a flat array
 * file that is searched in place. Entries of one directory lie together,
 * sorted by name bytes. Entry 0 is the root of the part: the snapshot's root
 * directory, or in a child catalog the directory (or the range of names of
 * one) that it holds.
 *
 * Entry numbers: a catalog with n entries and children c0, c1... owns the
 * numbers 0..n-1; child ci owns [base_i, base_i + span_i), where base_i is
 * stored in the parent relative to the parent's own base and a child's span
 * is its entries and its children's spans. So an unchanged child is byte-equal
 * wherever it hangs, and number -> catalog is a binary search.
 *
 * catalog_open validates everything in one pass (bounds, order, references,
 * numbers); afterwards no accessor can fail. A catalog is immutable: any
 * number of threads may read it.
 */
enum entry_type {
	ENTRY_FILE = 1,
	ENTRY_DIRECTORY = 2,
	ENTRY_SYMLINK = 3,
	ENTRY_HOLE = 4,      /* a file whose bytes are not there: reads fail */
	ENTRY_TOMBSTONE = 5, /* withdrawn: open fails with the reason */
};

#define CATALOG_NO_BLOB UINT32_MAX

struct catalog_entry {
	const char *name; /* not NUL-terminated; "" for entry 0 */
	uint16_t name_len;
	uint8_t type;
	uint16_t mode;    /* permission bits, 0777 */
	uint64_t size;    /* file, hole, tombstone: bytes; symlink: length of the
			   * target; directory: 0 */
	int64_t mtime_s;
	uint32_t mtime_ns;
	bool has_owner;
	uint32_t uid, gid;
	/* file, hole */
	uint32_t blob;        /* CATALOG_NO_BLOB for an empty file or a hole */
	uint64_t blob_offset; /* where the file starts in the blob */
	/* directory: its names are entries [first, first + count) of this
	 * catalog, or, when child_count > 0, in children
	 * [first_child, first_child + child_count), in name order */
	uint32_t first, count;
	uint32_t first_child, child_count;
	uint64_t entries_below; /* whole subtree, children included */
	uint64_t bytes_below;   /* of files: holes and tombstones have none */
	uint32_t parent;        /* local number of the directory it is in */
	/* symlink target; hole and tombstone: the reason, in words */
	const char *text;
	uint16_t text_len;
	const char *label;      /* access label, or NULL */
	uint16_t label_len;
	const uint8_t *xattrs;  /* see catalog_xattr_next; NULL: none */
	uint32_t xattrs_len;
	const uint8_t *sha256;  /* 32 bytes, or NULL */
};

enum blob_kind {
	BLOB_RECIPE = 1,    /* chunks: recipe is an object named by the id */
	BLOB_INLINE = 2,    /* chunks: the records are in the catalog */
	BLOB_REFERENCE = 3, /* bytes of a URL, not in packs */
};

struct catalog_blob {
	struct digest id;
	uint8_t kind;
	uint64_t size;
	/* inline: records [inline_first, inline_first + inline_count) */
	uint32_t inline_first, inline_count;
	/* by reference */
	const char *url; /* template: relative to the source, or absolute */
	uint16_t url_len;
	const char *validator; /* ETag or empty */
	uint16_t validator_len;
	struct digest content; /* whole-file digest, or none */
};

struct catalog_child {
	struct digest digest;
	uint64_t object_bytes; /* plain size of the child catalog */
	uint64_t base;         /* its first entry number minus ours */
	uint64_t span;         /* how many numbers it owns */
	uint64_t entry_count;  /* names in it and below, without its entry 0s */
	uint64_t total_bytes;
	uint32_t owner;        /* our directory entry whose names it holds */
	uint64_t name_start;   /* index, in that directory, of its first name */
	uint64_t name_count;   /* names of that directory in this child */
	const char *first_name;
	uint16_t first_name_len;
};

struct catalog_params {
	struct chunker_params chunker;
	uint32_t small_file_bytes;     /* up to this, files share blobs */
	uint32_t shared_min_bytes;     /* shared blobs: 8, 24, 64 MiB */
	uint32_t shared_mean_bytes;
	uint32_t shared_max_bytes;
	uint32_t split_min_entries;    /* child catalogs */
	uint32_t split_mean_entries;
	uint32_t split_max_entries;
	bool has_file_digests;
};
extern const struct catalog_params catalog_params_defaults;

struct catalog;

/* Takes ownership of data (malloc) in every case. expected_size checks are
 * the caller's. -EBADMSG for anything malformed, -EPROTONOSUPPORT for a
 * version or feature that is too new. */
int catalog_open(void *data, size_t len, struct catalog **ret, struct err *err);
void catalog_close(struct catalog *catalog);
size_t catalog_memory(const struct catalog *catalog); /* bytes it holds */

const struct catalog_params *catalog_params(const struct catalog *catalog);
/* A child: its entry 0 has nothing but the list of names. Mode, time and the
 * rest of that directory are in the parent's entry only, so that a directory
 * whose time changes keeps its parts. */
bool catalog_is_part(const struct catalog *catalog);
uint32_t catalog_entry_count(const struct catalog *catalog);
uint64_t catalog_span(const struct catalog *catalog);
uint64_t catalog_total_entries(const struct catalog *catalog); /* with children, no entry 0s */
uint64_t catalog_total_bytes(const struct catalog *catalog);
uint32_t catalog_child_count(const struct catalog *catalog);
uint32_t catalog_blob_count(const struct catalog *catalog);
uint32_t catalog_inline_count(const struct catalog *catalog);

/* The programmer guarantees that the index is below the count. */
void catalog_get(const struct catalog *catalog, uint32_t index, struct catalog_entry *ret);
void catalog_get_child(const struct catalog *catalog, uint32_t index, struct catalog_child *ret);
void catalog_get_blob(const struct catalog *catalog, uint32_t index, struct catalog_blob *ret);
void catalog_get_inline(const struct catalog *catalog, uint32_t index, struct recipe_record *ret);

/* Local number of name in [first, first + count), or -ENOENT. */
int catalog_find(const struct catalog *catalog, uint32_t first, uint32_t count,
		 const char *name, size_t name_len, uint32_t *ret_index);
/* The child of a split directory that could hold the name, the n-th name,
 * or (over all children) entry number `number` >= catalog_entry_count. */
uint32_t catalog_child_for_name(const struct catalog *catalog, const struct catalog_entry *dir,
				const char *name, size_t name_len);
uint32_t catalog_child_for_index(const struct catalog *catalog, const struct catalog_entry *dir,
				 uint64_t name_index);
/* -ENOENT when no child owns the number. */
int catalog_child_for_number(const struct catalog *catalog, uint64_t number, uint32_t *ret_child);

/*
 * -EBADMSG unless child, whose digest was checked, is what parent's child
 * `index` promises: names in the range, numbers, totals. Call it once after
 * catalog_open; the look-ups above rely on it.
 */
int catalog_check_child(const struct catalog *parent, uint32_t index,
			const struct catalog *child, struct err *err);

/* Iterate xattrs: *position starts at 0; 1 and a pair, or 0 at the end. */
int catalog_xattr_next(const struct catalog_entry *entry, uint32_t *position,
		       const char **ret_name, uint16_t *ret_name_len,
		       const uint8_t **ret_value, uint32_t *ret_value_len);

#endif
