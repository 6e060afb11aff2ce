/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is really on the disk. The index counts as it records, which is exact
 * until a process is killed between a write and its commit, or an index is
 * lost; so directory after directory is measured in the background and the
 * count put right, by each directory's share of it. Objects have no row: their
 * last use is the file's time, set at most once a day.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "base/text.h"
#include "cache/evict.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/measure.h"

#define DAY_S 86400
/* Writing one takes moments, so a minute later it is left over. */
#define TEMPORARY_AGE_S 60
/* 4 MiB; more when these do not suffice. */
#define OBJECTS_MAX 65536u

struct directory {
	DIR *dir;
	int fd;
};

static bool open_path(int at, const char *path, struct directory *ret)
{
	if (directory_open(at, path, O_NOFOLLOW, &ret->dir) < 0)
		return false;
	ret->fd = dirfd(ret->dir);
	return true;
}

static bool open_sub(int dirfd, const char *base, unsigned int number,
		     struct directory *ret)
{
	char name[24];

	snprintf(name, sizeof(name), "%s%02x", base, number % 256);
	return open_path(dirfd, name, ret);
}

/* Whether it was one of a process that ended before it renamed it. */
static bool remove_temporary(int dirfd, const char *name, const struct stat *st)
{
	if (!starts_with(name, ".tmp-"))
		return false;
	if (S_ISREG(st->st_mode) &&
	    st->st_mtime + TEMPORARY_AGE_S <= wall_seconds())
		unlinkat(dirfd, name, 0);
	return true;
}

/* The next entry that is a file, with what stat says of it. */
static const char *next_file(const struct directory *directory, struct stat *st)
{
	struct dirent *entry;

	while ((entry = readdir(directory->dir))) {
		if (!strcmp(entry->d_name, ".") ||
		    !strcmp(entry->d_name, "..") ||
		    fstatat(directory->fd, entry->d_name, st,
			    AT_SYMLINK_NOFOLLOW) < 0 ||
		    remove_temporary(directory->fd, entry->d_name, st))
			continue;
		if (S_ISREG(st->st_mode))
			return entry->d_name;
	}
	return NULL;
}

static void measure_blob(struct cache *cache, const struct digest *id,
			 const struct blob_row *row, uint64_t disk_bytes)
{
	struct record record = { .op = {
		.kind = INDEX_MEASURE, .id = *id, .gen = row->gen,
		.disk_bytes = disk_bytes,
	} };

	/* Segments are counted by their units. */
	if (row->segment_bytes == 0 && row->disk_bytes != disk_bytes)
		(void)recorder_add(&cache->recorder, &record);
}

/* Bytes of files that no row speaks of. */
static uint64_t measure_blobs(struct cache *cache, unsigned int number)
{
	struct directory directory;
	uint64_t strays = 0;
	char prefix[3];
	const char *name;
	struct stat st;

	if (!open_sub(cache->blobs.dirfd, "", number, &directory))
		return 0;
	snprintf(prefix, sizeof(prefix), "%02x", number % 256);
	while ((name = next_file(&directory, &st))) {
		uint64_t disk_bytes = (uint64_t)st.st_blocks * 512;
		struct blob_row row;
		struct digest id;

		int r = keeper_row_of(cache, prefix, name, &id, &row);

		if (r == 1)
			measure_blob(cache, &id, &row, disk_bytes);
		/* what is open is on its way to be recorded */
		else if (r == 0 && keeper_is_leftover(cache, directory.fd,
						      prefix, name, 0))
			strays += disk_bytes;
	}
	closedir(directory.dir);
	return strays;
}

static uint64_t measure_files(int dirfd, const char *base, unsigned int number)
{
	struct directory directory;
	uint64_t bytes = 0;
	struct stat st;

	if (!open_sub(dirfd, base, number, &directory))
		return 0;
	while (next_file(&directory, &st))
		bytes += (uint64_t)st.st_blocks * 512;
	closedir(directory.dir);
	return bytes;
}

uint64_t measure_all(struct cache *cache)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < 256; i++)
		bytes += measure_files(cache->dirfd, "blobs/", i) +
			 measure_files(cache->dirfd, "objects/", i);
	return bytes;
}

