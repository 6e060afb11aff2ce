/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing what no kept head reaches.
 *
 * Marks come from the heads; whatever is young is spared as well, since a
 * publish that is still to be resumed has no head yet. Nothing is removed if
 * anything reachable is missing or damaged: then the marks cannot be trusted.
 * The order is heads, places, objects, packs, so that a gc that is killed
 * leaves nothing that points at what is gone.
 *
 * A pack is removed only when all of it is dead; rewriting packs that are
 * mostly dead is reported, not done.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "format/places.h"
#include "publish/inventory.h"
#include "publish/lease.h"
#include "publish/pack-tables.h"
#include "publish/publish.h"
#include "publish/reach.h"
#include "publish/ticker.h"
#include "source/source.h"

DEFINE_CLEANUP(struct mirror *, mirror_close);

/* Which records of a pack are live. */
struct live {
	uint8_t *bits;
	size_t bytes;
	uint64_t live_bytes;
	bool is_spared; /* all of it, for a young places file */
};

struct removal {
	char path[SOURCE_PATH_MAX];
	uint64_t bytes;
	uint64_t *count;
};

struct gc {
	const struct gc_options *options;
	const struct mirror *mirror;
	VEC(struct removal) removals; /* to be removed together */
	uint64_t failed;	      /* of them, the first in failed_err */
	struct err failed_err;
	struct inventory inventory;
	struct live *packs; /* as in the inventory */
	int64_t now;	    /* by the mirror's clock */
	struct gc_result result;
	uint64_t bad;
	struct err first_bad;
	bool is_out_of_memory;
	_Atomic int stop_result; /* set by the ticker */
	struct err stop_err;	 /* before stop_result */
};

/* Marking. */

static void mark_bad(void *arg, const char *path, const char *text)
{
	struct gc *gc = arg;

	if (gc->bad++ == 0)
		err_set(&gc->first_bad, EBADMSG, "%s: %s", path, text);
}

static void mark_chunk(void *arg, uint32_t pack, uint32_t position,
		       const struct pack_record *record)
{
	struct gc *gc = arg;
	struct live *live = &gc->packs[pack];
	size_t byte = position / 8;
	uint8_t bit = (uint8_t)(1u << position % 8);

	if (byte >= live->bytes) {
		size_t wanted = byte < 128 ? 256 : 2 * byte;
		uint8_t *grown = realloc(live->bits, wanted);

		if (!grown) {
			gc->is_out_of_memory = true;
			return;
		}
		memset(grown + live->bytes, 0, wanted - live->bytes);
		live->bits = grown;
		live->bytes = wanted;
	}
	if (live->bits[byte] & bit)
		return;
	live->bits[byte] |= bit;
	live->live_bytes += record->stored_bytes;
}

/*
 * A past head is kept while it may still be mounted: it counts from the
 * day it was replaced, which is the time of the next one.
 */
static bool is_kept(const struct gc *gc, size_t i)
{
	const struct stored_heads *heads = &gc->inventory.heads;
	const struct stored_head *stored = &heads->list.items[i];
	const struct stored_head *next = stored + 1;

	if (stored->kind != HEAD_HISTORY)
		return true;
	if (i + 1 == heads->list.count || next->kind != HEAD_HISTORY ||
	    strcmp(next->head.dataset, stored->head.dataset) != 0)
		return true;
	return next->head.time > wall_seconds() - (int64_t)gc->options->keep_s;
}

static int mark_heads(struct gc *gc, struct err *err)
{
	static const struct reach_ops ops = {
		.chunk = mark_chunk,
		.bad = mark_bad,
	};
	struct reach *reach = reach_new(&gc->inventory, &ops, gc);
	int r = reach ? 0 : err_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; i < gc->inventory.heads.list.count && r == 0; i++) {
		const struct stored_head *stored =
			&gc->inventory.heads.list.items[i];

		if (stored->result < 0)
			r = err_set(
				err, EBADMSG,
				"%s; nothing was removed: repair or remove that head first",
				stored->err.text);
		else if (gc->stop_result)
			r = gc->stop_result;
		else if (is_kept(gc, i)) {
			gc->result.kept_heads++;
			r = reach_head(reach, &stored->head, err);
		}
	}
	reach_free(reach);
	if (r == 0 && gc->is_out_of_memory)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0 && gc->bad > 0)
		r = err_set(
			err, EBADMSG,
			"the mirror is damaged, nothing was removed (larder check names all %llu faults): %s",
			(unsigned long long)gc->bad, gc->first_bad.text);
	return r;
}

/* Sparing. */

static bool is_young(const struct gc *gc, const struct stored_file *file)
{
	return file->mtime > gc->now - (int64_t)gc->options->grace_s;
}

