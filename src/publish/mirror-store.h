/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_MIRROR_STORE_H
#define LARDER_PUBLISH_MIRROR_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/vec.h"
#include "format/digest.h"

struct buf;
struct codec;

/* A mirror in a directory. fd is -1 for one that a dry run would create. */
struct mirror {
	char *path; /* for messages */
	int fd;
	pthread_mutex_t
		mutex; /* guards unsynced, which is NULL after too many */
	struct unsynced *unsynced;
};

enum mirror_open_flags {
	MIRROR_OPEN_CREATE = 1 << 0,	/* make it where there is nothing */
	MIRROR_OPEN_ABSENT_OK = 1 << 1, /* fd = -1 where there is nothing */
};

/* where: a path or a file:// URL. A directory that is neither a mirror nor
 * empty is refused. */
int mirror_open(const char *where, enum mirror_open_flags flags,
		struct mirror **ret, struct err *err);
void mirror_close(struct mirror *mirror);

/* The plain bytes of an object, appended to ret_plain; digest checked.
 * -ENOENT: absent; -EBADMSG: damaged. */
int mirror_object_read(const struct mirror *mirror, struct codec *codec,
		       const struct digest *digest, size_t limit_bytes,
		       struct buf *ret_plain, struct err *err);

/*
 * Store an object unless it is there and sound. Not synced: mirror_sync does
 * that for all. *ret_stored is the size of the file when one was written, 0
 * otherwise. With is_dry_run nothing is written and *ret_stored is what it
 * would be.
 */
int mirror_object_write(struct mirror *mirror, struct codec *codec,
			const struct digest *digest, const void *data,
			size_t len, int level, bool is_dry_run,
			uint64_t *ret_stored, struct err *err);

/* Write a file whole. Not synced: mirror_sync does that for all. */
int mirror_file_write(struct mirror *mirror, const char *path, const void *data,
		      size_t len, struct err *err);

/* Everything written so far reaches the disk. */
int mirror_sync(struct mirror *mirror, struct err *err);

/* The files of objects/, places/ or packs/. */
struct stored_file {
	struct digest digest; /* from the name */
	uint64_t size;
	int64_t mtime;
	bool is_reached; /* by a head; set by reach.c */
};
struct stored_files {
	VEC(struct stored_file) list; /* sorted by digest */
	VEC(char *) strangers; /* other names, as paths below the mirror */
};
int mirror_list(const struct mirror *mirror, const char *top,
		struct stored_files *ret, struct err *err);
void stored_files_release(struct stored_files *files);
/* NULL if it is not in the list. */
struct stored_file *stored_files_find(const struct stored_files *files,
				      const struct digest *digest);

/* The time of the filesystem under the mirror, which may be a server's. */
int mirror_now(const struct mirror *mirror, int64_t *ret_seconds);

#endif
