/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_NODE_H
#define LARDER_DATASET_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dataset/budget.h"
#include "dataset/dataset.h"
#include "dataset/flight.h"
#include "dataset/object.h"
#include "dataset/stats.h"
#include "dataset/timer.h"
#include "dataset/waiter.h"
#include "dataset/work.h"
#include "fetch/fetch.h"
#include "format/head.h"
#include "format/limits.h"

struct chunk_job;
struct figures;
struct foreign;
struct hub;
struct pool;
struct readaheads;
struct recent;

/*
 * What the files of this directory share. Lock order: a dataset's lock, a
 * flight shard's, then the leaves (table, budget, timers, work, pool); none
 * is held while another directory is called, but for dataset_lock around
 * nothing but memory.
 */
struct node {
	struct cache *cache; /* NULL: none */
	struct fetcher *fetcher;
	uint32_t timeout_ms, refresh_ms;
	atomic_bool is_closing;

	struct work *verify;   /* checks frames, moves jobs on */
	struct work *executor; /* calls wake() */
	struct timers *timers;
	struct table *catalogs, *pages, *blobs;
	struct flights *flights;
	struct foreign *foreign;
	uint64_t buffer_bytes; /* what the administrator gives */
	struct budget budget;
	struct pool *pool;
	struct recent *recent;
	struct readaheads *readaheads;
	atomic_uint ahead_bytes_max; /* a window's, by the link */
	uint64_t swept_bytes, peak_bytes; /* the sweep's: fetched a second */
	struct stats *stats;
	const uint8_t *zeros; /* LIMIT_CHUNK_BYTES that take no memory */
	struct timer sweep;
	_Atomic uint64_t demand_ms; /* demand.c: others were told */
	_Atomic uint64_t hub_pause_until_ms; /* see hub.h */

	pthread_mutex_t low_lock;   /* guards the list; taken before gate */
	struct chunk_job *low_jobs; /* whose requests may be raised */
	uint64_t low_number;

	pthread_mutex_t gate; /* guards starting fetches against closing */
	atomic_uint jobs;     /* that still run */

	struct figures *figures;

	pthread_mutex_t datasets_lock; /* guards the list and: */
	bool tells_outages;
	struct dataset *datasets;
	_Atomic uint64_t dataset_number; /* of the last one */
};

#define MIRRORS_MAX 16u
/* Why a mirror failed, in words: an authority's name may be in it. */
#define REASON_BYTES 120u

struct mirror {
	struct origin *origin;
	uint64_t salt;		       /* of its URL */
	atomic_uint places_generation; /* how often places were forgotten */
	struct digest url_digest;
	atomic_bool is_marked;	 /* its format version was looked at */
	/* Of its head that had this serial; "": none. The dataset's lock. */
	char head_etag[128];
	uint64_t head_serial;
	char last[REASON_BYTES]; /* its last failure; guarded by the dataset's
				    lock */
};

#define FILE_ERRORS_MAX 64u

struct dataset {
	struct node *node;
	struct dataset *next;
	atomic_uint refs; /* the node's or the caller's, and of jobs */
	uint64_t number;  /* never used twice in this process */
	char *name, *remote_name, *tag;
	struct hub *hub; /* NULL: mirrors */
	uint64_t salt; /* of its mirrors: who may share a flight */
	struct mirror mirrors[MIRRORS_MAX];
	unsigned mirror_count;
	struct public_key *keys;
	size_t key_count;
	bool insecure, refuse_expired;
	struct budget_share share;
	struct timer refresh;
	atomic_bool is_offline; /* changed under node->datasets_lock */

	struct dataset_figures figures; /* guarded by figures.c's lock */

	pthread_mutex_t lock; /* guards all below */
	struct snapshot *current;
	struct head head;
	enum dataset_state state;
	bool is_for_good; /* stale, and will not be other by itself */
	char reason[256];
	void (*changed)(void *arg, struct dataset *dataset);
	void *changed_arg;
	struct file_error {
		struct digest snapshot;
		uint64_t number;
		char text[160];
	} errors[FILE_ERRORS_MAX];
	unsigned next_error;
	atomic_uint error_count;
};

struct snapshot {
	atomic_uint refs;
	struct dataset *dataset;
	struct digest digest;
	uint64_t catalog_bytes, entry_count, total_bytes;
	/* Of a listing of the Hub: what its root says, written by
	 * snapshot_load, before others see the snapshot. */
	char commit[41];
	bool is_restricted;
};

struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset);

/* What counts how much is cached (figures.c). stop: while datasets live. */
struct figures *figures_new(void);
void figures_stop(struct figures *figures);

void node_job_begin(struct node *node);
void node_job_end(struct node *node);
/* false when the node is closing: nothing was started. */
bool node_fetch(struct node *node, struct fetch_request *request);

/* Makes a snapshot of a head (head.c uses it). NULL on ENOMEM. */
struct snapshot *snapshot_new(struct dataset *dataset, const struct head *head);
/* The root catalog is here, or what is missing. Not once others see the
 * snapshot. */
int snapshot_load(struct snapshot *snapshot, struct waiter *waiter,
		  struct err *err);

/* The last failure of a file, for its error attribute (errors.c). */
void file_error_note(struct snapshot *snapshot, uint64_t number,
		     const char *text);
void file_error_clear(struct snapshot *snapshot, uint64_t number);
bool file_error_read(struct snapshot *snapshot, uint64_t number, char *text,
		     size_t size);

#endif
