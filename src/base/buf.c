/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable bytes with a mandatory maximum. Capacity doubles, capped at the
 * limit, so that a body of known size is one allocation (buf_reserve) and
 * one of unknown size a few.
 */
#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Below this, growing costs more calls than it saves memory. */
#define FIRST_CAPACITY 256

void buf_init(struct buf *buf, size_t limit_bytes)
{
	*buf = (struct buf){ .limit = limit_bytes };
}

void buf_release(struct buf *buf)
{
	size_t limit = buf->limit;

	free(buf->data);
	*buf = (struct buf){ .limit = limit };
}

void buf_clear(struct buf *buf)
{
	buf->len = 0;
}

int buf_reserve(struct buf *buf, size_t capacity)
{
	uint8_t *grown;

	if (capacity > buf->limit)
		return -EFBIG;
	if (capacity <= buf->capacity)
		return 0;
	grown = realloc(buf->data, capacity);
	if (!grown)
		return -ENOMEM;
	buf->data = grown;
	buf->capacity = capacity;
	return 0;
}

/* Room for len more bytes, growing by doubling. */
static int make_room(struct buf *buf, size_t len)
{
	size_t needed, wanted;

	if (len > buf->limit - buf->len)
		return -EFBIG;
	needed = buf->len + len;
	if (needed <= buf->capacity)
		return 0;
	wanted = buf->capacity < buf->limit / 2 ? buf->capacity * 2 :
						  buf->limit;
	if (wanted < FIRST_CAPACITY)
		wanted = FIRST_CAPACITY;
	if (wanted < needed)
		wanted = needed;
	if (wanted > buf->limit)
		wanted = buf->limit;
	return buf_reserve(buf, wanted);
}

int buf_append(struct buf *buf, const void *data, size_t len)
{
	int r = make_room(buf, len);

	if (r < 0)
		return r;
	if (len > 0)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	return 0;
}

int buf_append_zeros(struct buf *buf, size_t len)
{
	int r = make_room(buf, len);

	if (r < 0)
		return r;
	if (len > 0)
		memset(buf->data + buf->len, 0, len);
	buf->len += len;
	return 0;
}

int buf_printf(struct buf *buf, const char *format, ...)
{
	char small[256];
	char *text = small;
	va_list args;
	int len, r;

	va_start(args, format);
	len = vsnprintf(small, sizeof(small), format, args);
	va_end(args);
	if (len < 0)
		return -EINVAL;
	if ((size_t)len > buf->limit - buf->len)
		return -EFBIG;
	if ((size_t)len >= sizeof(small)) {
		text = malloc((size_t)len + 1);
		if (!text)
			return -ENOMEM;
		va_start(args, format);
		vsnprintf(text, (size_t)len + 1, format, args);
		va_end(args);
	}
	r = buf_append(buf, text, (size_t)len);
	if (text != small)
		free(text);
	return r;
}

uint8_t *buf_steal(struct buf *buf, size_t *ret_len)
{
	uint8_t *data = buf->data;
	size_t limit = buf->limit;

	if (ret_len)
		*ret_len = buf->len;
	*buf = (struct buf){ .limit = limit };
	return data;
}
