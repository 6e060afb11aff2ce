/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of repositories in the cache, made here and trusted as the rest of
 * it: one for a revision as it is called, which says what commit that was,
 * and one for each commit. They are told apart by endpoint, repository and
 * subtree. Beside them lies what branches and tags a repository has.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/flight.h"
#include "dataset/hub.h"
#include "dataset/node.h"

/* malloc, NULL on ENOMEM. */
static char *hub_head_key(const struct dataset *dataset, const char *revision)
{
	const struct hub_repo *repo = &dataset->hub->repo;
	char url[DIGEST_HEX_MAX], *key;

	if (asprintf(&key, "%s@%s//%s %s", dataset->remote_name, revision,
		     repo->subdir,
		     digest_hex(&dataset->mirrors[0].url_digest, url)) < 0)
		return NULL;
	return key;
}

void hub_head_keep(const struct dataset *dataset, const char *revision,
		   const struct head *head)
{
	_cleanup_free_ char *key = hub_head_key(dataset, revision);
	struct cache *cache = dataset->node->cache;
	struct buf text;

	buf_init(&text, LIMIT_HEAD_BYTES);
	if (cache && key && head_print(head, &text) == 0)
		(void)cache_head_put(cache, key, text.data, text.len);
	buf_release(&text);
}

bool hub_head_load(const struct dataset *dataset, const char *revision,
		   struct head *ret)
{
	_cleanup_free_ char *key = hub_head_key(dataset, revision);
	struct cache *cache = dataset->node->cache;
	struct buf text;
	int r;

	if (!cache || !key)
		return false;
	buf_init(&text, LIMIT_HEAD_BYTES);
	r = cache_head_get(cache, key, &text);
	if (r >= 0)
		r = head_parse(text.data, text.len, ret, NULL);
	buf_release(&text);
	return r >= 0 && strcmp(ret->dataset, dataset->remote_name) == 0;
}

/* No revision is called so. */
#define REFS "/refs"

int hub_refs_keep(const struct dataset *dataset, const struct buf *text)
{
	_cleanup_free_ char *key = hub_head_key(dataset, REFS);
	struct cache *cache = dataset->node->cache;

	if (!cache || !key)
		return -ENOENT;
	return cache_head_put(cache, key, text->data, text->len);
}

int hub_refs_load(const struct dataset *dataset, struct buf *ret)
{
	_cleanup_free_ char *key = hub_head_key(dataset, REFS);
	struct cache *cache = dataset->node->cache;

	return cache && key ? cache_head_get(cache, key, ret) : -ENOENT;
}

struct flight *hub_listing_flight(const struct dataset *dataset,
				  const char *commit, bool *ret_is_new)
{
	_cleanup_free_ char *text = hub_head_key(dataset, commit);
	struct object_key key = {.kind = OBJECT_LISTING};

	if (!text)
		return NULL;
	digest_sha256(text, strlen(text), &key.digest);
	return flight_get(dataset->node->flights, &key, ret_is_new);
}
