/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What verify looks at besides units: objects against their names, and files
 * among the blobs that no row speaks of. Places are not named by their bytes:
 * whether they can be read is looked at here, whether what they say is true
 * whenever it is used.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/files.h"
#include "cache/verify.h"
#include "format/codec.h"
#include "format/limits.h"
#include "format/places.h"

/* ---- objects */

#define PLACES_SUFFIX ".places"

static bool parse_name(const char *directory, const char *name,
		       struct digest *ret, enum cache_object_kind *ret_kind)
{
	size_t len = strlen(name);
	char hex[NAME_MAX + 8];

	*ret = (struct digest){ .type = DIGEST_SHA256 };
	*ret_kind = ends_with(name, PLACES_SUFFIX) ? CACHE_PLACES :
						     CACHE_OBJECT;
	if (*ret_kind == CACHE_PLACES)
		len -= sizeof(PLACES_SUFFIX) - 1;
	if (strlen(directory) + len != (size_t)DIGEST_BYTES * 2)
		return false;
	snprintf(hex, sizeof(hex), "%.2s%.62s", directory, name);
	return hex_decode(hex, ret->bytes, DIGEST_BYTES) == 0;
}

/* 0, -ENOMEM, or it is not what it should be. */
static int judge_object(struct verifier *verifier, enum cache_object_kind kind,
			const struct digest *name, uint64_t *ret_bytes)
{
	struct buf frame, plain;
	int r;

	buf_init(&frame, LIMIT_CATALOG_BYTES);
	buf_init(&plain, LIMIT_CATALOG_BYTES);
	r = cache_object_get(verifier->verify->cache, kind, name, &frame);
	if (r == 0 && kind == CACHE_PLACES)
		r = places_check_part(frame.data, frame.len);
	else if (r == 0)
		r = codec_open_object(verifier->codec, frame.data, frame.len,
				      LIMIT_CATALOG_BYTES, name, &plain);
	*ret_bytes = frame.len;
	buf_release(&plain);
	buf_release(&frame);
	return r;
}

static void check_object(struct verifier *verifier, int dirfd,
			 const char *directory, const char *file, const struct digest *name,
			 enum cache_object_kind kind)
{
	struct verify *verify = verifier->verify;
	bool is_repair = verify->options->is_repair;
	char path[64 + DIGEST_HEX_MAX];
	uint64_t bytes;
	int r = judge_object(verifier, kind, name, &bytes);

	/* Dropped by a mount that has found it wrong. */
	if (r == -ENOENT && faccessat(dirfd, file, F_OK,
				      AT_SYMLINK_NOFOLLOW) < 0)
		return;
	pthread_mutex_lock(&verify->lock);
	verify->result.objects++;
	verify->result.bytes += bytes;
	verify->result.bad_objects += r < 0 && r != -ENOMEM;
	pthread_mutex_unlock(&verify->lock);
	verify_progress(verify, 0); /* its total is not known before */
	if (r == 0 || r == -ENOMEM)
		return;
	if (is_repair)
		is_repair = cache_object_drop(verify->cache, kind, name) == 0;
	snprintf(path, sizeof(path), "objects/%.2s/%.80s", directory, file);
	verify_fault(verify, path, is_repair, kind == CACHE_PLACES ?
		     "places that cannot be read" : "not the bytes of its name");
}

void verify_objects(struct verifier *verifier, unsigned int directory)
{
	struct verify *verify = verifier->verify;
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	const char *number;
	char path[16];

	snprintf(path, sizeof(path), "objects/%02x", directory % 256);
	number = path + sizeof("objects/") - 1;
	if (directory_open(verify->cache->dirfd, path, O_NOFOLLOW, &dir) < 0)
		return;
	while (!atomic_load(&verify->is_over) &&
	       (entry = readdir(dir))) {
		enum cache_object_kind kind;
		struct digest name;

		if (parse_name(number, entry->d_name, &name, &kind))
			check_object(verifier, dirfd(dir), number,
				     entry->d_name, &name, kind);
	}
}

/* ---- leftovers */

static void is_leftover(struct verify *verify, int dirfd,
			const char *directory, const char *name)
{
	bool is_repair = verify->options->is_repair;
	char path[512];
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (is_repair)
		is_repair = unlinkat(dirfd, name, 0) == 0;
	pthread_mutex_lock(&verify->lock);
	verify->result.leftovers++;
	verify->result.leftover_bytes += (uint64_t)st.st_blocks * 512;
	pthread_mutex_unlock(&verify->lock);
	snprintf(path, sizeof(path), "blobs/%s/%.255s", directory, name);
	verify_fault(verify, path, is_repair, "a file the index does not know");
}

void verify_leftovers(struct verifier *verifier, unsigned int directory)
{
	struct verify *verify = verifier->verify;
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[8];

	snprintf(name, sizeof(name), "%02x", directory % 256);
	if (directory_open(verify->cache->blobs.dirfd, name, O_NOFOLLOW,
			   &dir) < 0)
		return;
	while (!atomic_load(&verify->is_over) &&
	       (entry = readdir(dir))) {
		if (entry->d_name[0] != '.' &&
		    keeper_is_leftover(verify->cache, dirfd(dir), name,
				       entry->d_name, LEFTOVER_AGE_S))
			is_leftover(verify, dirfd(dir), name, entry->d_name);
	}
}
