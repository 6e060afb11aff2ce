/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_PARALLEL_H
#define LARDER_PUBLISH_PARALLEL_H

#include <stddef.h>

#include "base/err.h"

/*
 * Call work(arg, index, err) for every index below count, on up to `threads`
 * threads. The first failure stops what has not begun; it is returned with
 * its text.
 */
int parallel_for(size_t count, unsigned int threads,
		 int (*work)(void *arg, size_t index, struct err *err),
		 void *arg, struct err *err);

/* Processors this process may use. */
unsigned int processor_count(void);

#endif
