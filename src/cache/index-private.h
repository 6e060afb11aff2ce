/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_INDEX_PRIVATE_H
#define LARDER_CACHE_INDEX_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <lmdb.h>

#include "cache/index.h"

/* Shared by the files of the index only. */
#define INDEX_FORMAT 3u
/* Look-ups at the same time; more wait for one of these. */
#define INDEX_READERS 4

struct index_reader {
	pthread_mutex_t lock; /* held for one look-up */
	MDB_txn *txn;         /* reset between look-ups */
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

/* Translates LMDB's codes; what means damage marks the index dead. */
int index_error(struct index *index, int rc);

#endif
