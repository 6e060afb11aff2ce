/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that wakes five times a second. A renewal that fails for another
 * reason than a lost lease (a full disk, a server that is away) does not
 * end the run: the next one may succeed, and the work itself meets the
 * same trouble soon enough.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "publish/lease.h"
#include "publish/ticker.h"

#define TICK_MS 200u

struct ticker {
	struct ticker_options options;
	pthread_t thread;
	pthread_mutex_t mutex; /* guards is_over */
	pthread_cond_t over;
	bool is_over;
	bool has_failed; /* the thread's own */
	uint64_t next_renewal_ms;
};

static void fail_once(struct ticker *ticker, int result, const struct err *err)
{
	if (ticker->has_failed)
		return;
	ticker->has_failed = true;
	ticker->options.fail(ticker->options.arg, result, err);
}

static void run_tick(struct ticker *ticker)
{
	const struct ticker_options *options = &ticker->options;
	struct err err = {0};

	if (options->stop && *options->stop)
		fail_once(ticker,
			  err_set(&err, ECANCELED, "stopped by a signal"),
			  &err);
	if (options->lease && now_ms() >= ticker->next_renewal_ms) {
		int r = lease_renew(options->lease, &err);

		if (r == -ESTALE)
			fail_once(ticker, r, &err);
		ticker->next_renewal_ms = now_ms() + LEASE_RENEW_S * 1000;
	}
	if (options->tick)
		options->tick(options->arg);
}

/* True when the ticker is to end. */
static bool wait_for_tick(struct ticker *ticker)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += TICK_MS * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	scoped_lock(&ticker->mutex);
	while (!ticker->is_over)
		if (pthread_cond_timedwait(&ticker->over, &ticker->mutex,
					   &until) == ETIMEDOUT)
			break;
	return ticker->is_over;
}

static void *run_ticker(void *arg)
{
	struct ticker *ticker = arg;

	while (!wait_for_tick(ticker))
		run_tick(ticker);
	return NULL;
}

int ticker_start(const struct ticker_options *options, struct ticker **ret,
		 struct err *err)
{
	struct ticker *ticker = calloc(1, sizeof(*ticker));
	pthread_condattr_t attributes;
	int r;

	if (!ticker)
		return err_set(err, ENOMEM, "out of memory");
	ticker->options = *options;
	ticker->next_renewal_ms = now_ms() + LEASE_RENEW_S * 1000;
	pthread_mutex_init(&ticker->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&ticker->over, &attributes);
	pthread_condattr_destroy(&attributes);
	r = pthread_create(&ticker->thread, NULL, run_ticker, ticker);
	if (r != 0) {
		pthread_mutex_destroy(&ticker->mutex);
		pthread_cond_destroy(&ticker->over);
		free(ticker);
		return err_set(err, r, "cannot start a thread: %s",
			       strerror(r));
	}
	*ret = ticker;
	return 0;
}

void ticker_stop(struct ticker *ticker)
{
	if (!ticker)
		return;
	pthread_mutex_lock(&ticker->mutex);
	ticker->is_over = true;
	pthread_cond_signal(&ticker->over);
	pthread_mutex_unlock(&ticker->mutex);
	pthread_join(ticker->thread, NULL);
	pthread_mutex_destroy(&ticker->mutex);
	pthread_cond_destroy(&ticker->over);
	free(ticker);
}
