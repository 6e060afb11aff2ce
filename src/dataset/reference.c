/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See reference.h. Small files of a Hub lie on the Hub itself and are asked
 * for there; large ones at their location (location.c).
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "cache/cache.h"
#include "dataset/hub.h"
#include "dataset/reference.h"
#include "dataset/version.h"

/* Pages of blobs up to 16 MiB stay with the blob. */
#define INLINE_BLOCKS 64u

static uint64_t block_count(uint64_t bytes)
{
	return (bytes + REFERENCE_BLOCK_BYTES - 1) / REFERENCE_BLOCK_BYTES;
}

/* ---- blocks as records */

static void block_key(const struct blob *blob, uint64_t block,
		      struct digest *ret)
{
	uint8_t text[1 + DIGEST_BYTES + 8];

	text[0] = blob->id.type;
	memcpy(text + 1, blob->id.bytes, DIGEST_BYTES);
	store_le64(text + 1 + DIGEST_BYTES, block);
	digest_sha256(text, sizeof(text), ret);
}

static int make_page(const struct blob *blob, uint64_t first,
		     struct recipe_page **ret)
{
	_cleanup_free_ struct recipe_record *records = NULL;
	uint64_t left = blob->chunk_count - first;
	uint32_t count = left < LIMIT_RECIPE_PAGE_RECORDS ?
				 (uint32_t)left :
				 LIMIT_RECIPE_PAGE_RECORDS;
	uint64_t start = first * REFERENCE_BLOCK_BYTES;
	int r;

	records = calloc(count, sizeof(*records));
	if (!records)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = start + (uint64_t)i * REFERENCE_BLOCK_BYTES;

		block_key(blob, first + i, &records[i].digest);
		records[i].length = blob->bytes - at < REFERENCE_BLOCK_BYTES ?
					    (uint32_t)(blob->bytes - at) :
					    REFERENCE_BLOCK_BYTES;
	}
	r = recipe_page_from_records(records, count, ret);
	if (r < 0)
		return r;
	(*ret)->first_chunk = first;
	for (uint32_t i = 0; i <= count; i++)
		(*ret)->starts[i] += start;
	return 0;
}

static void free_page(struct object *object)
{
	struct page_object *page = (struct page_object *)object;

	recipe_page_free(page->page);
	free(page);
}

int reference_page(struct dataset *dataset, struct blob *blob, uint64_t offset,
		   const struct recipe_page **ret, struct object **ret_held)
{
	uint64_t number =
		offset / REFERENCE_BLOCK_BYTES / LIMIT_RECIPE_PAGE_RECORDS;
	struct object_key key = {
		.kind = OBJECT_BLOCKS,
		.digest = blob->id,
		.salt = number,
	};
	struct table *table = dataset->node->pages;
	struct page_object *page = (struct page_object *)table_get(table, &key);
	int r;

	if (!page) {
		page = calloc(1, sizeof(*page));
		if (!page)
			return -ENOMEM;
		r = make_page(blob, number * LIMIT_RECIPE_PAGE_RECORDS,
			      &page->page);
		if (r < 0) {
			free(page);
			return r;
		}
		object_init(&page->object, &key,
			    sizeof(*page) +
				    page->page->count *
					    (sizeof(*page->page->starts) +
					     sizeof(*page->page->records)),
			    free_page);
		table_put(table, &page->object);
	}
	*ret = page->page;
	*ret_held = &page->object;
	return 0;
}

/* ---- opening */

/* One bad transfer is dropped and forgotten; a second one is no accident. */
#define REJECTIONS_MAX 2u

int reference_check(const struct blob *blob, struct err *err)
{
	if (!blob->url || !blob->cached ||
	    cache_blob_rejections(blob->cached) < REJECTIONS_MAX)
		return 0;
	return err_set(err, EIO,
		       "its bytes do not have the digest that the Hub lists, "
		       "fetched %u times",
		       cache_blob_rejections(blob->cached));
}

int reference_open(struct dataset *dataset, const struct catalog_blob *info,
		   struct blob **ret, struct err *err)
{
	uint64_t salt = checksum_xxh3(info->url, info->url_len) ^ dataset->salt;
	struct object_key key = {
		.kind = OBJECT_BLOB,
		.digest = info->id,
		.salt = salt ? salt : 1,
	};
	struct node *node = dataset->node;
	struct blob *blob = (struct blob *)table_get(node->blobs, &key);
	int r;

