/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which datasets the tree shows: those of the start, and on SIGHUP those that
 * are new in the configuration. What is there already is left alone, however
 * its section was changed: files of it may be open, and their inode numbers
 * lead to the dataset they were opened in.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#define LOG_MODULE "mount"
#include "base/log.h"
#include "mount/datasets.h"
#include "mount/internal.h"
#include "mount/op.h"
#include "mount/session.h"
#include "mount/views.h"

/* One dataset that can never work leaves the others alone: its name is shown,
 * and what is below it fails with the reason. */
static int add_one(struct fs *fs, const struct mount_dataset *wanted,
		   struct err *fault, struct err *err)
{
	struct tree_leaf leaf = {.options = &wanted->options};
	int r = dataset_add(fs->node, &wanted->options, &leaf.dataset, fault);

	if (r < 0) {
		err_prefix(fault, r, "%s: [%s]", wanted->where ?: "larder",
			   wanted->path);
		leaf.fault = fault->text;
	}
	int added = tree_add(&fs->tree, wanted->path, &leaf, err);
	if (added < 0 && wanted->where)
		err_prefix(err, added, "%s", wanted->where);
	return added < 0 ? added : r;
}

static bool is_whole_hub(const struct mount_dataset *dataset)
{
	return dataset->options.hub && dataset->options.hub->is_whole;
}

int datasets_build(struct fs *fs, struct err *err)
{
	const struct mount_options *options = fs->options;
	size_t working = 0;
	int result = 0;

	if (options->is_single) {
		struct tree_leaf leaf = {.options =
						 &options->datasets[0].options};
		int r = dataset_add(fs->node, leaf.options, &leaf.dataset, err);

		return r < 0 ? r : tree_add(&fs->tree, "", &leaf, err);
	}
	for (size_t i = 0; i < options->dataset_count; i++) {
		struct err fault = {0}, fatal = {0};

		if (is_whole_hub(&options->datasets[i])) {
			int whole = views_add(fs, &options->datasets[i], err);

			if (whole < 0)
				return whole;
			working++;
			continue;
		}
		int r = add_one(fs, &options->datasets[i], &fault, &fatal);

		if (fatal.text[0] || r == -ENOMEM) {
			*err = fatal;
			return r;
		}
		working += r == 0;
		if (r == 0)
			continue;
		result = err_set(err, -r, "%s", fault.text);
		if (options->dataset_count > 1)
			log_warning("%s; every use of it will fail",
				    fault.text);
	}
	/* nothing to serve: the mount itself is refused */
	return working ? 0 : result;
}

/* The kernel asks again what is behind the name. */
static void forget_name(struct fs *fs, const struct tree_dir *dir)
{
	fuse_lowlevel_notify_inval_entry(fs->session->fuse,
					 ino_make(0, dir->parent), dir->name,
					 strlen(dir->name));
}

/* A new head: the dataset's name leads elsewhere now. */
static void on_change(void *arg, struct dataset *dataset)
{
	struct fs *fs = arg;

	if (!fs_enter(fs))
		return;
	struct tree_dir *dir;

	for (size_t i = 1; (dir = tree_get(&fs->tree, i)); i++)
		if (dir->dataset == dataset)
			forget_name(fs, dir);
	fs_leave(fs);
	log_info("new snapshot dataset=%s", dataset_name(dataset));
}

void datasets_watch(struct fs *fs)
{
	struct tree_dir *dir;

	for (size_t i = 0; (dir = tree_get(&fs->tree, i)); i++)
		if (dir->dataset)
			dataset_on_change(dir->dataset, on_change, fs);
}

static bool is_equal_list(const char *const *a, size_t a_count,
			  const char *const *b, size_t b_count)
{
	size_t i = 0;

	while (i < a_count && i < b_count && strcmp(a[i], b[i]) == 0)
		i++;
	return i == a_count && i == b_count;
}

