/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: what is never evicted. Each is a text file of its own in pins/, made
 * whole under another name and renamed, so that it survives the index, needs
 * no lock between processes and can be read by people. The evictor looks at
 * the directory's time before each removal and reads the files again when it
 * has moved. It remembers eight bytes a digest: a pinned million takes 8 MiB.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/text.h"
#include "base/vec.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/files.h"
#include "cache/internal.h"
#include "cache/pin-file.h"
#include "cache/pins.h"

/* A directory read so soon after its last change may change again within the
 * same tick of the filesystem's clock. */
#define SAME_TICK_MS 100u

/* ---- the set */

struct reading {
	VEC(uint64_t) names;
	bool is_short; /* of memory */
};

static uint64_t short_name(const struct digest *id)
{
	return load_le64(id->bytes);
}

static void note_digest(void *arg, const char *key, char *value)
{
	struct reading *reading = arg;
	struct digest digest;
	uint64_t *name;

	if ((strcmp(key, "blob") && strcmp(key, "object") &&
	     strcmp(key, "snapshot")) ||
	    digest_parse(value, &digest) < 0)
		return;
	name = vec_push(&reading->names);
	if (name)
		*name = short_name(&digest);
	reading->is_short |= !name;
}

static int note_pin(void *arg, int dirfd, const char *name)
{
	int r = pin_file_read(dirfd, name, note_digest, arg);

	return r == -ENOENT ? 0 : r; /* taken away meanwhile */
}

