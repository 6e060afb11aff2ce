/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that another process is fetching into the same cache. One thread
 * sleeps until any process recorded or gave up something and then looks:
 *
 *   recorded      the flight has ended, readers find it in the cache
 *   claim free    ours now: the other failed, died, or had a full disk
 *   no progress   for 5 s: overtaken, a counted second download
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/thread.h"
#include "cache/cache.h"
#include "dataset/chunk.h"
#include "dataset/demand.h"

#define OVERTAKE_MS 5000u
/* A wake-up may be missed between a look and the sleep. */
#define LOOK_AGAIN_MS 200u
/* Every record of any process wakes us: do not look more often than this. */
#define LOOK_PAUSE_MS 3u
/* Others are told that a reader waits, not more often than this. */
#define TELL_MS 100u

struct foreign {
	struct node *node;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t added;
	struct chunk_job *jobs;
	bool is_stopping;
	pthread_t thread;
};

static bool take_claim(struct chunk_job *job)
{
	struct flight *flight = job->chunks[0].flight;

	if (cache_claim(job->node->cache, &job->chunks[0].digest) != 1)
		return false;
	atomic_store(&flight->is_claimed, true);
	return true;
}

static bool is_stuck(struct chunk_job *job, uint64_t now)
{
	uint32_t progress =
		cache_progress_read(job->node->cache, &job->chunks[0].digest);

	if (progress != job->progress || job->progress_ms == 0) {
		job->progress = progress;
		job->progress_ms = now;
	}
	return now >= job->progress_ms + OVERTAKE_MS;
}

/* A prefetch there may stand still for readers, who might be ours. */
static void tell_wish(struct chunk_job *job, uint64_t now)
{
	struct flight *flight = job->chunks[0].flight;

	if ((job->priority != FETCH_DEMAND &&
	     !atomic_load(&flight->is_demanded)) ||
	    now < job->told_ms + TELL_MS)
		return;
	job->told_ms = now;
	demand_note(job->node);
	demand_want(job->node, &job->chunks[0].digest);
}

/* true: the job has gone on, or ended. */
static bool look(struct chunk_job *job)
{
	if (chunk_job_recheck(job, 0) == 1) {
		chunk_job_present(job);
		return true;
	}
	if (take_claim(job)) {
		if (chunk_job_recheck(job, 0) == 1)
			chunk_job_present(job);
		else
			chunk_job_proceed(job);
		return true;
	}
	tell_wish(job, now_ms());
	if (!is_stuck(job, now_ms()) && !atomic_load(&job->node->is_closing))
		return false;
	stats_add(job->node->stats, STAT_FLIGHTS_OVERTAKEN, 1);
	chunk_job_proceed(job);
	return true;
}

static struct chunk_job *take_jobs(struct foreign *foreign)
{
	scoped_lock(&foreign->lock);
	while (!foreign->jobs && !foreign->is_stopping)
		pthread_cond_wait(&foreign->added, &foreign->lock);
	return steal_ptr(foreign->jobs);
}

static void give_back(struct foreign *foreign, struct chunk_job *jobs)
{
	scoped_lock(&foreign->lock);
	while (jobs) {
		struct chunk_job *next = jobs->next;

		jobs->next = foreign->jobs;
		foreign->jobs = jobs;
		jobs = next;
	}
}

static void *foreign_thread(void *arg)
{
	struct foreign *foreign = arg;
	const struct timespec pause = {.tv_nsec = LOOK_PAUSE_MS * 1000000};
	struct chunk_job *jobs;

	while ((jobs = take_jobs(foreign))) {
		struct chunk_job *waiting = NULL;

		while (jobs) {
			struct chunk_job *job = jobs;

			jobs = job->next;
			if (look(job))
				continue;
			job->next = waiting;
			waiting = job;
		}
		if (!waiting)
			continue;
		give_back(foreign, waiting);
		cache_wait(foreign->node->cache, LOOK_AGAIN_MS);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int foreign_start(struct node *node, struct foreign **ret, struct err *err)
{
	struct foreign *foreign = calloc(1, sizeof(*foreign));
	int r;

	if (!foreign)
		return -ENOMEM;
	foreign->node = node;
	pthread_mutex_init(&foreign->lock, NULL);
	pthread_cond_init(&foreign->added, NULL);
	r = thread_start(&foreign->thread, 0, foreign_thread, foreign);
	if (r < 0) {
		free(foreign);
		return err_set(err, -r, "cannot start a thread");
	}
	pthread_setname_np(foreign->thread, "larder-foreign");
	*ret = foreign;
	return 0;
}

void foreign_add(struct foreign *foreign, struct chunk_job *job)
{
	scoped_lock(&foreign->lock);
	job->next = foreign->jobs;
	foreign->jobs = job;
	pthread_cond_signal(&foreign->added);
}

void foreign_stop(struct foreign *foreign)
{
	if (!foreign)
		return;
	pthread_mutex_lock(&foreign->lock);
	foreign->is_stopping = true;
	pthread_cond_signal(&foreign->added);
	pthread_mutex_unlock(&foreign->lock);
	pthread_join(foreign->thread, NULL);
	pthread_cond_destroy(&foreign->added);
	pthread_mutex_destroy(&foreign->lock);
	free(foreign);
}
