/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_BLOBS_H
#define LARDER_CACHE_BLOBS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>


#include "cache/seal.h"
#include "cache/watch.h"
#include "format/digest.h"

struct cache;
struct evict_candidate;
struct stat;

/* Blobs larger than an eighth of the limit are cut into files of this size,
 * so that they can be evicted in parts. */
#define SEGMENT_BYTES (UINT64_C(256) << 20)
#define BLOB_BUCKETS 1024u
/* 1 PiB in segments of 256 MiB. */
#define LIMIT_SEGMENTS (UINT64_C(1) << 22)

/*
 * One blob in this process. It has at most one generation in its life: a
 * descriptor handed out and a unit found sound always mean the same file.
 * When that file turns out not to be the current one the blob is stale:
 * what is sound stays readable, nothing more is stored, and the next open
 * makes a new struct.
 */
struct cache_blob {
	struct cache *cache;
	struct digest id;
	uint64_t blob_bytes, unit_count;

	/* guarded by the table's lock */
	unsigned int refs;
	struct cache_blob *next;                  /* in its bucket */
	struct cache_blob *idle_next, *idle_prev; /* while refs is 0 */
	int64_t idle_since_s;
	bool is_listed;                           /* in its bucket */

	pthread_mutex_t lock;   /* held while files are opened and made */
	uint64_t missing_gen;   /* under lock: its file is gone */
	/* written under lock before is_attached, constant afterwards */
	_Atomic bool is_attached;
	bool is_unnamed;        /* unlinked already: works without index */
	uint64_t gen, segment_bytes, segment_count;
	_Atomic int *fds;       /* -1 until opened; set under lock */
	struct watch *watches;  /* of each file; guarded by watch_lock */
	pthread_mutex_t watch_lock;

	_Atomic bool is_stale;
	_Atomic bool is_cut;       /* truncated under us: nothing is sound */
	_Atomic bool is_announced; /* our symlink is there */
	_Atomic bool is_recorded;  /* the index has a row of gen */
	_Atomic uint64_t *sound;   /* a bit per unit: checked or written here */
	_Atomic uint64_t *bad;     /* found bad, the index not told yet */
	_Atomic uint64_t own_units, own_bytes; /* put by this process */
	_Atomic uint64_t unlinked_bytes; /* on disk without a name; part of
					  * the space's */
	struct seal seal;
	_Atomic unsigned int distrusts; /* times `sound` was cleared */
	_Atomic int64_t last_use;
	int64_t recorded_use;      /* the keeper's */
};

struct blob_table {
	pthread_mutex_t lock;
	int dirfd; /* CACHE/blobs, or -1 */
	struct cache_blob *buckets[BLOB_BUCKETS];
	struct cache_blob *idle_first, *idle_last; /* longest idle first */
	unsigned int idle_count;
};

int blob_table_init(struct blob_table *table, int dirfd);
/* Frees idle blobs; all must be closed by now. */
void blob_table_release(struct blob_table *table);

int blob_get(struct cache *cache, const struct digest *id, uint64_t blob_bytes,
	     uint64_t unit_count, struct cache_blob **ret);
void blob_ref(struct cache_blob *blob);
void blob_unref(struct cache_blob *blob);
/* Frees blobs idle since before; returns how many. */
unsigned int blob_table_trim(struct blob_table *table, int64_t before_s);
/* Calls each with every blob open or idle, counted for the call, no lock. */
void blob_table_each(struct blob_table *table,
		     void (*each)(void *arg, struct cache_blob *blob),
		     void *arg);
/* Blobs in segments that are in use: who opens one next gets a new struct, with
 * no segment open, and the old one ends with those that use it now. A stream
 * through a blob larger than the cache would otherwise keep all of it open. */
void blob_table_renew(struct blob_table *table);
/* False if it is in use in this process; an idle one is freed first. */
bool blob_table_forget(struct blob_table *table, const struct digest *id);

/*
 * Finds the blob's current file, or makes one. -ENOENT: there is none and
 * may_create is false.
 */
int blob_attach(struct cache_blob *blob, bool may_create);
/* Runs something that opens, makes or removes its files on a thread of the
 * disk's, so that a caller whom a reader waits for is not stuck with it. */
int blob_run(struct cache_blob *blob,
	     int (*run)(struct cache_blob *blob, uint64_t segment,
			bool may_create),
	     uint64_t segment, bool may_create);
/* Two processes that keep undoing each other's files give up after this. */
#define BLOB_TRIES 8
/* Opens, locks and, if it is short, extends one of its files; what is to be made
 * gets its directory, which eviction takes away whenever it is empty. -ENOENT:
 * as if missing. */
int blob_open_file(struct cache_blob *blob, const char *path, int flags,
		   uint64_t size);
int blob_parse_hex64(const char *text, uint64_t *ret); /* 16 digits */
/* The descriptor of a segment of an attached blob; opened and kept. */
int blob_segment(struct cache_blob *blob, uint64_t segment, bool may_create);
/* Somebody else has changed it: no unit counts as sound any more. */
void blob_distrust(struct cache_blob *blob);
/* Still as long as it was made? */
bool blob_segment_is_whole(const struct cache_blob *blob, uint64_t segment,
			   const struct stat *st);
int blob_write(struct cache_blob *blob, uint64_t offset, const void *data,
	       size_t len);
/* Bytes read in full or -ENODATA (short, missing) or another errno. */
int blob_read(struct cache_blob *blob, uint64_t offset, void *data, size_t len);
/* Whether the range has never been written. */
bool blob_is_hole(struct cache_blob *blob, uint64_t offset, size_t len);
/* Whether a part of the range lies in no block. Errors: no. */
bool blob_has_hole(struct cache_blob *blob, uint64_t offset, size_t len);
uint64_t blob_disk_bytes(struct cache_blob *blob); /* 0: not known */

/* From the recorder: after the commit. */
void blob_recorded(struct cache_blob *blob);
void blob_set_stale(struct cache_blob *blob);
void blob_unit_dropped(struct cache_blob *blob, uint64_t unit);
/* Before it, of a unit whose checksum did not fit: somebody may have put it
 * anew since. */
bool blob_unit_is_right(struct cache_blob *blob, uint64_t unit);

/* The unit's checksum does not fit: it is dropped unless it does by then. */
void blob_unit_suspect(struct cache_blob *blob, uint64_t unit, uint32_t length);

/* Bytes that stay on the disk until the blob is closed here. */
void blob_add_unlinked(struct cache_blob *blob, uint64_t bytes);
/* Unlinks what this process has open of a generation that is not current. */
void blob_unlink_own(struct cache_blob *blob);
/* Unlinks a blob's file, or one segment of it, unless some process has it open
 * (-EBUSY). is_dry_run: only looks. -ENOENT: it was not there. */
int blob_file_remove(int blobs_fd, const struct evict_candidate *candidate,
		     bool is_dry_run);
/* The directory of a blob's files, if none are left in it. */
void blob_directory_drop(int blobs_fd, const struct digest *id);

/* ab/cdef.GEN[.N], or ab/cdef.new for the announcement. */
#define BLOB_PATH_MAX 128
void blob_path(const struct digest *id, uint64_t gen, uint64_t segment_bytes,
	       uint64_t segment, char ret_path[BLOB_PATH_MAX]);
void blob_announcement_path(const struct digest *id,
			    char ret_path[BLOB_PATH_MAX]);
/* Hex of the id (to free of dots), generation of a file's name; -EINVAL. */
int blob_name_parse(const char *directory, const char *name,
		    char ret_hex[DIGEST_HEX_MAX], uint64_t *ret_gen);

#endif
