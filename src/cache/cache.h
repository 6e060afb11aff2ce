/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_CACHE_H
#define LARDER_CACHE_CACHE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

struct buf;
struct err;

/*
 * Verified bytes on the local disk, shared by every process that opens the
 * directory. Layout and rules: DESIGN and larder-format(5), "node cache".
 * What a caller puts must already be verified against a trusted digest;
 * what it gets back has had its XXH3 checked once in this process. All calls
 * are thread-safe. No call waits for the network; waits for another process
 * are bounded at 2 s, after which the cache serves without recording.
 */
struct cache;

struct cache_options {
	const char *dir;
	uint64_t limit_bytes;    /* 0: 80 % of the filesystem */
	uint64_t min_free_bytes; /* 0: 5 % of the filesystem */
	bool tells_limits; /* warn of such as the disk has not got */
};

/*
 * Makes the directory if it is missing. Refused with a text: a network or
 * FUSE filesystem, another format version, somebody else's or a world-writable
 * directory, a file. A directory that cannot be written is opened for reading what
 * is there (a warning; puts then return -EROFS).
 */
int cache_open(const struct cache_options *options, struct cache **ret, struct err *err);
/* Whether the disk under a directory answers, for who must not hang in the call
 * above: 0, or -ETIMEDOUT after 10 s. It forks. */
int cache_answers(const char *dir, struct err *err);
void cache_close(struct cache *cache);
const char *cache_dir(const struct cache *cache); /* absolute */
/*
 * A disk that does not answer for 2 s hangs until it does. Meanwhile nothing is
 * asked of it: what is not open counts as not there, puts return -ETIMEDOUT.
 * Threads that put when it began are stuck as long as it hangs, and what they
 * put is called back when it ends; all else is called back at once. changed
 * is called when it begins and when it ends, on a thread of the cache; threads
 * may be started there. NULL: nobody any more.
 */
void cache_on_hang(struct cache *cache,
		   void (*changed)(void *arg, bool is_hanging), void *arg);
/* A small file on the cache's filesystem, opened as programs may open those of
 * blobs: for reading, O_DIRECT. The caller closes it. */
int cache_probe_fd(const struct cache *cache);

/* ---- objects: catalogs, recipes (by their digest) and places, as stored
 * frames or files. The reader checks digests again; -EBADMSG means drop. */
enum cache_object_kind { CACHE_OBJECT, CACHE_PLACES };
int cache_object_get(struct cache *cache, enum cache_object_kind kind,
		     const struct digest *name, struct buf *ret);
int cache_object_put(struct cache *cache, enum cache_object_kind kind,
		     const struct digest *name, const void *data, size_t len);
int cache_object_drop(struct cache *cache, enum cache_object_kind kind,
		      const struct digest *name);

/* ---- heads: the last good head's text. key is any text (dataset and where
 * it comes from); it is hashed into a file name. */
int cache_head_get(struct cache *cache, const char *key, struct buf *ret);
int cache_head_put(struct cache *cache, const char *key, const void *text, size_t len);

/* ---- blobs */
struct cache_blob; /* one per blob and process, counted */

/*
 * The blob's file is made at the first put. unit_count: chunks of the blob
 * (by reference: blocks of 256 KiB). Cheap when already open.
 */
int cache_blob_open(struct cache *cache, const struct digest *id, uint64_t blob_bytes,
		    uint64_t unit_count, struct cache_blob **ret, struct err *err);
/* 1 and the open blob when all of it is here as one file, by the index; then its
 * units need not be known. 0, or a negative errno. */
int cache_blob_find(struct cache *cache, const struct digest *id,
		    uint64_t blob_bytes, struct cache_blob **ret);
void cache_blob_close(struct cache_blob *blob);
/* It is used now, in a way that the calls below do not show. */
void cache_blob_touch(struct cache_blob *blob);

/*
 * Whether unit `unit`, which is bytes [offset, offset + length) of the blob, is
 * here and sound. The first call for a unit in this process reads it and
 * compares its XXH3; a mismatch drops the unit and counts it. 1 yes, 0 no;
 * errors of the disk are "no".
 */
int cache_blob_has(struct cache_blob *blob, uint64_t unit, uint64_t offset, uint32_t length);

/* Whether that call would read the unit from the disk, to check it. */
bool cache_blob_must_check(struct cache_blob *blob, uint64_t unit);

/* The caller found the unit's bytes bad or cut short after all (a failed read,
 * another digest): forget it. Counted with the dropped ones. */
void cache_blob_drop(struct cache_blob *blob, uint64_t unit, uint32_t length);

/*
 * A descriptor from which bytes [offset, ...) can be read or spliced at
 * *ret_fd_offset, for up to *ret_len bytes (a segment's end; else the blob's).
 * Valid until cache_blob_close. -ENOENT when there is no file (any more):
 * a miss, also after cache_blob_has said yes. -EAGAIN: somebody has changed
 * the file, ask cache_blob_has again.
 */
