/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories of the Hub as directories, opened by looking for them. A
 * look-up of a name that was never seen asks the Hub and waits for the answer,
 * as long as a reader does at most: "not there" must be the Hub's word. Names
 * that cannot be a repository's, or that the rules keep out, cost no request,
 * and a bad answer is remembered for a while.
 *
 * ORG/ is a directory as soon as somebody names it: the Hub is not asked who
 * exists. An old repository without ORG is therefore NAME@REVISION here.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "mount/views.h"

#define LOG_MODULE "mount"
#include "base/log.h"

#define BUCKETS 1024u
/* Bad names that are remembered; a program that makes up names ends here. */
#define REMEMBERED_MAX 4096u
#define ABSENT_MS 30000u
#define REFUSED_MS 10000u
#define FAILED_MS 1000u
/* Names under models/ and the like before anything of theirs was opened. */
#define OWNERS_MAX 65536u
#define MAIN "main"
#define SOURCE_MAX 4096u

/* A repository at a revision that somebody has looked for. */
struct repo {
	struct repo *next; /* in its bucket */
	struct view *view;
	char *source; /* hf://KIND/ID[@REVISION] */
	struct hub_options hub;
	struct dataset_options options;
	struct wanted_repo wanted; /* its texts are its own */
	/* guarded by the view's lock */
	struct dataset *dataset; /* NULL: never tried, or dropped */
	struct tree_dir *home;	 /* once open: KIND/ID[@REVISION] */
	unsigned users;
	int result; /* why it could not be opened, until then */
	struct err why;
	uint64_t until_ms;
};

struct view {
	struct view *next;
	struct fs *fs;
	const struct dataset_options *options; /* of its section */
	const char *path;
	struct tree_dir *kinds[VIEW_KINDS];
	pthread_mutex_t lock; /* guards all below; taken before the tree's */
	struct repo *buckets[BUCKETS];
	unsigned repo_count, owner_count;
	struct hub_folder *folders;
};

const char *view_kind_word(enum view_kind kind)
{
	static const char *const words[VIEW_KINDS] = {
		[VIEW_MODEL] = "models",
		[VIEW_DATASET] = "datasets",
		[VIEW_SPACE] = "spaces",
	};

	return words[kind];
}

struct hub_folder **view_folders(struct view *view)
{
	return &view->folders;
}

pthread_mutex_t *view_lock(struct view *view)
{
	return &view->lock;
}

/* ---- the table of repositories */

static void repo_free(struct repo *repo)
{
	free(repo->source);
	free((char *)repo->wanted.id);
	free((char *)repo->wanted.revision);
	free(repo);
}

static struct repo *repo_new(struct view *view, const char *source,
			     const struct wanted_repo *wanted)
{
	struct repo *repo = calloc(1, sizeof(*repo));

	if (!repo)
		return NULL;
	repo->view = view;
	repo->source = strdup(source);
	repo->wanted.kind = wanted->kind;
	repo->wanted.id = strdup(wanted->id);
	if (wanted->revision)
		repo->wanted.revision = strdup(wanted->revision);
	if (!repo->source || !repo->wanted.id ||
	    (wanted->revision && !repo->wanted.revision)) {
		repo_free(repo);
		return NULL;
	}
	repo->hub = *view->options->hub;
	repo->hub.source = repo->source;
	repo->hub.is_whole = false;
	repo->options = *view->options;
	repo->options.name = repo->source;
	repo->options.hub = &repo->hub;
	repo->options.is_tentative = true;
	return repo;
}

static struct repo **bucket_of(struct view *view, const char *source)
{
	return &view->buckets[checksum_xxh3(source, strlen(source)) % BUCKETS];
}

/* Of those that nobody uses and that led nowhere, the one whose time is over
 * first. */
static void forget_one(struct view *view)
{
	struct repo **oldest = NULL, *repo;

	for (size_t i = 0; i < BUCKETS; i++)
		for (struct repo **at = &view->buckets[i]; *at;
		     at = &(*at)->next)
			if (!(*at)->home && (*at)->users == 0 &&
			    (!oldest || (*at)->until_ms < (*oldest)->until_ms))
				oldest = at;
	if (!oldest)
		return;
	repo = *oldest;
	*oldest = repo->next;
	repo_free(repo);
	view->repo_count--;
}

