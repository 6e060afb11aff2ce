/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every byte of a mirror against its digests.
 *
 * First each file by itself, on all cores: packs frame by frame, objects,
 * places. Then what the heads need, so that a missing file is found too and
 * a sound pack that is not the one named. Damage is reported, never
 * repaired: a publish of the same tree puts back what is missing.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "format/codec.h"
#include "format/limits.h"
#include "format/pack.h"
#include "format/places.h"
#include "publish/inventory.h"
#include "publish/pack-tables.h"
#include "publish/parallel.h"
#include "publish/publish.h"
#include "publish/reach.h"
#include "source/source.h"

DEFINE_CLEANUP(struct mirror *, mirror_close);
DEFINE_CLEANUP(struct codec *, codec_free);

/* Of a pack, where it is far away. */
#define READ_AHEAD_BYTES ((size_t)8 << 20)

struct check {
	const struct check_options *options;
	struct inventory inventory;
	uint64_t total_bytes;
	pthread_mutex_t mutex; /* guards the result and the callbacks */
	struct check_result result;
};

static void report(struct check *check, const char *path, const char *text)
{
	scoped_lock(&check->mutex);

	check->result.bad++;
	if (check->options->report)
		check->options->report(check->options->arg, path, text);
}

static void count_bytes(struct check *check, uint64_t bytes)
{
	scoped_lock(&check->mutex);

	check->result.bytes += bytes;
	if (check->options->progress)
		check->options->progress(check->options->arg,
					 check->result.bytes,
					 check->total_bytes);
}

static int check_stop(const struct check *check, struct err *err)
{
	if (check->options->stop && *check->options->stop)
		return err_set(err, ECANCELED, "stopped by a signal");
	return 0;
}

/* Packs. */

struct frame_check {
	struct check *check;
	const char *path;
	struct mirror_reader *reader;
	struct codec *codec;
	uint8_t *frame, *plain;
};

static int check_frame(struct frame_check *frame,
		       const struct pack_record *record)
{
	struct err err, why = {0};
	ssize_t n =
		mirror_reader_read(frame->reader, frame->frame,
				   record->stored_bytes, record->offset, &why);
	int r;

	if (n == (ssize_t)record->stored_bytes)
		r = codec_open_frame(frame->codec, frame->frame,
				     record->stored_bytes, frame->plain,
				     record->plain_bytes, &record->digest);
	else
		r = n < 0 ? (int)n : -EBADMSG;
	count_bytes(frame->check, record->stored_bytes);
	if (r < 0) {
		err_set(&err, -r, "frame at %llu: %s",
			(unsigned long long)record->offset,
			r == -EBADMSG ? "does not match its digest" :
					err_text(&why, r));
		report(frame->check, frame->path, err.text);
	}
	return r;
}

static int check_frames(struct check *check, const char *path, uint64_t size,
			const struct pack_record *records, uint32_t count,
			struct err *err)
{
	_cleanup_free_ uint8_t *memory =
		malloc(LIMIT_FRAME_BYTES + LIMIT_CHUNK_BYTES);
	_cleanup_(codec_free_p) struct codec *codec = codec_new();
	struct mirror_reader reader;
	struct err why = {0};
	struct frame_check frame = {
		.check = check,
		.path = path,
		.reader = &reader,
		.codec = codec,
		.frame = memory,
		.plain = memory + LIMIT_FRAME_BYTES,
	};
	int r = 0;

	if (!memory || !codec)
		return err_set(err, ENOMEM, "out of memory");
	r = mirror_reader_open(&reader, check->inventory.mirror, path, size,
			       READ_AHEAD_BYTES, &why);
	if (r < 0) {
		report(check, path, err_text(&why, r));
		mirror_reader_close(&reader);
		return 0;
	}
	for (uint32_t i = 0; i < count && r == 0; i++) {
		(void)check_frame(&frame, &records[i]);
		r = check_stop(check, err);
	}
	mirror_reader_close(&reader);
	return r;
}

