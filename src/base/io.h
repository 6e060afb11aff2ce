/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_IO_H
#define LARDER_BASE_IO_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/*
 * Reads and writes in full (EINTR and short counts are dealt with), and
 * files that appear whole or not at all. dirfd may be AT_FDCWD.
 */

/* Bytes read (short only at the end of the file) or a negative errno. */
ssize_t read_full(int fd, void *data, size_t len);
ssize_t pread_full(int fd, void *data, size_t len, uint64_t offset);
/* 0 or a negative errno. */
int write_full(int fd, const void *data, size_t len);
int pwrite_full(int fd, const void *data, size_t len, uint64_t offset);

/* Append a regular file's bytes to buf; -EFBIG past buf's limit. A FIFO,
 * device or directory is -EINVAL and never blocks. */
int file_read(int dirfd, const char *path, struct buf *buf);

enum file_write_flags {
	FILE_WRITE_SYNC = 1 << 0,      /* fsync file and directory */
	FILE_WRITE_EXCLUSIVE = 1 << 1, /* -EEXIST if the name exists */
	FILE_WRITE_MKDIR = 1 << 2,     /* make missing parents (0777 & umask) */
};

/* Write to a temporary name in the same directory, then rename. The
 * temporary name starts with ".tmp-" and is removed on failure. */
int file_write(int dirfd, const char *path, const void *data, size_t len,
	       mode_t mode, enum file_write_flags flags);

/* Make every missing directory of path. 0 also if all exist. */
int mkdir_parents(int dirfd, const char *path, mode_t mode);

/* Remove a tree without following symlinks; 0 if it did not exist. */
int remove_tree(int dirfd, const char *path);

/* CLOCK_MONOTONIC and CLOCK_REALTIME. */
uint64_t now_ms(void);
uint64_t now_ns(void);
int64_t wall_seconds(void);

/* Open a directory to read its names; flags: O_NOFOLLOW or 0. 0 and *ret, for
 * closedir, or a negative errno. */
int directory_open(int dir_fd, const char *path, int flags, DIR **ret);

#endif