	if (blob) {
		*ret = blob;
		return 0;
	}
	if (!dataset->hub)
		return err_set(err, ENOTSUP,
			       "files by reference are read from hf:// only");
	r = blob_new(&key, info, block_count(info->size), &blob);
	if (r < 0)
		return r;
	blob->url = malloc((size_t)info->url_len + 1);
	blob->version = version_new();
	r = blob->url && blob->version ? 0 : -ENOMEM;
	if (r == 0) {
		memcpy(blob->url, info->url, info->url_len);
		blob->url[info->url_len] = '\0';
	}
	if (r == 0 && blob->chunk_count <= INLINE_BLOCKS)
		r = make_page(blob, 0, &blob->inlined);
	if (r < 0) {
		blob_unref(blob);
		return r;
	}
	blob_open_cached(node, blob);
	if (blob->cached)
		cache_blob_expect(blob->cached);
	table_put(node->blobs, &blob->object);
	*ret = blob;
	return 0;
}

/* ---- jobs */

/* git's own files: those of LFS have a SHA-256. */
static bool is_at_hub(const struct chunk_job *job)
{
	return job->reference->id.type == DIGEST_GIT_SHA1;
}

/* While the server of the location is known to be dead one job at a time looks
 * whether it still is; all others end here. */
static int check_server(struct chunk_job *job, enum fetch_class *ret_class,
			struct err *err)
{
	struct origin *origin = job->location->origin;
	const uint32_t tried = 0;
	struct origin_health health;

	if (!origin)
		return 0;
	origin_health(origin, &health);
	if (!health_is_dead(&health) ||
	    origins_choose(&health, &tried, 1, now_ms(), 0) == 0)
		return 0;
	job->tries.give_up_ms = now_ms();
	*ret_class = health.last;
	return err_set(err, EIO, "'%s', where it sends us, does not answer",
		       origin_name(origin));
}

int reference_find(struct chunk_job *job, enum fetch_class *ret_class,
		   struct err *err)
{
	int r;

	for (uint32_t i = 0; i < job->count; i++) {
		struct job_chunk *chunk = &job->chunks[i];

		chunk->at = (struct chunk_place){
			.place = {.offset = chunk->unit * REFERENCE_BLOCK_BYTES,
				  .stored_bytes = chunk->length},
			.pack = job->reference->id,
			.pack_bytes = job->reference->bytes,
		};
	}
	object_unref((struct object *)job->location);
	job->location = NULL;
	if (job->dataset->hub->is_offline) {
		*ret_class = FETCH_ABSENT;
		return err_set(err, EIO,
			       "HF_HUB_OFFLINE is set and the cache lacks it");
	}
	if (is_at_hub(job)) {
		uint32_t paused_ms = hub_paused_ms(job->node);

		*ret_class = FETCH_BUSY;
		return paused_ms == 0 ?
			       0 :
			       err_set(err, EIO,
				       "the Hub's limit of requests is used "
				       "up, again in %u s",
				       (paused_ms + 999) / 1000);
	}
	r = location_get(job->dataset, job->reference, &job->waiter,
			 &job->location, ret_class, err);
	return r == 0 ? check_server(job, ret_class, err) : r;
}

bool reference_note(struct chunk_job *job, enum fetch_class class,
		    struct err *err)
{
	if (!job->location || !job->location->origin)
		return false;
	err_prefix(err, -EIO, "at '%s'", origin_name(job->location->origin));
	/* what it says of one file says nothing of others */
	if (class == FETCH_REFUSED || class == FETCH_ABSENT)
		class = FETCH_OK;
	if (class != FETCH_WRONG)
		origin_note(job->location->origin, class, now_ms());
	return true;
}

static bool is_same(struct fetch_request *request, const char *etag)
{
	const struct chunk_job *job = request->arg;

	return version_is_same(job->reference->version, request, etag);
}

static void ask_where(struct chunk_job *job)
{
	struct fetch_request *request = &job->request;

	if (job->location && job->location->origin) {
		request->origin = job->location->origin;
		request->path = job->location->target;
		request->is_escaped = true;
		return;
	}
	free(job->authorization);
	job->authorization = hub_authorization(job->dataset->hub);
	request->path = job->reference->url;
	request->authorization = job->authorization;
	request->keeps_headers = true;
}

void reference_ask(struct chunk_job *job)
{
	struct fetch_request *request = &job->request;

	ask_where(job);
	version_known(job->reference->version, request, job->etag);
	request->if_range = job->etag;
	request->is_same = is_same;
}

bool reference_failed(struct chunk_job *job, enum fetch_class *class,
		      struct err *err)
{
	const struct fetch_request *request = &job->request;
	int r;

	if (request->result >= 0)
		return false;
	if (!job->location || !job->location->origin) {
		*class = hub_failure(job->dataset, &job->dataset->hub->repo,
				     request, job->authorization, err, &r);
		return false;
	}
	if (*class == FETCH_CANCELED || *class == FETCH_LOCAL)
		return false;
	/* Its time may have been over, it was withdrawn, or the Hub knows by
	 * now that its server is down. */
	location_void(job->node, job->reference, job->location);
	if ((*class != FETCH_REFUSED && *class != FETCH_ABSENT) ||
	    job->is_fresh)
		return false;
	job->is_fresh = true;
	return true;
}
