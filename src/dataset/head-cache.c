/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last good heads, on the disk: what a dataset is served from when no
 * mirror answers at the start, and below which serial none is accepted.
 *
 * They are kept by name and by the key that signed them, not by the mirror's
 * URL: a mirror may move, and whoever holds the key says what comes after
 * what. A head that nobody signed is believed of its first mirror alone.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cache/cache.h"
#include "dataset/head.h"

/* malloc, NULL on ENOMEM. */
static char *cache_key(const struct dataset *dataset,
		       const struct public_key *signer)
{
	char hex[DIGEST_HEX_MAX], *key;
	struct digest id;

	if (signer)
		digest_sha256(signer->bytes, sizeof(signer->bytes), &id);
	else
		id = dataset->mirrors[0].url_digest;
	if (asprintf(&key, "%s@%s %s", dataset->remote_name,
		     dataset->tag ? dataset->tag : "",
		     digest_hex(&id, hex)) < 0)
		return NULL;
	return key;
}

bool head_is_trusted(const struct dataset *dataset, const void *text,
		     const struct head *head, struct err *err, int *ret)
{
	*ret = 0;
	if (dataset->key_count == 0 && dataset->insecure)
		return true;
	if (dataset->insecure && head->signature_count == 0)
		return true;
	if (dataset->key_count == 0)
		*ret = err_set(err, EACCES,
			       "no trusted key: give key=FILE, or insecure");
	else
		*ret = head_verify(text, head, dataset->keys,
				   dataset->key_count, NULL, 0, err);
	return *ret == 0;
}

static bool load_one(const struct dataset *dataset,
		     const struct public_key *signer, struct head *ret)
{
	_cleanup_free_ char *key = cache_key(dataset, signer);
	struct buf text;
	int r;

	if (!key)
		return false;
	buf_init(&text, LIMIT_HEAD_BYTES);
	r = cache_head_get(dataset->node->cache, key, &text);
	if (r >= 0)
		r = head_parse(text.data, text.len, ret, NULL);
	if (r >= 0 && !head_is_trusted(dataset, text.data, ret, NULL, &r))
		r = -EKEYREJECTED;
	buf_release(&text);
	return r >= 0 && strcmp(ret->dataset, dataset->remote_name) == 0 &&
	       strcmp(ret->tag, dataset->tag ? dataset->tag : "") == 0 &&
	       !dataset_head_refused(dataset, ret);
}

bool head_cache_load(const struct dataset *dataset, struct head *ret)
{
	bool has_any = false;
	struct head head;

	if (!dataset->node->cache)
		return false;
	for (size_t i = 0; i <= dataset->key_count; i++) {
		const struct public_key *signer =
			i < dataset->key_count ? &dataset->keys[i] : NULL;

		if (!signer && !dataset->insecure)
			continue;
		if (!load_one(dataset, signer, &head) ||
		    (has_any && head.serial <= ret->serial))
			continue;
		*ret = head;
		has_any = true;
	}
	return has_any;
}

static void keep_one(const struct dataset *dataset,
		     const struct public_key *signer, const void *text,
		     size_t len)
{
	_cleanup_free_ char *key = cache_key(dataset, signer);

	if (key)
		(void)cache_head_put(dataset->node->cache, key, text, len);
}

static bool has_signed(const struct head *head, const struct public_key *key)
{
	for (uint32_t i = 0; i < head->signature_count; i++)
		if (!memcmp(head->signatures[i].key_id, key->id,
			    sizeof(key->id)))
			return true;
	return false;
}

void head_cache_keep(const struct dataset *dataset, const struct head *head,
		     const void *text, size_t len)
{
	bool is_kept = false;

	if (!dataset->node->cache)
		return;
	for (size_t i = 0; i < dataset->key_count; i++) {
		if (!has_signed(head, &dataset->keys[i]))
			continue;
		keep_one(dataset, &dataset->keys[i], text, len);
		is_kept = true;
	}
	if (!is_kept)
		keep_one(dataset, NULL, text, len);
}