static int by_number(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

void pin_set_init(struct pin_set *pins, int cache_dirfd)
{
	*pins = (struct pin_set){0};
	pins->dirfd = openat(cache_dirfd, "pins",
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void pin_set_release(struct pin_set *pins)
{
	if (pins->dirfd >= 0)
		close(pins->dirfd);
	free(pins->names);
	*pins = (struct pin_set){.dirfd = -1};
}

static bool is_unchanged(const struct pin_set *pins, const struct stat *st)
{
	return pins->is_known && st->st_mtim.tv_sec == pins->changed_s &&
	       st->st_mtim.tv_nsec == pins->changed_ns;
}

static int read_set(struct pin_set *pins, const struct stat *st)
{
	struct reading reading = {0};
	int r = pin_file_each(pins->dirfd, note_pin, &reading);

	if (r == 0 && reading.is_short)
		r = -ENOMEM;
	if (r < 0) {
		vec_release(&reading.names);
		return r;
	}
	if (reading.names.count > 0)
		qsort(reading.names.items, reading.names.count,
		      sizeof(*reading.names.items), by_number);
	free(pins->names);
	pins->names = reading.names.items;
	pins->count = reading.names.count;
	pins->changed_s = st->st_mtim.tv_sec;
	pins->changed_ns = st->st_mtim.tv_nsec;
	/* Not remembered as long as it could change unseen. */
	pins->is_known = now_ms() - pins->read_ms > SAME_TICK_MS;
	return 0;
}

static int renew(struct pin_set *pins)
{
	struct stat st;

	if (fstat(pins->dirfd, &st) < 0)
		return -errno;
	if (is_unchanged(pins, &st))
		return 0;
	if (st.st_mtim.tv_sec != pins->changed_s ||
	    st.st_mtim.tv_nsec != pins->changed_ns)
		pins->read_ms = now_ms(); /* of the first look at it */
	return read_set(pins, &st);
}

bool pin_set_has(struct pin_set *pins, const struct digest *id)
{
	uint64_t name = short_name(id);
	int r = pins->dirfd < 0 ? -EBADF : renew(pins);

	if (r < 0) {
		log_limited(60000, log_warning("cannot read the pins, evicting "
					       "nothing: reason=%s",
					       strerror(-r)));
		return true;
	}
	return pins->count > 0 && bsearch(&name, pins->names, pins->count,
					  sizeof(name), by_number) != NULL;
}

/* ---- the door */

void pins_init(struct pins *pins, int cache_dirfd)
{
	pthread_mutex_init(&pins->lock, NULL);
	pin_set_init(&pins->set, cache_dirfd);
}

void pins_release(struct pins *pins)
{
	pin_set_release(&pins->set);
	pthread_mutex_destroy(&pins->lock);
}

bool cache_is_pinned(struct cache *cache, const struct digest *id)
{
	scoped_lock(&cache->pins.lock);
	return pin_set_has(&cache->pins.set, id);
}

struct measuring {
	struct cache *cache;
	uint64_t *seen; /* a bit for each name of the set */
	uint64_t bytes;
};

/* Blobs of several pins count once. */
static void measure_line(void *arg, const char *key, char *value)
{
	struct measuring *measuring = arg;
	const struct pin_set *set = &measuring->cache->pins.set;
	struct cache_blob_info info;
	struct digest digest;
	uint64_t name, bit, *found;
	size_t at;

	if (strcmp(key, "blob") != 0 || digest_parse(value, &digest) < 0)
		return;
	name = short_name(&digest);
	found = set->count == 0 ? NULL :
				  bsearch(&name, set->names, set->count,
					  sizeof(name), by_number);
	if (!found)
		return;
	at = (size_t)(found - set->names);
	while (at > 0 && set->names[at - 1] == name)
		at--;
	bit = UINT64_C(1) << (at % 64);
	if (measuring->seen[at / 64] & bit)
		return;
	measuring->seen[at / 64] |= bit;
	if (cache_blob_info(measuring->cache, &digest, &info) == 1)
		measuring->bytes += info.disk_bytes;
}

static int measure_pin(void *arg, int dirfd, const char *name)
{
	int r = pin_file_read(dirfd, name, measure_line, arg);

	return r == -ENOENT ? 0 : r;
}

uint64_t cache_pinned_bytes(struct cache *cache)
{
	struct measuring measuring = {.cache = cache};
	struct pin_set *set = &cache->pins.set;

	scoped_lock(&cache->pins.lock);
	if (set->dirfd < 0 || renew(set) < 0)
		return 0;
	measuring.seen = calloc(set->count / 64 + 1, sizeof(uint64_t));
	if (measuring.seen)
		(void)pin_file_each(set->dirfd, measure_pin, &measuring);
	free(measuring.seen);
	return measuring.bytes;
}

/* The same thing pinned again replaces its pin: the name is of what the user
 * asked for, not of the snapshot. */
static int pin_path(const struct cache_pin *pin,
		    char ret_path[5 + DIGEST_HEX_MAX])
{
	char hex[DIGEST_HEX_MAX];
	struct digest digest;
	struct buf text;
	int r;

	buf_init(&text, 16u << 20);
	r = pin_file_put_text(&text, "source", pin->source);
	if (r == 0)
		r = pin_file_put_text(&text, "path", pin->path);
	for (size_t i = 0; i < pin->glob_count && r == 0; i++)
		r = pin_file_put_text(&text, "glob", pin->globs[i]);
	if (r == 0) {
		digest_sha256(text.data, text.len, &digest);
		snprintf(ret_path, 5 + DIGEST_HEX_MAX, "pins/%s",
			 digest_hex(&digest, hex));
	}
	buf_release(&text);
	return r;
}

int cache_pin_add(struct cache *cache, const struct cache_pin *pin,
		  struct err *err)
{
	char path[5 + DIGEST_HEX_MAX];
	struct buf text;
	int r;

	if (cache->is_readonly)
		return err_set(err, EROFS,
			       "cannot pin in '%s': the cache "
			       "cannot be written",
			       cache->dir);
	buf_init(&text, PIN_BYTES_MAX);
	r = pin_path(pin, path);
	if (r == 0)
		r = pin_file_encode(&text, pin);
	if (r == 0)
		r = file_write(cache->dirfd, path, text.data, text.len, 0600,
			       FILE_WRITE_SYNC | FILE_WRITE_MKDIR);
	buf_release(&text);
	if (r < 0)
		return err_set(err, -r, "cannot write a pin in '%s': %s",
			       cache->dir, strerror(-r));
	return 0;
}

int cache_pin_remove(struct cache *cache, const struct cache_pin *pin,
		     struct err *err)
{
	char path[5 + DIGEST_HEX_MAX];
	int r = cache->is_readonly ? -EROFS : pin_path(pin, path);

	if (r == 0 && unlinkat(cache->dirfd, path, 0) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, -r, "cannot take a pin from '%s': %s",
			       cache->dir, strerror(-r));
	return 0;
}

struct listing {
	struct cache_pin pin;
	VEC(char *) globs;
	VEC(struct digest) blobs, objects;
	char *source, *path;
	bool is_short;
	void (*each)(void *arg, const struct cache_pin *pin);
	void *arg;
};

static void take_text(struct listing *listing, char **at, char *value)
{
	pin_file_unescape(value);
	free(*at);
	*at = strdup(value);
	listing->is_short |= !*at;
}

static void take_line(void *arg, const char *key, char *value)
{
	struct listing *listing = arg;
	struct digest digest, *slot;
	char **glob;

	if (!strcmp(key, "source")) {
		take_text(listing, &listing->source, value);
	} else if (!strcmp(key, "path")) {
		take_text(listing, &listing->path, value);
	} else if (!strcmp(key, "glob")) {
		glob = vec_push(&listing->globs);
		listing->is_short |= !glob;
		if (glob)
			take_text(listing, glob, value);
	} else if (!strcmp(key, "snapshot")) {
		(void)digest_parse(value, &listing->pin.snapshot);
	} else if (!strcmp(key, "made")) {
		(void)parse_time(value, &listing->pin.made_s);
	} else if (!strcmp(key, "bytes")) {
		(void)parse_u64(value, &listing->pin.bytes);
	} else if ((!strcmp(key, "blob") || !strcmp(key, "object")) &&
		   digest_parse(value, &digest) == 0) {
		slot = key[0] == 'b' ? vec_push(&listing->blobs) :
				       vec_push(&listing->objects);
		listing->is_short |= !slot;
		if (slot)
			*slot = digest;
	}
}

static int list_pin(void *arg, int dirfd, const char *name)
{
	struct listing *listing = arg;
	int r = pin_file_read(dirfd, name, take_line, listing);

	if (r == 0 && listing->is_short)
		r = -ENOMEM;
	if (r == 0 && listing->source) {
		listing->pin.source = listing->source;
		listing->pin.path = listing->path ?: "";
		listing->pin.globs = (const char *const *)listing->globs.items;
		listing->pin.glob_count = listing->globs.count;
		listing->pin.blobs = listing->blobs.items;
		listing->pin.blob_count = listing->blobs.count;
		listing->pin.objects = listing->objects.items;
		listing->pin.object_count = listing->objects.count;
		listing->each(listing->arg, &listing->pin);
	}
	for (size_t i = 0; i < listing->globs.count; i++)
		free(listing->globs.items[i]);
	vec_release(&listing->globs);
	vec_release(&listing->blobs);
	vec_release(&listing->objects);
	free(listing->source);
	free(listing->path);
	listing->source = listing->path = NULL;
	listing->pin = (struct cache_pin){0};
	return r == -ENOENT ? 0 : r;
}

int cache_pin_list(struct cache *cache,
		   void (*each)(void *arg, const struct cache_pin *pin),
		   void *arg, struct err *err)
{
	struct listing listing = {.each = each, .arg = arg};
	_cleanup_close_ int fd =
		openat(cache->dirfd, "pins",
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : pin_file_each(fd, list_pin, &listing);

	if (r < 0)
		return err_set(err, -r, "cannot read the pins of '%s': %s",
			       cache->dir, strerror(-r));
	return 0;
}
