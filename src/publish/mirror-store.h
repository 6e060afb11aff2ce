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
#include "publish/publish.h"

struct buf;
struct bucket;
struct codec;
struct lease;

/* A head as it was when it was read last; no ETag: there was none. */
struct seen_head {
	char *path;
	char etag[128];
};

/*
 * A mirror, in a directory (mirror-directory.c) or a bucket
 * (mirror-bucket.c). Paths are below it. Calls return 0 or a negative errno,
 * -ENOENT where there is nothing; `why` is set where there is more to say than
 * strerror does: err_text(why, r).
 */
struct mirror {
	char *path; /* for messages */
	const struct mirror_ops *ops;
	bool is_absent; /* a dry run would create it */
	/* of a directory, else -1 and NULL */
	int fd;
	pthread_mutex_t
		mutex; /* guards unsynced, which is NULL after too many */
	struct unsynced *unsynced;
	/* of a bucket, else NULL; heads that were read, guarded by mutex */
	struct bucket *bucket;
	VEC(struct seen_head) seen;
};

enum mirror_write_flags {
	MIRROR_WRITE_SYNC = 1 << 0, /* on the disk when it returns */
	MIRROR_WRITE_NEW = 1 << 1,  /* -EEXIST if the name exists */
};

/* Reading a stored file piece by piece. */
struct mirror_reader {
	const struct mirror *mirror;
	const char *path; /* the caller's */
	uint64_t size;
	int fd;
	/* of a bucket: what is read at once, and what was read last */
	size_t ahead, window_len;
	uint64_t window_offset;
	uint8_t *window;
};

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

typedef int (*mirror_name_fn)(void *arg, const char *path);
/* Called for each that was removed, or could not be. */
#define MIRROR_REMOVE_MAX 1000u
typedef int (*mirror_removed_fn)(void *arg, size_t i, int result,
				 const struct err *why);

struct mirror_ops {
	void (*close)(struct mirror *mirror);
	/* Nothing but leavings of a first publish that was killed. */
	int (*is_empty)(const struct mirror *mirror, bool *ret,
			struct err *why);
	/* Appended to ret; -EFBIG past its limit, -EINVAL: no regular file. */
	int (*read)(const struct mirror *mirror, const char *path,
		    struct buf *ret, struct err *why);
	int (*write)(const struct mirror *mirror, const char *path,
		     const void *data, size_t len,
		     enum mirror_write_flags flags, struct err *why);
	int (*remove)(const struct mirror *mirror, const char *path,
		      struct err *why);
	/* Up to MIRROR_REMOVE_MAX, as bucket_delete_many; NULL: one by one
	 * is as good. */
	int (*remove_many)(const struct mirror *mirror,
			   const char *const *paths, size_t count,
			   mirror_removed_fn removed, void *arg);
	int (*stat)(const struct mirror *mirror, const char *path,
		    uint64_t *ret_size, int64_t *ret_mtime, struct err *why);
	int (*open_reader)(struct mirror_reader *reader, struct err *why);
	ssize_t (*read_at)(struct mirror_reader *reader, void *data, size_t len,
			   uint64_t offset, struct err *why);
	int (*list)(const struct mirror *mirror, const char *top,
		    struct stored_files *files, struct err *why);
	/* Every name below heads/ or history/. */
	int (*names)(const struct mirror *mirror, const char *top,
		     mirror_name_fn each, void *arg, struct err *why);
	int (*now)(const struct mirror *mirror, int64_t *ret_seconds,
		   struct err *why);

	/* A pack is collected in a file of its own; *ret_path: its name below
	 * the mirror, or NULL for one without a name. */
	int (*pack_create)(const struct mirror *mirror, char **ret_path,
			   int *ret_fd, struct err *why);
	int (*pack_store)(const struct mirror *mirror, const char *from, int fd,
			  const char *path, struct err *why);

	/* The lease: text and age of what is there; put there, new or in
	 * place of what was read (-EEXIST, -ENOENT: others were faster);
	 * renewed (-ESTALE: lost). */
	int (*lease_read)(struct lease *lease, struct buf *ret,
			  int64_t *ret_age_s, struct err *why);
	int (*lease_write)(struct lease *lease, const struct buf *text,
			   bool is_new, struct err *why);
	int (*lease_renew)(struct lease *lease, struct err *why);
	void (*lease_remove)(struct lease *lease);
};

enum mirror_open_flags {
	MIRROR_OPEN_CREATE = 1 << 0,	/* make it where there is nothing */
	MIRROR_OPEN_ABSENT_OK = 1 << 1, /* is_absent where there is nothing */
};

/* where: a path, a file:// or s3:// URL; access may be NULL. What is neither a
 * mirror nor empty is refused. */
int mirror_open(const char *where, const struct mirror_access *access,
		enum mirror_open_flags flags, struct mirror **ret,
		struct err *err);
void mirror_close(struct mirror *mirror);

/* mirror-directory.c, mirror-bucket.c: the rest of mirror_open. */
int mirror_open_directory(struct mirror *mirror, const char *where,
			  enum mirror_open_flags flags, struct err *err);
int mirror_open_bucket(struct mirror *mirror, const char *where,
		       const struct mirror_access *access, struct err *err);

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

/* path and size stay the caller's business; ahead: as much may be read at
 * once. Readers are closed in every case. */
int mirror_reader_open(struct mirror_reader *reader,
		       const struct mirror *mirror, const char *path,
		       uint64_t size, size_t ahead, struct err *why);
/* Bytes read, fewer only at the end, or a negative errno. */
ssize_t mirror_reader_read(struct mirror_reader *reader, void *data, size_t len,
			   uint64_t offset, struct err *why);
void mirror_reader_close(struct mirror_reader *reader);

int mirror_list(const struct mirror *mirror, const char *top,
		struct stored_files *ret, struct err *err);
void stored_files_release(struct stored_files *files);
/* A name below top/; what is no fan/digest is a stranger. */
int stored_files_add(struct stored_files *files, const char *top,
		     const char *name, bool is_regular, uint64_t size,
		     int64_t mtime);
/* NULL if it is not in the list. */
struct stored_file *stored_files_find(const struct stored_files *files,
				      const struct digest *digest);

/* As remove_many; one by one where that is as good. */
int mirror_remove_many(const struct mirror *mirror, const char *const *paths,
		       size_t count, mirror_removed_fn removed, void *arg);
/* The time of what is under the mirror, which may be a server's. */
int mirror_now(const struct mirror *mirror, int64_t *ret_seconds,
	       struct err *why);

#endif
