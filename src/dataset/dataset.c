/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset: its name, its mirrors in order, whom it trusts, and which
 * snapshot is current. Opening one asks nobody anything; head.c does that
 * at the first use.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "dataset/head.h"
#include "dataset/hub.h"

#define KEY_FILE_BYTES_MAX 4096u

static void dataset_free(struct dataset *dataset)
{
	snapshot_unref(dataset->current);
	for (unsigned i = 0; i < dataset->mirror_count; i++)
		origin_close(dataset->mirrors[i].origin);
	hub_free(dataset->hub);
	free(dataset->keys);
	free(dataset->tag);
	free(dataset->remote_name);
	free(dataset->name);
	pthread_mutex_destroy(&dataset->lock);
	free(dataset);
}

struct dataset *dataset_ref(struct dataset *dataset)
{
	atomic_fetch_add(&dataset->refs, 1);
	return dataset;
}

void dataset_unref(struct dataset *dataset)
{
	if (atomic_fetch_sub(&dataset->refs, 1) == 1)
		dataset_free(dataset);
}

static int load_key(const char *path, struct public_key *ret, struct err *err)
{
	struct buf text;
	int r;

	buf_init(&text, KEY_FILE_BYTES_MAX);
	r = file_read(AT_FDCWD, path, &text);
	if (r < 0)
		r = err_set(err, -r, "cannot read key '%s': %s", path,
			    strerror(-r));
	else if ((r = public_key_parse(text.data, text.len, ret, err)) < 0)
		r = err_prefix(err, r, "key '%s'", path);
	buf_release(&text);
	return r < 0 ? r : 0;
}

static int load_keys(struct dataset *dataset,
		     const struct dataset_options *options, struct err *err)
{
	if (options->key_count == 0)
		return 0;
	dataset->keys = calloc(options->key_count, sizeof(*dataset->keys));
	if (!dataset->keys)
		return -ENOMEM;
	for (size_t i = 0; i < options->key_count; i++) {
		int r = load_key(options->key_files[i], &dataset->keys[i], err);

		if (r < 0)
			return r;
		dataset->key_count++;
	}
	return 0;
}

static int open_mirrors(struct dataset *dataset,
			const struct dataset_options *options, struct err *err)
{
	struct buf urls;
	struct digest digest;
	int r = 0;

	buf_init(&urls, MIRRORS_MAX * (LIMIT_URL_BYTES + 1));
	for (size_t i = 0; i < options->mirror_count && r == 0; i++) {
		struct mirror *mirror = &dataset->mirrors[i];
		const char *url = options->mirrors[i];

		r = origin_open_with(dataset->node->fetcher, url,
				     options->origin, &mirror->origin, err);
		if (r < 0)
			break;
		dataset->mirror_count++;
		digest_sha256(url, strlen(url), &mirror->url_digest);
		memcpy(&mirror->salt, mirror->url_digest.bytes,
		       sizeof(mirror->salt));
		r = buf_printf(&urls, "%s\n", url);
	}
	if (r == 0) {
		digest_sha256(urls.data, urls.len, &digest);
		memcpy(&dataset->salt, digest.bytes, sizeof(dataset->salt));
	}
	buf_release(&urls);
	return r;
}

static int check_options(const struct dataset_options *options, struct err *err)
{
	const char *remote =
		options->remote_name ? options->remote_name : options->name;

	if (!options->name || !options->name[0])
		return err_set(err, EINVAL, "a dataset needs a name");
	if (options->hub)
		return 0;
	if (!dataset_name_valid(remote))
		return err_set(err, EINVAL, "'%s' is no name of a dataset",
			       remote);
	if (options->tag && !tag_name_valid(options->tag))
		return err_set(err, EINVAL, "'%s' is no name of a tag",
			       options->tag);
	if (options->mirror_count == 0)
		return err_set(err, EINVAL, "dataset '%s' has no mirror",
			       options->name);
	if (options->mirror_count > MIRRORS_MAX)
		return err_set(err, EINVAL,
			       "dataset '%s' has more than %u mirrors",
			       options->name, MIRRORS_MAX);
	if (options->key_count == 0 && !options->insecure)
		return err_set(
			err, EINVAL,
			"dataset '%s' has no trusted key (give --key=FILE "
			"or --insecure, in larder.conf key = FILE)",
			options->name);
	return 0;
}

