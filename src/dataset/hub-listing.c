/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listing that breaks off, goes on elsewhere or never ends is no listing:
 * nothing is made of it. What no cache takes is kept in memory, since nobody
 * else can give it again.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/hub-listing.h"
#include "dataset/objects.h"

#define PAGES_MAX 100000u
#define CATALOG_LEVEL 3

void hub_listing_release(struct hub_listing *listing)
{
	hub_tree_free(listing->tree);
	vec_release(&listing->pages);
	free(listing->page);
	*listing = (struct hub_listing){0};
}

int hub_listing_begin(struct hub_listing *listing, const struct hub_repo *repo)
{
	listing->tree = hub_tree_new(repo);
	return listing->tree ? 0 : -ENOMEM;
}

char *hub_listing_target(const struct hub_listing *listing,
			 const struct hub_repo *repo, const char *commit)
{
	return listing->page ? strdup(listing->page) :
			       hub_tree_target(repo, commit);
}

/* Pages that lead back to one that was there before never end. */
static int note_page(struct hub_listing *listing, const char *target,
		     struct err *err)
{
	uint64_t hash = checksum_xxh3(target, strlen(target));
	uint64_t *kept;

	for (size_t i = 0; i < listing->pages.count; i++)
		if (listing->pages.items[i] == hash)
			return err_set(err, EBADMSG,
				       "the listing goes round in a circle");
	if (listing->pages.count >= PAGES_MAX)
		return err_set(err, EBADMSG, "the listing has no end");
	kept = vec_push(&listing->pages);
	if (!kept)
		return -ENOMEM;
	*kept = hash;
	return 0;
}

int hub_listing_take(struct hub_listing *listing, const struct hub_repo *repo,
		     const char *commit, const char *target,
		     const struct fetch_request *request, struct err *err)
{
	int r = note_page(listing, target, err);

	if (r == 0)
		r = hub_tree_add(listing->tree, request->body,
				 request->body_len, err);
	if (r < 0)
		return r;
	free(listing->page);
	listing->page = NULL;
	r = hub_next_page(request->headers, repo, commit, &listing->page, err);
	if (r < 0)
		return r;
	return listing->page ? 0 : 1;
}

struct keeping {
	struct dataset *dataset;
	struct codec *codec;
};

static int store_catalog(const struct keeping *keeping,
			 const struct digest *digest, const void *data,
			 size_t len)
{
	struct cache *cache = keeping->dataset->node->cache;
	size_t bound = codec_bound(len);
	_cleanup_free_ void *frame = NULL;
	long stored;

	if (!cache || !keeping->codec)
		return -ENODEV;
	frame = malloc(bound);
	if (!frame)
		return -ENOMEM;
	stored = codec_compress(keeping->codec, data, len, CATALOG_LEVEL, frame,
				bound);
	if (stored < 0)
		return (int)stored;
	return cache_object_put(cache, CACHE_OBJECT, digest, frame,
				(size_t)stored);
}

static int give_catalog(void *arg, const struct digest *digest,
			const void *data, size_t len)
{
	const struct keeping *keeping = arg;
	struct dataset *dataset = keeping->dataset;
	struct catalog_object *object;
	int r;

	if (store_catalog(keeping, digest, data, len) == 0)
		return 0;
	r = catalog_object_make(digest, data, len, &object);
	if (r < 0)
		return r;
	hub_pin(dataset->hub, &object->object);
	table_put(dataset->node->catalogs, &object->object);
	object_unref(&object->object);
	return 0;
}

int hub_listing_finish(struct hub_listing *listing, struct dataset *dataset,
		       const struct hub_info *info, struct codec *codec,
		       struct hub_totals *ret, struct err *err)
{
	struct keeping keeping = {.dataset = dataset, .codec = codec};
	int r = hub_tree_finish(listing->tree, info, give_catalog, &keeping,
				ret, err);

	return r == -EBADMSG ? -EIO : r;
}
