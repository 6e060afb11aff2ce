/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of readahead and prefetch that a reader waits for by now.
 *
 * A reader who wants a chunk that is on its way already joins its flight.
 * The flight does not know its job, which is split, retried and freed as it
 * goes; so the jobs whose request is under way below demand are listed here
 * and numbered, and a flight knows the number of its last one.
 */
#include <config.h>

#include "base/cleanup.h"
#include "dataset/chunk.h"

static void unlist(struct chunk_job *job)
{
	if (!job->low_at)
		return;
	*job->low_at = job->low_next;
	if (job->low_next)
		job->low_next->low_at = job->low_at;
	job->low_at = NULL;
}

static void list(struct node *node, struct chunk_job *job)
{
	job->low_next = node->low_jobs;
	job->low_at = &node->low_jobs;
	if (job->low_next)
		job->low_next->low_at = &job->low_next;
	node->low_jobs = job;
}

static bool is_demanded(const struct chunk_job *job)
{
	for (uint32_t i = 0; i < job->count; i++)
		if (atomic_load(&job->chunks[i].flight->is_demanded))
			return true;
	return false;
}

bool chunk_request_start(struct chunk_job *job)
{
	struct node *node = job->node;

	/* Listed before anybody can see the end of it. */
	scoped_lock(&node->low_lock);
	if (is_demanded(job))
		job->request.priority = FETCH_DEMAND;
	job->low_number = ++node->low_number;
	for (uint32_t i = 0; i < job->count; i++)
		job->chunks[i].flight->low_number = job->low_number;
	if (!node_fetch(node, &job->request))
		return false;
	if (job->request.priority != FETCH_DEMAND)
		list(node, job);
	return true;
}

void chunk_request_ended(struct chunk_job *job)
{
	scoped_lock(&job->node->low_lock);
	unlist(job);
}

void chunk_raise(struct flight *flight)
{
	struct node *node = flight->node;
	struct chunk_job *job;

	if (atomic_exchange(&flight->is_demanded, true))
		return;
	scoped_lock(&node->low_lock);
	job = node->low_jobs;
	while (job && job->low_number != flight->low_number)
		job = job->low_next;
	if (!job)
		return;
	fetch_raise(node->fetcher, &job->request, FETCH_DEMAND);
	unlist(job);
}
