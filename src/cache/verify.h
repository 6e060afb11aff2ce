/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_VERIFY_H
#define LARDER_CACHE_VERIFY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "cache/internal.h"

struct codec;

/* 64 units of a blob: what a thread checks at a time, about 64 MiB. Where a
 * blob is compared with its digest as a whole, all of it. */
struct verify_piece {
	struct digest id;
	struct blob_row row;
	uint32_t number; /* of the row of units, the first */
	bool is_whole;
};

/* Shared by the files verify*.c only. */
struct verify {
	struct cache *cache;
	const struct cache_verify_options *options;
	_Atomic bool is_over;	 /* stopped or failed */
	_Atomic bool has_waited; /* for an eviction that did not end */

	pthread_mutex_t lock; /* guards the rest */
	struct cache_verify_result result;
	uint64_t done_bytes, total_bytes;
	int failure;
	struct err err;
	/* what comes next */
	struct digest after;
	size_t next_id, next_blob;
	uint32_t next_row;
	bool is_scanned;
	VEC(struct verify_piece) blobs; /* of one scan, number unused */
	unsigned int next_directory;
};

/* One thread's. */
struct verifier {
	struct verify *verify;
	struct codec *codec;
	uint8_t *buffer; /* a chunk, aligned, and room to align its reads */
};
#define VERIFY_ALIGN 4096u

/* A fault: reported and counted; is_repaired if something was done about it. */
void verify_fault(struct verify *verify, const char *path, bool is_repaired,
		  const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void verify_progress(struct verify *verify, uint64_t bytes);
void verify_record(struct verify *verify, const struct index_op *op);

/* verify-blob.c */
void verify_units(struct verifier *verifier, const struct verify_piece *piece);
/* verify-identity.c: units of a complete blob are added in order. NULL: nothing is
 * known that it could be compared with, or no memory. compare: 1 it is what it
 * is named by, 0 it is not, negative errno: it cannot be told. */
struct identity;
struct identity *identity_new(const struct digest *id,
			      const struct blob_row *row);
void identity_free(struct identity *identity);
void identity_add(struct identity *identity, const struct unit_row *unit,
		  const uint8_t *data);
int identity_compare(struct identity *identity);
/* verify-files.c: one of 256 directories. */
void verify_objects(struct verifier *verifier, unsigned int directory);
void verify_leftovers(struct verifier *verifier, unsigned int directory);

#endif
