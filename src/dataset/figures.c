/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of each dataset is in the cache: asked for by people, so it is not
 * kept up to date with every read but counted when somebody looks, on a thread
 * of its own. Only catalogs that are in the cache are read: of names that were
 * never looked at nothing is cached (or by chance, as another dataset's).
 */
#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "dataset/snapshot.h"

/* Counted again after a second, or ten times what counting takes. */
#define AGE_MS 1000u
#define AGE_FACTOR 10u
#define STORED_BYTES_MAX (LIMIT_CATALOG_BYTES + (64u << 10))
#define STACK_BYTES (256u << 10)
#define STATUS_BYTES_MAX 65536 /* a page is usual */

struct figures {
	pthread_mutex_t lock; /* guards the rest, and the datasets' figures */
	pthread_t thread;
	bool has_thread, is_running;
	uint64_t counted_ms, took_ms; /* 0: never */
	uint64_t pinned_bytes;
};

struct counting {
	struct node *node;
	struct dataset_figures figures;
	struct codec *codec;
	VEC(struct digest) catalogs; /* still to be read */
};

/* What is there of a blob, looked up once a catalog. */
struct share {
	bool is_known, is_pinned;
	uint64_t bytes, present;
};

struct figures *figures_new(void)
{
	struct figures *figures = calloc(1, sizeof(*figures));

	if (figures)
		pthread_mutex_init(&figures->lock, NULL);
	return figures;
}

void figures_stop(struct figures *figures)
{
	if (!figures)
		return;
	if (figures->has_thread)
		pthread_join(figures->thread, NULL);
	pthread_mutex_destroy(&figures->lock);
	free(figures);
}

static void look_up(struct counting *counting, const struct catalog *catalog,
		    uint32_t index, struct share *share)
{
	struct cache *cache = counting->node->cache;
	struct cache_blob_info info;
	struct catalog_blob blob;

	catalog_get_blob(catalog, index, &blob);
	*share = (struct share){
		.is_known = true,
		.bytes = blob.size,
		.is_pinned = cache_is_pinned(cache, &blob.id),
	};
	if (cache_blob_info(cache, &blob.id, &info) == 1)
		share->present =
			info.is_complete ? blob.size : info.present_bytes;
}

static void count_file(struct counting *counting,
		       const struct catalog_entry *entry,
		       const struct share *share)
{
	uint64_t cached = entry->size;

	if (share->present < share->bytes)
		cached = (uint64_t)((double)entry->size *
				    (double)share->present /
				    (double)share->bytes);
	counting->figures.cached_bytes += cached;
	if (share->is_pinned)
		counting->figures.pinned_bytes += entry->size;
}

static int count_catalog(struct counting *counting,
			 const struct catalog *catalog)
{
	uint32_t count = catalog_entry_count(catalog);
	_cleanup_free_ struct share *shares =
		calloc(catalog_blob_count(catalog) + 1, sizeof(*shares));

	if (!shares)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct catalog_entry entry;

		if (atomic_load_explicit(&counting->node->is_closing,
					 memory_order_relaxed))
			return -ESHUTDOWN;
		catalog_get(catalog, i, &entry);
		if (entry.type != ENTRY_FILE || entry.blob == CATALOG_NO_BLOB)
			continue;
		if (!shares[entry.blob].is_known)
			look_up(counting, catalog, entry.blob,
				&shares[entry.blob]);
		count_file(counting, &entry, &shares[entry.blob]);
	}
	for (uint32_t i = 0; i < catalog_child_count(catalog); i++) {
		struct digest *next = vec_push(&counting->catalogs);
		struct catalog_child child;

		if (!next)
			return -ENOMEM;
		catalog_get_child(catalog, i, &child);
		*next = child.digest;
	}
	return 0;
}

/* NULL: not in the cache, or not as it should be. */
static struct catalog *read_catalog(struct counting *counting,
				    const struct digest *digest)
{
	struct catalog *catalog = NULL;
	struct buf frame, plain;
	size_t len;
	uint8_t *data;
	int r;

	buf_init(&frame, STORED_BYTES_MAX);
	buf_init(&plain, LIMIT_CATALOG_BYTES);
	r = cache_object_get(counting->node->cache, CACHE_OBJECT, digest,
			     &frame);
	if (r == 0)
		r = codec_open_object(counting->codec, frame.data, frame.len,
				      LIMIT_CATALOG_BYTES, digest, &plain);
	buf_release(&frame);
	if (r == 0) {
		data = buf_steal(&plain, &len);
		(void)catalog_open(data, len, &catalog, NULL);
	}
	buf_release(&plain);
	return catalog;
}

/* Depth first, so that few wait. */
static int count_catalogs(struct counting *counting)
{
	int r = 0;

	while (r == 0 && counting->catalogs.count > 0) {
		struct digest digest =
			counting->catalogs.items[--counting->catalogs.count];
		struct catalog *catalog = read_catalog(counting, &digest);

		if (catalog)
			r = count_catalog(counting, catalog);
		catalog_close(catalog);
	}
	return r;
}

