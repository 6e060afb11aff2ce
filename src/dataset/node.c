/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node: what one process shares, made and taken down in order.
 *
 * Memory is one number, `buffer`: half of it for bytes in flight, of which
 * chunks that no cache took get a part, the rest in small shares for what is
 * remembered. What remains is the allocator's and the fetcher's.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/pool.h"
#include "cache/cache.h"
#include "dataset/chunk.h"
#include "dataset/blob.h"
#include "dataset/node.h"
#include "dataset/read.h"
#include "dataset/readahead.h"
#include "dataset/recent.h"

#define LOG_MODULE "dataset"
#include "base/log.h"

#define BUFFER_BYTES (256ull << 20)
#define BUFFER_BYTES_MIN (32ull << 20)
#define CATALOG_BYTES_MAX (24ull << 20)
#define PAGE_BYTES_MAX (16ull << 20)
#define OPEN_BLOBS 1024u
#define OPEN_BLOB_BYTES 4096u
#define TIMEOUT_MS 30000u
#define REFRESH_MS 60000u
#define SWEEP_MS 1000u
#define PATIENCE_MIN_MS 1000u
#define VERIFY_THREADS_MAX 8
#define EXECUTOR_THREADS_MAX 4
/* For the cache's last records when a node closes. */
#define CLOSE_WAIT_MS 5000u

void node_job_begin(struct node *node)
{
	atomic_fetch_add(&node->jobs, 1);
}

void node_job_end(struct node *node)
{
	atomic_fetch_sub(&node->jobs, 1);
}

bool node_fetch(struct node *node, struct fetch_request *request)
{
	scoped_lock(&node->gate);
	if (atomic_load(&node->is_closing))
		return false;
	fetch_start(node->fetcher, request);
	return true;
}

struct cache *node_cache(struct node *node)
{
	return node->cache;
}

/*
 * A window of readahead is worth two seconds of what the link brings, or of
 * what readers take: more only delays whoever comes next.
 */
static void judge_link(struct node *node)
{
	uint64_t bytes = stats_sum(node->stats, STAT_FETCHED_PLAIN_BYTES);
	uint64_t now = bytes - node->swept_bytes;

	node->swept_bytes = bytes;
	node->peak_bytes -= node->peak_bytes / 8;
	if (now > node->peak_bytes)
		node->peak_bytes = now;
	atomic_store(&node->ahead_bytes_max,
		     readahead_window(node->peak_bytes));
}

/* Once a second: forget failures; when nothing is in flight, give idle
 * buffers back. */
static void fire_sweep(struct timer *timer)
{
	struct node *node =
		(struct node *)((char *)timer - offsetof(struct node, sweep));

	if (atomic_load(&node->is_closing))
		return;
	flights_sweep(node->flights, now_ms());
	judge_link(node);
	if (atomic_load(&node->jobs) == 0)
		pool_trim(node->pool);
	timer_set(node->timers, timer, now_ms() + SWEEP_MS);
}

/* On a thread of the cache: files of blobs that nobody reads at this moment
 * shall be closed. */
static bool is_in_segments(const struct object *object)
{
	const struct blob *blob = (const struct blob *)object;

	return blob->cached && cache_blob_in_segments(blob->cached);
}

static void let_go(void *arg)
{
	struct node *node = arg;

	table_drop_idle(node->blobs, is_in_segments);
}

static void hang_changed(void *arg, bool is_hanging)
{
	struct node *node = arg;

	if (is_hanging)
		work_relieve(node->verify);
}

static int open_cache(struct node *node, const struct node_options *options,
		      struct err *err)
{
	const struct cache_options cache_options = {
		.dir = options->cache_dir,
		.limit_bytes = options->cache_limit_bytes,
		.min_free_bytes = options->cache_min_free_bytes,
		.tells_limits = options->is_service,
	};

	int r;

