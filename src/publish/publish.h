/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PUBLISH_H
#define LARDER_PUBLISH_PUBLISH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/catalog.h"
#include "format/digest.h"
#include "format/head.h"

/*
 * The door of publish/: a directory becomes a snapshot on a mirror, and what
 * an administrator does to a mirror afterwards. Mirrors are directories (a
 * path or a file:// URL) or buckets (s3://BUCKET/PREFIX). Nothing here prints.
 */

/* How a mirror is reached, where it is in a bucket. All may be NULL. */
struct origin_options;
struct mirror_access {
	const struct origin_options *origin; /* fetch/fetch.h */
	const char *proxy, *ca_file, *cert_file, *cert_key_file;
	/* Set by a signal handler: ask nothing again that failed. */
	const volatile sig_atomic_t *stop;
};

/* Publishing. */

struct publish_progress {
	uint64_t total_bytes; /* of the tree; 0: not counted yet */
	uint64_t done_bytes;  /* the sum of the next three */
	uint64_t zero_bytes;
	uint64_t known_bytes; /* the mirror had them */
	uint64_t new_bytes;
	uint64_t stored_bytes; /* the new ones, compressed */
	uint64_t elapsed_ms;
	const char *stage; /* "reading", "writing places" ... */
};

struct publish_options {
	const char *tree;
	const char *mirror;
	const struct mirror_access *access; /* NULL: defaults */
	const char *name;		     /* of the dataset */
	const char *tag;		     /* NULL: none */
	const struct secret_key *key;	     /* NULL: unsigned */
	const struct catalog_params *params; /* NULL: the defaults */
	const char *const *excludes;	     /* pattern_list_matches */
	size_t exclude_count;
	int level;	      /* of zstd; 0: 3 */
	unsigned int threads; /* 0: one for each processor */
	uint64_t expires_s;   /* the head's life; 0: for ever */
	bool is_dry_run;      /* read and count, write nothing */
	bool want_owner;
	bool want_file_digests;
	bool is_forced; /* a new head also when nothing changed, a moved tag,
			 * an unsigned head after a signed one */
	/* Called about five times a second on a thread of its own. */
	void (*progress)(void *arg, const struct publish_progress *progress);
	void *progress_arg;
	/* Set by a signal handler: stop, keep what was packed. */
	const volatile sig_atomic_t *stop;
};

struct publish_result {
	struct head
		head; /* the current head now; of a dry run: what it would be */
	bool is_unchanged; /* the snapshot was there; head is the old one */
	bool is_other_key; /* the head before was signed, by other keys only */
	uint64_t files, directories, symlinks;
	uint64_t skipped; /* sockets, devices, FIFOs */
	uint64_t excluded;
	uint64_t zero_bytes, known_bytes, new_bytes, stored_bytes;
	uint64_t new_chunks, known_chunks;
	uint64_t object_bytes;	 /* written as objects and places */
	uint64_t salvaged_bytes; /* stored bytes taken over from a dead run */
	uint64_t damaged_packs;	 /* left alone: larder check */
	uint64_t elapsed_ms;
};

int publish_run(const struct publish_options *options,
		struct publish_result *ret, struct err *err);

/* The last part of the tree's real path, if it can be a dataset's name. */
int publish_default_name(const char *tree,
			 char ret_name[LIMIT_DATASET_NAME_BYTES + 1],
			 struct err *err);

/* Heads. */

enum publish_head_kind { PUBLISH_CURRENT, PUBLISH_TAGGED, PUBLISH_HISTORY };

/* Heads of one dataset or (name NULL) all: by name, then current, tagged and
 * past ones, each ascending. err_text is not NULL where one is unreadable;
 * head is then empty. Return nonzero to stop. */
int publish_log(const char *mirror, const struct mirror_access *access,
		const char *name,
		int (*report)(void *arg, enum publish_head_kind kind,
			      const char *path, const struct head *head,
			      const char *err_text),
		void *arg, struct err *err);

/* Give the snapshot with that serial (0: the current one) a tag, or move a
 * tag to a later serial when is_forced. */
int publish_tag(const char *mirror, const struct mirror_access *access,
		const char *name, const char *tag,
		uint64_t serial, const struct secret_key *key, bool is_forced,
		struct head *ret, struct err *err);
int publish_untag(const char *mirror, const struct mirror_access *access,
		const char *name, const char *tag,
		  struct err *err);

/* Make an old snapshot the current one, under a new serial. which: a serial,
 * or the (start of the) catalog's digest. */
int publish_rollback(const char *mirror, const struct mirror_access *access,
		const char *name, const char *which,
		     const struct secret_key *key, bool is_forced,
		     struct head *ret, struct err *err);

/* The mirror's health. */

struct check_options {
	const char *mirror;
	const struct mirror_access *access; /* NULL: defaults */
	unsigned int threads; /* 0: one for each processor */
	/* On one thread at a time. */
	void (*report)(void *arg, const char *path, const char *text);
	void (*progress)(void *arg, uint64_t bytes, uint64_t total_bytes);
	void *arg;
	const volatile sig_atomic_t *stop;
};

struct check_result {
	uint64_t bad; /* reported */
	uint64_t heads, objects, places, packs, chunks;
	uint64_t bytes;		     /* read */
	uint64_t unreferenced_packs; /* whole ones, of no head: gc's business */
};

/* 0 also when something is bad; negative: could not check. */
int check_mirror(const struct check_options *options, struct check_result *ret,
		 struct err *err);

struct gc_options {
	const char *mirror;
	const struct mirror_access *access; /* NULL: defaults */
	uint64_t keep_s;  /* heads of the history younger than this are kept */
	uint64_t grace_s; /* files younger than this are spared */
	unsigned int threads;
	bool is_dry_run;
	void (*removed)(void *arg, const char *path, uint64_t bytes);
	/* One more that could not be; the first is the result's. */
	void (*failed)(void *arg, const struct err *err);
	void *arg;
	const volatile sig_atomic_t *stop;
};

struct gc_result {
	uint64_t heads, objects, places, packs, temporaries; /* removed */
	uint64_t removed_bytes;
	uint64_t spared_files, spared_bytes; /* unreachable, but young */
	uint64_t kept_heads, kept_packs, kept_bytes;
	uint64_t dead_bytes;   /* in packs that are kept */
	uint64_t sparse_packs; /* kept, more than half dead */
};

#define GC_KEEP_DAYS 30
#define GC_GRACE_DAYS 14

int gc_mirror(const struct gc_options *options, struct gc_result *ret,
	      struct err *err);

#endif
