/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_CATALOG_MODEL_H
#define LARDER_TESTS_CATALOG_MODEL_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/vec.h"
#include "format/catalog-writer.h"
#include "format/catalog.h"

/*
 * A tree in plain structs, what the writer made of it, and the catalogs it
 * handed out by digest: what the catalog tests compare.
 */
struct blob_handle {
	struct catalog_blob blob;
	struct recipe_record records[LIMIT_INLINE_CHUNKS];
	uint32_t uses;    /* by the writer */
	uint32_t unused;  /* calls of blob_unused */
};

struct model_node {
	struct catalog_entry entry; /* owns its strings; size of directories: below */
	struct blob_handle *blob;
	VEC(struct model_node *) names;
	uint64_t entries_below, bytes_below;
};

struct stored_catalog {
	struct digest digest;
	uint8_t *data;
	size_t len;
	struct blob_handle **inline_blobs;
	size_t inline_blob_count;
};

struct store {
	VEC(struct stored_catalog) catalogs; /* in the order they came */
	struct digest root;
	uint64_t root_bytes, entries, bytes;
};

struct model {
	uint64_t random;
	VEC(struct blob_handle *) blobs;
	VEC(struct model_node *) nodes; /* all, for freeing */
	struct model_node *root;
};

uint64_t model_random(struct model *model, uint64_t below);

void model_init(struct model *model, uint64_t seed);
void model_release(struct model *model);
/* An empty directory, mode 0755. */
struct model_node *model_root(struct model *model);
struct blob_handle *model_blob(struct model *model, enum blob_kind kind, uint64_t size);
/* Names must be added in ascending order, or model_sort called. */
struct model_node *model_add(struct model *model, struct model_node *directory,
			     enum entry_type type, const char *name, size_t name_len);
/* A file that is `size` bytes of blob at offset. */
struct model_node *model_add_file(struct model *model, struct model_node *directory,
				  const char *name, struct blob_handle *blob,
				  uint64_t offset, uint64_t size);
void model_sort(struct model_node *directory);
/* A random tree of about `count` entries with every feature. */
void model_fill(struct model *model, uint32_t count);
/* Fill entries_below and bytes_below. */
void model_total(struct model_node *directory);

/* Feed to writer: names of a directory, recursively. */
int model_feed(struct catalog_writer *writer, const struct model_node *directory);
/* Write the whole; asserts success and that every use was dropped. */
void model_write(struct model *model, const struct catalog_params *params,
		 struct store *ret);
extern const struct catalog_writer_ops store_ops; /* arg: struct store */

void store_release(struct store *store);
const struct stored_catalog *store_find(const struct store *store,
					const struct digest *digest);
/* A copy, opened; asserts success. */
struct catalog *store_open(const struct store *store, const struct digest *digest);

#endif