/* Counted for the caller. */
static struct repo *repo_enter(struct view *view, const char *source,
			       const struct wanted_repo *wanted)
{
	struct repo **at, *repo;
	scoped_lock(&view->lock);

	at = bucket_of(view, source);
	for (repo = *at; repo && strcmp(repo->source, source);)
		repo = repo->next;
	if (!repo) {
		if (view->repo_count >= REMEMBERED_MAX)
			forget_one(view);
		repo = repo_new(view, source, wanted);
		if (!repo)
			return NULL;
		repo->next = *at;
		*at = repo;
		view->repo_count++;
	}
	repo->users++;
	return repo;
}

static void repo_leave(void *held)
{
	struct repo *repo = held;
	struct dataset *dropped = NULL;

	pthread_mutex_lock(&repo->view->lock);
	if (--repo->users == 0 && !repo->home) {
		dropped = repo->dataset;
		repo->dataset = NULL;
	}
	pthread_mutex_unlock(&repo->view->lock);
	if (dropped)
		dataset_drop(dropped);
}

/* ---- opening */

static uint32_t memory_ms(int r)
{
	switch (r) {
	case -ENOENT:
		return ABSENT_MS;
	case -EACCES:
		return REFUSED_MS;
	default:
		return FAILED_MS;
	}
}

/* Called with the lock held. 0, or what is known of it. */
static int begin_open(struct repo *repo, struct dataset **ret_dataset,
		      struct err *err)
{
	if (repo->result && now_ms() < repo->until_ms) {
		*err = repo->why;
		return repo->result;
	}
	if (!repo->dataset) {
		int r = dataset_add(repo->view->fs->node, &repo->options,
				    &repo->dataset, err);

		if (r < 0)
			return r;
	}
	*ret_dataset = repo->dataset;
	return 0;
}

/* "NAME[@REVISION]" as a part of a path: slashes are %2F. malloc */
static char *with_revision(const char *name, const char *revision)
{
	const char *at = revision ?: "";
	struct buf text;
	size_t len;
	int r;

	buf_init(&text, SOURCE_MAX);
	r = buf_printf(&text, "%s%s", name, revision ? "@" : "");
	for (; r == 0 && *at; at++)
		r = *at == '/' ? buf_append(&text, "%2F", 3) :
				 buf_append(&text, at, 1);
	if (r == 0)
		r = buf_append(&text, "", 1);
	char *string = r == 0 ? (char *)buf_steal(&text, &len) : NULL;
	buf_release(&text);
	return string;
}

static struct tree_dir *find_owner(struct view *view, enum view_kind kind,
				   const char *name);

/* Called with the lock held. The directory it will be known by. */
static int make_home(struct repo *repo, struct err *err)
{
	struct view *view = repo->view;
	struct tree *tree = &view->fs->tree;
	const char *slash = strchr(repo->wanted.id, '/');
	_cleanup_free_ char *name = with_revision(
		slash ? slash + 1 : repo->wanted.id, repo->wanted.revision);
	_cleanup_free_ char *owner =
		strndup(repo->wanted.id, strcspn(repo->wanted.id, "/"));
	const struct tree_leaf leaf = {
		.dataset = repo->dataset,
		.options = &repo->options,
		.view = repo,
		.is_changing = true,
	};
	struct tree_dir *parent, *home;

	if (!name || !owner)
		return err_set(err, ENOMEM, "out of memory");
	parent = slash ? find_owner(view, repo->wanted.kind, owner) :
			 view->kinds[repo->wanted.kind];
	scoped_lock(&tree->adding);
	home = parent ? tree_make(tree, parent, name, &leaf) : NULL;
	if (!home || tree_show(tree, home) < 0)
		return err_set(err, ENFILE,
			       "too many repositories are open: remount");
	dataset_keep(repo->dataset);
	repo->home = home;
	return 0;
}

static void note_failure(struct repo *repo, int r, const struct err *why)
{
	scoped_lock(&repo->view->lock);
	repo->result = r;
	repo->why = *why;
	repo->until_ms = now_ms() + memory_ms(r);
}

static int open_first(struct op *op, struct repo *repo, struct err *err)
{
	struct view *view = repo->view;
	struct dataset *dataset = NULL;
	struct snapshot *snapshot;
	int r;

	pthread_mutex_lock(&view->lock);
	r = begin_open(repo, &dataset, err);
	pthread_mutex_unlock(&view->lock);
	if (r)
		return r;
	r = dataset_current(dataset, &op->waiter, &snapshot, err);
	if (r == DATASET_PARKED)
		return r;
	if (r) {
		note_failure(repo, r, err);
		return r;
	}
	snapshot_unref(snapshot);
	scoped_lock(&view->lock);
	return repo->home ? 0 : make_home(repo, err);
}

