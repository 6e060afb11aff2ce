/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_DATASET_H
#define LARDER_DATASET_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/digest.h"

struct cache;

/*
 * A node (what one process shares: cache, fetcher, workers, flights, buffers),
 * its datasets, and their snapshots. This is the only place where cache,
 * source and catalog meet.
 *
 * No call here waits for the network. A call that needs bytes which are not
 * here starts or joins the flight that brings them, remembers the waiter and
 * returns DATASET_PARKED; wake() is then called exactly once, on a thread of
 * the node without any lock held, and the caller makes the same call again
 * with the same waiter (which keeps what was fetched alive until
 * waiter_release, so progress is certain even without a working cache). A
 * waiter whose time is over gets the reason from that next call. One call
 * at a time per waiter.
 */
struct node;
struct dataset;
struct snapshot;

#define DATASET_PARKED 1

struct waiter {
	void (*wake)(struct waiter *waiter);
	/* NULL, or told before a call sleeps for the disk */
	void (*may_sleep)(struct waiter *waiter);
	uint64_t timeout_ms; /* 0: the node's `timeout`, from the first park */
	/* private to dataset/ */
	uint64_t deadline_ms;
	bool distrusts_files;
	int result;
	int class;     /* enum fetch_class of an object that could not be had */
	bool is_noted; /* readahead knows of this read */
	bool is_peek;  /* takes only what is here */
	struct err err;
	void *held;
};
void waiter_init(struct waiter *waiter, void (*wake)(struct waiter *waiter));
/* Drops what it holds. Not while parked. */
void waiter_release(struct waiter *waiter);
/* A waiter for threads that may block: after DATASET_PARKED call
 * waiter_block, then call again. */
struct blocking_waiter;
struct blocking_waiter *blocking_waiter_new(void);
struct waiter *blocking_waiter_get(struct blocking_waiter *waiter);
void waiter_block(struct blocking_waiter *waiter);
/* At most about so long; false: it is still parked. */
bool waiter_block_for(struct blocking_waiter *waiter, uint32_t limit_ms);
void blocking_waiter_free(struct blocking_waiter *waiter);

struct node_options {
	const char *cache_dir; /* NULL: no cache, everything from memory */
	uint64_t cache_limit_bytes, cache_min_free_bytes;
	bool is_service; /* a mount: others must be told of bad limits */
	uint64_t buffer_bytes; /* 0: 256 MiB; bytes in flight and catalogs in
				  memory */
	uint32_t timeout_ms;   /* 0: 30,000; a reader's budget */
	uint32_t refresh_ms;   /* 0: 60,000; how often heads are looked at */
	/* requests at a time to one server, and to all; 0: 16 and 64 */
	uint32_t connections, total_connections;
	const char *proxy, *ca_file, *cert_file, *cert_key_file;
};
int node_open(const struct node_options *options, struct node **ret,
	      struct err *err);
/* From now on a line in the log says when no mirror of a dataset answers, and
 * when one does again; those that do not answer now are named at once. Before,
 * whoever asked is told by what fails. */
void node_serves(struct node *node);
/* Wakes parked waiters with -ESHUTDOWN first. Waiters, read results and
 * snapshots must be released by then, at the latest by what wake() does. */
void node_close(struct node *node);
struct cache *node_cache(struct node *node);
/* A small file of the cache, to try out what the kernel does with such; the
 * caller closes it. -ENOENT without a cache. */
int node_probe_fd(struct node *node);

struct origin_options; /* fetch/fetch.h */

struct dataset_options {
	const char *name;	    /* as shown to users */
	const char *remote_name;    /* on the mirror; NULL: name */
	const char *tag;	    /* NULL: current head */
	const char *const *mirrors; /* tried in order */
	size_t mirror_count;
	const struct origin_options *origin; /* of those; NULL: defaults */
	const char *const *key_files;	     /* trusted public keys */
	size_t key_count;
	bool insecure; /* accept an unsigned mirror */
	bool refuse_expired;
	const struct hub_options *hub; /* instead of mirrors and keys */
	/* May turn out not to exist: nobody counts it before dataset_keep. */
	bool is_tentative;
};

/* A repository of the Hugging Face Hub. */
struct hub_options {
	const char *source; /* hf://... */
	bool is_whole;	    /* hf:// itself: views (mount/) */
	/* Patterns of repositories (hub_rules_check); they live as long as the
	 * node. */
	const char *const *allow, *const *deny;
	size_t allow_count, deny_count;
	const char *endpoint;	/* URL */
	const char *token;	/* NULL: token_file's */
	const char *token_file; /* need not exist; NULL: no token */
	bool is_offline;	/* ask nothing */
	bool is_followed;	/* look again every refresh_ms, else never */
};
struct buf;
/* The options of its mirrors in buckets: NAME=VALUE, each with a NUL. */
int dataset_origin_words(const struct dataset_options *options,
			 struct buf *ret);
