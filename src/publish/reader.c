/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files into chunks.
 *
 * A file must be the same from the walk to its last byte: size, times and
 * inode are compared when it is opened and again after the last read.
 * Holes of a sparse file are asked for only where a chunk starts, and only
 * a hole that covers a whole chunk is taken as one; that is what cutting
 * the zeros would have given.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "publish/blob.h"
#include "publish/reader.h"
#include "publish/walk.h"

/* A read stays in the second-level cache until it is cut. */
#define READ_BYTES (512u << 10)

void reader_init(struct reader *reader, int root_fd,
		 const struct chunker_params *chunker,
		 const struct reader_ops *ops, void *arg)
{
	*reader = (struct reader){
		.root_fd = root_fd,
		.chunker = chunker,
		.ops = ops,
		.arg = arg,
		.fd = -1,
	};
}

void reader_release(struct reader *reader)
{
	if (reader->fd >= 0)
		close(steal_fd(&reader->fd));
	if (reader->segment)
		reader->ops->put(reader->arg, steal_ptr(reader->segment));
}

static const struct blob_file *current_file(const struct reader *reader)
{
	return &reader->job->files.items[reader->next_file - 1];
}

static const char *current_path(const struct reader *reader)
{
	return blob_job_path(reader->job, reader->next_file - 1);
}

static const char *shown_path(const struct reader *reader)
{
	return path_tail(current_path(reader));
}

