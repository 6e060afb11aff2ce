/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack being written.
 *
 * The kernel is asked to start writing every few megabytes, so that the sync
 * at the end finds little left to do and the disk works beside the
 * processors. Frames are appended only, so what a killed run leaves is a row of
 * whole frames and at most one torn one: see salvage.c.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "format/limits.h"
#include "format/pack.h"
#include "publish/mirror-store.h"
#include "publish/pack-tables.h"
#include "publish/pack-writer.h"
#include "source/source.h"

#define FLUSH_BYTES (UINT64_C(8) << 20)
#define TAIL_LIMIT (4096u + 64u * PACK_MAX_RECORDS)

struct pack_writer {
	const struct mirror *mirror;
	struct pack_tables *tables;
	uint32_t number; /* in tables */
	uint32_t count;
	int fd;	    /* -1: dry run */
	char *path; /* of the temporary file, if it has one */
	uint64_t bytes;
	uint64_t flushed_bytes;
};

static int fail_write(const struct pack_writer *writer, int r,
		      const struct err *why, struct err *err)
{
	return err_set(err, -r, "cannot write to mirror '%s': %s",
		       writer->mirror->path, err_text(why, r));
}

static struct pack_writer *writer_new(const struct mirror *mirror,
				      struct pack_tables *tables)
{
	struct pack_writer *writer = calloc(1, sizeof(*writer));
	int64_t number;

	if (!writer)
		return NULL;
	number = pack_tables_add_open(tables);
	if (number < 0) {
		free(writer);
		return NULL;
	}
	writer->mirror = mirror;
	writer->tables = tables;
	writer->number = (uint32_t)number;
	writer->fd = -1;
	return writer;
}

static void writer_free(struct pack_writer *writer)
{
	if (writer->fd >= 0)
		close(writer->fd);
	free(writer->path);
	free(writer);
}

int pack_writer_open(const struct mirror *mirror, struct pack_tables *tables,
		     bool is_dry_run, struct pack_writer **ret, struct err *err)
{
	struct pack_writer *writer = writer_new(mirror, tables);
	struct err why = {0};
	int r = 0;

	if (!writer)
		return err_set(err, ENOMEM, "out of memory");
	if (!is_dry_run)
		r = mirror->ops->pack_create(mirror, &writer->path, &writer->fd,
					     &why);
	if (r < 0) {
		r = fail_write(writer, r, &why, err);
		writer_free(writer);
		return r;
	}
	*ret = writer;
	return 0;
}

static int add_record(struct pack_writer *writer,
		      const struct pack_frame *frame, uint32_t *ret_position)
{
	struct pack_record record = {
		.digest = frame->digest,
		.offset = writer->bytes,
		.stored_bytes = frame->stored_bytes,
		.plain_bytes = frame->plain_bytes,
	};
	int r = pack_tables_append(writer->tables, writer->number, &record,
				   ret_position);

	if (r < 0)
		return r;
	writer->bytes += frame->stored_bytes;
	writer->count++;
	return 0;
}

static void start_flush(struct pack_writer *writer)
{
	if (writer->fd < 0 ||
	    writer->bytes - writer->flushed_bytes < FLUSH_BYTES)
		return;
	/* A hint: what goes wrong shows at fsync. */
	(void)sync_file_range(writer->fd, (off_t)writer->flushed_bytes,
			      (off_t)(writer->bytes - writer->flushed_bytes),
			      SYNC_FILE_RANGE_WRITE);
	writer->flushed_bytes = writer->bytes;
}

int pack_writer_append(struct pack_writer *writer,
		       const struct pack_frame *frame, uint32_t *ret_pack,
		       uint32_t *ret_position, struct err *err)
{
	int r = 0;

	if (writer->fd >= 0)
		r = pwrite_full(writer->fd, frame->data, frame->stored_bytes,
				writer->bytes);
	if (r == 0)
		r = add_record(writer, frame, ret_position);
	if (r < 0)
		return fail_write(writer, r, NULL, err);
	*ret_pack = writer->number;
	start_flush(writer);
	return 0;
}

uint64_t pack_writer_bytes(const struct pack_writer *writer)
{
	return writer->bytes;
}

bool pack_writer_is_full(const struct pack_writer *writer)
{
	return writer->bytes + LIMIT_FRAME_BYTES > PACK_MAX_BYTES ||
	       writer->count >= PACK_MAX_RECORDS;
}

/* From the temporary name to the right one. */
static int give_name(struct pack_writer *writer, const struct digest *id,
		     struct err *why)
{
	const struct mirror *mirror = writer->mirror;
	char path[SOURCE_PATH_MAX];
	int r = mirror->ops->pack_store(mirror, writer->path, writer->fd,
					mirror_pack_path(id, path), why);

	if (r == 0)
		free(steal_ptr(writer->path));
	return r;
}

int pack_writer_finish(struct pack_writer *writer, struct err *err)
{
	const struct pack_record *records;
	struct err why = {0};
	struct digest id;
	struct buf tail;
	uint32_t count;
	int r;

	records = pack_tables_open_records(writer->tables, writer->number,
					   &count);
	buf_init(&tail, TAIL_LIMIT);
	r = pack_table_write(records, count, writer->bytes, &tail, &id);
	if (r == 0 && writer->fd >= 0)
		r = pwrite_full(writer->fd, tail.data, tail.len, writer->bytes);
	if (r == 0 && writer->fd >= 0)
		r = give_name(writer, &id, &why);
	if (r == 0)
		pack_tables_close(writer->tables, writer->number, &id,
				  writer->bytes + tail.len);
	else
		fail_write(writer, r, &why, err);
	buf_release(&tail);
	pack_writer_abandon(writer);
	return r;
}

void pack_writer_abandon(struct pack_writer *writer)
{
	if (!writer)
		return;
	if (writer->path)
		(void)writer->mirror->ops->remove(writer->mirror, writer->path,
						  NULL);
	writer_free(writer);
}