static int check_pack(void *arg, size_t i, struct err *err)
{
	struct check *check = arg;
	const struct stored_file *file = &check->inventory.packs.list.items[i];
	_cleanup_free_ struct pack_record *records = NULL;
	char path[SOURCE_PATH_MAX];
	struct err text = {0};
	uint32_t count;
	int r;

	mirror_pack_path(&file->digest, path);
	r = pack_table_load(check->inventory.mirror, &file->digest, file->size,
			    &records, &count, &text);
	if (r == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	if (r < 0) {
		report(check, path, err_text(&text, r));
		return check_stop(check, err);
	}
	return check_frames(check, path, file->size, records, count, err);
}

/* Objects and places. */

static int check_object(void *arg, size_t i, struct err *err)
{
	struct check *check = arg;
	const struct stored_file *file =
		&check->inventory.objects.list.items[i];
	_cleanup_(codec_free_p) struct codec *codec = codec_new();
	char path[SOURCE_PATH_MAX];
	struct err text = {0};
	struct buf plain;
	int r;

	if (!codec)
		return err_set(err, ENOMEM, "out of memory");
	buf_init(&plain, LIMIT_CATALOG_BYTES);
	r = mirror_object_read(check->inventory.mirror, codec, &file->digest,
			       LIMIT_CATALOG_BYTES, &plain, &text);
	buf_release(&plain);
	if (r == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		report(check, mirror_object_path(&file->digest, path),
		       r == -EBADMSG ? "does not match its digest" :
				       err_text(&text, r));
	count_bytes(check, file->size);
	return check_stop(check, err);
}

static int check_places_pages(const struct places_head *head,
			      const struct buf *file, struct err *err)
{
	for (uint32_t i = 0; i < head->page_count; i++) {
		struct place *places;
		uint32_t count;
		int r;

		if (head->pages[i].offset > file->len ||
		    head->pages[i].stored_bytes >
			    file->len - head->pages[i].offset)
			return err_set(err, EBADMSG, "cut short");
		r = places_page_parse(
			head, i, file->data + head->pages[i].offset,
			head->pages[i].stored_bytes, &places, &count, err);
		if (r < 0)
			return r;
		free(places);
	}
	return 0;
}

static int check_places_file(struct check *check, const char *path,
			     struct err *err)
{
	const struct mirror *mirror = check->inventory.mirror;
	struct places_head *head = NULL;
	struct buf file;
	int r;

	buf_init(&file, LIMIT_PLACES_BYTES);
	r = mirror->ops->read(mirror, path, &file, err);
	if (r == 0)
		r = places_head_parse(file.data, file.len, &head, err);
	if (r == 0 && head->file_bytes != file.len)
		r = err_set(err, EBADMSG, "has %zu bytes, its head says %llu",
			    file.len, (unsigned long long)head->file_bytes);
	if (r == 0)
		r = check_places_pages(head, &file, err);
	places_head_free(head);
	buf_release(&file);
	return r;
}

static int check_places(void *arg, size_t i, struct err *err)
{
	struct check *check = arg;
	const struct stored_file *file = &check->inventory.places.list.items[i];
	char path[SOURCE_PATH_MAX];
	struct err text = {0};
	int r;

	mirror_places_path(&file->digest, path);
	r = check_places_file(check, path, &text);
	if (r == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		report(check, path, err_text(&text, r));
	count_bytes(check, file->size);
	return check_stop(check, err);
}

/* Heads and what they need. */

static void bad_reach(void *arg, const char *path, const char *text)
{
	report(arg, path, text);
}

static void good_chunk(void *arg, uint32_t pack, uint32_t position,
		       const struct pack_record *record)
{
	struct check *check = arg;

	(void)pack;
	(void)position;
	(void)record;
	check->result.chunks++;
}

static int check_heads(struct check *check, struct err *err)
{
	static const struct reach_ops ops = {
		.chunk = good_chunk,
		.bad = bad_reach,
	};
	struct reach *reach = reach_new(&check->inventory, &ops, check);
	int r = reach ? 0 : err_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; i < check->inventory.heads.list.count && r == 0;
	     i++) {
		const struct stored_head *stored =
			&check->inventory.heads.list.items[i];

		if (stored->result < 0) {
			report(check, stored->path,
			       err_text(&stored->err, stored->result));
			continue;
		}
		check->result.heads++;
		r = reach_head(reach, &stored->head, err);
		if (r == 0)
			r = check_stop(check, err);
	}
	reach_free(reach);
	return r;
}

static const struct stored_head *find_head(const struct inventory *inventory,
					   const char *path)
{
	for (size_t i = 0; i < inventory->heads.list.count; i++) {
		const struct stored_head *stored =
			&inventory->heads.list.items[i];

		if (strcmp(stored->path, path) == 0)
			return stored;
	}
	return NULL;
}

/*
 * A head that is gone or was replaced by an old one: readers refuse to go back.
 * One serial more in the history is a publish that ended just before its head.
 */
static void check_newest(struct check *check, const struct head *newest)
{
	char path[SOURCE_PATH_MAX];
	const struct stored_head *current =
		find_head(&check->inventory,
			  mirror_head_path(newest->dataset, NULL, path));
	struct err err;

	if (current && current->result < 0)
		return; /* reported */
	if (!head_is_behind(current ? current->head.serial : 0, newest->serial))
		return;
	if (current)
		err_set(&err, EBADMSG,
			"serial %" PRIu64 ", but its history goes to %" PRIu64
			": publish it again",
			current->head.serial, newest->serial);
	else
		err_set(&err, ENOENT,
			"missing, but its history goes to serial %" PRIu64
			": publish it again",
			newest->serial);
	report(check, path, err.text);
}

static void check_history(struct check *check)
{
	const struct stored_head *stored = check->inventory.heads.list.items;
	size_t count = check->inventory.heads.list.count;

	for (size_t i = 0; i < count; i++)
		if (stored[i].kind == HEAD_HISTORY && stored[i].result == 0 &&
		    (i + 1 == count || strcmp(stored[i].head.dataset,
					      stored[i + 1].head.dataset) != 0))
			check_newest(check, &stored[i].head);
}

static void count_files(struct check *check)
{
	const struct inventory *inventory = &check->inventory;
	const struct stored_files *all[] = {
		&inventory->objects, &inventory->places, &inventory->packs};

	check->result.objects = inventory->objects.list.count;
	check->result.places = inventory->places.list.count;
	check->result.packs = inventory->packs.list.count;
	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < all[i]->list.count; k++)
			check->total_bytes += all[i]->list.items[k].size;
}

static int check_all(struct check *check, struct err *err)
{
	const struct inventory *inventory = &check->inventory;
	unsigned int threads = check->options->threads ?
				       check->options->threads :
				       processor_count();
	int r;

	count_files(check);
	r = parallel_for(inventory->packs.list.count, threads, check_pack,
			 check, err);
	if (r == 0)
		r = parallel_for(inventory->objects.list.count, threads,
				 check_object, check, err);
	if (r == 0)
		r = parallel_for(inventory->places.list.count, threads,
				 check_places, check, err);
	if (r == 0)
		r = check_heads(check, err);
	if (r == 0)
		check_history(check);
	for (size_t i = 0; i < inventory->packs.list.count; i++)
		check->result.unreferenced_packs +=
			!inventory->packs.list.items[i].is_reached;
	return r;
}

int check_mirror(const struct check_options *options, struct check_result *ret,
		 struct err *err)
{
	_cleanup_(mirror_close_p) struct mirror *mirror = NULL;
	struct check check = {
		.options = options,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
	};
	int r = mirror_open(options->mirror, options->access, 0, &mirror, err);

	if (r == 0)
		r = inventory_take(mirror, &check.inventory, err);
	if (r < 0)
		return r;
	r = check_all(&check, err);
	inventory_release(&check.inventory);
	pthread_mutex_destroy(&check.mutex);
	if (r == 0)
		*ret = check.result;
	return r;
}