int cache_blob_fd(struct cache_blob *blob, uint64_t offset, int *ret_fd,
		  uint64_t *ret_fd_offset, uint64_t *ret_len);

/*
 * Store a verified unit: written at its offset, visible to this process on
 * return, recorded in the index by a group commit soon after, then
 * recorded(arg) is called once on a cache thread (also when recording failed).
 * data NULL means all zero: a hole is left. -ENOSPC, -EDQUOT, -EROFS, -EIO...: nothing was
 * stored and recorded is not called; the caller goes on from memory. -ESTALE: the
 * blob's file was lost; what is sound stays readable, close and open again to store.
 */
int cache_blob_put(struct cache_blob *blob, uint64_t unit, uint64_t offset,
		   const void *data, uint32_t length,
		   void (*recorded)(void *arg), void *arg);

/* Whether much has been put and is not recorded yet, since the disk is slow: who
 * can should leave it time. */
bool cache_is_behind(const struct cache *cache);

/* Whether the unit is in the index by now, put by any process; after cache_wait
 * and after a claim was won. 1 if present (not yet checked), else 0. Unlike
 * cache_blob_has it reads no data. */
int cache_blob_recheck(struct cache_blob *blob, uint64_t unit);

/*
 * Dedup. put_chunk: as cache_blob_put, and remember by its digest that the
 * unit holds that chunk (of several places the last is remembered). get: copy a
 * chunk from whichever blob has it; 1 and ret_data filled with length bytes, 0
 * not here. The caller compares the digest: index or disk may be wrong.
 */
int cache_blob_put_chunk(struct cache_blob *blob, uint64_t unit, uint64_t offset,
			 const void *data, uint32_t length, const struct digest *chunk,
			 void (*recorded)(void *arg), void *arg);
int cache_chunk_get(struct cache *cache, const struct digest *chunk,
		    uint32_t length, void *ret_data);

/*
 * A blob that is one file and has all its units is soon synced, read again and
 * marked complete. 1 and a new O_RDONLY descriptor (the caller's; while it is
 * open the file is not evicted) if it is marked and device, inode, size, mtime
 * and ctime still are what was marked; else 0: incomplete, not marked yet,
 * segments. Costs an open; no data is read.
 */
int cache_blob_sealed_fd(struct cache_blob *blob, int *ret_fd);
/* Its bytes are known to be right as a whole: it is marked, segments or not. */
bool cache_blob_is_proven(struct cache_blob *blob);
/* Who waits for that asks again and again: 1 it is, 0 not yet, or why the last
 * check failed, once (-EBADMSG: some of it was wrong and is dropped). */
int cache_blob_prove(struct cache_blob *blob);

/*
 * The blob's id is the digest of all its bytes, of which nothing but that is
 * known: before it is marked complete they are compared with it, and if they
 * differ every unit is forgotten and counted as corrupt. Say so after opening
 * and before anything else.
 */
void cache_blob_expect(struct cache_blob *blob);
/* How often they differed in this process. */
unsigned int cache_blob_rejections(struct cache_blob *blob);

/*
 * Bytes that lie at a unit's place in the blob's file although nothing is
 * recorded of them: the index was lost, or the process that wrote them ended
 * too soon. 1 and ret_data filled, 0. Only the unit's digest can tell whether
 * they are the unit; if so, a put records it without writing it again.
 */
int cache_blob_candidate(struct cache_blob *blob, uint64_t unit,
			 uint64_t offset, uint32_t length, void *ret_data);

/* Whether its file is cut in segments: then it is closed and opened again where
 * files that are open stand in the way of eviction. */
bool cache_blob_in_segments(const struct cache_blob *blob);
uint64_t cache_blob_bytes_present(struct cache_blob *blob);
bool cache_blob_complete(struct cache_blob *blob);

/* What the index says of a blob, open or not: 1, 0 nothing, negative errno. */
struct cache_blob_info {
	uint64_t blob_bytes, present_bytes, disk_bytes;
	bool is_complete;
	int64_t last_use;
};
int cache_blob_info(struct cache *cache, const struct digest *id,
		    struct cache_blob_info *ret);

/* ---- flights between processes: one download per digest on the node. A
 * claim is a lock byte at the digest's offset in one file and dies with its process. */
int cache_claim(struct cache *cache, const struct digest *unit);     /* 1 ours, 0 another process has it */
void cache_unclaim(struct cache *cache, const struct digest *unit);  /* and wake waiters */
void cache_progress(struct cache *cache, const struct digest *unit); /* bytes arrived */
/* Any value; another one a while later means that bytes arrived. */
uint32_t cache_progress_read(struct cache *cache, const struct digest *unit);
/* Sleep until any process recorded or unclaimed something, or time-out. What
 * happened since the last call returned counts, so a caller that looks and then
 * waits misses nothing; meant for one thread. */
void cache_wait(struct cache *cache, uint32_t timeout_ms);

