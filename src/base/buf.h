/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_BUF_H
#define LARDER_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

/*
 * Growable bytes with a mandatory maximum, so that no input can make us
 * allocate without bound. Not thread-safe.
 */
struct buf {
	uint8_t *data;
	size_t len;
	size_t capacity;
	size_t limit;
};

void buf_init(struct buf *buf, size_t limit_bytes);
void buf_release(struct buf *buf);   /* frees; the limit stays */
void buf_clear(struct buf *buf);     /* len = 0, memory kept */
/* -ENOMEM, or -EFBIG past the limit; the contents stay as they were. */
int buf_reserve(struct buf *buf, size_t capacity);
int buf_append(struct buf *buf, const void *data, size_t len);
int buf_append_zeros(struct buf *buf, size_t len);
int buf_printf(struct buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Hand the memory to the caller, who frees it with free(). */
uint8_t *buf_steal(struct buf *buf, size_t *ret_len);

#endif
