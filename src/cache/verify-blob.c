/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking 64 units of a blob, read past the page cache where the filesystem
 * can: what counts is what lies on the disk. A mount may put or drop a unit
 * meanwhile, so one that is wrong is looked up and read once more. A unit is
 * compared with its checksum, and with its digest when the recipe is here,
 * since the two are damaged by different accidents; a blob whose recipe is not
 * here, with its own when all of it is.
 *
 * Whoever has the file open is told by its times: they are set after anything
 * was found wrong, so that a mount checks each unit again before it is used.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cache/files.h"
#include "cache/verify.h"
#include "format/codec.h"
#include "format/limits.h"
#include "format/recipe.h"

/* Evictions that take longer are those of a stopped process. */
#define EVICTION_MS 30000u

struct piece_check {
	struct verifier *verifier;
	const struct verify_piece *piece;
	struct recipe_page *recipe; /* the page of these units, or NULL */
	struct identity *identity;  /* of all of the blob, or NULL */
	const uint8_t *data;        /* of the unit read last */
	uint64_t segment;           /* of fd */
	int fd;                     /* -1: none */
	bool is_touched;            /* fd's file has a fault */
	uint64_t units, bytes, proven;
};

/* ---- reading */

static void leave_file(struct piece_check *check)
{
	if (check->fd < 0)
		return;
	if (check->is_touched)
		(void)futimens(check->fd, NULL);
	close(check->fd);
	check->fd = -1;
	check->is_touched = false;
}

static int enter_segment(struct piece_check *check, uint64_t segment)
{
	const struct verify_piece *piece = check->piece;
	int dirfd = check->verifier->verify->cache->blobs.dirfd;
	char path[BLOB_PATH_MAX];

	if (check->fd >= 0 && check->segment == segment)
		return check->fd;
	leave_file(check);
	blob_path(&piece->id, piece->row.gen, piece->row.segment_bytes, segment,
		  path);
	check->fd = open_regular(dirfd, path, O_RDONLY, 0);
	if (check->fd < 0)
		return check->fd;
	check->segment = segment;
	/* In use: nobody evicts it under us. */
	(void)ofd_lock(check->fd, F_RDLCK, 0, 1);
	(void)fcntl(check->fd, F_SETFL, O_DIRECT);
	return check->fd;
}

/* The end of a file need not be aligned, but what is asked for must. */
static ssize_t read_blocks(int fd, uint8_t *buffer, size_t len, uint64_t at)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, buffer + done, len - done,
				  (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
		if (n == 0 || n % VERIFY_ALIGN != 0)
			break;
	}
	return (ssize_t)done;
}

/* Whole blocks around the range; *ret_data points into the buffer. */
static int read_range(struct piece_check *check, uint64_t at, size_t len,
		      uint8_t *buffer, uint8_t **ret_data)
{
	size_t before = (size_t)(at % VERIFY_ALIGN);
	size_t want = (before + len + VERIFY_ALIGN - 1) / VERIFY_ALIGN *
		      VERIFY_ALIGN;
	ssize_t n = read_blocks(check->fd, buffer, want, at - before);

	/* Some filesystems take the flag and refuse the reads. */
	if (n == -EINVAL && fcntl(check->fd, F_SETFL, 0) == 0)
		n = read_blocks(check->fd, buffer, want, at - before);
	if (n < 0)
		return (int)n;
	if ((size_t)n < before + len)
		return -ENODATA;
	*ret_data = buffer + before;
	return 0;
}

