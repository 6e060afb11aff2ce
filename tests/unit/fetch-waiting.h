/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_FETCH_WAITING_H
#define LARDER_TESTS_FETCH_WAITING_H

#include <pthread.h>

#include "fetch/fetch.h"

/* The test's: who fetches, and from where. */
extern struct fetcher *fetcher;
extern struct origin *origin;

/* A request and somebody who waits for it. */
struct waiting {
	struct fetch_request request;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
	/* what progress saw */
	const uint8_t *body;
	size_t len;
	bool has_moved;
	unsigned calls;
};

void prepare(struct waiting *waiting, const char *path);
void prepare_range(struct waiting *waiting, const char *path, uint64_t offset,
		   uint64_t len);
void start(struct waiting *waiting);
void note_done(struct fetch_request *request);
void wait_for(struct waiting *waiting);
void run(struct waiting *waiting);

#endif