/* A young places file keeps the packs it names, if it can be read. */
static int spare_packs(struct gc *gc, const struct stored_file *file)
{
	char path[SOURCE_PATH_MAX];
	struct places_head *head = NULL;
	struct buf data;
	uint64_t head_bytes;
	int r;

	buf_init(&data, LIMIT_PLACES_BYTES);
	r = gc->mirror->ops->read(gc->mirror,
				  mirror_places_path(&file->digest, path),
				  &data, NULL);
	if (r == 0)
		r = places_head_size(data.data, data.len, &head_bytes, NULL);
	if (r == 0)
		r = head_bytes > data.len ?
			    -EBADMSG :
			    places_head_parse(data.data, head_bytes, &head,
					      NULL);
	for (uint32_t i = 0; r == 0 && i < head->pack_count; i++) {
		struct stored_file *pack = stored_files_find(
			&gc->inventory.packs, &head->packs[i].id);

		if (pack)
			gc->packs[pack - gc->inventory.packs.list.items]
				.is_spared = true;
	}
	places_head_free(head);
	buf_release(&data);
	return r == -ENOMEM ? r : 0;
}

static int spare_young_places(struct gc *gc, struct err *err)
{
	const struct stored_files *places = &gc->inventory.places;

	for (size_t i = 0; i < places->list.count; i++) {
		const struct stored_file *file = &places->list.items[i];

		if (!file->is_reached && is_young(gc, file) &&
		    spare_packs(gc, file) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* Removing. */

static void note_removed(struct gc *gc, const struct removal *removal)
{
	++*removal->count;
	gc->result.removed_bytes += removal->bytes;
	if (gc->options->removed)
		gc->options->removed(gc->options->arg, removal->path,
				     removal->bytes);
}

/* The first failure is the run's; the others of one request are told. */
static void note_failed(struct gc *gc, const char *path, int result,
			const struct err *why)
{
	struct err err;

	err_set(&err, -result, "cannot remove '%s/%s': %s", gc->mirror->path,
		path, err_text(why, result));
	if (gc->failed++ == 0)
		gc->failed_err = err;
	else if (gc->options->failed)
		gc->options->failed(gc->options->arg, &err);
}

static int on_removed(void *arg, size_t i, int result, const struct err *why)
{
	struct gc *gc = arg;
	const struct removal *removal = &gc->removals.items[i];

	if (result < 0 && result != -ENOENT) {
		note_failed(gc, removal->path, result, why);
		return result;
	}
	note_removed(gc, removal);
	return gc->stop_result;
}

static int remove_together(struct gc *gc)
{
	const char *paths[MIRROR_REMOVE_MAX];

	for (size_t i = 0; i < gc->removals.count; i++)
		paths[i] = gc->removals.items[i].path;
	return mirror_remove_many(gc->mirror, paths, gc->removals.count,
				  on_removed, gc);
}

/* What was collected; r is the result so far. */
static int remove_collected(struct gc *gc, int r, struct err *err)
{
	if (r == 0 && gc->removals.count > 0)
		r = remove_together(gc);
	gc->removals.count = 0;
	if (gc->failed > 0)
		*err = gc->failed_err;
	else if (r < 0)
		err_set(err, -r, "cannot remove from '%s': %s",
			gc->mirror->path, strerror(-r));
	return r;
}

static int remove_file(struct gc *gc, const char *path, uint64_t bytes,
		       uint64_t *count, struct err *err)
{
	struct removal *removal;

	if (gc->stop_result) {
		*err = gc->stop_err;
		return gc->stop_result;
	}
	removal = vec_push(&gc->removals);
	if (!removal)
		return err_set(err, ENOMEM, "out of memory");
	*removal = (struct removal){.bytes = bytes, .count = count};
	snprintf(removal->path, sizeof(removal->path), "%s", path);
	if (gc->options->is_dry_run) {
		note_removed(gc, removal);
		gc->removals.count = 0;
	}
	return gc->removals.count < MIRROR_REMOVE_MAX ?
		       0 :
		       remove_collected(gc, 0, err);
}

static int remove_heads(struct gc *gc, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < gc->inventory.heads.list.count && r == 0; i++)
		if (!is_kept(gc, i))
			r = remove_file(gc,
					gc->inventory.heads.list.items[i].path,
					0, &gc->result.heads, err);
	return r;
}

static int remove_files(struct gc *gc, const struct stored_files *files,
			char *(*path_of)(const struct digest *, char *),
			uint64_t *count, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < files->list.count && r == 0; i++) {
		const struct stored_file *file = &files->list.items[i];
		char path[SOURCE_PATH_MAX];

		if (file->is_reached)
			continue;
		if (is_young(gc, file)) {
			gc->result.spared_files++;
			gc->result.spared_bytes += file->size;
			continue;
		}
		r = remove_file(gc, path_of(&file->digest, path), file->size,
				count, err);
	}
	return r;
}

static void count_pack(struct gc *gc, uint32_t pack)
{
	uint64_t live = gc->packs[pack].live_bytes, frames;

	gc->result.kept_packs++;
	gc->result.kept_bytes += gc->inventory.packs.list.items[pack].size;
	if (pack_tables_frames(gc->inventory.tables, pack, &frames) < 0)
		return;
	gc->result.dead_bytes += frames - live;
	if (frames - live > frames / 2)
		gc->result.sparse_packs++;
}

static int remove_packs(struct gc *gc, struct err *err)
{
	const struct stored_files *packs = &gc->inventory.packs;
	int r = 0;

	for (size_t i = 0; i < packs->list.count && r == 0; i++) {
		const struct stored_file *file = &packs->list.items[i];
		const struct live *live = &gc->packs[i];
		char path[SOURCE_PATH_MAX];

		if (live->live_bytes > 0) {
			count_pack(gc, (uint32_t)i);
		} else if (live->is_spared || is_young(gc, file)) {
			gc->result.spared_files++;
			gc->result.spared_bytes += file->size;
		} else {
			r = remove_file(gc,
					mirror_pack_path(&file->digest, path),
					file->size, &gc->result.packs, err);
		}
	}
	return r;
}

static int remove_temporaries(struct gc *gc, const struct stored_files *files,
			      struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < files->strangers.count && r == 0; i++) {
		const char *path = files->strangers.items[i];
		uint64_t size;
		int64_t mtime;

		if (!starts_with(strrchr(path, '/') + 1, ".tmp-") ||
		    gc->mirror->ops->stat(gc->mirror, path, &size, &mtime,
					  NULL) < 0 ||
		    mtime > gc->now - (int64_t)gc->options->grace_s)
			continue;
		r = remove_file(gc, path, size, &gc->result.temporaries, err);
	}
	return r;
}

