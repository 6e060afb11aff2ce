/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_INTERNAL_H
#define LARDER_FETCH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <curl/curl.h>

#include "fetch/answer.h"
#include "fetch/fetch.h"
#include "fetch/hold.h"
#include "fetch/pace.h"
#include "fetch/proxy.h"
#include "fetch/s3.h"
#include "fetch/url.h"

/* Circular list with a head; an element that is in no list points at itself. */
struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *list)
{
	list->next = list->prev = list;
}

static inline bool list_is_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_add(struct list *list, struct list *item)
{
	item->prev = list->prev;
	item->next = list;
	list->prev->next = item;
	list->prev = item;
}

static inline void list_remove(struct list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	list_init(item);
}

#define list_item(pointer, type, member)                                       \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define FETCH_PRIORITIES (FETCH_PREFETCH + 1)
/* Threads that read files of one origin: enough for a disk array, and a hung
 * network disk costs no more than these. */
#define FILES_PER_ORIGIN 4

/*
 * A request between fetch_start and done.
 *
 *   QUEUED -> RUNNING <-> CALLING (file threads: in a callback or the body)
 *     |         |            |
 *     +---------+-> gone <---+        done has been called
 *               |
 *               +-> ABANDONED         done has been or is being called; a file
 *               |                     thread is stuck in the kernel meanwhile
 *               +-> RIDING            http: its bytes come with a whole body
 *                                     that somebody else fetches (spool.c)
 *
 * state, is_canceled, is_held, holders and the lists are guarded by the
 * fetcher's lock; pace too for files; the rest belongs to the thread that runs
 * the job. A file thread touches the request only while CALLING.
 */
enum job_state {
	JOB_QUEUED,
	JOB_RUNNING,
	JOB_CALLING,
	JOB_RIDING,
	JOB_ENDED, /* its time was over before it ran */
	JOB_ABANDONED,
};

struct exchange;
struct spool;

struct job {
	struct list all;   /* fetcher->jobs */
	struct list queue; /* origin->queues[priority] while queued */
	struct fetch_request *request;
	struct origin *origin; /* counted */
	/* Copies: a file thread may not look at the request while it reads. */
	struct asked asked;
	uint64_t deadline_ms;
	uint32_t silence_ms, connect_ms, min_bytes_per_s, demand_bytes_per_s;
	uint32_t patience_ms;
	struct origin *const *others; /* the request's */
	size_t other_count;
	uint64_t told_ms; /* about_others */
	char *path;
	char *if_none_match, *if_range;
	char *authorization;
	_Atomic enum fetch_priority priority;
	enum job_state state;
	bool is_canceled;
	bool holds_prefetch;
	bool is_held; /* http: stands still since held_ms, for readers */
	uint64_t held_ms;
	unsigned holders; /* 1; 2 when abandoned: the last one frees */
	bool is_probe;	  /* holds the origin's probe */
	bool is_early;	  /* and has a second for its first byte */
	uint64_t start_ms;
	uint64_t run_ms; /* http: when it left the queue */
	struct pace pace;
	struct exchange *exchange; /* http, running */
	struct spool *spool;	   /* http: it rides on that, or carries it */
	struct list rider;	   /* spool->riders */
	bool is_away;		   /* redirected to another server */
	bool met_silence;	   /* nothing came, or no connection */
	bool is_to_be_told;	   /* about_others */
	/* Set when time is over: the failure, and the next such job. */
	enum fetch_class end_class;
	struct err end_err;
	struct job *next_ended;
};

struct origin {
	struct fetcher *fetcher; /* counted */
	struct url_base url;
	struct s3 *s3; /* NULL: none. Its keys are the transfer thread's */
	char *name;
	/* Guarded by the fetcher's lock. */
	struct list all; /* fetcher->origins */
	unsigned references;
	struct list queues[FETCH_PRIORITIES];
	unsigned running, stuck;
	/* What was queued before that ends with that class. */
	uint64_t dead_ms;
	enum fetch_class dead_class;
	atomic_uint answer_ms; /* it usually takes so long to answer */
	/* http: all the transfer thread's. */
	uint64_t bytes_ms;  /* when any came last */
	struct list spools; /* the newest last */
	unsigned ranges;    /* right answers to ranges, up to RANGES_TRUSTED */
	struct job *trial;  /* whose answer says whether there are ranges */
	uint64_t trial_until_ms;
	bool is_named_rangeless;
	/* Guarded by lock, taken after the fetcher's. */
	pthread_mutex_t lock;
	struct origin_health health;
};

struct fetcher {
	/* Constant. */
	uint32_t connect_timeout_ms, silence_timeout_ms;
	uint32_t hold_ms, hold_max_ms;
	unsigned max_connections, max_all_connections;
	struct proxies proxies;
	char *ca_file, *cert_file, *cert_key_file, *spool_dir;
	CURLM *multi; /* the transfer thread's, but for wake-ups */
	CURLSH *share;
	pthread_t thread;

