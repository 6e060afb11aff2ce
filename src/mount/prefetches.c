/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetches on behalf of those who may read but do not own the cache. They
 * share a disk with everybody, so they are bounded in number, run one after
 * the other, and evict nothing that was used in the last hour.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mount/prefetches.h"

/* What others used lately is not given up for somebody's plans. */
#define SPARE_S 3600u
#define GLOBS_MAX 256u

enum job_state { JOB_FREE, JOB_QUEUED, JOB_RUNNING, JOB_ENDED };

struct prefetch_job {
	struct prefetches *all;
	enum job_state state;
	uint64_t number; /* in the order of their arrival */
	uid_t uid;
	struct snapshot *snapshot; /* counted while queued */
	uint64_t root, limit_rate;
	uint32_t flags;
	char *text; /* of the patterns */
	const char **globs;
	size_t glob_count;
	struct prefetch *prefetch; /* once started */
	int result;		   /* it could not be started, or was stopped */
};

struct prefetches {
	pthread_mutex_t lock; /* guards all below */
	uid_t owner;
	uint64_t last_number;
	uid_t last_uid;
	bool is_closing;
	struct prefetch_job jobs[PREFETCHES_MAX];
};

static void start_next(struct prefetches *all);

int prefetches_new(uid_t owner, struct prefetches **ret)
{
	struct prefetches *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	pthread_mutex_init(&all->lock, NULL);
	all->owner = owner;
	all->last_uid = (uid_t)-1;
	*ret = all;
	return 0;
}

static void job_clear(struct prefetch_job *job)
{
	prefetch_free(job->prefetch);
	snapshot_unref(job->snapshot);
	free(job->text);
	free(job->globs);
	*job = (struct prefetch_job){0};
}

/* ---- requests */

static int take_globs(struct prefetch_job *job,
		      const struct larder_prefetch *request)
{
	size_t at = 0;

	if (request->glob_count > GLOBS_MAX)
		return -EINVAL;
	job->text = malloc(sizeof(request->globs));
	job->globs = calloc(request->glob_count + 1, sizeof(*job->globs));
	if (!job->text || !job->globs)
		return -ENOMEM;
	memcpy(job->text, request->globs, sizeof(request->globs));
	for (uint32_t i = 0; i < request->glob_count; i++) {
		size_t left = sizeof(request->globs) - at;
		size_t len = strnlen(job->text + at, left);

		if (len == left || len == 0)
			return -EINVAL;
		job->globs[i] = job->text + at;
		at += len + 1;
	}
	job->glob_count = request->glob_count;
	return 0;
}

/* A place for one more of this user's: free, or that of the oldest that has
 * ended. */
static int find_place(struct prefetches *all, uid_t uid,
		      struct prefetch_job **ret)
{
	struct prefetch_job *found = NULL;
	unsigned open = 0;

	for (unsigned i = 0; i < PREFETCHES_MAX; i++) {
		struct prefetch_job *job = &all->jobs[i];

		if (job->state == JOB_QUEUED || job->state == JOB_RUNNING)
			open += job->uid == uid;
		else if (!found || job->state < found->state ||
			 (job->state == found->state &&
			  job->number < found->number))
			found = job;
	}
	if (!found || open >= PREFETCHES_PER_UID)
		return -EAGAIN;
	*ret = found;
	return 0;
}

static int add(struct prefetches *all, uid_t uid, struct snapshot *snapshot,
	       uint64_t number, struct larder_prefetch *request,
	       struct prefetch_job *replaced)
{
	struct prefetch_job *job;
	struct prefetch_job filled = {
		.all = all,
		.state = JOB_QUEUED,
		.uid = uid,
		.root = number,
		.limit_rate = request->limit_rate,
		.flags = request->flags,
	};
	int r = take_globs(&filled, request);

	scoped_lock(&all->lock);
	if (r == 0)
		r = all->is_closing ? -ESHUTDOWN : find_place(all, uid, &job);
	if (r < 0) {
		*replaced = filled;
		return r;
	}
	*replaced = *job;
	filled.number = ++all->last_number;
	filled.snapshot = snapshot_ref(snapshot);
	*job = filled;
	request->job = filled.number;
	return 0;
}

int prefetches_add(struct prefetches *all, uid_t uid, struct snapshot *snapshot,
		   uint64_t number, struct larder_prefetch *request)
{
	struct prefetch_job replaced;
	int r;

	if (request->flags & ~LARDER_PREFETCH_DRY_RUN)
		return -EINVAL;
	r = add(all, uid, snapshot, number, request, &replaced);
	job_clear(&replaced);
	if (r == 0)
		start_next(all);
	return r;
}

/* ---- turns */

static void on_end(void *arg)
{
	struct prefetch_job *job = arg;
	struct prefetches *all = job->all;

	pthread_mutex_lock(&all->lock);
	job->state = JOB_ENDED;
	pthread_mutex_unlock(&all->lock);
	start_next(all);
}

/* The first that is queued, of another user than the last if there is one;
 * NULL while one runs. */
static struct prefetch_job *choose(const struct prefetches *all)
{
	const struct prefetch_job *found = NULL;

