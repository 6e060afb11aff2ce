/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What could be evicted. The index says when a blob was used last. Where it was
 * lost there are files that it does not know, which somebody may ask for yet:
 * of them the times of the file tell, so that the limit holds whatever has
 * become of the index.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/candidates.h"
#include "cache/internal.h"

/* Held in memory: 8 MiB; more rounds if they do not suffice. */
#define CANDIDATES_MAX 65536u
#define SCAN_STEP 1024u
/* When none were found: not again for a while, it is a look at every file. */
#define STRAYS_MS 60000u

/* ---- segments */

uint64_t candidate_segments(const struct evict_candidate *candidate)
{
	uint64_t count =
		(candidate->blob_bytes + candidate->segment_bytes - 1) /
		candidate->segment_bytes;

	return count < LIMIT_SEGMENTS ? count : LIMIT_SEGMENTS;
}

bool candidate_segment(struct cache *cache, const struct evict_candidate *blob,
		       uint64_t segment, struct evict_candidate *ret)
{
	char path[BLOB_PATH_MAX];
	struct stat st;

	blob_path(&blob->id, blob->gen, blob->segment_bytes, segment, path);
	if (fstatat(cache->blobs.dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*ret = *blob;
	ret->segment = segment;
	ret->disk_bytes = (uint64_t)st.st_blocks * 512;
	ret->written = st.st_mtime;
	return true;
}

/* Blobs in segments become their segments: of one blob those written first go
 * first, as a stream leaves them behind. */
static void split_segments(struct cache *cache, struct candidates *candidates)
{
	size_t count = candidates->count;

	for (size_t i = 0; i < count; i++) {
		struct evict_candidate blob = candidates->items[i];
		struct evict_candidate one;

		if (blob.segment_bytes == 0)
			continue;
		candidates->items[i].disk_bytes = 0;
		for (uint64_t j = 0; j < candidate_segments(&blob) &&
				     candidates->count < CANDIDATES_MAX;
		     j++)
			if (candidate_segment(cache, &blob, j, &one))
				candidates->items[candidates->count++] = one;
	}
}

/* ---- the index's */

struct evict_candidate candidate_of(const struct digest *id,
				    const struct blob_row *row)
{
	return (struct evict_candidate){
		.id = *id,
		.gen = row->gen,
		.blob_bytes = row->blob_bytes,
		.segment_bytes = row->segment_bytes,
		.disk_bytes = row->disk_bytes,
		.last_use = row->last_use,
	};
}

static void add(struct candidates *candidates,
		const struct evict_candidate *candidate)
{
	if (candidate->disk_bytes == 0)
		return;
	/* Full: keep the older half. */
	if (candidates->count == CANDIDATES_MAX) {
		evict_choose(candidates->items, candidates->count, 0);
		candidates->count /= 2;
		candidates->is_cut = true;
	}
	candidates->items[candidates->count++] = *candidate;
}

static void offer(void *arg, const struct digest *id,
		  const struct blob_row *row)
{
	const struct evict_candidate candidate = candidate_of(id, row);

	add(arg, &candidate);
}

static int collect_rows(struct cache *cache, struct candidates *candidates)
{
	struct digest after = {.type = DIGEST_NONE};
	int n;

	if (!cache_has_index(cache))
		return 0;
	do {
		n = index_scan(cache->index, &after, SCAN_STEP, offer,
			       candidates);
	} while (n == (int)SCAN_STEP);
	split_segments(cache, candidates);
	return n < 0 ? n : 0;
}

/* ---- files that it does not know */

/* blobs/DIRECTORY/NAME. What type of digest it was named by is not in the name:
 * any of that length leads to the same file. */
static bool stray_of(int dirfd, const char *directory, const char *name,
		     struct evict_candidate *ret)
{
	char hex[DIGEST_HEX_MAX];
	const char *segment;
	struct stat st;

	*ret = (struct evict_candidate){.is_stray = true};
	if (blob_name_parse(directory, name, hex, &ret->gen) < 0 ||
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return false;
	ret->id.type = strlen(hex) / 2 == digest_size(DIGEST_GIT_SHA1) ?
			       DIGEST_GIT_SHA1 :
			       DIGEST_SHA256;
	segment = strchr(strchr(name, '.') + 1, '.');
	if (segment) {
		ret->segment_bytes = SEGMENT_BYTES;
		if (parse_u64(segment + 1, &ret->segment) < 0)
			return false;
	}
	ret->disk_bytes = (uint64_t)st.st_blocks * 512;
	ret->last_use = st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime;
	return strlen(hex) == digest_size(ret->id.type) * 2 &&
	       hex_decode(hex, ret->id.bytes, strlen(hex) / 2) == 0;
}

static bool is_row_of(struct cache *cache, const char *directory,
		      const char *name)
{
	struct blob_row row;
	struct digest id;

	/* Not known is not "no". */
	return cache_has_index(cache) &&
	       keeper_row_of(cache, directory, name, &id, &row) != 0;
}

bool candidate_is_known(struct cache *cache,
			const struct evict_candidate *stray)
{
	char path[BLOB_PATH_MAX];

	blob_path(&stray->id, stray->gen, stray->segment_bytes, stray->segment,
		  path);
	path[2] = '\0';
	return is_row_of(cache, path, path + 3);
}

static unsigned int collect_directory(struct cache *cache, unsigned int number,
				      struct candidates *candidates)
{
	_cleanup_closedir_ DIR *dir = NULL;
	unsigned int found = 0;
	struct dirent *entry;
	char name[3];

	snprintf(name, sizeof(name), "%02x", number % 256);
	if (directory_open(cache->blobs.dirfd, name, O_NOFOLLOW, &dir) < 0)
		return 0;
	while ((entry = readdir(dir))) {
		struct evict_candidate stray;

		if (!stray_of(dirfd(dir), name, entry->d_name, &stray) ||
		    is_row_of(cache, name, entry->d_name))
			continue;
		add(candidates, &stray);
		found++;
	}
	return found;
}

static void collect_strays(struct cache *cache, struct candidates *candidates)
{
	struct evictor *evictor = &cache->evictor;
	unsigned int found = 0;

	if (cache_has_index(cache) && (!keeper_expects_candidates(cache) ||
				       now_ms() < evictor->next_strays_ms))
		return;
	for (unsigned int i = 0; i < 256; i++)
		found += collect_directory(cache, i, candidates);
	if (found == 0)
		evictor->next_strays_ms = now_ms() + STRAYS_MS;
}

/* ---- */

int candidates_collect(struct cache *cache, struct candidates *ret)
{
	int r;

	*ret = (struct candidates){
		.items = calloc(CANDIDATES_MAX, sizeof(*ret->items)),
	};
	if (!ret->items)
		return -ENOMEM;
	r = collect_rows(cache, ret);
	collect_strays(cache, ret);
	return r;
}

void candidates_release(struct candidates *candidates)
{
	free(candidates->items);
	candidates->items = NULL;
}
