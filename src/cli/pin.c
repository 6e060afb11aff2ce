/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder pin and unpin: what the cache is to keep whatever else is read. A pin
 * names blobs, of the snapshot that is current now; it fetches nothing (that is
 * prefetch --pin), so it may be made before or after the data comes.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cli/select.h"

/* Pins above this share of the limit leave little for anything else. */
#define WARN_PERCENT 90u

/* ---- pin */

static int put_pin(struct cli_target *target, const struct target_blobs *found,
		   struct err *err)
{
	size_t count = found->blobs.count;
	_cleanup_free_ struct digest *ids = calloc(count + 1, sizeof(*ids));
	const struct cache_pin pin = {
		.source = target->source.name,
		.path = target->source.path,
		.globs = target->selection.globs,
		.glob_count = target->selection.glob_count,
		.snapshot = *snapshot_digest(target->source.snapshot),
		.made_s = wall_seconds(),
		.bytes = found->file_bytes,
		.blobs = ids,
		.blob_count = count,
		.objects = found->objects.items,
		.object_count = found->objects.count,
	};

	if (!ids)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		ids[i] = found->blobs.items[i].id;
	return cache_pin_add(node_cache(target->source.node), &pin, err);
}

/* What the pin keeps in the end, and how much of it is here. */
static uint64_t count_bytes(struct cache *cache,
			    const struct target_blobs *found,
			    uint64_t *ret_cached)
{
	uint64_t bytes = 0;

	*ret_cached = 0;
	for (size_t i = 0; i < found->blobs.count; i++) {
		const struct target_blob *blob = &found->blobs.items[i];
		struct cache_blob_info info;

		bytes += blob->bytes;
		if (cache_blob_info(cache, &blob->id, &info) == 1)
			*ret_cached += info.present_bytes;
	}
	return bytes;
}

int cli_pin(struct cli_target *target, const struct target_blobs *found,
	    struct err *err)
{
	struct cache *cache = node_cache(target->source.node);
	char size[FORMAT_MAX], limit[FORMAT_MAX];
	struct cache_usage usage;
	uint64_t cached, bytes = count_bytes(cache, found, &cached);

	cache_usage(cache, &usage);
	if (bytes > usage.limit_bytes)
		return err_set(
			err, ENOSPC,
			"cannot pin %s: the cache may hold %s (-o size=SIZE, "
			"or patterns that choose less)",
			format_size(bytes, size),
			format_size(usage.limit_bytes, limit));
	if (bytes > usage.limit_bytes / 100 * WARN_PERCENT)
		fprintf(stderr,
			"larder %s: this pins %s of the %s that the cache may hold\n",
			target->cli->command, format_size(bytes, size),
			format_size(usage.limit_bytes, limit));
	return put_pin(target, found, err);
}

static int pin(struct cli *cli, struct err *err)
{
	const char *const *words = cli->options.operands.items;
	char size[FORMAT_MAX], here[FORMAT_MAX], files[FORMAT_MAX];
	struct target_blobs found;
	struct cli_target target;
	uint64_t cached, kept;
	int r = cli_target_open(cli, words[0], words + 1,
				cli->options.operands.count - 1, &target, err);

	if (r < 0)
		return r;
	r = cli_target_blobs(&target, &found, err);
	if (r == 0) {
		r = cli_pin(&target, &found, err);
		kept = count_bytes(node_cache(target.source.node), &found,
				   &cached);
		if (r == 0)
			printf("pinned %s in %s file%s of %s; %s of it cached\n",
			       format_size(found.file_bytes, size),
			       format_count(found.files, files),
			       found.files == 1 ? "" : "s", target.source.name,
			       format_size(cached < found.file_bytes ?
						   cached :
						   found.file_bytes,
					   here));
		if (r == 0 && kept > found.file_bytes)
			printf("  with what lies beside them in the cache's files: %s\n",
			       format_size(kept, size));
		target_blobs_release(&found);
	}
	cli_target_close(&target);
	return r;
}

/* ---- the pins there are */

static void print_pin(void *arg, const struct cache_pin *pin)
{
	char size[FORMAT_MAX], made[FORMAT_MAX];

	(*(size_t *)arg)++;
	cli_print_name(pin->source, strlen(pin->source));
	if (pin->path[0]) {
		putchar(':');
		cli_print_name(pin->path, strlen(pin->path));
	}
	for (size_t i = 0; i < pin->glob_count; i++) {
		printf(" '");
		cli_print_name(pin->globs[i], strlen(pin->globs[i]));
		putchar('\'');
	}
	printf("\n  %s, made %s\n", format_size(pin->bytes, size),
	       format_time(pin->made_s, made));
}