/* Those beside larder-cache, heads and pins. */
static void remove_temporaries(struct cache *cache, const char *path)
{
	struct directory directory;
	struct stat st;

	if (!open_path(cache->dirfd, path, &directory))
		return;
	while (next_file(&directory, &st))
		;
	closedir(directory.dir);
}

uint64_t measure_directory(struct cache *cache, unsigned int number)
{
	static const char *const others[] = { ".", "heads", "pins" };
	struct record record = { .op = {
		.kind = INDEX_SET_OTHER, .unit = number % 256,
	} };
	uint64_t objects;

	if (cache->is_readonly || !cache_has_index(cache))
		return 0;
	objects = measure_files(cache->dirfd, "objects/", number);
	record.op.disk_bytes = objects + measure_blobs(cache, number);
	(void)recorder_add(&cache->recorder, &record);
	if (number % 256 < sizeof(others) / sizeof(*others))
		remove_temporaries(cache, others[number % 256]);
	return objects;
}

/* ---- objects */

void measure_used(struct cache *cache, const char *path)
{
	const struct timespec now[2] = {
		{ .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW },
	};
	struct stat st;

	if (!cache->is_readonly &&
	    fstatat(cache->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_mtime + DAY_S < atomic_load(&cache->now_s))
		(void)utimensat(cache->dirfd, path, now, AT_SYMLINK_NOFOLLOW);
}

struct old_object {
	struct digest name;
	int64_t last_use;
	uint64_t bytes;
	bool is_places;
};

struct old_objects {
	struct old_object *items;
	size_t count;
};

static int by_use(const void *left, const void *right)
{
	const struct old_object *a = left, *b = right;

	if (a->last_use != b->last_use)
		return a->last_use < b->last_use ? -1 : 1;
	return digest_compare(&a->name, &b->name);
}

static void sort_objects(struct old_objects *objects)
{
	if (objects->count > 0)
		qsort(objects->items, objects->count, sizeof(*objects->items),
		      by_use);
}

static bool parse_name(unsigned int number, const char *name,
		       struct old_object *ret)
{
	size_t len = strcspn(name, ".");
	char hex[DIGEST_HEX_MAX];

	ret->is_places = !strcmp(name + len, ".places");
	if ((name[len] && !ret->is_places) || len + 2 != 2 * DIGEST_BYTES)
		return false;
	snprintf(hex, sizeof(hex), "%02x%.62s", number, name);
	ret->name.type = DIGEST_SHA256;
	return hex_decode(hex, ret->name.bytes, DIGEST_BYTES) == 0;
}

static void collect_objects(struct cache *cache, unsigned int number,
			    int64_t before_s, struct old_objects *objects)
{
	struct directory directory;
	const char *name;
	struct stat st;

	if (!open_sub(cache->dirfd, "objects/", number, &directory))
		return;
	while ((name = next_file(&directory, &st))) {
		struct old_object object = {
			.last_use = st.st_mtime,
			.bytes = (uint64_t)st.st_blocks * 512,
		};

		if (st.st_mtime > before_s || !parse_name(number, name, &object))
			continue;
		/* Full: keep the older half. */
		if (objects->count == OBJECTS_MAX) {
			sort_objects(objects);
			objects->count /= 2;
		}
		objects->items[objects->count++] = object;
	}
	closedir(directory.dir);
}

uint64_t measure_evict_objects(struct cache *cache, uint64_t bytes,
			       int64_t age_s)
{
	struct old_objects objects = { 0 };
	uint64_t freed = 0;

	objects.items = calloc(OBJECTS_MAX, sizeof(*objects.items));
	for (unsigned int i = 0; objects.items && i < 256; i++)
		collect_objects(cache, i, wall_seconds() - age_s, &objects);
	sort_objects(&objects);
	for (size_t i = 0; i < objects.count && freed < bytes; i++) {
		const struct old_object *object = &objects.items[i];

		if (cache_is_pinned(cache, &object->name) ||
		    cache_object_drop(cache, object->is_places ?
						     CACHE_PLACES : CACHE_OBJECT,
				      &object->name) < 0)
			continue;
		freed += object->bytes;
	}
	if (freed > 0)
		log_debug("evicted objects: bytes=%llu",
			  (unsigned long long)freed);
	free(objects.items);
	return freed;
}
