/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_POOL_H
#define LARDER_DATASET_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Memory for plain chunks. It is kept for reuse while what is in use and what is
 * idle come to no more than keep_bytes. */
struct pool;

struct pool *pool_new(uint64_t keep_bytes);
void pool_free(struct pool *pool);
/* NULL when there is no memory. len at most LIMIT_CHUNK_BYTES. */
uint8_t *pool_get(struct pool *pool, size_t len);
void pool_put(struct pool *pool, uint8_t *data, size_t len);
/* Give idle memory back to the system. */
void pool_trim(struct pool *pool);

#endif