static int list_pins(struct cli *cli, struct err *err)
{
	struct cache *cache;
	size_t count = 0;
	int r = cli_cache_open(cli, &cache, err);

	if (r < 0)
		return r;
	r = cache_pin_list(cache, print_pin, &count, err);
	if (r == 0 && count == 0)
		printf("nothing is pinned in %s\n", cache_dir(cache));
	cache_close(cache);
	return r;
}

static int pin_or_list(struct cli *cli, void *arg, struct err *err)
{
	(void)arg;
	return cli->options.operands.count ? pin(cli, err) :
					     list_pins(cli, err);
}

int cmd_pin(int argc, char **argv)
{
	const struct cli_command command = {
		.name = "pin",
		.usage = "larder pin [SOURCE[:PATH]|DIR [GLOB...]]",
		.summary =
			"Keep files in the cache once they are there, whatever else is read; list the\n"
			"pins there are. Only the owner of the cache may.",
		.operands_max = SIZE_MAX,
	};

	return cli_run(&command, argc, argv, pin_or_list, NULL);
}

/* ---- unpin */

struct unpin {
	const struct cli_target *target;
	struct cache *cache;
	uint64_t pins, bytes;
	struct err *err;
	int result;
};

static bool is_below(const char *path, const char *root)
{
	size_t len = strlen(root);

	return strncmp(path, root, len) == 0 &&
	       (len == 0 || path[len] == '\0' || path[len] == '/');
}

/* Without patterns whatever was pinned there or below; with some, the pin that
 * was made with the same. */
static bool is_meant(const struct cli_target *target,
		     const struct cache_pin *pin)
{
	const struct selection *selection = &target->selection;

	if (strcmp(pin->source, target->source.name) != 0)
		return false;
	if (selection->glob_count == 0)
		return is_below(pin->path, target->source.path);
	if (strcmp(pin->path, target->source.path) != 0 ||
	    pin->glob_count != selection->glob_count)
		return false;
	for (size_t i = 0; i < pin->glob_count; i++)
		if (strcmp(pin->globs[i], selection->globs[i]) != 0)
			return false;
	return true;
}

static void on_pin(void *arg, const struct cache_pin *pin)
{
	struct unpin *unpin = arg;
	int r;

	if (!is_meant(unpin->target, pin) || unpin->result < 0)
		return;
	r = cache_pin_remove(unpin->cache, pin, unpin->err);
	if (r == -ENOENT) /* by somebody else, meanwhile */
		return;
	unpin->result = r;
	unpin->pins += r == 0;
	unpin->bytes += pin->bytes;
}

static int unpin(struct cli *cli, void *arg, struct err *err)
{
	const char *const *words = cli->options.operands.items;
	char size[FORMAT_MAX];
	struct cli_target target;
	int r = cli_target_open(cli, words[0], words + 1,
				cli->options.operands.count - 1, &target, err);

	(void)arg;
	if (r < 0)
		return r;
	struct unpin unpin = {
		.target = &target,
		.cache = node_cache(target.source.node),
		.err = err,
	};
	r = cache_pin_list(unpin.cache, on_pin, &unpin, err);
	if (r == 0)
		r = unpin.result;
	if (r == 0 && unpin.pins == 0)
		r = err_set(
			err, ENOENT,
			"nothing like that of '%s' is pinned (the pins: larder "
			"pin -o cache='%s')",
			target.source.name, cache_dir(unpin.cache));
	if (r == 0)
		printf("unpinned %s of %s\n", format_size(unpin.bytes, size),
		       target.source.name);
	cli_target_close(&target);
	return r;
}

int cmd_unpin(int argc, char **argv)
{
	const struct cli_command command = {
		.name = "unpin",
		.usage = "larder unpin SOURCE[:PATH]|DIR [GLOB...]",
		.summary =
			"Let the cache evict again what was pinned: there and below, or with exactly\n"
			"these patterns. Only the owner of the cache may.",
		.operands_min = 1,
		.operands_max = SIZE_MAX,
	};

	return cli_run(&command, argc, argv, unpin, NULL);
}