static struct tree_dir *home_of(struct repo *repo)
{
	scoped_lock(&repo->view->lock);
	return repo->home;
}

static char *source_of(const struct wanted_repo *wanted)
{
	_cleanup_free_ char *id = with_revision(wanted->id, wanted->revision);
	char *text;

	if (!id ||
	    asprintf(&text, "hf://%s/%s", view_kind_word(wanted->kind), id) < 0)
		return NULL;
	return text;
}

int view_open_repo(struct op *op, struct view *view,
		   const struct wanted_repo *wanted, struct slot **ret,
		   double *ret_timeout, struct err *err)
{
	struct hub_options hub = *view->options->hub;
	struct wanted_repo full = *wanted;
	struct repo *repo = op->held;
	int r;

	/* ORG stands for a directory, so an old repository needs a revision */
	if (!full.revision && !strchr(full.id, '/'))
		full.revision = MAIN;
	_cleanup_free_ char *source = source_of(&full);

	*ret_timeout = ABSENT_MS / 1000.0;
	if (!source)
		return -ENOMEM;
	hub.source = source;
	r = dataset_hub_check(&hub, err);
	if (r)
		return r == -EINVAL ? -ENOENT : r;
	if (!repo) {
		repo = repo_enter(view, source, &full);
		if (!repo)
			return -ENOMEM;
		op->held = repo;
		op->let_go = repo_leave;
	}
	if (!home_of(repo)) {
		r = open_first(op, repo, err);
		if (r)
			return r;
	}
	return tree_current(&view->fs->tree, home_of(repo), &op->waiter, ret,
			    err);
}

/* ---- models/ORG/NAME[@REVISION] */

static int enter_slot(struct op *op, const struct slot *slot,
		      struct fuse_entry_param *ret)
{
	*ret = (struct fuse_entry_param){
		.ino = ino_make(slot->index, 0),
		.attr_timeout = TIMEOUT_SNAPSHOT,
		.entry_timeout = TIMEOUT_CURRENT,
	};
	attr_of_entry(op->fs, ret->ino, slot->mask, &slot->root, &ret->attr);
	return 0;
}

/* What dir and the name in it ask for. `id` is for its text. */
static int lookup_repo(struct op *op, struct view *view, enum view_kind kind,
		       const char *owner, struct fuse_entry_param *ret,
		       struct err *err)
{
	_cleanup_free_ char *id = NULL;
	const char *at = strchr(op->name, '@');
	struct wanted_repo wanted = {.kind = kind};
	struct slot *slot;
	int r;

	if (asprintf(&id, "%s%s%.*s", owner ?: "", owner ? "/" : "",
		     (int)(at ? at - op->name : (ptrdiff_t)strlen(op->name)),
		     op->name) < 0) {
		id = NULL;
		return -ENOMEM;
	}
	wanted.id = id;
	wanted.revision = at ? at + 1 : NULL;
	r = view_open_repo(op, view, &wanted, &slot, &ret->entry_timeout, err);
	return r ? r : enter_slot(op, slot, ret);
}

static enum view_kind kind_of(const struct view *view,
			      const struct tree_dir *dir)
{
	unsigned kind = 0;

	while (kind < VIEW_KINDS - 1 && view->kinds[kind] != dir)
		kind++;
	return (enum view_kind)kind;
}

static int lookup_child(struct op *op, struct tree_dir *child,
			struct fuse_entry_param *ret, struct err *err)
{
	struct slot *slot;
	int r;

	if (!child->dataset) {
		entry_of_dir(op->fs, child, ret);
		return 0;
	}
	r = tree_current(&op->fs->tree, child, &op->waiter, &slot, err);
	return r ? r : enter_slot(op, slot, ret);
}

static int lookup_in_owner(struct op *op, struct tree_dir *dir,
			   struct fuse_entry_param *ret, struct err *err)
{
	struct tree_dir *child = tree_find(&op->fs->tree, dir, op->name);
	struct view *view = dir->view;

	if (child)
		return lookup_child(op, child, ret, err);
	return lookup_repo(op, view,
			   kind_of(view, tree_get(&op->fs->tree, dir->parent)),
			   dir->name, ret, err);
}

static const struct view_ops owner_ops = {.lookup = lookup_in_owner};