/* ---- pins: files of their own, so they survive the index. Every process on
 * the directory honours a pin from the moment cache_pin_add returns; removing
 * one is as quick. A pin of the same source, path and globs is replaced. */
struct cache_pin {
	const char *source; /* what was pinned: MIRROR#NAME or a name */
	const char *path;   /* below the dataset's root, "" for it */
	const char *const *globs;
	size_t glob_count;
	struct digest snapshot;
	int64_t made_s;
	uint64_t bytes; /* of the files asked for, for people */
	/* What is kept: blobs, and the catalogs and recipes they need. */
	const struct digest *blobs, *objects;
	size_t blob_count, object_count;
};
int cache_pin_add(struct cache *cache, const struct cache_pin *pin,
		  struct err *err);
/* By source, path and globs; -ENOENT: there is none. */
int cache_pin_remove(struct cache *cache, const struct cache_pin *pin,
		     struct err *err);
/* The pin is each's for the call. */
int cache_pin_list(struct cache *cache,
		   void (*each)(void *arg, const struct cache_pin *pin),
		   void *arg, struct err *err);

/* Also true when that cannot be told. */
bool cache_is_pinned(struct cache *cache, const struct digest *id);
/* On disk, of what is pinned. Reads every pin: not for a read path. */
uint64_t cache_pinned_bytes(struct cache *cache);

/* ---- eviction by hand: of these blobs, what is neither pinned nor held open
 * by a process that lives. Others are asked to let go of what they do not use,
 * and given 3 s. is_dry_run: nothing is removed, the result says what would be.
 */
struct cache_evicted {
	uint64_t blobs, bytes; /* removed, or partly so: bytes on disk */
	uint64_t pinned_blobs, pinned_bytes;
	uint64_t open_blobs, open_bytes;
};
int cache_evict(struct cache *cache, const struct digest *ids, size_t count,
		bool is_dry_run, struct cache_evicted *ret, struct err *err);
/* Called on the keeper's thread when files that this process has open stand in
 * the way: to close what is not in use. NULL: nobody any more. */
void cache_on_pressure(struct cache *cache, void (*let_go)(void *arg),
		       void *arg);

/* ---- room, for those who bring much at once */
struct cache_room {
	uint64_t limit_bytes; /* what the cache may hold, given its disk */
	uint64_t free_bytes;  /* before anything must go */
	uint64_t evictable_bytes; /* not pinned, not used for idle_s */
	bool is_disk; /* the disk binds, not the size limit */
};
/* Reads the whole index: not for every read. */
void cache_room(struct cache *cache, uint32_t idle_s, struct cache_room *ret);

/* ---- usage and counters, for status */
struct cache_usage {
	uint64_t used_bytes, limit_bytes, disk_free_bytes;
	uint64_t usable_bytes; /* the limit, or less where the disk is full */
	uint64_t blob_files, units_dropped_corrupt, puts_failed;
	uint64_t blobs_lost;    /* recorded, but the file was not there */
	uint64_t blobs_evicted, bytes_evicted; /* by this process */
	/* Puts during an eviction that took less than 1, 10, 100, 1000 ms,
	 * and longer. Nothing else of a read can meet one. */
#define CACHE_WAITS 5
	uint64_t eviction_waits[CACHE_WAITS];
	bool records;           /* false: the index cannot be written (now) */
	bool is_hanging;        /* the disk does not answer */
	int64_t index_holder;   /* pid of the process that blocks it, or 0 */
};
void cache_usage(struct cache *cache, struct cache_usage *ret);
/* The same as "KEY VALUE" lines, as mounts pass it on. */
int cache_figures_text(struct cache *cache, uint64_t pinned_bytes,
		       struct buf *ret);

/* ---- verifying */
struct cache_verify_options {
	bool is_repair;       /* forget what is bad, so that it is fetched again */
	unsigned int threads; /* 0: one for each processor */
	/* These blobs and nothing else; NULL: all, objects and leftovers too. */
	const struct digest *ids;
	size_t id_count;
	/* One call at a time, on any thread; may be NULL. path: below the cache. */
	void (*report)(void *arg, const char *path, const char *text);
	void (*progress)(void *arg, uint64_t bytes, uint64_t total);
	void *arg;
	const volatile sig_atomic_t *stop; /* may be NULL */
};
struct cache_verify_result {
	uint64_t blobs, units, objects, bytes; /* looked at */
	uint64_t proven_units;  /* against their digest as well */
	uint64_t bad_units, bad_bytes, bad_objects;
	uint64_t lost_files;    /* of bad_bytes */
	uint64_t leftovers, leftover_bytes;
	uint64_t repaired, left; /* faults */
};
/*
 * Reads all that is recorded and compares it with its checksum and, where the
 * recipe is in the cache, with its digest; objects with their names. Also
 * while others use the cache: they are made to check a file that was found bad
 * before they use it again. -ECANCELED: stopped.
 */
int cache_verify(struct cache *cache,
		 const struct cache_verify_options *options,
		 struct cache_verify_result *ret, struct err *err);

#endif
