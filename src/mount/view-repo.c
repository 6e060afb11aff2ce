/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The repositories that somebody has looked for, by source. One that could be
 * opened stays, with the directory it is known by; of another one only the
 * reason stays, for a while, and its dataset goes with the last look-up that
 * uses it: made-up names take no memory for long.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "mount/view.h"

/* Bad names that are remembered; a program that makes up names ends here. */
#define REMEMBERED_MAX 4096u
#define ABSENT_MS 30000u
#define REFUSED_MS 10000u
#define FAILED_MS 1000u
#define MAIN "main"
#define SOURCE_MAX 4096u

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
	return &view->buckets[checksum_xxh3(source, strlen(source)) %
			      REPO_BUCKETS];
}

/* Of those that nobody uses and that led nowhere, the one whose time is over
 * first. */
static void forget_one(struct view *view)
{
	struct repo **oldest = NULL, *repo;

	for (size_t i = 0; i < REPO_BUCKETS; i++)
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
	parent = slash ? view_owner(view, repo->wanted.kind, owner) :
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
	if (r == -EINVAL)
		err->text[0] = '\0'; /* no name of anybody's repository */
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

bool view_knows_below(struct view *view, enum view_kind kind, const char *id,
		      const char *prefix)
{
	const struct wanted_repo wanted = {
		.kind = kind, .id = id, .revision = prefix};
	_cleanup_free_ char *source = source_of(&wanted);
	scoped_lock(&view->lock);

	for (size_t i = 0; source && i < REPO_BUCKETS; i++)
		for (const struct repo *repo = view->buckets[i]; repo;
		     repo = repo->next)
			if (repo->home && starts_with(repo->source, source))
				return true;
	return false;
}

/* ---- the end */

void view_drop_repos(struct view *view)
{
	scoped_lock(&view->lock);

	for (size_t i = 0; i < REPO_BUCKETS; i++) {
		for (struct repo *repo = view->buckets[i]; repo;
		     repo = repo->next) {
			if (repo->dataset && !repo->home)
				dataset_drop(repo->dataset);
			repo->dataset = NULL;
		}
	}
}

void view_free_repos(struct view *view)
{
	for (size_t i = 0; i < REPO_BUCKETS; i++) {
		while (view->buckets[i]) {
			struct repo *repo = view->buckets[i];

			view->buckets[i] = repo->next;
			repo_free(repo);
		}
	}
}
