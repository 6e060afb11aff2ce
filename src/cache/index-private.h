/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_INDEX_PRIVATE_H
#define LARDER_CACHE_INDEX_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include <lmdb.h>

#include "cache/index.h"

/* Shared by the files of the index only. */
#define INDEX_FORMAT 4u
/* Look-ups at the same time; more wait for one of these. */
#define INDEX_READERS 4

struct index_reader {
	pthread_mutex_t lock; /* held for one look-up */
	MDB_txn *txn;         /* reset between look-ups */
	MDB_cursor *scan;     /* of blobs */
};

struct index {
	struct index *next; /* guarded by index.c's list lock, with refs */
	unsigned int refs;
	dev_t device;
	ino_t inode;
	char *path;
	bool is_readonly, must_exist, has_old_data;
	int64_t old_data_s;
	_Atomic bool is_dead;
	MDB_env *env;
	MDB_txn *opening; /* while the tables are opened */
	MDB_dbi meta, blobs, units, chunks;
	_Atomic unsigned int next_reader;
	struct index_reader readers[INDEX_READERS];
	pthread_mutex_t write_lock; /* two caches of one process */
};

static inline MDB_val index_meta_key(const char *name)
{
	return (MDB_val){ strlen(name), (void *)name };
}

/* A row without the checksum behind it, which is compared: MDB_CORRUPTED. */
int index_row_get(MDB_txn *txn, MDB_dbi table, MDB_val *key, MDB_val *ret);
/* The value, at most ROW_UNITS_MAX bytes and those of meta, gets a checksum. */
int index_row_put(MDB_txn *txn, MDB_dbi table, MDB_val *key, MDB_val *value);
#define INDEX_ROW_MAX (INDEX_DIRECTORIES * 8)

/*
 * Readers leave no trace, so pages of the snapshot that one has begun to read
 * may be used again by the second transaction after it. From txn's begin until
 * this says no, what was read is right; on yes nothing of it is.
 */
bool index_is_overtaken(struct index *index, MDB_txn *txn);

/* index-check.c. An open data.mdb is what LMDB makes of its pages: 0, or
 * MDB_CORRUPTED, -EFAULT (it fails underneath), ENOMEM. header: only what is
 * needed before the library may look at it; 0 for a file that is empty. */
int index_check_header(int fd);
int index_check(struct index *index);

/* Translates LMDB's codes; what means damage marks the index dead. */
int index_error(struct index *index, int rc);

#endif