/* A unit's bytes. One that lies in two segments is put together. */
static int read_unit(struct piece_check *check, const struct unit_row *unit,
		     uint8_t **ret_data)
{
	uint64_t segment_bytes = check->piece->row.segment_bytes;
	uint64_t at = unit->offset;
	size_t done = 0;

	while (done < unit->length) {
		uint64_t segment = segment_bytes ? at / segment_bytes : 0;
		uint64_t inside = segment_bytes ? at % segment_bytes : at;
		size_t len = unit->length - done;
		uint8_t *data = NULL;
		int r;

		if (segment_bytes && len > segment_bytes - inside)
			len = (size_t)(segment_bytes - inside);
		r = enter_segment(check, segment);
		if (r < 0)
			return r;
		/* Segments are cut at whole blocks: the second part of a unit
		 * is read to right behind the first. */
		r = read_range(check, inside, len,
			       done ? *ret_data + done :
				      check->verifier->buffer, &data);
		if (r < 0)
			return r;
		if (done == 0)
			*ret_data = data;
		done += len;
		at += len;
	}
	return 0;
}

/* ---- what it should be */

static int get_object(struct verifier *verifier, const struct digest *name,
		      struct buf *ret)
{
	struct buf frame;
	int r;

	buf_init(&frame, LIMIT_RECIPE_BYTES + LIMIT_FRAME_BYTES);
	r = cache_object_get(verifier->verify->cache, CACHE_OBJECT, name,
			     &frame);
	if (r == 0)
		r = codec_open_object(verifier->codec, frame.data, frame.len,
				      LIMIT_RECIPE_BYTES, name, ret);
	buf_release(&frame);
	return r;
}

/* The page of the recipe that speaks of these units, or NULL. */
static struct recipe_page *find_recipe(struct verifier *verifier,
				       const struct verify_piece *piece)
{
	uint64_t first = (uint64_t)piece->number * ROW_UNITS;
	struct recipe_page *page = NULL;
	struct buf root, data;
	struct recipe recipe;

	buf_init(&root, LIMIT_RECIPE_BYTES);
	buf_init(&data, LIMIT_RECIPE_BYTES);
	if (get_object(verifier, &piece->id, &root) == 0 &&
	    recipe_parse(root.data, root.len, &recipe, NULL) == 0 &&
	    recipe.chunk_count == piece->row.unit_count) {
		uint32_t number = (uint32_t)(first / LIMIT_RECIPE_PAGE_RECORDS);
		struct digest name;
		uint64_t start, end;

		if (recipe.page_count == 0) {
			(void)recipe_page_from_root(&recipe, &page);
		} else {
			recipe_page_at(&recipe, number, &name, &start, &end);
			if (get_object(verifier, &name, &data) == 0)
				(void)recipe_page_parse(&recipe, number,
							data.data, data.len,
							&page, NULL);
		}
	}
	buf_release(&data);
	buf_release(&root);
	return page;
}

/* NULL: as it should be. */
static const char *judge(struct piece_check *check, uint64_t unit,
			 const struct unit_row *row, bool *ret_is_proven)
{
	const struct recipe_page *page = check->recipe;
	const struct recipe_record *record;
	struct digest digest;
	uint8_t *data = NULL;
	int r;

	*ret_is_proven = false;
	if (row->length == 0 || row->length > LIMIT_CHUNK_BYTES)
		return "the index says nonsense of it";
	r = read_unit(check, row, &data);
	if (r == -ENOENT)
		return "its file is missing";
	if (r == -ENODATA)
		return "its file ends before it";
	if (r < 0)
		return "cannot be read";
	check->data = data;
	if (checksum_xxh3(data, row->length) != row->checksum)
		return "other bytes than were stored";
	if (!page || unit < page->first_chunk ||
	    unit - page->first_chunk >= page->count)
		return NULL;
	record = &page->records[unit - page->first_chunk];
	if (record->length != row->length ||
	    page->starts[unit - page->first_chunk] != row->offset)
		return "not where its recipe has it";
	*ret_is_proven = true;
	if (record->is_zero)
		return NULL;
	digest_sha256(data, row->length, &digest);
	return digest_equal(&digest, &record->digest) ? NULL :
							"not its digest";
}

/* A file goes before its row: whoever is evicting has to get to the row. Who is
 * stopped meanwhile is waited for once. */