/* Makes no request: a dataset is opened at its first use. Fails only for
 * options that can never work (no mirror, bad name, unreadable key). */
int dataset_add(struct node *node, const struct dataset_options *options,
		struct dataset **ret, struct err *err);
const char *dataset_name(const struct dataset *dataset);
/* A tentative one: it stays until the node is closed, or goes now. */
void dataset_keep(struct dataset *dataset);
void dataset_drop(struct dataset *dataset);
/* hf://...: whether it can name a repository (-EINVAL) that the rules let in
 * (-EACCES). Asks nobody. */
int dataset_hub_check(const struct hub_options *options, struct err *err);

/* The current snapshot, counted for the caller. The first call fetches the
 * head (or takes the cached one when no mirror answers). A failure is
 * remembered for 1 s so that storms cost nothing. */
int dataset_current(struct dataset *dataset, struct waiter *waiter,
		    struct snapshot **ret, struct err *err);
/*
 * Whether a repository of the Hub has branches or tags whose names begin with
 * prefix, which ends in a slash: as was known of it last. And to know anew: asks
 * for them, unless that was done a moment ago. -EIO and why; parks.
 */
bool dataset_refs_below(struct dataset *dataset, const char *prefix);
int dataset_refs_ask(struct dataset *dataset, struct waiter *waiter,
		     struct err *err);
/* Looks now whether the dataset, which is open, has another snapshot, though
 * nobody asked to follow it. *look is LOOK_NONE before the first call and kept
 * for the next ones. -EIO and why: the current one stays. */
enum dataset_look {
	LOOK_NONE,
	LOOK_OF_OTHERS, /* it may have begun before the question */
	LOOK_ASKED,
};
int dataset_refresh(struct dataset *dataset, struct waiter *waiter,
		    enum dataset_look *look, struct err *err);
/* Called on a node thread when a refresh found another snapshot. */
void dataset_on_change(struct dataset *dataset,
		       void (*changed)(void *arg, struct dataset *dataset),
		       void *arg);

enum dataset_state { DATASET_COLD, DATASET_OK, DATASET_STALE, DATASET_FAILED };
struct dataset_info {
	enum dataset_state state;
	struct digest snapshot;
	uint64_t serial, entry_count, total_bytes;
	int64_t time, expires;
	/* stale, since every mirror says that it has not got it, or refuses */
	bool is_for_good;
	char reason[256];
	/* a repository of the Hub: what of it was asked for, and what that is
	 */
	char revision[256], commit[41];
};
void dataset_info(struct dataset *dataset, struct dataset_info *ret);

/*
 * How much of the current snapshot is in the cache and pinned, as counted last:
 * in the background, from the catalogs that are in the cache; what is not fresh
 * is being counted again. Files that share a blob have their share of what is
 * there.
 */
struct dataset_figures {
	bool is_fresh, is_counted; /* at all */
	uint64_t cached_bytes, pinned_bytes, total_bytes;
};
void dataset_figures(struct dataset *dataset, struct dataset_figures *ret);
/* Cache and counters of the node as "KEY VALUE" lines. */
struct buf;
int node_figures_text(struct node *node, struct buf *ret);

struct snapshot *snapshot_ref(struct snapshot *snapshot);
void snapshot_unref(struct snapshot *snapshot);
const struct digest *snapshot_digest(const struct snapshot *snapshot);
uint64_t snapshot_entry_count(const struct snapshot *snapshot);
uint64_t snapshot_total_bytes(const struct snapshot *snapshot);

/* What stat needs, without pointers. number is the entry number. */
struct entry_attr {
	uint64_t number;
	uint8_t type; /* enum entry_type */
	uint16_t mode;
	uint64_t size;
	int64_t mtime_s;
	uint32_t mtime_ns;
	bool has_owner;
	uint32_t uid, gid;
	uint64_t entries_below, bytes_below; /* directories */
};

/* All of these: 0, DATASET_PARKED, or a negative errno with err. The root
 * directory is number 0. -ENOENT only from a verified catalog that lacks the
 * name; a number that no catalog has is -ESTALE. */
int snapshot_getattr(struct snapshot *snapshot, uint64_t number,
		     struct waiter *waiter, struct entry_attr *ret,
		     struct err *err);
