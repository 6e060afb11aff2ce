/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_SPOOL_H
#define LARDER_FETCH_SPOOL_H

#include "fetch/exchange.h"

/*
 * The whole body of a file whose server ignores ranges, on its way into a
 * nameless file on the disk. One pass of it serves every range of the file that
 * is asked for, now and later. The transfer thread's.
 */

/* The spool a ranged request may be served from, or NULL. */
struct spool *spool_find(struct job *job);
/* The exchange's answer is a whole body instead of the range: it becomes a
 * spool with a job of its own, and the exchange's job rides on it, as it does
 * where there is one already. False: no disk for it. */
bool spool_begin(struct exchange *exchange);
/* A job that was admitted to ride. */
void spool_join(struct job *job);
/* -errno: it cannot be kept. */
int spool_write(struct spool *spool, const void *data, size_t len);
/* End the jobs whose ranges are complete. */
void spool_serve(struct spool *spool);
/* Give up the oldest past the limit, and those not used for long. */
void spools_trim(struct fetcher *fetcher);
/* Of an origin that nobody uses any more. */
void spools_release(struct origin *origin);

#endif