static int fail_changed(const struct reader *reader, struct err *err)
{
	return err_set(
		err, ESTALE,
		"'%s' was changed while it was read; publish a tree that stands still",
		shown_path(reader));
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int check_unchanged(const struct reader *reader, struct stat *ret,
			   struct err *err)
{
	const struct blob_file *file = current_file(reader);
	struct stat st;

	if (fstat(reader->fd, &st) < 0)
		return err_set(err, errno, "cannot look at '%s': %s",
			       shown_path(reader), strerror(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != file->size ||
	    st.st_dev != file->dev || st.st_ino != file->ino ||
	    !same_time(&st.st_mtim, &file->mtime) ||
	    !same_time(&st.st_ctim, &file->ctime))
		return fail_changed(reader, err);
	*ret = st;
	return 0;
}

static int open_file(struct reader *reader, struct err *err)
{
	struct stat st;
	int fd, r;

	reader->next_file++;
	fd = open_below(reader->root_fd, current_path(reader),
			O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return fail_changed(reader, err);
	if (fd < 0)
		return err_set(err, -fd, "cannot read '%s': %s",
			       shown_path(reader), strerror(-fd));
	reader->fd = fd;
	r = check_unchanged(reader, &st, err);
	if (r < 0)
		return r;
	reader->file_left = current_file(reader)->size;
	reader->is_sparse = reader->job->files.count == 1 &&
			    (uint64_t)st.st_blocks * 512 < reader->file_left;
	reader->hole_start = reader->hole_end = 0;
	if (reader->file_left > SEGMENT_BYTES)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

static int close_file(struct reader *reader, struct err *err)
{
	struct stat st;
	int r = check_unchanged(reader, &st, err);

	close(steal_fd(&reader->fd));
	return r;
}

/* Bytes of the current file that were dealt with, read or skipped. */
static int advance_file(struct reader *reader, uint64_t bytes, struct err *err)
{
	reader->file_left -= bytes;
	reader->unread -= bytes;
	return reader->file_left == 0 ? close_file(reader, err) : 0;
}

/* Make sure that there is room to read into. */
static int make_room(struct reader *reader)
{
	size_t kept = reader->end - reader->start;
	size_t room = SEGMENT_BYTES - reader->end;
	struct segment *segment;

	if (reader->segment && (room >= READ_BYTES || room >= reader->unread))
		return 0;
	segment = reader->ops->get(reader->arg);
	if (!segment)
		return -ECANCELED;
	if (reader->segment) {
		memcpy(segment->data, reader->segment->data + reader->start,
		       kept);
		reader->ops->put(reader->arg, reader->segment);
	}
	reader->segment = segment;
	reader->start = 0;
	reader->end = kept;
	return 0;
}

static int read_more(struct reader *reader, struct err *err)
{
	size_t want = SEGMENT_BYTES - reader->end;
	ssize_t n;

	if (want > READ_BYTES)
		want = READ_BYTES;
	if (want > reader->file_left)
		want = reader->file_left;
	n = pread_full(reader->fd, reader->segment->data + reader->end, want,
		       current_file(reader)->size - reader->file_left);
	if (n < 0)
		return err_set(err, (int)-n, "cannot read '%s': %s",
			       shown_path(reader), strerror((int)-n));
	if ((size_t)n != want)
		return fail_changed(reader, err);
	reader->end += want;
	return advance_file(reader, want, err);
}

/* Until a whole chunk is there, or the blob's end. */
static int fill(struct reader *reader, struct err *err)
{
	int r = 0;

	while (r == 0 && reader->unread > 0 &&
	       reader->end - reader->start < reader->chunker->max_bytes) {
		r = make_room(reader);
		if (r == 0 && reader->fd < 0)
			r = open_file(reader, err);
		if (r == 0)
			r = read_more(reader, err);
	}
	return r;
}

/* Where the hole at or after offset begins and ends; size if there is none. */
static void find_hole(struct reader *reader, uint64_t offset)
{
	off_t start = lseek(reader->fd, (off_t)offset, SEEK_HOLE);
	off_t end = start < 0 ? -1 : lseek(reader->fd, start, SEEK_DATA);

	reader->hole_start = start < 0 ? reader->size : (uint64_t)start;
	reader->hole_end = end < 0 ? reader->size : (uint64_t)end;
}

/* The length of the chunk at offset if a hole covers it, else 0. */
static uint32_t hole_chunk(struct reader *reader, uint64_t offset)
{
	uint64_t end;

	if (reader->fd < 0 || !reader->is_sparse)
		return 0;
	if (offset >= reader->hole_end)
		find_hole(reader, offset);
	end = offset + reader->chunker->max_bytes;
	if (end > reader->size)
		end = reader->size;
	return offset >= reader->hole_start && end <= reader->hole_end ?
		       (uint32_t)(end - offset) :
		       0;
}

/* The chunk is a hole: drop what was read of it, skip the rest. */
static int skip(struct reader *reader, uint32_t length, struct err *err)
{
	size_t have = reader->end - reader->start;

	if (have >= length) {
		reader->start += length;
		return 0;
	}
	reader->start = reader->end;
	return advance_file(reader, length - have, err);
}

static int next_chunk(struct reader *reader, uint64_t *offset, struct err *err)
{
	uint32_t length = hole_chunk(reader, *offset);
	const uint8_t *data = NULL;
	int r;

	if (length > 0) {
		r = skip(reader, length, err);
	} else {
		r = fill(reader, err);
		if (r < 0)
			return r;
		data = reader->segment->data + reader->start;
		length = (uint32_t)chunker_cut(reader->chunker, data,
					       reader->end - reader->start,
					       reader->unread == 0);
		reader->start += length;
	}
	if (r < 0)
		return r;
	*offset += length;
	return reader->ops->chunk(reader->arg, reader->segment, data, length,
				  *offset == reader->size);
}

int reader_run(struct reader *reader, const struct blob_job *job,
	       struct err *err)
{
	uint64_t offset = 0;
	int r = 0;

	reader->job = job;
	reader->next_file = 0;
	reader->file_left = 0;
	reader->size = reader->unread = job->blob->size;
	/* Opened now, so that a sparse file's first hole is seen. */
	if (job->files.count == 1)
		r = open_file(reader, err);
	while (r == 0 && offset < reader->size)
		r = next_chunk(reader, &offset, err);
	if (reader->fd >= 0)
		close(steal_fd(&reader->fd));
	reader->start = reader->end;
	reader->job = NULL;
	return r;
}
