/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files that somebody may have replaced, and locks that cannot hang.
 * OFD locks are used everywhere because they belong to a descriptor: threads
 * and several caches of one process exclude each other too, and closing an
 * unrelated descriptor of the same file does not drop them.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cache/files.h"

int open_regular(int dirfd, const char *path, int flags, mode_t mode)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	/* O_NONBLOCK: a FIFO in its place must not wait for a writer. */
	fd = openat(dirfd, path,
		    flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		    mode);
	if (fd < 0) {
		switch (errno) {
		case ELOOP:   /* a symlink */
		case EISDIR:  /* a directory, opened for writing */
		case ENXIO:   /* a socket or a device without driver */
		case ENODEV:
		case ENOTDIR: /* a file where a directory of ours was */
			return -ENOENT;
		default:
			return -errno;
		}
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	if (fcntl(fd, F_SETFL, flags & O_ACCMODE) < 0) /* O_NONBLOCK off */
		return -errno;
	return steal_fd(&fd);
}

int ofd_lock(int fd, short type, uint64_t start, uint64_t length)
{
	struct flock lock = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)start,
		.l_len = (off_t)length,
	};

	while (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
		if (errno == EACCES)
			return -EAGAIN;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int ofd_test(int fd, short type, uint64_t start, uint64_t length)
{
	struct flock lock = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)start,
		.l_len = (off_t)length,
	};

	if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return -errno;
	return lock.l_type != F_UNLCK;
}

int ofd_lock_within(int fd, short type, uint64_t start, uint64_t length,
		    uint32_t timeout_ms)
{
	uint64_t deadline = now_ms() + timeout_ms;
	long pause_ms = 1;

	for (;;) {
		int r = ofd_lock(fd, type, start, length);
		struct timespec ts;

		if (r != -EAGAIN || now_ms() >= deadline)
			return r;
		ts = (struct timespec){ .tv_nsec = pause_ms * 1000000 };
		nanosleep(&ts, NULL);
		/* 2 ms: shorter than the pause of gate_enter, where a busy
		 * process lets the ones that wait go first. */
		if (pause_ms < 2)
			pause_ms++;
	}
}