	if (!options->cache_dir)
		return 0;
	r = cache_answers(options->cache_dir, err);
	if (r == -ETIMEDOUT && options->is_service) {
		log_warning("the cache's disk does not answer, going on without a "
			    "cache; mount again when it does: dir=%s",
			    options->cache_dir);
		return 0;
	}
	if (r == 0)
		r = cache_open(&cache_options, &node->cache, err);
	if (r == 0)
		cache_on_pressure(node->cache, let_go, node);
	return r;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Each has a file open. */
static uint64_t open_blobs(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return OPEN_BLOBS;
	return at_most(OPEN_BLOBS, limit.rlim_cur / 4);
}

static int make_memory(struct node *node, uint64_t buffer_bytes)
{
	void *zeros;

	if (buffer_bytes == 0)
		buffer_bytes = BUFFER_BYTES;
	if (buffer_bytes < BUFFER_BYTES_MIN)
		buffer_bytes = BUFFER_BYTES_MIN;
	zeros = mmap(NULL, LIMIT_CHUNK_BYTES, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (zeros == MAP_FAILED)
		return -ENOMEM;
	node->zeros = zeros;
	node->buffer_bytes = buffer_bytes;
	budget_init(&node->budget, buffer_bytes / 2);
	node->catalogs =
		table_new(at_most(buffer_bytes / 8, CATALOG_BYTES_MAX));
	node->pages = table_new(at_most(buffer_bytes / 16, PAGE_BYTES_MAX));
	node->blobs = table_new(open_blobs() * OPEN_BLOB_BYTES);
	/* As much as the budget, which is of the same bytes. */
	node->pool = pool_new(buffer_bytes / 2);
	node->recent = recent_new(buffer_bytes / 8);
	node->readaheads = readaheads_new();
	atomic_init(&node->ahead_bytes_max, readahead_window(0));
	node->stats = stats_new();
	node->figures = figures_new();
	node->flights = flights_new(node);
	if (!node->catalogs || !node->pages || !node->blobs || !node->pool ||
	    !node->recent || !node->readaheads || !node->stats ||
	    !node->figures ||
	    !node->flights)
		return -ENOMEM;
	return 0;
}

static unsigned thread_count(long cpus, unsigned max)
{
	if (cpus < 2)
		return 2;
	return cpus < (long)max ? (unsigned)cpus : max;
}

/* A reader's time is enough for several silences. */
static uint32_t part_of(uint32_t timeout_ms, uint32_t parts, uint32_t max_ms)
{
	uint32_t ms = timeout_ms / parts;

	if (ms < PATIENCE_MIN_MS)
		return PATIENCE_MIN_MS;
	return ms < max_ms ? ms : max_ms;
}

static int start_threads(struct node *node, const struct node_options *options,
			 struct err *err)
{
	const struct fetcher_options fetcher_options = {
		.connect_timeout_ms = part_of(node->timeout_ms, 6, 5000),
		.silence_timeout_ms = part_of(node->timeout_ms, 3, 10000),
		.max_connections = options->connections,
		.max_all_connections = options->total_connections,
		.proxy = options->proxy,
		.ca_file = options->ca_file,
		.cert_file = options->cert_file,
		.cert_key_file = options->cert_key_file,
		.spool_dir = node->cache ? options->cache_dir : NULL,
	};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	r = timers_start(&node->timers, err);
	if (r == 0)
		r = work_start("larder-verify",
			       thread_count(cpus, VERIFY_THREADS_MAX), true,
			       &node->verify, err);
	if (r == 0)
		r = work_start("larder-reply",
			       thread_count(cpus, EXECUTOR_THREADS_MAX), false,
			       &node->executor, err);
	if (r == 0)
		r = fetcher_open(&fetcher_options, &node->fetcher, err);
	if (r == 0 && node->cache) {
		cache_on_hang(node->cache, hang_changed, node);
		r = foreign_start(node, &node->foreign, err);
	}
	return r;
}

int node_open(const struct node_options *options, struct node **ret,
	      struct err *err)
{
	struct node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return -ENOMEM;
	pthread_mutex_init(&node->gate, NULL);
	pthread_mutex_init(&node->low_lock, NULL);
	pthread_mutex_init(&node->datasets_lock, NULL);
	node->timeout_ms =
		options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
	node->refresh_ms =
		options->refresh_ms ? options->refresh_ms : REFRESH_MS;
	r = make_memory(node, options->buffer_bytes);
	if (r == 0)
		r = open_cache(node, options, err);
	if (r == 0)
		r = start_threads(node, options, err);
	if (r < 0) {
		node_close(node);
		return r;
	}
	node->sweep.fire = fire_sweep;
	timer_set(node->timers, &node->sweep, now_ms() + SWEEP_MS);
	*ret = node;
	return 0;
}

/* Jobs end by themselves now that nothing can be fetched. false: somebody
 * still holds flights after all that time. */
static bool drain(struct node *node)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t until = now_ms() + CLOSE_WAIT_MS;

	while (atomic_load(&node->jobs) > 0)
		nanosleep(&pause, NULL);
	flights_sweep(node->flights, UINT64_MAX);
	recent_clear(node->recent);
	while (flights_count(node->flights) > 0 && now_ms() < until)
		nanosleep(&pause, NULL);
	return flights_count(node->flights) == 0;
}

static bool stop_threads(struct node *node)
{
	bool is_drained = true;

	pthread_mutex_lock(&node->gate);
	atomic_store(&node->is_closing, true);
	pthread_mutex_unlock(&node->gate);
	if (node->timers)
		timers_fire_all(node->timers);
	if (node->fetcher)
		fetcher_close(node->fetcher);
	if (node->verify && node->executor) {
		budget_open(node);
		is_drained = drain(node);
	}
	if (node->cache)
		cache_on_hang(node->cache, NULL, NULL);
	if (!is_drained)
		return false;
	foreign_stop(node->foreign);
	work_stop(node->executor);
	work_stop(node->verify);
	timers_stop(node->timers);
	return true;
}

void node_close(struct node *node)
{
	struct dataset *next;

	if (!node)
		return;
	if (!stop_threads(node)) {
		/* A waiter was not released: better lost than freed. */
		log_warning("closed while %llu flights are held",
			    (unsigned long long)flights_count(node->flights));
		return;
	}
	figures_stop(node->figures);
	for (struct dataset *dataset = node->datasets; dataset;
	     dataset = next) {
		next = dataset->next;
		dataset_unref(dataset);
	}
	if (node->cache)
		cache_on_pressure(node->cache, NULL, NULL);
	table_free(node->blobs);
	table_free(node->pages);
	table_free(node->catalogs);
	if (node->cache)
		cache_close(node->cache);
	recent_free(node->recent);
	flights_free(node->flights);
	pool_free(node->pool);
	readaheads_free(node->readaheads);
	stats_free(node->stats);
	if (node->zeros)
		munmap((void *)node->zeros, LIMIT_CHUNK_BYTES);
	budget_release(&node->budget);
	pthread_mutex_destroy(&node->datasets_lock);
	pthread_mutex_destroy(&node->gate);
	pthread_mutex_destroy(&node->low_lock);
	free(node);
}
