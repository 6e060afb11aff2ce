/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs that a killed run left behind.
 *
 * A frame says how long it is and what it holds, so a row of frames is a
 * pack but for its table. Every frame is decompressed and hashed, since
 * nothing else vouches for it after a power loss; that costs about a tenth
 * of compressing it again. Frames are copied to a new file: a process that was
 * only stopped may still have the old one open, and write into it.
 *
 * A bucket has whole packs only; what unfinished uploads left there is removed.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/vec.h"
#include "format/codec.h"
#include "format/limits.h"
#include "publish/bucket.h"
#include "publish/mirror-store.h"
#include "publish/pack-tables.h"
#include "publish/pack-writer.h"
#include "publish/parallel.h"
#include "publish/salvage.h"
#include "source/source.h"

#define WINDOW_BYTES (2u * LIMIT_FRAME_BYTES)

struct salvage {
	const struct mirror *mirror;
	struct pack_tables *tables;
	VEC(char *) paths;
	uint64_t bytes;
};

/* A row of frames being walked. */
struct row {
	int fd;
	struct codec *codec;
	struct hasher *hasher;
	uint8_t *window, *plain;
	size_t at, len;	 /* in the window */
	uint64_t offset; /* of the window's end in the file */
};

static void row_release(struct row *row)
{
	if (row->fd >= 0)
		close(row->fd);
	codec_free(row->codec);
	hasher_free(row->hasher);
	free(row->window);
	free(row->plain);
}

static int row_open(struct row *row, const struct mirror *mirror,
		    const char *path)
{
	*row = (struct row){
		.fd = openat(mirror->fd, path,
			     O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
		.codec = codec_new(),
		.hasher = hasher_new(),
		.window = malloc(WINDOW_BYTES),
		.plain = malloc(LIMIT_CHUNK_BYTES),
	};
	if (row->fd < 0)
		return -errno;
	if (!row->codec || !row->hasher || !row->window || !row->plain)
		return -ENOMEM;
	return 0;
}

static int row_fill(struct row *row)
{
	ssize_t n;

	if (row->len - row->at >= LIMIT_FRAME_BYTES)
		return 0;
	memmove(row->window, row->window + row->at, row->len - row->at);
	row->len -= row->at;
	row->at = 0;
	n = pread_full(row->fd, row->window + row->len, WINDOW_BYTES - row->len,
		       row->offset);
	if (n < 0)
		return (int)n;
	row->len += (size_t)n;
	row->offset += (uint64_t)n;
	return 0;
}

/* 1 and a sound frame, or 0 where the row ends. */
static int row_next(struct row *row, struct pack_frame *ret)
{
	uint64_t plain_bytes;
	long len;
	int r = row_fill(row);

	if (r < 0)
		return r;
	len = codec_frame_length(row->window + row->at, row->len - row->at,
				 &plain_bytes);
	if (len < 0 || len > LIMIT_FRAME_BYTES || plain_bytes == 0 ||
	    plain_bytes > LIMIT_CHUNK_BYTES)
		return 0;
	if (codec_open_frame(row->codec, row->window + row->at, (size_t)len,
			     row->plain, plain_bytes, NULL) < 0)
		return 0;
	r = hasher_start(row->hasher, DIGEST_SHA256, plain_bytes);
	if (r < 0)
		return r;
	hasher_add(row->hasher, row->plain, plain_bytes);
	hasher_finish(row->hasher, &ret->digest);
	ret->data = row->window + row->at;
	ret->stored_bytes = (uint32_t)len;
	ret->plain_bytes = (uint32_t)plain_bytes;
	row->at += (size_t)len;
	return digest_is_none(&ret->digest) ? -ENOMEM : 1;
}

static int copy_frames(struct row *row, struct pack_writer *writer,
		       struct err *err)
{
	struct pack_frame frame;
	uint32_t pack, position;
	int r;

	while (!pack_writer_is_full(writer) &&
	       (r = row_next(row, &frame)) != 0) {
		if (r < 0)
			return err_set(err, -r, "%s", strerror(-r));
		r = pack_writer_append(writer, &frame, &pack, &position, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int salvage_one(void *arg, size_t i, struct err *err)
{
	struct salvage *salvage = arg;
	const struct mirror *mirror = salvage->mirror;
	const char *path = salvage->paths.items[i];
	_cleanup_(row_release) struct row row = {.fd = -1};
	struct pack_writer *writer;
	uint64_t bytes;
	int r;

	r = row_open(&row, mirror, path);
	if (r < 0)
		return err_set(err, -r, "cannot read '%s/%s': %s", mirror->path,
			       path, strerror(-r));
	r = pack_writer_open(mirror, salvage->tables, false, &writer, err);
	if (r < 0)
		return r;
	r = copy_frames(&row, writer, err);
	bytes = pack_writer_bytes(writer);
	if (r < 0 || bytes == 0)
		pack_writer_abandon(writer);
	else
		r = pack_writer_finish(writer, err);
	if (r < 0)
		return err_prefix(err, r, "cannot salvage '%s'", path);
	__atomic_fetch_add(&salvage->bytes, bytes, __ATOMIC_RELAXED);
	if (unlinkat(mirror->fd, path, 0) < 0 && errno != ENOENT)
		return err_set(err, errno, "cannot remove '%s/%s': %s",
			       mirror->path, path, strerror(errno));
	return 0;
}

static int add_path(struct salvage *salvage, const char *name)
{
	char **slot = vec_push(&salvage->paths);

	if (!slot || asprintf(slot, "packs/%s", name) < 0) {
		if (slot)
			salvage->paths.count--;
		return -ENOMEM;
	}
	return 0;
}

static int find_paths(struct salvage *salvage)
{
	const char *prefix = strchr(PACK_TEMPORARY_PREFIX, '/') + 1;
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int r = directory_open(salvage->mirror->fd, "packs", 0, &dir);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while ((errno = 0, entry = readdir(dir))) {
		r = 0;
		if (starts_with(entry->d_name, prefix))
			r = add_path(salvage, entry->d_name);
		if (r < 0)
			return r;
	}
	return -errno;
}

int salvage_packs(const struct mirror *mirror, unsigned int threads,
		  uint64_t *ret_bytes, struct err *err)
{
	struct salvage salvage = {
		.mirror = mirror,
		.tables = pack_tables_new(mirror),
	};
	struct err why = {0};
	int r;

	if (!salvage.tables)
		return err_set(err, ENOMEM, "out of memory");
	r = mirror->bucket ? bucket_clean(mirror->bucket, &why) :
			     find_paths(&salvage);
	if (r < 0)
		err_set(err, -r, "cannot list '%s/packs': %s", mirror->path,
			err_text(&why, r));
	else
		r = parallel_for(salvage.paths.count, threads, salvage_one,
				 &salvage, err);
	for (size_t i = 0; i < salvage.paths.count; i++)
		free(salvage.paths.items[i]);
	vec_release(&salvage.paths);
	pack_tables_free(salvage.tables);
	if (r == 0)
		*ret_bytes = salvage.bytes;
	return r;
}