int snapshot_lookup(struct snapshot *snapshot, uint64_t dir, const char *name,
		    size_t name_len, struct waiter *waiter,
		    struct entry_attr *ret, struct err *err);
/* "a/b/c", "" or "/" the root; no symlinks followed. */
int snapshot_resolve(struct snapshot *snapshot, const char *path,
		     struct waiter *waiter, struct entry_attr *ret,
		     struct err *err);
/* The number of dir's parent (the root's is the root). */
int snapshot_parent(struct snapshot *snapshot, uint64_t dir,
		    struct waiter *waiter, uint64_t *ret, struct err *err);
/*
 * Calls each(arg, name, name_len, attr, index) for names from position `index`
 * on (0 is the first name), until it returns false or the end. Parks only
 * before the first call of each: a part that is not here ends the listing early
 * instead, and the caller asks again from where it stopped. *ret_end: no
 * names are left.
 */
int snapshot_list(struct snapshot *snapshot, uint64_t dir, uint64_t index,
		  struct waiter *waiter,
		  bool (*each)(void *arg, const char *name, size_t name_len,
			       const struct entry_attr *attr, uint64_t index),
		  void *arg, bool *ret_end, struct err *err);
/* Target or reason; NUL-terminated, malloc. */
int snapshot_readlink(struct snapshot *snapshot, uint64_t number,
		      struct waiter *waiter, char **ret, struct err *err);

/*
 * The files of a subtree that patterns choose. Calls each for every one, in
 * an order that reads well, until it returns non-zero, which is returned.
 * Blocks: for commands and threads of their own. A pattern without '/' is
 * compared with names, one with '/' with the path below `root`; a directory
 * that matches stands for all that is in it. No patterns: everything. Symlinks
 * are left out; holes and tombstones are not. -ENOENT: nothing matches.
 */
struct selection {
	struct snapshot *snapshot;
	uint64_t root; /* entry number: a directory or a file */
	const char *const *globs;
	size_t glob_count;
};
struct selected_file {
	uint64_t number, size;
	uint8_t type;
	const char *path; /* below root; "" when it is root */
};
int snapshot_select(const struct selection *selection,
		    struct blocking_waiter *waiter,
		    int (*each)(void *arg, const struct selected_file *file),
		    void *arg, struct err *err);

/* Where a file's bytes lie: one stretch of one blob. A file without bytes, a
 * hole and whatever is no file lie nowhere: DIGEST_NONE. visit (or NULL) is
 * told the catalogs that lead to the entry, from the root's. */
struct file_location {
	struct digest blob;
	uint64_t blob_bytes, blob_offset;
};
int snapshot_locate(struct snapshot *snapshot, uint64_t number,
		    struct waiter *waiter, struct file_location *ret,
		    void (*visit)(void *arg, const struct digest *catalog),
		    void *arg, struct err *err);

/* Pieces of a read, in order. */
struct read_piece {
	int fd; /* >= 0: bytes at fd_offset of this descriptor */
	uint64_t fd_offset;
	const void *memory; /* fd < 0: bytes here */
	size_t len;
};
#define READ_PIECES_MAX 64
struct read_result {
	struct read_piece pieces[READ_PIECES_MAX];
	unsigned count;
	size_t len; /* sum: shorter than asked only at the end of the file */
	void *held[READ_PIECES_MAX]; /* private */
	unsigned held_count;
};
/*
 * At most 8 MiB a call; otherwise short only at the end of the file, where it
 * is 0 bytes. -EIO and the reason: a hole, and bytes that no mirror has or has
 * right; -ETIMEDOUT: mirrors are silent; -EACCES: withdrawn (a tombstone, which
 * is refused at open and here), or every mirror refuses us; -ENOTSUP: by
 * reference, not yet; -EISDIR, -EINVAL: no file. Never -ENOENT. err names file
 * and mirrors.
 */
int snapshot_read(struct snapshot *snapshot, uint64_t number, uint64_t offset,
		  size_t len, struct waiter *waiter, struct read_result *ret,
		  struct err *err);
/* The same for bytes that are here, without a wait or a request: -EAGAIN where
 * any is missing. Why it fails is left to the read that follows. */
int snapshot_peek(struct snapshot *snapshot, uint64_t number, size_t len,
		  struct waiter *waiter, struct read_result *ret);
void read_result_release(struct read_result *result);
/*
 * A piece's file did not give its bytes: cut short, or the disk fails. Call
 * this, and the same read again with the same waiter: it reads the files
 * itself, forgets what it cannot read, brings it from a mirror, and its result
 * is all memory.
 */