/* Heads before what they need, so that none is ever left without it. */
static int remove_all(struct gc *gc, struct err *err)
{
	struct inventory *inventory = &gc->inventory;
	int r = remove_collected(gc, remove_heads(gc, err), err);

	if (r == 0)
		r = remove_files(gc, &inventory->places, mirror_places_path,
				 &gc->result.places, err);
	r = remove_collected(gc, r, err);
	if (r == 0)
		r = remove_files(gc, &inventory->objects, mirror_object_path,
				 &gc->result.objects, err);
	r = remove_collected(gc, r, err);
	if (r == 0)
		r = remove_packs(gc, err);
	if (r == 0)
		r = remove_temporaries(gc, &inventory->objects, err);
	if (r == 0)
		r = remove_temporaries(gc, &inventory->places, err);
	if (r == 0)
		r = remove_temporaries(gc, &inventory->packs, err);
	return remove_collected(gc, r, err);
}

static int run_gc(struct gc *gc, struct err *err)
{
	struct err why = {0};
	int r = mirror_now(gc->mirror, &gc->now, &why);

	if (r == -EROFS || r == -EACCES) { /* a dry run may look at those */
		gc->now = wall_seconds();
		r = gc->options->is_dry_run ? 0 : r;
	}
	if (r < 0)
		return err_set(err, -r, "cannot write to mirror '%s': %s",
			       gc->mirror->path, err_text(&why, r));
	r = inventory_take(gc->mirror, &gc->inventory, err);
	if (r < 0)
		return r;
	gc->packs =
		calloc(gc->inventory.packs.list.count + 1, sizeof(*gc->packs));
	if (!gc->packs)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = mark_heads(gc, err);
	if (r == 0)
		r = spare_young_places(gc, err);
	if (r == 0)
		r = remove_all(gc, err);
	for (size_t i = 0; gc->packs && i < gc->inventory.packs.list.count; i++)
		free(gc->packs[i].bits);
	free(gc->packs);
	vec_release(&gc->removals);
	inventory_release(&gc->inventory);
	return r;
}

static void stop_gc(void *arg, int result, const struct err *err)
{
	struct gc *gc = arg;

	gc->stop_err = *err;
	gc->stop_result = result;
}

int gc_mirror(const struct gc_options *options, struct gc_result *ret,
	      struct err *err)
{
	_cleanup_(mirror_close_p) struct mirror *mirror = NULL;
	struct gc gc = {.options = options};
	struct ticker_options ticker_options = {
		.stop = options->stop,
		.fail = stop_gc,
		.arg = &gc,
	};
	struct lease *lease = NULL;
	struct ticker *ticker = NULL;
	struct err scratch;
	int r;

	if (!err)
		err = &scratch;
	r = mirror_open(options->mirror, options->access, 0, &mirror, err);
	if (r == 0 && !options->is_dry_run)
		r = lease_take(mirror, "gc", &lease, err);
	if (r < 0)
		return r;
	ticker_options.lease = lease;
	r = ticker_start(&ticker_options, &ticker, err);
	gc.mirror = mirror;
	if (r == 0)
		r = run_gc(&gc, err);
	if (r < 0 && gc.stop_result)
		*err = gc.stop_err;
	ticker_stop(ticker);
	lease_release(lease);
	if (r == 0)
		*ret = gc.result;
	return r;
}