/* Called with the lock held. Made if need be; NULL: too many. */
static struct tree_dir *find_owner(struct view *view, enum view_kind kind,
				   const char *name)
{
	const struct tree_leaf leaf = {.ops = &owner_ops, .view = view};
	struct tree *tree = &view->fs->tree;
	struct tree_dir *dir = tree_find(tree, view->kinds[kind], name);

	if (dir || view->owner_count >= OWNERS_MAX)
		return dir;
	scoped_lock(&tree->adding);
	dir = tree_make(tree, view->kinds[kind], name, &leaf);
	if (!dir || tree_show(tree, dir) < 0)
		return NULL;
	view->owner_count++;
	return dir;
}

/* Whether a repository can be called so. */
static int check_owner(struct view *view, const char *name, struct err *err)
{
	struct hub_options hub = *view->options->hub;
	_cleanup_free_ char *source = NULL;

	if (asprintf(&source, "hf://models/%s/x", name) < 0) {
		source = NULL;
		return -ENOMEM;
	}
	hub.source = source;
	return dataset_hub_check(&hub, err) == -EINVAL ? -ENOENT : 0;
}

static int lookup_in_kind(struct op *op, struct tree_dir *dir,
			  struct fuse_entry_param *ret, struct err *err)
{
	struct tree_dir *child = tree_find(&op->fs->tree, dir, op->name);
	struct view *view = dir->view;
	int r;

	if (child)
		return lookup_child(op, child, ret, err);
	if (strchr(op->name, '@'))
		return lookup_repo(op, view, kind_of(view, dir), NULL, ret,
				   err);
	ret->entry_timeout = TIMEOUT_SNAPSHOT;
	r = check_owner(view, op->name, err);
	if (r)
		return r;
	pthread_mutex_lock(&view->lock);
	child = find_owner(view, kind_of(view, dir), op->name);
	pthread_mutex_unlock(&view->lock);
	if (!child)
		return err_set(err, ENFILE,
			       "too many names below '%s' were looked for: "
			       "remount",
			       dir->name);
	entry_of_dir(op->fs, child, ret);
	return 0;
}

static const struct view_ops kind_ops = {.lookup = lookup_in_kind};

/* ---- life */

static int add_dir(struct view *view, const char *path, const char *name,
		   const struct view_ops *ops, struct tree_dir **ret,
		   struct err *err)
{
	const struct tree_leaf leaf = {.ops = ops, .view = view};
	_cleanup_free_ char *full = NULL;
	int r;

	if (asprintf(&full, "%s%s%s", path, path[0] ? "/" : "", name) < 0) {
		full = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	r = tree_add(&view->fs->tree, full, &leaf, err);
	if (r == 0 && ret)
		*ret = tree_find_path(&view->fs->tree, full);
	return r;
}

int views_add(struct fs *fs, const struct mount_dataset *wanted,
	      struct err *err)
{
	struct view *view = calloc(1, sizeof(*view));
	const char *path = wanted->path;
	int r = 0;

	if (!view)
		return err_set(err, ENOMEM, "out of memory");
	view->fs = fs;
	view->options = &wanted->options;
	view->path = path;
	pthread_mutex_init(&view->lock, NULL);
	view->next = fs->views;
	fs->views = view;
	for (unsigned i = 0; r == 0 && i < VIEW_KINDS; i++)
		r = add_dir(view, path, view_kind_word((enum view_kind)i),
			    &kind_ops, &view->kinds[i], err);
	if (r == 0)
		r = add_dir(view, path, "hub", &view_hub_ops, NULL, err);
	return r;
}

bool views_find(struct fs *fs, const char *path)
{
	struct view *view = fs->views;

	while (view && strcmp(view->path, path))
		view = view->next;
	return view;
}

void views_close(struct fs *fs)
{
	for (struct view *view = fs->views; view; view = view->next) {
		scoped_lock(&view->lock);
		for (size_t i = 0; i < BUCKETS; i++) {
			for (struct repo *repo = view->buckets[i]; repo;
			     repo = repo->next) {
				if (repo->dataset && !repo->home)
					dataset_drop(repo->dataset);
				repo->dataset = NULL;
			}
		}
	}
}

void views_free(struct fs *fs)
{
	while (fs->views) {
		struct view *view = fs->views;

		fs->views = view->next;
		for (size_t i = 0; i < BUCKETS; i++) {
			while (view->buckets[i]) {
				struct repo *repo = view->buckets[i];

				view->buckets[i] = repo->next;
				repo_free(repo);
			}
		}
		hub_folders_free(view->folders);
		pthread_mutex_destroy(&view->lock);
		free(view);
	}
}