void read_result_failed(struct read_result *result, struct waiter *waiter);

/*
 * A file that is one whole blob, which is complete, verified and synced as
 * one cache file: SNAPSHOT_BACKED, a descriptor of that file, which the caller
 * closes, and what keeps the file from being evicted until
 * snapshot_backing_release. 0: no such file. Or DATASET_PARKED, or a negative
 * errno. Looks only at what is here; nothing is fetched but catalogs.
 */
#define SNAPSHOT_BACKED 2
struct cache_blob;
int snapshot_backing(struct snapshot *snapshot, uint64_t number,
		     struct waiter *waiter, struct cache_blob **ret,
		     int *ret_fd, struct err *err);
/*
 * Whether what is read of the file can turn out wrong: bytes by reference that
 * were not compared with their digest yet. 0, DATASET_PARKED, or a negative
 * errno.
 */
int snapshot_unsettled(struct snapshot *snapshot, uint64_t number,
		       struct waiter *waiter, bool *ret, struct err *err);
void snapshot_backing_release(struct cache_blob *backing); /* or NULL */

/*
 * Everything of some files into the cache, on a thread of its own, behind what
 * readers of this process and of others on the cache ask for. What fails but
 * may heal is tried until it does; what cannot heal is counted and the rest
 * goes on. It ends well only when every byte is here, checked and recorded.
 */
struct prefetch;
struct prefetch_options {
	struct selection selection; /* its texts: until prefetch_free */
	uint64_t limit_bytes_per_s; /* of the wire; 0: none */
	bool is_dry_run;	    /* only count and see whether it fits */
	/* evict nothing that was used within so long: fail instead; 0: as
	 * reads do */
	uint32_t spare_s;
	/* On its thread at its very end; may be NULL. */
	void (*ended)(void *arg);
	void *arg;
};
enum prefetch_state {
	PREFETCH_LISTING,
	PREFETCH_COUNTING,
	PREFETCH_FETCHING,
	PREFETCH_CHECKING, /* all came: is it all here? */
	PREFETCH_ENDED,
};
#define PREFETCH_ORIGINS 16u
struct prefetch_info {
	enum prefetch_state state;
	int result; /* once ended; err says why */
	struct err err;
	uint64_t files, files_done, files_failed;
	uint64_t bytes, bytes_done; /* of files; done starts at what is here */
	uint64_t bytes_at_start;    /* what was here */
	uint64_t wire_bytes;
	uint64_t fetch_ms;   /* since fetching began */
	uint64_t stalled_ms; /* since bytes came last; 0: they come */
	char reason[256];    /* why it stalls or what it waits for, or "" */
	uint64_t room_bytes; /* what the cache could take in all */
	unsigned origin_count;
	struct {
		const char *name; /* of the dataset */
		uint64_t wire_bytes;
	} origins[PREFETCH_ORIGINS];
};
int prefetch_start(const struct prefetch_options *options,
		   struct prefetch **ret, struct err *err);
void prefetch_info(struct prefetch *prefetch, struct prefetch_info *ret);
/* The first failed files, each with its reason. */
void prefetch_failures(struct prefetch *prefetch,
		       void (*each)(void *arg, const char *path,
				    const char *reason),
		       void *arg);
/* Asks for an early end; node_close ends it too, and at once. */
void prefetch_cancel(struct prefetch *prefetch);
/* Cancels and joins. May come after node_close, not from `ended`. */
void prefetch_free(struct prefetch *prefetch);

/*
 * user.* as stored, and of our own: user.larder.snapshot, .source; of files
 * also .sha256 (if known), .cached (bytes), .state (cold, partial, unverified,
 * complete) and .error (while the last read failed). list: NUL-separated names,
 * malloc. -ENODATA.
 */
int snapshot_xattr_get(struct snapshot *snapshot, uint64_t number,
		       const char *name, struct waiter *waiter, void **ret,
		       size_t *ret_len, struct err *err);
int snapshot_xattr_list(struct snapshot *snapshot, uint64_t number,
			struct waiter *waiter, char **ret, size_t *ret_len,
			struct err *err);

/* Counters of this node since its start. */
struct node_stats {
	uint64_t read_bytes, read_cache_bytes, read_fetched_bytes;
	uint64_t fetched_wire_bytes, fetched_plain_bytes, chunks_verified,
		chunks_corrupt;
	uint64_t waits, wait_ms_total, flights_joined, flights_overtaken;
};
void node_stats(struct node *node, struct node_stats *ret);

#endif
