/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_CACHE_ENV_H
#define LARDER_TESTS_CACHE_ENV_H

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "cache/cache.h"

#include "scratch.h"

/* What the cache tests share: a directory, made-up blobs, waiting. */
#define UNIT 65536u

static inline void env_remove(char *dir)
{
	assert(remove_tree(AT_FDCWD, dir) == 0);
	free(dir);
}

static inline struct cache *env_open_limited(const char *dir, uint64_t limit)
{
	struct cache_options options = {
		.dir = dir, .limit_bytes = limit, .min_free_bytes = 1,
	};
	struct cache *cache = NULL;
	struct err err = { "" };
	int r = cache_open(&options, &cache, &err);

	if (r < 0)
		fprintf(stderr, "cache_open: %s\n", err.text);
	assert(r == 0);
	return cache;
}

static inline struct cache *env_open(const char *dir)
{
	return env_open_limited(dir, UINT64_C(4) << 30);
}

static inline struct digest env_id(unsigned int blob)
{
	struct digest id;

	digest_sha256(&blob, sizeof(blob), &id);
	return id;
}

/* The bytes of a unit: known from blob and number alone. */
static inline void env_fill(unsigned int blob, uint64_t unit, uint8_t *data,
			    size_t len)
{
	uint64_t x = (blob + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (unit + 1);

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (uint8_t)(x >> 32);
	}
}

static inline struct cache_blob *env_blob(struct cache *cache,
					  unsigned int blob, uint64_t units)
{
	struct digest id = env_id(blob);
	struct cache_blob *ret = NULL;
	struct err err = { "" };

	assert(cache_blob_open(cache, &id, units * UNIT, units, &ret, &err) == 0);
	return ret;
}

static inline void env_count(void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
}

static inline int env_put(struct cache_blob *blob, unsigned int number,
			  uint64_t unit, _Atomic int *recorded)
{
	static _Thread_local uint8_t data[UNIT];

	int r;

	env_fill(number, unit, data, UNIT);
	/* A disk that is busy may count as one that hangs for a moment. */
	do
		r = cache_blob_put(blob, unit, unit * UNIT, data, UNIT,
				   recorded ? env_count : NULL, recorded);
	while (r == -ETIMEDOUT && usleep(1000) == 0);
	return r;
}

/* Within a minute, or the test has failed. */
static inline void env_wait(_Atomic int *counter, int wanted)
{
	for (int i = 0; i < 12000 && atomic_load(counter) < wanted; i++)
		usleep(5000);
	assert(atomic_load(counter) == wanted);
}

/* 1: here and right; 0: a miss; aborts on wrong bytes. */
static inline int env_check(struct cache_blob *blob, unsigned int number,
			    uint64_t unit)
{
	static _Thread_local uint8_t data[UNIT], expected[UNIT];
	uint64_t offset = unit * UNIT, at, len;
	size_t done = 0;
	int fd;

	if (cache_blob_has(blob, unit, offset, UNIT) != 1)
		return 0;
	while (done < UNIT) {
		size_t want;

		int r = cache_blob_fd(blob, offset + done, &fd, &at, &len);

		if (r == -EAGAIN)
			return env_check(blob, number, unit);
		assert(r == 0);
		want = len < UNIT - done ? (size_t)len : UNIT - done;
		assert(pread_full(fd, data + done, want, at) == (ssize_t)want);
		done += want;
	}
	env_fill(number, unit, expected, UNIT);
	assert(memcmp(data, expected, UNIT) == 0);
	return 1;
}

/* The only file of a blob, relative to dir; false if there is none. Until it is
 * recorded its announcement lies beside it. */
static inline bool env_blob_file(const char *dir, unsigned int number,
				 char *ret, size_t size)
{
	struct digest id = env_id(number);
	char hex[DIGEST_HEX_MAX], sub[512];
	struct dirent *entry;
	bool found = false;
	DIR *d;

	digest_hex(&id, hex);
	snprintf(sub, sizeof(sub), "%s/blobs/%.2s", dir, hex);
	d = opendir(sub);
	while (d && (entry = readdir(d))) {
		if (strncmp(entry->d_name, hex + 2, strlen(hex + 2)) != 0 ||
		    strstr(entry->d_name, ".new"))
			continue;
		snprintf(ret, size, "%.200s/%.200s", sub, entry->d_name);
		found = true;
	}
	if (d)
		closedir(d);
	return found;
}

/* All units of a blob, those that are taken recorded. */
static inline void env_put_blob(struct cache *cache, unsigned int number,
				uint64_t units)
{
	struct cache_blob *blob = env_blob(cache, number, units);
	_Atomic int recorded = 0;
	int put = 0;

	for (uint64_t unit = 0; unit < units; unit++) {
		int r = env_put(blob, number, unit, &recorded);

		assert(r == 0 || r == -ENOSPC);
		put += r == 0;
	}
	env_wait(&recorded, put);
	cache_blob_close(blob);
}

static uint64_t env_blocks;
static inline int env_add_blocks(const char *path, const struct stat *st,
				 int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if (type == FTW_F)
		env_blocks += (uint64_t)st->st_blocks * 512;
	return 0;
}

/* What the files of blobs take on disk. */
static inline uint64_t env_disk_bytes(const char *dir)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/blobs", dir);
	env_blocks = 0;
	(void)nftw(path, env_add_blocks, 8, FTW_PHYS);
	return env_blocks;
}

#endif
