/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_SMALL_MIRROR_H
#define LARDER_TESTS_SMALL_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset/dataset.h"

#include "scratch.h"

/*
 * A small published mirror, made with the format writers alone: large and
 * small files, zero and repeated chunks, a recipe of two pages, holes,
 * links, attributes, and a directory cut into child catalogs. The tree
 * depends on the seed only; how it is packed on the layout.
 */
enum small_layout {
	SMALL_PLAIN,
	SMALL_REVERSED, /* other packs, other places, the same snapshot */
};

struct small_file {
	char *path;
	uint8_t *data;
	size_t size;
};

struct small_mirror {
	char root[128];	    /* holds all below; removed by the free */
	char dir[160];	    /* the mirror */
	char key_file[160]; /* the trusted public key */
	struct small_file *files;
	size_t file_count;
	uint64_t chunk_bytes; /* of all different chunks, plain */
	uint64_t serial;
	char pack_path[2][300];
};

#define SMALL_NAME "small"
#define SMALL_MANY 700 /* names in "many", empty files */
#define SMALL_BIG "big.bin"

/* like: take its keys (so both may serve one dataset), or NULL. */
struct small_mirror *small_mirror_new(unsigned seed, uint64_t serial,
				      enum small_layout layout,
				      const struct small_mirror *like);
void small_mirror_free(struct small_mirror *mirror);
const struct small_file *small_file(const struct small_mirror *mirror,
				    const char *path);
/* Flip one byte of every 4096 in a pack; or remove the packs, the places. */
void small_mirror_corrupt(const struct small_mirror *mirror, int pack);
void small_mirror_remove(const struct small_mirror *mirror, const char *what);

/* A temporary directory for caches. The caller frees and removes. */
void small_directory_remove(char *dir);

struct node *small_node(const char *cache_dir, uint32_t timeout_ms);
struct dataset *small_dataset(struct node *node, const struct small_mirror *key,
			      const char *const *mirrors, size_t count);
struct snapshot *small_snapshot(struct dataset *dataset);

/* Blocking calls; they return what the call returned at last. */
int small_current(struct dataset *dataset, struct snapshot **ret,
		  struct err *err);
int small_resolve(struct snapshot *snapshot, const char *path,
		  struct entry_attr *ret, struct err *err);
/* Bytes read, or an error. */
long small_read(struct snapshot *snapshot, uint64_t number, uint64_t offset,
		size_t len, uint8_t *to, struct err *err);
/* Every file, whole, equal to what was published. */
void small_check_all(struct snapshot *snapshot,
		     const struct small_mirror *mirror);

#endif
