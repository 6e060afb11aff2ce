/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks without a cache. A queue and no order of use: what a broken or
 * missing cache costs is bounded memory and some refetching, and a reader
 * that comes back within the queue's length finds its chunk.
 */
#include <config.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "dataset/flight.h"
#include "dataset/recent.h"

struct recent {
	pthread_mutex_t lock; /* guards all below */
	struct flight *first, **last;
	uint64_t bytes, limit_bytes;
};

struct recent *recent_new(uint64_t limit_bytes)
{
	struct recent *recent = calloc(1, sizeof(*recent));

	if (!recent)
		return NULL;
	pthread_mutex_init(&recent->lock, NULL);
	recent->last = &recent->first;
	recent->limit_bytes = limit_bytes;
	return recent;
}

static struct flight *take_oldest(struct recent *recent, uint64_t limit_bytes)
{
	struct flight *flight;

	scoped_lock(&recent->lock);
	flight = recent->first;
	if (!flight || recent->bytes <= limit_bytes)
		return NULL;
	recent->first = flight->next_recent;
	if (!recent->first)
		recent->last = &recent->first;
	recent->bytes -= flight->length;
	flight->is_recent = false;
	return flight;
}

static void shrink(struct recent *recent, uint64_t limit_bytes)
{
	struct flight *flight;

	while ((flight = take_oldest(recent, limit_bytes)))
		flight_unref(flight);
}

void recent_keep(struct recent *recent, struct flight *flight)
{
	pthread_mutex_lock(&recent->lock);
	if (!flight->is_recent) {
		flight->is_recent = true;
		flight->next_recent = NULL;
		*recent->last = flight_ref(flight);
		recent->last = &flight->next_recent;
		recent->bytes += flight->length;
	}
	pthread_mutex_unlock(&recent->lock);
	shrink(recent, recent->limit_bytes);
}

void recent_clear(struct recent *recent)
{
	shrink(recent, 0);
}

void recent_free(struct recent *recent)
{
	if (!recent)
		return;
	recent_clear(recent);
	pthread_mutex_destroy(&recent->lock);
	free(recent);
}
