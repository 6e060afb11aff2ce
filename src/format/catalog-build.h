/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_CATALOG_BUILD_H
#define LARDER_FORMAT_CATALOG_BUILD_H

#include "base/buf.h"
#include "base/vec.h"
#include "format/catalog-layout.h"
#include "format/catalog-writer.h"
#include "format/interner.h"

/*
 * The bytes of one catalog from its tree in memory; for catalog-writer.c
 * only. Which tree goes into which catalog is decided there.
 */
struct catalog_node {
	struct catalog_node *next;     /* in its directory, ascending names */
	struct catalog_node *names;    /* uncut directory: its names */
	struct catalog_child *children; /* cut directory: its parts */
	struct blob_handle *handle;
	uint64_t size;          /* directory: bytes below */
	uint64_t entries_below;
	uint64_t blob_offset;
	uint64_t weight;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t count;         /* names, or parts if cut */
	uint32_t parent;        /* set while building */
	uint32_t xattrs_len;
	uint8_t owner[OWNER_BYTES]; /* as stored */
	uint16_t mode;
	uint16_t name_len;
	uint16_t text_len;
	uint16_t label_len;
	uint8_t type;
	bool has_owner, has_sha256, is_cut, starts_range;
	uint8_t data[];         /* name, text, label, xattrs, sha256 */
};

struct catalog_build {
	const struct catalog_params *params;
	const struct catalog_writer_ops *ops;
	void *arg;
	struct buf sections[CATALOG_SECTION_COUNT];
	struct buf file;
	struct buf key; /* scratch */
	struct interner strings, owners, labels, xattrs, handles, blobs;
	VEC(struct catalog_node *) order;  /* by entry number */
	VEC(uint32_t) handle_blobs;        /* handles' items to blobs */
	VEC(struct blob_handle *) inline_blobs;
	VEC(const struct catalog_child *) children;
	VEC(struct catalog_blob) references;
	VEC(void *) copies;                /* freed after each catalog */
	uint64_t numbers;                  /* entry numbers owned so far */
};

void catalog_build_init(struct catalog_build *build, const struct catalog_params *params,
			const struct catalog_writer_ops *ops, void *arg);
void catalog_build_release(struct catalog_build *build);

/* Builds the catalog whose entry 0 is top, a directory, hands it to
 * ops->catalog, and fills digest, object_bytes, span, entry_count and
 * total_bytes. */
int catalog_build_run(struct catalog_build *build, struct catalog_node *top,
		      bool is_part, struct catalog_child *ret);

/* ---- between catalog-build.c and catalog-blobs.c */

int catalog_build_record(struct catalog_build *build,
			 enum catalog_section_number section,
			 const uint8_t *record);
/* The number of the node's blob, which is found or made. */
int catalog_build_blob(struct catalog_build *build, struct catalog_node *node,
		       uint32_t *ret_blob);

#endif
