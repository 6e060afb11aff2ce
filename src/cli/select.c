/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From SOURCE or DIR and patterns to files and blobs. A configured name comes
 * first, then what exists as a path, then MIRROR#NAME: a path of a mount may
 * have a '#' in it, and a mirror seldom lies on one.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/select.h"
#include "mount/mount.h"

/* ---- DIR */

static bool is_of_node(const char *name)
{
	static const char *const names[] = {
		"cache",    "size",	   "min-free",
		"proxy",    "ca",	   "cert",
		"cert-key", "connections", "total-connections",
		NULL};

	for (size_t i = 0; names[i]; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* The mount's options, under those of the command line. */
static int take_options(struct cli *cli, const struct mount_place *place,
			struct cli_dataset **ret, struct err *err)
{
	const char *end = place->options + place->options_len;
	int r = 0;

	*ret = NULL;
	for (const char *at = place->options; at < end && r == 0;
	     at += strlen(at) + 1) {
		const char *value = strchr(at, '=');
		_cleanup_free_ char *name =
			value ? strndup(at, (size_t)(value - at)) : NULL;

		if (!name)
			return err_set(err, ENOMEM, "out of memory");
		value++;
		if (strcmp(name, "dataset") == 0) {
			*ret = cli_dataset_new(cli, value, err);
			r = *ret ? 0 : -ENOMEM;
		} else if (is_of_node(name)) {
			r = options_set(&cli->options, OPTION_FILE, "the mount",
					name, value, err);
		} else if (*ret) {
			r = options_set(&(*ret)->options, OPTION_FILE,
					"the mount", name, value, err);
		}
	}
	if (r == 0 && !*ret)
		r = err_set(err, EPROTO,
			    "the mount is of another version of larder");
	return r;
}

static int open_place(struct cli *cli, const struct mount_place *place,
		      struct cli_source *ret, struct err *err)
{
	struct cli_dataset *dataset;
	int r = take_options(cli, place, &dataset, err);

	return r < 0 ? r :
		       cli_source_open_dataset(cli, dataset, place->path, ret,
					       err);
}

static bool is_configured(const struct cli *cli, const char *text)
{
	size_t len = strcspn(text, ":");

	for (size_t i = 0; i < cli->datasets.count; i++) {
		const char *name = cli->datasets.items[i]->name;

		if (strlen(name) == len && strncmp(name, text, len) == 0)
			return true;
	}
	return false;
}

int cli_source_or_place_open(struct cli *cli, const char *text,
			     struct cli_source *ret, struct err *err)
{
	struct mount_place place;
	struct err reason = {0};
	int r;

	if (is_configured(cli, text))
		return cli_source_open(cli, text, ret, err);
	r = mount_place(text, &place, &reason);
	if (r == 0) {
		r = open_place(cli, &place, ret, err);
		mount_place_release(&place);
		return r;
	}
	if (strchr(text, '#') || r == -ENOENT || r == -ENOTDIR || r == -ENOTSUP)
		return cli_source_open(cli, text, ret, err);
	return err_set(err, -r, "%s", reason.text);
}

int cli_target_open(struct cli *cli, const char *text, const char *const *globs,
		    size_t glob_count, struct cli_target *ret, struct err *err)
{
	int r;

	*ret = (struct cli_target){.cli = cli};
	r = cli_source_or_place_open(cli, text, &ret->source, err);
	if (r < 0)
		return r;
	ret->selection = (struct selection){
		.snapshot = ret->source.snapshot,
		.root = ret->source.attr.number,
		.globs = globs,
		.glob_count = glob_count,
	};
	return 0;
}

void cli_target_close(struct cli_target *target)
{
	cli_source_close(&target->source);
	*target = (struct cli_target){0};
}

/* ---- blobs */

/* Catalogs remembered, so that most are added once. */
#define NEIGHBOURS 8

struct collecting {
	struct cli_target *target;
	struct target_blobs *found;
	struct digest last_catalogs[NEIGHBOURS];
	bool is_short; /* of memory */
	struct err *err;
};

static void add_object(struct collecting *collecting,
		       const struct digest *digest)
{
	struct digest *object = vec_push(&collecting->found->objects);

	collecting->is_short |= !object;
	if (object)
		*object = *digest;
}

/* Neighbours come from the same catalogs. */
static void on_catalog(void *arg, const struct digest *catalog)
{
	struct collecting *collecting = arg;
	struct digest *last = collecting->last_catalogs;

	for (unsigned i = 0; i < NEIGHBOURS; i++)
		if (digest_equal(&last[i], catalog))
			return;
	memmove(last + 1, last, (NEIGHBOURS - 1) * sizeof(*last));
	last[0] = *catalog;
	add_object(collecting, catalog);
}

static int on_file(void *arg, const struct selected_file *file)
{
	struct collecting *collecting = arg;
	struct target_blobs *found = collecting->found;
	struct cli_source *source = &collecting->target->source;
	struct file_location at;
	int r = CLI_WAIT(source,
			 snapshot_locate(source->snapshot, file->number,
					 CLI_WAITER(source), &at, on_catalog,
					 collecting, collecting->err));

	if (r < 0)
		return r;
	found->files++;
	found->file_bytes += file->size;
	if (digest_is_none(&at.blob) ||
	    (found->blobs.count > 0 &&
	     digest_equal(&found->blobs.items[found->blobs.count - 1].id,
			  &at.blob)))
		return 0;
	struct target_blob *blob = vec_push(&found->blobs);
	if (blob)
		*blob = (struct target_blob){at.blob, at.blob_bytes};
	/* its recipe has its name */
	add_object(collecting, &at.blob);
	return blob && !collecting->is_short ?
		       0 :
		       err_set(collecting->err, ENOMEM, "out of memory");
}

static int by_id(const void *left, const void *right)
{
	const struct target_blob *a = left, *b = right;

	return digest_compare(&a->id, &b->id);
}

static int by_digest(const void *left, const void *right)
{
	return digest_compare(left, right);
}

static void sort_once(struct target_blobs *found)
{
	size_t kept = 0;

	if (found->blobs.count > 0)
		qsort(found->blobs.items, found->blobs.count,
		      sizeof(*found->blobs.items), by_id);
	for (size_t i = 0; i < found->blobs.count; i++)
		if (kept == 0 || by_id(&found->blobs.items[kept - 1],
				       &found->blobs.items[i]) != 0)
			found->blobs.items[kept++] = found->blobs.items[i];
	found->blobs.count = kept;
	kept = 0;
	if (found->objects.count > 0)
		qsort(found->objects.items, found->objects.count,
		      sizeof(*found->objects.items), by_digest);
	for (size_t i = 0; i < found->objects.count; i++)
		if (kept == 0 || by_digest(&found->objects.items[kept - 1],
					   &found->objects.items[i]) != 0)
			found->objects.items[kept++] = found->objects.items[i];
	found->objects.count = kept;
}

int cli_target_blobs(struct cli_target *target, struct target_blobs *ret,
		     struct err *err)
{
	struct collecting collecting = {
		.target = target,
		.found = ret,
		.err = err,
	};
	int r;

	*ret = (struct target_blobs){0};
	on_catalog(&collecting, snapshot_digest(target->source.snapshot));
	r = snapshot_select(&target->selection, target->source.waiter, on_file,
			    &collecting, err);
	if (r < 0)
		target_blobs_release(ret);
	else
		sort_once(ret);
	return r;
}

void target_blobs_release(struct target_blobs *blobs)
{
	vec_release(&blobs->blobs);
	vec_release(&blobs->objects);
	*blobs = (struct target_blobs){0};
}
