/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_RECENT_H
#define LARDER_DATASET_RECENT_H

#include <stdint.h>

struct flight;

/* Chunks that no cache took, kept in memory for a while, the oldest dropped
 * first: without them readahead would be thrown away before it is read. */
struct recent;

struct recent *recent_new(uint64_t limit_bytes);
void recent_free(struct recent *recent);
void recent_keep(struct recent *recent, struct flight *flight);
void recent_clear(struct recent *recent);

#endif