	for (unsigned i = 0; i < PREFETCHES_MAX; i++) {
		const struct prefetch_job *job = &all->jobs[i];
		bool is_same = job->uid == all->last_uid;

		if (job->state == JOB_RUNNING)
			return NULL;
		if (job->state != JOB_QUEUED)
			continue;
		if (!found || (found->uid == all->last_uid && !is_same) ||
		    ((found->uid == all->last_uid) == is_same &&
		     job->number < found->number))
			found = job;
	}
	return (struct prefetch_job *)found;
}

static int start(struct prefetches *all, struct prefetch_job *job)
{
	const struct prefetch_options options = {
		.selection =
			{
				.snapshot = job->snapshot,
				.root = job->root,
				.globs = job->globs,
				.glob_count = job->glob_count,
			},
		.limit_bytes_per_s = job->limit_rate,
		.is_dry_run = job->flags & LARDER_PREFETCH_DRY_RUN,
		.spare_s =
			job->uid == 0 || job->uid == all->owner ? 0 : SPARE_S,
		.ended = on_end,
		.arg = job,
	};

	return prefetch_start(&options, &job->prefetch, NULL);
}

/* Its thread may end before prefetch_start has returned, and waits for the
 * lock then. */
static void start_next(struct prefetches *all)
{
	struct prefetch_job *job;

	scoped_lock(&all->lock);
	while (!all->is_closing && (job = choose(all))) {
		job->state = JOB_RUNNING;
		all->last_uid = job->uid;
		job->result = start(all, job);
		snapshot_unref(steal_ptr(job->snapshot));
		if (job->result == 0)
			return;
		job->state = JOB_ENDED;
	}
}

/* ---- questions */

static struct prefetch_job *find(struct prefetches *all, uid_t uid,
				 uint64_t number)
{
	for (unsigned i = 0; i < PREFETCHES_MAX; i++) {
		struct prefetch_job *job = &all->jobs[i];

		if (job->state != JOB_FREE && job->number == number &&
		    (uid == 0 || uid == all->owner || job->uid == uid))
			return job;
	}
	return NULL;
}

static void copy_info(const struct prefetch_info *info,
		      struct larder_prefetch_state *ret)
{
	ret->state = LARDER_PREFETCH_LISTING + (unsigned)info->state;
	ret->result = info->result;
	ret->files = info->files;
	ret->files_done = info->files_done;
	ret->files_failed = info->files_failed;
	ret->bytes = info->bytes;
	ret->bytes_done = info->bytes_done;
	ret->bytes_at_start = info->bytes_at_start;
	ret->wire_bytes = info->wire_bytes;
	ret->room_bytes = info->room_bytes;
	ret->stalled_ms = info->stalled_ms;
	snprintf(ret->reason, sizeof(ret->reason), "%s", info->reason);
	snprintf(ret->error, sizeof(ret->error), "%s", info->err.text);
	for (unsigned i = 0; i < info->origin_count; i++) {
		if (i == LARDER_PREFETCH_ORIGINS)
			break;
		snprintf(ret->origins[i].name, sizeof(ret->origins[i].name),
			 "%s", info->origins[i].name);
		ret->origins[i].wire_bytes = info->origins[i].wire_bytes;
		ret->origin_count = i + 1;
	}
}

int prefetches_look(struct prefetches *all, uid_t uid,
		    struct larder_prefetch_state *state)
{
	struct prefetch_info info;
	struct prefetch_job *job;

	scoped_lock(&all->lock);
	job = find(all, uid, state->job);
	if (!job)
		return -ENOENT;
	*state = (struct larder_prefetch_state){.job = job->number};
	if (job->prefetch) {
		prefetch_info(job->prefetch, &info);
		copy_info(&info, state);
		return 0;
	}
	if (job->state == JOB_ENDED) {
		state->state = LARDER_PREFETCH_ENDED;
		state->result = job->result;
		snprintf(state->error, sizeof(state->error), "%s",
			 strerror(-job->result));
	}
	return 0;
}

int prefetches_stop(struct prefetches *all, uid_t uid, uint64_t number)
{
	struct prefetch_job *job;

	scoped_lock(&all->lock);
	job = find(all, uid, number);
	if (!job)
		return -ENOENT;
	if (job->prefetch)
		prefetch_cancel(job->prefetch);
	if (job->state != JOB_QUEUED)
		return 0;
	job->state = JOB_ENDED;
	job->result = -ECANCELED;
	snapshot_unref(steal_ptr(job->snapshot));
	return 0;
}

void prefetches_close(struct prefetches *all)
{
	if (!all)
		return;
	scoped_lock(&all->lock);
	all->is_closing = true;
	for (unsigned i = 0; i < PREFETCHES_MAX; i++) {
		struct prefetch_job *job = &all->jobs[i];

		if (job->prefetch)
			prefetch_cancel(job->prefetch);
		snapshot_unref(steal_ptr(job->snapshot));
	}
}

void prefetches_free(struct prefetches *all)
{
	if (!all)
		return;
	for (unsigned i = 0; i < PREFETCHES_MAX; i++)
		job_clear(&all->jobs[i]);
	pthread_mutex_destroy(&all->lock);
	free(all);
}
