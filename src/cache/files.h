/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_FILES_H
#define LARDER_CACHE_FILES_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Opens a regular file and nothing else: a symlink, directory, FIFO or device
 * in its place is -ENOENT, never followed and never waited for. flags are
 * O_RDONLY or O_RDWR, with O_CREAT and O_EXCL if wanted. A descriptor or a
 * negative errno.
 */
int open_regular(int dirfd, const char *path, int flags, mode_t mode);

/*
 * Open-file-description locks: they belong to the descriptor, die with the
 * process, and exclude other descriptors of the same process. type is
 * F_RDLCK, F_WRLCK or F_UNLCK. 0, -EAGAIN (held elsewhere) or a negative errno;
 * never waits.
 */
int ofd_lock(int fd, short type, uint64_t start, uint64_t length);
/* Whether somebody else's lock stands in the way of type: 1, 0, -errno. */
int ofd_test(int fd, short type, uint64_t start, uint64_t length);
/* Tries again and again for timeout_ms: the holder may be stopped, so nothing
 * here may wait for ever. -EAGAIN when the time is over. */
int ofd_lock_within(int fd, short type, uint64_t start, uint64_t length,
		    uint32_t timeout_ms);

#endif
