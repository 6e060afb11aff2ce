/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_POOL_H
#define LARDER_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Memory for chunks and for bodies that hold chunks. It is kept for reuse while
 * what is in use and what is idle come to no more than keep_bytes. Any thread
 * may call. */
struct pool;

#define POOL_BYTES_MAX (8u << 20)

struct pool *pool_new(uint64_t keep_bytes);
void pool_free(struct pool *pool);
/* NULL when there is no memory. len at most POOL_BYTES_MAX. */
uint8_t *pool_get(struct pool *pool, size_t len);
/* len as it was asked for. */
void pool_put(struct pool *pool, uint8_t *data, size_t len);
/* Give idle memory back to the system. */
void pool_trim(struct pool *pool);

#endif