	/* The transfer thread's. */
	struct list exchanges;	    /* running */
	struct list idle_exchanges; /* to be used again */
	unsigned idle_count;
	uint64_t spools_off_ms; /* no disk for them until then */
	uint64_t trim_ms;	/* when to look at kept ones; 0: none */

	/* Readers are in need of the link until then. */
	_Atomic uint64_t needed_ms;

	pthread_mutex_t lock;
	struct hold hold;
	pthread_cond_t file_work;    /* a file to read, or closing */
	pthread_cond_t threads_gone; /* file_threads is 0 */
	unsigned references;	     /* origins, file threads, the opener */
	struct list origins;
	struct list jobs;
	unsigned active; /* jobs and stillborn requests whose done is due */
	struct fetch_request *stillborn; /* failed in fetch_start; by private */
	bool is_closing, is_woken;
	uint64_t next_look_ms;		  /* no job's time is over before */
	unsigned file_threads, file_idle; /* stuck ones are not counted */
	unsigned file_queued;
};

/* fetch.c */
void fetcher_wake(struct fetcher *fetcher); /* under the lock */
void fetcher_unref(struct fetcher *fetcher);
void origin_unref(struct origin *origin);

/* job.c */
/* For a request of fetch/'s own that is under way already; NULL on ENOMEM. */
struct job *job_new_running(struct fetch_request *request);
/* Call done and forget the job; class and words go into the request, whose
 * other answer fields are filled already. */
void job_finish(struct job *job, enum fetch_class class, const struct err *err);
void job_put(struct job *job);
/* Under the lock: some job's time may be over then. True: earlier than known,
 * so a sleeping transfer thread must be woken. */
bool look_by(struct fetcher *fetcher, uint64_t ms);
struct fetch_request *stillborn_take(struct fetcher *fetcher);
void stillborn_finish(struct fetcher *fetcher, struct fetch_request *request);
/* Bytes of an accepted answer have come: an unreachable origin is back. */
void job_alive(struct job *job);
/* The first byte of an answer came so long after it was asked for. */
void origin_answered(struct origin *origin, uint64_t took_ms);
/* Memory for a body of known size, from the pool if there is one; NULL on
 * ENOMEM. */
uint8_t *body_new(struct pool *pool, size_t len);
void body_free(struct pool *pool, uint8_t *body, size_t len);
/* "10 s", "0.5 s". */
#define SECONDS_MAX 32
const char *seconds_text(uint64_t ms, char ret_text[SECONDS_MAX]);

/* hold-jobs.c */
/* Somebody waits for bytes of this job, which begins or moves. */
void hold_note(const struct job *job, uint64_t now_ms);
/* Under the lock: is prefetch to stand still now? */
bool hold_is_on(struct fetcher *fetcher, uint64_t now_ms);
/* By the transfer thread: this one is to, from now on. */
bool hold_begin(struct job *job);
/* By the transfer thread: one that may move again, or NULL. */
struct job *hold_end(struct fetcher *fetcher);

/* origins.c */
bool origin_is_good(struct origin *origin);

/* admit.c */
/* The next job of an origin that may run now, made RUNNING, or NULL: limit
 * counts those of this origin, all_running and all_limit those of all. Under
 * the lock. */
struct job *origin_admit(struct origin *origin, unsigned limit,
			 unsigned all_running, unsigned all_limit);
/* A server that was asked for ranges and sent some in a row is trusted to do
 * so; until then one request at a time, or up to TRIAL_MS, finds out. */
#define RANGES_TRUSTED 4
#define TRIAL_MS 1000
/* Under the lock: its answer was judged, or will never come. */
void job_trial_end(struct job *job);

/* expiry.c */
/* When a new job's time can be over at the earliest. */
uint64_t job_first_look(const struct fetcher *fetcher, const struct job *job);
/* Jobs whose time is over or that were canceled: taken out of their state
 * and chained by next_ended. */
struct job *jobs_expire(struct fetcher *fetcher, uint64_t now_ms);
/* By the transfer thread: one whose about_others is to be called, or NULL. */
struct job *job_to_tell(struct fetcher *fetcher);
/* For how long nothing may come, if it could be had elsewhere. */
uint32_t job_patience_ms(const struct job *job);

/* transfer.c */
/* multi and share. */
int transfers_open(struct fetcher *fetcher, struct err *err);
void transfers_release(struct fetcher *fetcher);
void *transfers_main(void *fetcher);

/* files.c */
/* Under the lock: make sure that a thread will look at the queues. */
void files_wake(struct origin *origin);
/* Under the lock, by the transfer thread: the job's thread is stuck. */
void files_abandon(struct job *job);

#endif