static struct dataset *dataset_new(struct node *node,
				   const struct dataset_options *options)
{
	struct dataset *dataset = calloc(1, sizeof(*dataset));

	if (!dataset)
		return NULL;
	pthread_mutex_init(&dataset->lock, NULL);
	atomic_store(&dataset->refs, 1);
	dataset->number = atomic_fetch_add(&node->dataset_number, 1) + 1;
	dataset->node = node;
	dataset->insecure = options->insecure;
	dataset->refuse_expired = options->refuse_expired;
	dataset->name = strdup(options->name);
	dataset->remote_name = strdup(
		options->remote_name ? options->remote_name : options->name);
	dataset->tag = options->tag ? strdup(options->tag) : NULL;
	dataset_refresh_init(dataset);
	if (!dataset->name || !dataset->remote_name ||
	    (options->tag && !dataset->tag)) {
		dataset_unref(dataset);
		return NULL;
	}
	return dataset;
}

/* The endpoint is its one mirror; its name says which repository it is. */
static int open_hub(struct dataset *dataset,
		    const struct dataset_options *options, struct err *err)
{
	const struct dataset_options endpoint = {
		.mirrors = &options->hub->endpoint,
		.mirror_count = 1,
	};
	int r = hub_new(options->hub, &dataset->hub, err);

	if (r < 0)
		return r;
	free(dataset->remote_name);
	dataset->remote_name = hub_name(&dataset->hub->repo);
	if (!dataset->remote_name)
		return -ENOMEM;
	r = open_mirrors(dataset, &endpoint, err);
	return r < 0 ? err_prefix(err, r, "HF_ENDPOINT") : 0;
}

int dataset_add(struct node *node, const struct dataset_options *options,
		struct dataset **ret, struct err *err)
{
	struct dataset *dataset;
	int r = check_options(options, err);

	if (r < 0)
		return r;
	dataset = dataset_new(node, options);
	if (!dataset)
		return -ENOMEM;
	r = load_keys(dataset, options, err);
	if (r == 0 && options->hub)
		r = open_hub(dataset, options, err);
	else if (r == 0)
		r = open_mirrors(dataset, options, err);
	if (r < 0) {
		dataset_unref(dataset);
		return r;
	}
	if (!options->is_tentative)
		dataset_keep(dataset);
	*ret = dataset;
	return 0;
}

void dataset_keep(struct dataset *dataset)
{
	struct node *node = dataset->node;
	scoped_lock(&node->datasets_lock);

	dataset->next = node->datasets;
	node->datasets = dataset;
}

void dataset_drop(struct dataset *dataset)
{
	dataset_unref(dataset);
}

const char *dataset_name(const struct dataset *dataset)
{
	return dataset->name;
}

static bool is_expired(const struct head *head)
{
	int64_t now = wall_seconds();

	return head->expires && now >= head->time && now > head->expires;
}

bool dataset_head_refused(const struct dataset *dataset,
			  const struct head *head)
{
	return dataset->refuse_expired && is_expired(head);
}

void dataset_on_change(struct dataset *dataset,
		       void (*changed)(void *arg, struct dataset *dataset),
		       void *arg)
{
	scoped_lock(&dataset->lock);
	dataset->changed = changed;
	dataset->changed_arg = arg;
}

void dataset_info(struct dataset *dataset, struct dataset_info *ret)
{
	char time[FORMAT_MAX];

	scoped_lock(&dataset->lock);
	*ret = (struct dataset_info){
		.state = dataset->state,
		.is_for_good = dataset->is_for_good,
	};
	snprintf(ret->reason, sizeof(ret->reason), "%s", dataset->reason);
	if (dataset->hub)
		snprintf(ret->revision, sizeof(ret->revision), "%s",
			 dataset->hub->repo.revision);
	if (!dataset->current)
		return;
	memcpy(ret->commit, dataset->current->commit, sizeof(ret->commit));
	ret->snapshot = dataset->current->digest;
	ret->serial = dataset->head.serial;
	ret->entry_count = dataset->head.entry_count;
	ret->total_bytes = dataset->head.total_bytes;
	ret->time = dataset->head.time;
	ret->expires = dataset->head.expires;
	if (ret->state == DATASET_OK && is_expired(&dataset->head)) {
		ret->state = DATASET_STALE;
		snprintf(
			ret->reason, sizeof(ret->reason),
			"its head expired at %s and no mirror has a newer one (larder publish makes one)",
			format_time(ret->expires, time));
	}
}
