/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying a cache: threads that take the next 64 units of a blob, and, when
 * there are no more, a directory of objects and of blobs. Rows are listed a
 * thousand at a time, so memory does not depend on the size of the cache.
 * Nothing is stopped for it: mounts go on, and what they change meanwhile is
 * looked up again before it is called wrong.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "cache/verify.h"
#include "format/codec.h"
#include "format/limits.h"

#define THREADS_MAX 64u
#define SCAN_STEP 1024u
#define DIRECTORIES 256u
/* Until what was dropped is recorded: longer than the gate's bound. */
#define FLUSH_MS (5 * GATE_TIMEOUT_MS)

void verify_fault(struct verify *verify, const char *path, bool is_repaired,
		  const char *format, ...)
{
	const struct cache_verify_options *options = verify->options;
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	scoped_lock(&verify->lock);
	if (is_repaired)
		verify->result.repaired++;
	else
		verify->result.left++;
	if (options->report)
		options->report(options->arg, path, text);
}

void verify_progress(struct verify *verify, uint64_t bytes)
{
	const struct cache_verify_options *options = verify->options;

	scoped_lock(&verify->lock);
	verify->done_bytes += bytes;
	if (options->progress)
		options->progress(options->arg, verify->done_bytes,
				  verify->total_bytes);
	if (options->stop && *options->stop)
		atomic_store(&verify->is_over, true);
}

void verify_record(struct verify *verify, const struct index_op *op)
{
	struct record record = { .op = *op };

	(void)recorder_add(&verify->cache->recorder, &record);
}

/* ---- what comes next; called with the lock held */

static void fail(struct verify *verify, int r, const char *what)
{
	if (verify->failure == 0)
		verify->failure = err_set(&verify->err, -r, "cannot %s: %s",
					  what, strerror(-r));
	atomic_store(&verify->is_over, true);
}

static void add_blob(void *arg, const struct digest *id,
		     const struct blob_row *row)
{
	struct verify *verify = arg;
	struct verify_piece *blob = vec_push(&verify->blobs);

	if (blob)
		*blob = (struct verify_piece){ .id = *id, .row = *row };
	else
		fail(verify, -ENOMEM, "list the cache");
}

/* The next blobs to check into verify->blobs; none: there are no more. */
static void scan(struct verify *verify)
{
	const struct cache_verify_options *options = verify->options;
	struct index *index = verify->cache->index;
	struct blob_row row;
	int n;

	verify->blobs.count = verify->next_blob = 0;
	while (options->ids && verify->next_id < options->id_count &&
	       verify->blobs.count < SCAN_STEP) {
		const struct digest *id = &options->ids[verify->next_id++];

		if (index_blob(index, id, &row) == 1)
			add_blob(verify, id, &row);
	}
	if (options->ids || verify->is_scanned)
		return;
	n = index_scan(index, &verify->after, SCAN_STEP, add_blob, verify);
	if (n < 0)
		fail(verify, n, "read the index");
	verify->is_scanned = n < (int)SCAN_STEP;
}

/* A blob by reference, or one whose list of chunks is not here. */
static bool is_named_only(struct verify *verify,
			  const struct verify_piece *blob)
{
	char path[DIGEST_PATH_MAX];

	if (blob->row.present_units != blob->row.unit_count)
		return false;
	digest_path("objects", &blob->id, path);
	return blob->row.is_by_content ||
	       faccessat(verify->cache->dirfd, path, F_OK,
			 AT_SYMLINK_NOFOLLOW) < 0;
}

static bool next_piece(struct verify *verify, struct verify_piece *ret)
{
	scoped_lock(&verify->lock);
	for (;;) {
		struct verify_piece *blob;

		if (atomic_load(&verify->is_over))
			return false;
		if (verify->next_blob == verify->blobs.count)
			scan(verify);
		if (verify->next_blob == verify->blobs.count)
			return false;
		blob = &verify->blobs.items[verify->next_blob];
		if (verify->next_row == 0)
			verify->result.blobs++;
		if ((uint64_t)verify->next_row * ROW_UNITS <
		    blob->row.unit_count) {
			*ret = *blob;
			ret->number = verify->next_row++;
			if (ret->number == 0)
				ret->is_whole = is_named_only(verify, blob);
			if (ret->is_whole)
				verify->next_row = UINT32_MAX;
			return true;
		}
		verify->next_row = 0;
		verify->next_blob++;
	}
}

static bool next_directory(struct verify *verify, unsigned int *ret)
{
	scoped_lock(&verify->lock);
	if (atomic_load(&verify->is_over) ||
	    verify->next_directory == DIRECTORIES)
		return false;
	*ret = verify->next_directory++;
	return true;
}

