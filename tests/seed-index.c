/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make a cache directory whose index knows many chunks, without their data:
 * what a start must cope with, in seconds rather than terabytes.
 *
 *   seed-index DIRECTORY CHUNKS
 */
#include <config.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cache/index.h"

#define BLOB_CHUNKS 50u
#define CHUNK_BYTES 4096u
#define BATCH (INDEX_OPS_MAX / 2)

/* Two changes: where the chunk is, and what it is called. */
static void fill(struct index_op ops[2], uint64_t number)
{
	uint64_t blob = number / BLOB_CHUNKS;

	ops[0] = (struct index_op){
		.kind = INDEX_RECORD,
		.may_create = true,
		.length = CHUNK_BYTES,
		.gen = blob + 1,
		.unit = number % BLOB_CHUNKS,
		.checksum = number,
		.offset = number % BLOB_CHUNKS * CHUNK_BYTES,
		.blob_bytes = BLOB_CHUNKS * CHUNK_BYTES,
		.unit_count = BLOB_CHUNKS,
		.last_use = 1,
	};
	digest_sha256(&blob, sizeof(blob), &ops[0].id);
	ops[1] = ops[0];
	ops[1].kind = INDEX_CHUNK;
	digest_sha256(&number, sizeof(number), &ops[1].chunk);
}

static int seed(const char *dir, uint64_t chunks, struct err *err)
{
	static struct index_op ops[INDEX_OPS_MAX];
	struct cache_options options = {.dir = dir, .min_free_bytes = 1};
	_cleanup_free_ char *path = NULL;
	struct index *index;
	struct cache *cache;
	uint64_t used;
	int r;

	r = cache_open(&options, &cache, err);
	if (r < 0)
		return r;
	cache_close(cache);
	if (asprintf(&path, "%s/index", dir) < 0)
		return -ENOMEM;
	r = index_open(path, 0, &index, err);
	if (r < 0)
		return r;
	for (uint64_t done = 0; done < chunks && r == 0; done += BATCH) {
		uint64_t count = chunks - done < BATCH ? chunks - done : BATCH;

		for (uint64_t i = 0; i < count; i++)
			fill(&ops[2 * i], done + i);
		r = index_write(index, ops, 2 * count, &used);
	}
	index_close(index);
	return r;
}

int main(int argc, char **argv)
{
	struct err err = {""};
	uint64_t chunks;
	int r;

	if (argc != 3 || parse_u64(argv[2], &chunks) < 0)
		return 2;
	r = seed(argv[1], chunks, &err);
	if (r < 0)
		fprintf(stderr, "seed-index: %s\n", err_text(&err, r));
	return r < 0;
}
