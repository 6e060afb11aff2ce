/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_SEAL_H
#define LARDER_CACHE_SEAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cache/rows.h"
#include "format/digest.h"

struct cache;
struct cache_blob;

/*
 * The complete mark. A blob is sealed while its index row carries a mark and
 * its file still looks as it did when it was marked:
 *
 *   partial --last unit recorded--> complete --checked--> SEALED
 *      ^                               ^ |                   |
 *      |                               | +--file changed-----+
 *      +--------unit found bad---------+
 *
 * A mark says: the file was synced, then read again, and each unit had the
 * checksum of the verified bytes that were put; of a blob that is named by its
 * content, also that all of them together have that digest. A blob in segments
 * is never sealed; one that is named by its content gets a mark all the same,
 * which says that it was found to have that digest.
 */

/* What the mark said, in memory; written while is_sealed is false. */
struct seal {
	_Atomic bool is_sealed;
	_Atomic bool is_queued;
	_Atomic bool is_by_content; /* see cache_blob_expect */
	_Atomic bool is_checking; /* until that is recorded */
	_Atomic bool is_asked_again; /* meanwhile */
	_Atomic unsigned int rejections;
	_Atomic int failure; /* of a check, until somebody asks */
	_Atomic uint64_t device, inode, size;
	_Atomic int64_t mtime_ns, ctime_ns;
};

/* Called when the blob's row is read: takes its mark over, or asks for one
 * if all units are there. */
void seal_load(struct cache_blob *blob, const struct blob_row *row);
/* Whether there is something for a mark to say. */
bool seal_is_wanted(const struct cache_blob *blob);
/* The mark has been recorded. */
void seal_set(struct cache_blob *blob, const struct file_mark *mark);
/* The file is not what was marked: each unit is checked again before use. */
void seal_void(struct cache_blob *blob);

struct stat;
struct file_mark file_mark_of(const struct stat *st);
/* Whether a sealed blob's file still is what was marked. */
bool seal_agrees(const struct cache_blob *blob, const struct stat *st);

/* At most one blob per core is being checked, and no more than this. */
#define SEALER_THREADS_MAX 4u

struct sealer_entry {
	struct digest id;
	uint64_t blob_bytes, unit_count;
	bool is_by_content;
};

struct sealer {
	struct cache *cache;
	pthread_t threads[SEALER_THREADS_MAX];
	unsigned int thread_count;
	bool is_running;
	_Atomic bool is_stopping; /* set under lock */
	pthread_mutex_t lock;     /* guards the queue */
	pthread_cond_t arrived;
	VEC(struct sealer_entry) queue;
};

int sealer_start(struct sealer *sealer, struct cache *cache);
/* What is not checked by now is when it is opened the next time. */
void sealer_stop(struct sealer *sealer);
/* Check and mark it soon. Cheap; nothing is promised. */
void sealer_add(struct cache_blob *blob);

#endif