/* ---- threads */

static int verifier_init(struct verifier *verifier, struct verify *verify)
{
	*verifier = (struct verifier){ .verify = verify };
	verifier->codec = codec_new();
	verifier->buffer = aligned_alloc(VERIFY_ALIGN, LIMIT_CHUNK_BYTES +
						       2 * VERIFY_ALIGN);
	return verifier->codec && verifier->buffer ? 0 : -ENOMEM;
}

static void verifier_release(struct verifier *verifier)
{
	codec_free(verifier->codec);
	free(verifier->buffer);
}

static void *run(void *arg)
{
	struct verify *verify = arg;
	struct verifier verifier;
	struct verify_piece piece;
	unsigned int directory;

	if (verifier_init(&verifier, verify) < 0) {
		pthread_mutex_lock(&verify->lock);
		fail(verify, -ENOMEM, "verify the cache");
		pthread_mutex_unlock(&verify->lock);
	}
	while (next_piece(verify, &piece))
		verify_units(&verifier, &piece);
	while (!verify->options->ids && next_directory(verify, &directory)) {
		verify_objects(&verifier, directory);
		verify_leftovers(&verifier, directory);
	}
	verifier_release(&verifier);
	return NULL;
}

static void run_threads(struct verify *verify, unsigned int count)
{
	pthread_t threads[THREADS_MAX];
	unsigned int started = 0;
	cpu_set_t set;

	if (count == 0)
		count = sched_getaffinity(0, sizeof(set), &set) < 0 ?
				1 : (unsigned int)CPU_COUNT(&set);
	while (started + 1 < count && started < THREADS_MAX &&
	       thread_start(&threads[started], 0, run, verify) == 0)
		started++;
	run(verify);
	while (started > 0)
		pthread_join(threads[--started], NULL);
}

/* ---- */

static void add_bytes(void *arg, const struct digest *id,
		      const struct blob_row *row)
{
	(void)id;
	*(uint64_t *)arg += row->present_bytes;
}

static uint64_t count_bytes(struct verify *verify)
{
	const struct cache_verify_options *options = verify->options;
	struct index *index = verify->cache->index;
	struct digest after = { .type = DIGEST_NONE };
	struct blob_row row;
	uint64_t bytes = 0;

	for (size_t i = 0; options->ids && i < options->id_count; i++)
		if (index_blob(index, &options->ids[i], &row) == 1)
			bytes += row.present_bytes;
	while (!options->ids &&
	       index_scan(index, &after, SCAN_STEP, add_bytes, &bytes) ==
		       (int)SCAN_STEP)
		;
	return bytes;
}

/* It is checked before anything is written to it. */
static bool is_index_sound(struct cache *cache)
{
	struct record nothing = { .op = { .kind = INDEX_NOTHING } };

	if (!cache->is_readonly &&
	    recorder_add(&cache->recorder, &nothing) == 0)
		recorder_flush(&cache->recorder, FLUSH_MS);
	return cache_has_index(cache);
}

int cache_verify(struct cache *cache,
		 const struct cache_verify_options *options,
		 struct cache_verify_result *ret, struct err *err)
{
	struct verify verify = {
		.cache = cache, .options = options,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.after = { .type = DIGEST_NONE },
	};

	if (!cache_has_index(cache))
		return err_set(err, EIO, "cannot verify '%s': there is no "
			       "index of what it holds", cache->dir);
	if (!is_index_sound(cache))
		return err_set(err, EIO, "cannot verify '%s': its index was "
			       "damaged and has been moved aside; what lies "
			       "in the cache is compared with its digests when "
			       "it is read, and can be verified then",
			       cache->dir);
	if (options->is_repair && cache->is_readonly)
		return err_set(err, EROFS, "cannot repair '%s': it cannot be "
			       "written", cache->dir);
	verify.total_bytes = count_bytes(&verify);
	run_threads(&verify, options->threads);
	vec_release(&verify.blobs);
	pthread_mutex_destroy(&verify.lock);
	recorder_flush(&cache->recorder, FLUSH_MS);
	if (verify.failure < 0) {
		if (err)
			*err = verify.err;
		return verify.failure;
	}
	if (options->stop && *options->stop)
		return err_set(err, ECANCELED, "stopped by a signal");
	if (!cache_has_index(cache) ||
	    atomic_load(&cache->recorder.is_suspended))
		return err_set(err, EIO, "the index of '%s' cannot be written; "
			       "see larder status", cache->dir);
	*ret = verify.result;
	return 0;
}
