/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_TICKER_H
#define LARDER_PUBLISH_TICKER_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct lease;

/*
 * What happens beside the work: the lease is renewed, progress is
 * shown, a signal is noticed.
 */
struct ticker_options {
	struct lease *lease;		   /* NULL: none */
	const volatile sig_atomic_t *stop; /* may be NULL */
	void (*tick)(void *arg);	   /* may be NULL */
	/* Once, when the run must end: -ESTALE the lease is lost, -ECANCELED
	 * stopped. */
	void (*fail)(void *arg, int result, const struct err *err);
	void *arg;
};

struct ticker;

int ticker_start(const struct ticker_options *options, struct ticker **ret,
		 struct err *err);
/* Joins its thread. NULL is fine. */
void ticker_stop(struct ticker *ticker);

#endif