static bool is_equal_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_equal_hub(const struct hub_options *a,
			 const struct hub_options *b)
{
	if (!a || !b)
		return a == b;
	return is_equal_text(a->source, b->source) &&
	       is_equal_text(a->token_file, b->token_file) &&
	       is_equal_list(a->allow, a->allow_count, b->allow,
			     b->allow_count) &&
	       is_equal_list(a->deny, a->deny_count, b->deny, b->deny_count);
}

static bool is_unchanged(const struct dataset_options *a,
			 const struct dataset_options *b)
{
	return is_equal_text(a->remote_name, b->remote_name) &&
	       is_equal_text(a->tag, b->tag) &&
	       is_equal_list(a->mirrors, a->mirror_count, b->mirrors,
			     b->mirror_count) &&
	       is_equal_list(a->key_files, a->key_count, b->key_files,
			     b->key_count) &&
	       a->insecure == b->insecure &&
	       a->refuse_expired == b->refuse_expired &&
	       is_equal_hub(a->hub, b->hub);
}

static void warn_changed(const char *path)
{
	log_warning("[%s] was changed: that counts from the next mount", path);
}

static void reload_views(struct fs *fs, const struct mount_dataset *wanted)
{
	const struct dataset_options *shown = views_find(fs, wanted->path);
	struct tree_dir *dir;
	struct err err = {0};

	if (shown && !is_unchanged(shown, &wanted->options))
		warn_changed(wanted->path);
	if (shown)
		return;
	if (views_add(fs, wanted, &err) < 0) {
		log_warning("%s", err.text);
		return;
	}
	log_info("new views=%s", wanted->path);
	for (dir = tree_find_path(&fs->tree, wanted->path); dir && dir->index;
	     dir = tree_get(&fs->tree, dir->parent))
		forget_name(fs, dir);
}

/* A section that is new appears; what was there stays as it is, for files of
 * it may be open. */
static void reload_one(struct fs *fs, const struct mount_dataset *wanted)
{
	struct tree_dir *dir = tree_find_path(&fs->tree, wanted->path);
	struct err fault = {0}, err = {0};

	if (is_whole_hub(wanted)) {
		reload_views(fs, wanted);
		return;
	}
	if (dir && tree_is_dataset(dir)) {
		if (!is_unchanged(dir->options, &wanted->options))
			warn_changed(wanted->path);
		return;
	}
	if (add_one(fs, wanted, &fault, &err) < 0)
		log_warning("%s", err.text[0] ? err.text : fault.text);
	dir = tree_find_path(&fs->tree, wanted->path);
	if (!dir || !tree_is_dataset(dir))
		return;
	if (dir->dataset)
		dataset_on_change(dir->dataset, on_change, fs);
	log_info("new dataset=%s", wanted->path);
	for (; dir->index; dir = tree_get(&fs->tree, dir->parent))
		forget_name(fs, dir);
}

static void warn_of_removed(struct fs *fs, const struct mount_options *options)
{
	struct tree_dir *dir;

	for (size_t i = 0; (dir = tree_get(&fs->tree, i)); i++) {
		size_t k = 0;

		if (!tree_is_dataset(dir) || dir->view)
			continue; /* a view's: its section says it */
		while (k < options->dataset_count &&
		       tree_find_path(&fs->tree, options->datasets[k].path) !=
			       dir)
			k++;
		if (k == options->dataset_count)
			log_warning(
				"[%s] was removed: that counts from the next mount",
				dir->options->name);
	}
}

void datasets_reload(struct fs *fs, const struct mount_status *status)
{
	const struct mount_options *options;
	struct err err = {0};
	int r;

	if (fs->options->is_single || !status->reload) {
		log_info("SIGHUP: there is no configuration to read again");
		return;
	}
	r = status->reload(status->arg, &options, &err);
	if (r == 0)
		r = mountpoint_check_guards(options, fs->options->mountpoint,
					    &err);
	if (r < 0) {
		log_error("the configuration stays as it was: %s",
			  err_text(&err, r));
		return;
	}
	for (size_t i = 0; i < options->dataset_count; i++)
		reload_one(fs, &options->datasets[i]);
	warn_of_removed(fs, options);
	log_info("the configuration was read again");
}
