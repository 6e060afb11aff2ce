/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blob on its way into the mirror.
 *
 * Whether it will have a recipe object of its own is known only at its fifth
 * chunk, so the first ones are kept and replayed. Trees with very many
 * files just too large for a shared blob keep one handle for each until their
 * catalog is closed: a handle is small, its pieces are grown as needed.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "publish/blob.h"

/* SHARED_FILES_MAX paths of 4 KiB each; real ones are far shorter. */
#define PATHS_LIMIT (UINT64_C(1) << 28)

struct blob_handle *blob_handle_new(void)
{
	return calloc(1, sizeof(struct blob_handle));
}

void blob_handle_free(struct blob_handle *blob)
{
	if (!blob)
		return;
	free(blob->pieces);
	recipe_writer_free(blob->writer);
	vec_release(&blob->numbers);
	free(blob);
}

static int keep_piece(struct blob_handle *blob, const struct piece *piece)
{
	if (blob->piece_count == blob->piece_capacity) {
		uint32_t wanted =
			blob->piece_capacity ? 2 * blob->piece_capacity : 1;
		void *grown = reallocarray(blob->pieces, wanted,
					   sizeof(*blob->pieces));

		if (!grown)
			return -ENOMEM;
		blob->pieces = grown;
		blob->piece_capacity = wanted;
	}
	blob->pieces[blob->piece_count++] = *piece;
	return 0;
}

static int write_piece(struct blob_handle *blob, const struct piece *piece)
{
	uint32_t *number = vec_push(&blob->numbers);

	if (!number)
		return -ENOMEM;
	*number = piece->number;
	return recipe_writer_add(blob->writer, &piece->record);
}

int blob_add_chunk(struct blob_handle *blob, const struct piece *piece,
		   int (*page_done)(void *arg, const struct digest *digest,
				    const void *data, size_t len),
		   void *arg)
{
	int r = 0;

	if (blob->writer)
		return write_piece(blob, piece);
	if (blob->piece_count < LIMIT_INLINE_CHUNKS)
		return keep_piece(blob, piece);
	blob->writer = recipe_writer_new(page_done, arg);
	if (!blob->writer)
		return -ENOMEM;
	for (uint32_t i = 0; i < blob->piece_count && r == 0; i++)
		r = write_piece(blob, &blob->pieces[i]);
	free(blob->pieces);
	blob->pieces = NULL;
	blob->piece_count = blob->piece_capacity = 0;
	return r == 0 ? write_piece(blob, piece) : r;
}

int blob_finish(struct blob_handle *blob, struct buf *ret_root)
{
	struct recipe_record records[LIMIT_INLINE_CHUNKS];
	int r;

	if (!blob->writer) {
		for (uint32_t i = 0; i < blob->piece_count; i++)
			records[i] = blob->pieces[i].record;
		return recipe_inline_id(records, blob->piece_count, &blob->id);
	}
	r = recipe_writer_finish(blob->writer, ret_root, &blob->id);
	recipe_writer_free(blob->writer);
	blob->writer = NULL;
	return r;
}

struct blob_job *blob_job_new(struct blob_handle *blob)
{
	struct blob_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->blob = blob;
	buf_init(&job->paths, PATHS_LIMIT);
	return job;
}

void blob_job_free(struct blob_job *job)
{
	if (!job)
		return;
	vec_release(&job->files);
	buf_release(&job->paths);
	free(job);
}

int blob_job_add(struct blob_job *job, const char *path, const struct stat *st)
{
	size_t at = job->paths.len;
	int r = buf_append(&job->paths, path, strlen(path) + 1);
	struct blob_file *file = r == 0 ? vec_push(&job->files) : NULL;

	if (!file)
		return r < 0 ? r : -ENOMEM;
	*file = (struct blob_file){
		.path = at,
		.size = (uint64_t)st->st_size,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};
	job->blob->size += file->size;
	return 0;
}

const char *blob_job_path(const struct blob_job *job, size_t file)
{
	return (const char *)job->paths.data + job->files.items[file].path;
}
