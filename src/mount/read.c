/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to a read: bytes of cache files and of memory become one reply.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/io.h"
#include "mount/op.h"

/* Longest read the kernel sends, and the copy buffer of a thread. */
#define READ_BYTES_MAX (1u << 20)

static _Thread_local char *copy_buffer;
static pthread_key_t copy_buffer_key;
static pthread_once_t copy_buffer_once = PTHREAD_ONCE_INIT;

static void copy_buffer_free(void *buffer)
{
	munmap(buffer, READ_BYTES_MAX);
}

static void copy_buffer_key_make(void)
{
	pthread_key_create(&copy_buffer_key, copy_buffer_free);
}

static char *copy_buffer_get(void)
{
	if (copy_buffer)
		return copy_buffer;
	pthread_once(&copy_buffer_once, copy_buffer_key_make);
	void *buffer = mmap(NULL, READ_BYTES_MAX, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		return NULL;
	pthread_setspecific(copy_buffer_key, buffer);
	copy_buffer = buffer;
	return copy_buffer;
}

static int reply_spliced(fuse_req_t req, const struct read_result *result)
{
	union {
		struct fuse_bufvec vec;
		char room[sizeof(struct fuse_bufvec) +
			  READ_PIECES_MAX * sizeof(struct fuse_buf)];
	} bufs;

	bufs.vec = (struct fuse_bufvec){ .count = result->count };
	for (unsigned i = 0; i < result->count; i++) {
		const struct read_piece *piece = &result->pieces[i];

		bufs.vec.buf[i] = piece->fd >= 0 ?
					  (struct fuse_buf){ .size = piece->len,
							     .flags = FUSE_BUF_IS_FD |
								      FUSE_BUF_FD_SEEK |
								      FUSE_BUF_FD_RETRY,
							     .fd = piece->fd,
							     .pos = (off_t)piece->fd_offset } :
					  (struct fuse_buf){ .size = piece->len,
							     .mem = (void *)piece->memory };
	}
	return fuse_reply_data(req, &bufs.vec, 0);
}

int read_reply(struct fs *fs, fuse_req_t req, const struct read_result *result)
{
	struct iovec iov[READ_PIECES_MAX];
	char *buffer = NULL;
	size_t used = 0;

	(void)fs;
	if (getenv("LARDER_SPLICE")) {
		reply_spliced(req, result);
		return 0;
	}
	for (unsigned i = 0; i < result->count; i++) {
		const struct read_piece *piece = &result->pieces[i];

		iov[i].iov_len = piece->len;
		iov[i].iov_base = (void *)piece->memory;
		if (piece->fd < 0)
			continue;
		if (!buffer)
			buffer = copy_buffer_get();
		if (!buffer || used + piece->len > READ_BYTES_MAX)
			return -ENOMEM;
		ssize_t n = pread_full(piece->fd, buffer + used, piece->len, piece->fd_offset);
		if (n != (ssize_t)piece->len)
			return n < 0 ? (int)n : -EIO;
		iov[i].iov_base = buffer + used;
		used += piece->len;
	}
	fuse_reply_iov(req, iov, (int)result->count);
	return 0;
}