static void let_evictions_end(struct verify *verify)
{
	struct cache *cache = verify->cache;
	uint32_t timeout_ms = atomic_load(&verify->has_waited) ?
				      0 : EVICTION_MS;

	scoped_lock(&cache->evictor.lock);
	if (gate_enter(cache->gate_fd, GATE_EVICTOR, timeout_ms) == 0)
		gate_leave(cache->gate_fd, GATE_EVICTOR);
	else
		atomic_store(&verify->has_waited, true);
}

/* ---- units */

static void unit_is_bad(struct piece_check *check, uint64_t unit,
			const struct unit_row *row, const char *why)
{
	const struct verify_piece *piece = check->piece;
	struct verify *verify = check->verifier->verify;
	bool is_repair = verify->options->is_repair;
	char path[BLOB_PATH_MAX], shown[BLOB_PATH_MAX + 8];
	const struct index_op op = {
		.kind = is_repair ? INDEX_DROP_UNIT : INDEX_UNMARK,
		.id = piece->id, .gen = piece->row.gen, .unit = unit,
		.length = row->length, .mark = piece->row.mark,
	};

	blob_path(&piece->id, piece->row.gen, piece->row.segment_bytes,
		  piece->row.segment_bytes ?
			  row->offset / piece->row.segment_bytes : 0, path);
	snprintf(shown, sizeof(shown), "blobs/%s", path);
	verify_record(verify, &op);
	check->is_touched = true;
	pthread_mutex_lock(&verify->lock);
	verify->result.bad_units++;
	verify->result.bad_bytes += row->length;
	pthread_mutex_unlock(&verify->lock);
	verify_fault(verify, shown, is_repair,
		     "unit %" PRIu64 ", bytes %" PRIu64 " to %" PRIu64 ": %s",
		     unit, row->offset, row->offset + row->length, why);
}

static void check_unit(struct piece_check *check, uint64_t unit,
		       const struct unit_row *row)
{
	const struct verify_piece *piece = check->piece;
	struct cache *cache = check->verifier->verify->cache;
	struct unit_row again = *row;
	bool is_proven;
	const char *why = judge(check, unit, row, &is_proven);

	check->units++;
	check->bytes += row->length;
	/* Evicted, dropped or put anew while we looked? */
	if (why) {
		leave_file(check);
		let_evictions_end(check->verifier->verify);
		if (index_unit(cache->index, &piece->id, piece->row.gen, unit,
			       &again) != 1)
			return;
		why = judge(check, unit, &again, &is_proven);
	}
	if (why) {
		unit_is_bad(check, unit, &again, why);
		return;
	}
	if (is_proven)
		check->proven++;
	if (check->identity)
		identity_add(check->identity, &again, check->data);
}

/* A blob that is one file has none. */
static void file_is_missing(struct verify *verify,
			    const struct verify_piece *blob)
{
	const struct index_op op = {
		.kind = INDEX_DROP_BLOB, .id = blob->id, .gen = blob->row.gen,
	};
	bool is_repair = verify->options->is_repair;
	int dirfd = verify->cache->blobs.dirfd;
	char path[BLOB_PATH_MAX], shown[BLOB_PATH_MAX + 8];
	struct blob_row row;

	let_evictions_end(verify);
	if (index_blob(verify->cache->index, &blob->id, &row) != 1 ||
	    row.gen != blob->row.gen)
		return; /* just evicted */
	blob_path(&blob->id, blob->row.gen, 0, 0, path);
	if (is_repair) {
		(void)remove_tree(dirfd, path);
		verify_record(verify, &op);
	}
	snprintf(shown, sizeof(shown), "blobs/%s", path);
	pthread_mutex_lock(&verify->lock);
	verify->result.lost_files++;
	verify->result.bad_bytes += blob->row.present_bytes;
	pthread_mutex_unlock(&verify->lock);
	verify_fault(verify, shown, is_repair, "the file is missing, or "
		     "something else is in its place");
}

