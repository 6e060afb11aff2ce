/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing files of a subtree by patterns, for whatever works on many of them.
 *
 * A listing's names are copied before anything else is asked: its callback may
 * not call into the snapshot again. Files come before the directories beside
 * them are entered, since a directory's entries have numbers in a row and
 * small ones lie side by side in their blob.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/vec.h"
#include "dataset/dataset.h"
#include "format/catalog.h"
#include "format/limits.h"

/* Names copied at once. */
#define BATCH_NAMES 1024u
#define PATH_BYTES_MAX (1u << 20)

struct name {
	struct entry_attr attr;
	size_t at; /* in the text of names */
	uint16_t len;
};

struct names {
	VEC(struct name) items;
	struct buf text;
	uint64_t next;
	int result;
};

struct selecting {
	const struct selection *selection;
	struct blocking_waiter *waiter;
	int (*each)(void *arg, const struct selected_file *file);
	void *arg;
	struct buf path; /* below the root */
	uint64_t matched;
	struct err *err;
};

static int wait_for(struct blocking_waiter *waiter, int r)
{
	if (r == DATASET_PARKED)
		waiter_block(waiter);
	return r;
}

static bool is_selected(const struct selection *selection, const char *path)
{
	return selection->glob_count == 0 ||
	       pattern_list_matches(selection->globs, selection->glob_count,
				    path);
}

static bool on_name(void *arg, const char *name, size_t name_len,
		    const struct entry_attr *attr, uint64_t index)
{
	struct names *names = arg;
	struct name *item = vec_push(&names->items);

	if (!item) {
		names->result = -ENOMEM;
		return false;
	}
	*item = (struct name){
		.attr = *attr,
		.at = names->text.len,
		.len = (uint16_t)name_len,
	};
	names->result = buf_append(&names->text, name, name_len);
	names->next = index + 1;
	return names->result == 0 && names->items.count < BATCH_NAMES;
}

/* The next names of a directory into *names; *ret_end: there are no more. */
static int list_batch(struct selecting *at, uint64_t dir, struct names *names,
		      bool *ret_end)
{
	int r;

	names->items.count = 0;
	names->text.len = 0;
	do
		r = wait_for(at->waiter,
			     snapshot_list(at->selection->snapshot, dir,
					   names->next,
					   blocking_waiter_get(at->waiter),
					   on_name, names, ret_end, at->err));
	while (r == DATASET_PARKED);
	if (r == 0 && names->result < 0)
		r = err_set(at->err, -names->result, "out of memory");
	return r;
}

static int select_file(struct selecting *at, const struct entry_attr *attr)
{
	const struct selected_file file = {
		.number = attr->number,
		.size = attr->size,
		.type = attr->type,
		.path = (const char *)at->path.data,
	};

	at->matched++;
	return at->each(at->arg, &file);
}

static int visit(struct selecting *at, const struct entry_attr *dir,
		 bool is_all, unsigned depth);

/* at->path becomes PREFIX NAME NUL, and the NUL does not count. */
static int set_path(struct selecting *at, size_t prefix, const char *name,
		    size_t len)
{
	int r;

	at->path.len = prefix;
	r = buf_append(&at->path, name, len);
	if (r == 0)
		r = buf_append(&at->path, "", 1);
	if (r < 0)
		return err_set(at->err, -r, "out of memory");
	at->path.len--;
	return 0;
}

static int enter(struct selecting *at, const struct name *name, bool is_all,
		 unsigned depth)
{
	int r = buf_append(&at->path, "/", 1);

	if (r < 0)
		return err_set(at->err, -r, "out of memory");
	return visit(at, &name->attr, is_all, depth + 1);
}

static int visit_batch(struct selecting *at, const struct names *names,
		       size_t prefix, bool is_all, unsigned depth,
		       bool of_directories)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < names->items.count; i++) {
		const struct name *name = &names->items.items[i];
		bool is_directory = name->attr.type == ENTRY_DIRECTORY;
		bool is_taken;

		if (is_directory != of_directories ||
		    name->attr.type == ENTRY_SYMLINK)
			continue;
		r = set_path(at, prefix,
			     (const char *)names->text.data + name->at,
			     name->len);
		if (r < 0)
			break;
		is_taken = is_all || is_selected(at->selection,
						 (const char *)at->path.data);
		if (is_directory)
			r = enter(at, name, is_taken, depth);
		else if (is_taken)
			r = select_file(at, &name->attr);
	}
	return r;
}

/* at->path is the directory's, with a slash behind it unless it is the root. */
static int visit(struct selecting *at, const struct entry_attr *dir,
		 bool is_all, unsigned depth)
{
	size_t prefix = at->path.len;
	int r = 0;

	if (depth > LIMIT_PATH_DEPTH)
		return err_set(at->err, ELOOP, "directories are too deep");
	for (int round = 0; round < 2; round++) {
		struct names names = {0};
		bool is_end = false;

		buf_init(&names.text, BATCH_NAMES * (LIMIT_NAME_BYTES + 1u));
		while (r == 0 && !is_end) {
			r = list_batch(at, dir->number, &names, &is_end);
			if (r == 0)
				r = visit_batch(at, &names, prefix, is_all,
						depth, round == 1);
		}
		buf_release(&names.text);
		vec_release(&names.items);
	}
	at->path.len = prefix;
	return r;
}

static int select_root(struct selecting *at)
{
	const struct selection *selection = at->selection;
	struct entry_attr attr;
	int r;

	do
		r = wait_for(at->waiter,
			     snapshot_getattr(selection->snapshot,
					      selection->root,
					      blocking_waiter_get(at->waiter),
					      &attr, at->err));
	while (r == DATASET_PARKED);
	if (r < 0)
		return r;
	if (attr.type == ENTRY_DIRECTORY)
		return visit(at, &attr, selection->glob_count == 0, 0);
	if (selection->glob_count > 0)
		return err_set(
			at->err, ENOTDIR,
			"patterns are for directories, and this is none");
	if (attr.type == ENTRY_SYMLINK)
		return err_set(
			at->err, ELOOP,
			"it is a symlink (larder ls -l shows where it leads)");
	r = set_path(at, 0, "", 0);
	return r < 0 ? r : select_file(at, &attr);
}

int snapshot_select(const struct selection *selection,
		    struct blocking_waiter *waiter,
		    int (*each)(void *arg, const struct selected_file *file),
		    void *arg, struct err *err)
{
	struct selecting at = {
		.selection = selection,
		.waiter = waiter,
		.each = each,
		.arg = arg,
		.err = err,
	};
	int r;

	buf_init(&at.path, PATH_BYTES_MAX);
	r = select_root(&at);
	buf_release(&at.path);
	if (r == 0 && at.matched == 0 && selection->glob_count > 0)
		return err_set(err, ENOENT, "no file matches '%s'%s",
			       selection->globs[0],
			       selection->glob_count > 1 ? " or the others" :
							   "");
	return r;
}
