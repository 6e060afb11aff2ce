/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_WALK_H
#define LARDER_PUBLISH_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/*
 * A tree in stable order: the names of each directory sorted by their bytes,
 * a directory's contents right after it. Symlinks are not followed; sockets,
 * devices and FIFOs are skipped and counted.
 */
struct walk_entry {
	const char *name; /* "" for the root */
	const char *path; /* below the root, without a leading slash */
	struct stat st;
	const char *target; /* symlink: NUL-terminated */
	size_t target_len;
	const uint8_t *xattrs; /* in stored form; NULL: none */
	size_t xattrs_len;
};

/* Each returns 0 or a negative errno, which ends the walk. */
struct walk_ops {
	int (*enter)(void *arg, const struct walk_entry *directory,
		     struct err *err);
	int (*leave)(void *arg, struct err *err);
	int (*entry)(void *arg, const struct walk_entry *entry,
		     struct err *err);
};

struct walk_options {
	const char *const *excludes; /* patterns, see pattern_list_matches */
	size_t exclude_count;
	bool want_xattrs;
	bool has_forbidden; /* this directory must not be inside: the mirror */
	dev_t forbidden_dev;
	ino_t forbidden_ino;
};

struct walk_counts {
	uint64_t files, directories, symlinks;
	uint64_t skipped;  /* sockets, devices, FIFOs */
	uint64_t excluded; /* names; what lies below them is not looked at */
	uint64_t bytes;	   /* of files */
};

/* ret_counts, if not NULL, is kept up to date during the walk. */
int walk_tree(int root_fd, const struct walk_options *options,
	      const struct walk_ops *ops, void *arg,
	      struct walk_counts *ret_counts, struct err *err);

/*
 * Open a path below root_fd for reading without following any symlink, also
 * where the path is longer than PATH_MAX. Returns a descriptor or a negative
 * errno.
 */
int open_below(int root_fd, const char *path, int flags);

/* The end of a path, short enough for an error's text: a long path would
 * push out the reason. */
const char *path_tail(const char *path);

#endif