static void check_row(struct piece_check *check, uint32_t number)
{
	struct verify *verify = check->verifier->verify;
	const struct verify_piece *piece = check->piece;
	struct units_row row;

	if (index_units(verify->cache->index, &piece->id, piece->row.gen,
			piece->row.unit_count, number, &row) != 1)
		return;
	for (uint32_t i = 0; i < row.count; i++) {
		if (atomic_load(&verify->is_over))
			break;
		if (!(row.present[i / 64] >> (i % 64) & 1))
			continue;
		check_unit(check, (uint64_t)number * ROW_UNITS + i,
			   &row.units[i]);
		verify_progress(verify, row.units[i].length);
	}
}

/* All of its units; those that are right are proven when they are read. */
static void drop_units(struct piece_check *check)
{
	struct verify *verify = check->verifier->verify;
	const struct verify_piece *piece = check->piece;
	struct index_op op = {
		.kind = INDEX_DROP_UNIT, .is_certain = true, .id = piece->id,
		.gen = piece->row.gen,
	};
	struct units_row row;

	for (; op.unit < piece->row.unit_count; op.unit++) {
		uint32_t at = (uint32_t)(op.unit % ROW_UNITS);

		if (at == 0 &&
		    index_units(verify->cache->index, &piece->id,
				piece->row.gen, piece->row.unit_count,
				(uint32_t)(op.unit / ROW_UNITS), &row) != 1)
			return;
		op.length = row.units[at].length;
		verify_record(verify, &op);
	}
}

/* Its checksums are right: which unit is to blame cannot be said here. */
static void blob_is_bad(struct piece_check *check)
{
	struct verify *verify = check->verifier->verify;
	const struct verify_piece *piece = check->piece;
	bool is_repair = verify->options->is_repair;
	char path[BLOB_PATH_MAX], shown[BLOB_PATH_MAX + 8];
	const struct index_op unmark = {
		.kind = INDEX_UNMARK, .id = piece->id, .gen = piece->row.gen,
		.mark = piece->row.mark,
	};

	if (is_repair)
		drop_units(check);
	else
		verify_record(verify, &unmark);
	check->is_touched = true;
	pthread_mutex_lock(&verify->lock);
	verify->result.bad_units += check->units;
	verify->result.bad_bytes += check->bytes;
	pthread_mutex_unlock(&verify->lock);
	blob_path(&piece->id, piece->row.gen, piece->row.segment_bytes, 0,
		  path);
	snprintf(shown, sizeof(shown), "blobs/%s", path);
	verify_fault(verify, shown, is_repair,
		     "all of it: not the bytes of its digest");
}

static void check_identity(struct piece_check *check)
{
	int r = check->identity ? identity_compare(check->identity) : -EINVAL;

	if (r == 1)
		check->proven = check->units;
	else if (r == 0)
		blob_is_bad(check);
}

static void check_rows(struct piece_check *check)
{
	const struct verify_piece *piece = check->piece;
	uint64_t rows = (piece->row.unit_count + ROW_UNITS - 1) / ROW_UNITS;

	if (!piece->is_whole) {
		check->recipe = find_recipe(check->verifier, piece);
		check_row(check, piece->number);
		return;
	}
	check->identity = identity_new(&piece->id, &piece->row);
	for (uint64_t i = 0; i < rows; i++)
		check_row(check, (uint32_t)i);
	check_identity(check);
}

void verify_units(struct verifier *verifier, const struct verify_piece *piece)
{
	struct verify *verify = verifier->verify;
	struct piece_check check = {
		.verifier = verifier, .piece = piece, .fd = -1,
	};

	if (piece->row.segment_bytes == 0 &&
	    enter_segment(&check, 0) == -ENOENT) {
		if (piece->number == 0)
			file_is_missing(verify, piece);
		return;
	}
	check_rows(&check);
	leave_file(&check);
	identity_free(check.identity);
	recipe_page_free(check.recipe);
	pthread_mutex_lock(&verify->lock);
	verify->result.units += check.units;
	verify->result.bytes += check.bytes;
	verify->result.proven_units += check.proven;
	pthread_mutex_unlock(&verify->lock);
}