static struct snapshot *current_of(struct dataset *dataset)
{
	scoped_lock(&dataset->lock);
	return dataset->current ? snapshot_ref(dataset->current) : NULL;
}

static int count_dataset(struct dataset *dataset, struct codec *codec)
{
	struct counting counting = {.node = dataset->node, .codec = codec};
	struct snapshot *snapshot = current_of(dataset);
	struct digest *root;
	int r = -ENOMEM;

	if (!snapshot)
		return 0;
	root = vec_push(&counting.catalogs);
	if (root) {
		*root = snapshot->digest;
		r = count_catalogs(&counting);
	}
	vec_release(&counting.catalogs);
	counting.figures.total_bytes = snapshot->total_bytes;
	snapshot_unref(snapshot);
	scoped_lock(&dataset->node->figures->lock);
	if (r == 0)
		dataset->figures = counting.figures;
	dataset->figures.is_counted = true;
	return r;
}

static void *figures_thread(void *arg)
{
	struct node *node = arg;
	struct figures *figures = node->figures;
	struct codec *codec = codec_new();
	struct dataset *dataset;
	uint64_t pinned, start_ms = now_ms();

	pthread_mutex_lock(&node->datasets_lock);
	dataset = node->datasets; /* grows at its head only */
	pthread_mutex_unlock(&node->datasets_lock);
	for (; codec && dataset; dataset = dataset->next)
		if (count_dataset(dataset, codec) < 0)
			break;
	codec_free(codec);
	pinned = cache_pinned_bytes(node->cache);
	scoped_lock(&figures->lock);
	figures->pinned_bytes = pinned;
	figures->counted_ms = now_ms();
	figures->took_ms = figures->counted_ms - start_ms;
	figures->is_running = false;
	return NULL;
}

static bool is_fresh(const struct figures *figures)
{
	uint64_t age_ms = now_ms() - figures->counted_ms;

	return figures->counted_ms > 0 &&
	       (age_ms < AGE_MS || age_ms < AGE_FACTOR * figures->took_ms);
}

/* Called with the lock held. */
static void count_again(struct node *node)
{
	struct figures *figures = node->figures;

	if (!node->cache || figures->is_running ||
	    atomic_load(&node->is_closing) || is_fresh(figures))
		return;
	if (figures->has_thread) /* it has ended */
		pthread_join(figures->thread, NULL);
	figures->is_running = figures->has_thread =
		thread_start(&figures->thread, STACK_BYTES, figures_thread,
			     node) == 0;
}

void dataset_figures(struct dataset *dataset, struct dataset_figures *ret)
{
	struct figures *figures = dataset->node->figures;
	scoped_lock(&figures->lock);

	/* it was opened after the others were counted */
	if (!dataset->figures.is_counted)
		figures->counted_ms = 0;
	count_again(dataset->node);
	*ret = dataset->figures;
	ret->is_fresh = is_fresh(figures);
}

static uint64_t pinned_bytes(struct node *node, bool *ret_is_fresh)
{
	scoped_lock(&node->figures->lock);
	count_again(node);
	*ret_is_fresh = is_fresh(node->figures);
	return node->figures->pinned_bytes;
}

/* ---- the node as text */

/* Of "RssAnon:     1234 kB"; 0: not told. */
static uint64_t status_bytes(const char *status, const char *key)
{
	const char *at = strstr(status, key);
	char text[24] = "";
	uint64_t kib = 0;

	if (!at)
		return 0;
	at += strlen(key);
	at += strspn(at, " \t");
	snprintf(text, sizeof(text), "%.*s", (int)strspn(at, "0123456789"), at);
	return parse_u64(text, &kib) == 0 ? kib << 10 : 0;
}

/* What the process has of its own: mapped files can be taken back. */
static uint64_t memory_bytes(void)
{
	struct buf status;
	uint64_t bytes = 0;

	buf_init(&status, STATUS_BYTES_MAX);
	if (file_read(AT_FDCWD, "/proc/self/status", &status) == 0 &&
	    buf_append(&status, "", 1) == 0)
		bytes = status_bytes((char *)status.data, "RssAnon:") +
			status_bytes((char *)status.data, "RssShmem:");
	buf_release(&status);
	return bytes;
}

int node_figures_text(struct node *node, struct buf *ret)
{
	struct node_stats stats;
	bool is_fresh = true;
	int r = 0;

	if (node->cache)
		r = cache_figures_text(node->cache,
				       pinned_bytes(node, &is_fresh), ret);
	node_stats(node, &stats);
	return r < 0 ? r :
		       buf_printf(
			       ret,
			       "read %" PRIu64 "\nread-cached %" PRIu64
			       "\nread-fetched %" PRIu64 "\nfetched %" PRIu64
			       "\ncorrupt-fetched %" PRIu64 "\nmemory %" PRIu64
			       "\nbuffer %" PRIu64 "\nfresh %d\n",
			       stats.read_bytes, stats.read_cache_bytes,
			       stats.read_fetched_bytes,
			       stats.fetched_wire_bytes, stats.chunks_corrupt,
			       memory_bytes(), node->buffer_bytes, is_fresh);
}
