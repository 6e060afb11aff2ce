/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of a read. What they lie in is held until the result is released:
 * flights for chunks in memory, the blob once for all stretches of its cache
 * file. A result has room for so many pieces; a file of tiny chunks needs more,
 * and then they are copied into one.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "dataset/blob.h"
#include "dataset/flight.h"
#include "dataset/read-result.h"

#define HELD_FLIGHT ((uintptr_t)1)

static void unhold(void *held)
{
	if ((uintptr_t)held & HELD_FLIGHT)
		flight_unref((struct flight *)((uintptr_t)held & ~HELD_FLIGHT));
	else
		object_unref(held);
}

void read_result_release(struct read_result *result)
{
	for (unsigned i = 0; i < result->held_count; i++)
		unhold(result->held[i]);
	result->held_count = result->count = 0;
	result->len = 0;
}

void read_result_failed(struct read_result *result, struct waiter *waiter)
{
	read_result_release(result);
	waiter->distrusts_files = true;
}

struct gathered {
	struct object object;
	uint8_t data[];
};

static void free_gathered(struct object *object)
{
	free(object);
}

static int copy_pieces(const struct read_result *result, uint8_t *to)
{
	for (unsigned i = 0; i < result->count; i++) {
		const struct read_piece *piece = &result->pieces[i];
		ssize_t n = (ssize_t)piece->len;

		if (piece->fd < 0)
			memcpy(to, piece->memory, piece->len);
		else
			n = pread_full(piece->fd, to, piece->len,
				       piece->fd_offset);
		if (n != (ssize_t)piece->len)
			return -EAGAIN;
		to += piece->len;
	}
	return 0;
}

static struct gathered *gathered_new(size_t len)
{
	struct gathered *gathered = malloc(sizeof(*gathered) + len);
	struct object_key key = {0};

	if (gathered)
		object_init(&gathered->object, &key, 0, free_gathered);
	return gathered;
}

/* Make one piece of all so far. -EAGAIN: a file failed. */
static int gather(struct read_result *result)
{
	size_t len = result->len;
	struct gathered *gathered = gathered_new(len);
	int r;

	if (!gathered)
		return -ENOMEM;
	r = copy_pieces(result, gathered->data);
	if (r < 0) {
		object_unref(&gathered->object);
		return r;
	}
	read_result_release(result);
	result->pieces[result->count++] = (struct read_piece){
		.fd = -1,
		.memory = gathered->data,
		.len = len,
	};
	result->held[result->held_count++] = gathered;
	result->len = len;
	return 0;
}

void read_result_cut(struct read_result *result, size_t len)
{
	while (result->len > len) {
		struct read_piece *last = &result->pieces[result->count - 1];
		size_t excess = result->len - len;

		if (last->len > excess) {
			last->len -= excess;
			result->len = len;
			return;
		}
		result->len -= last->len;
		result->count--;
	}
}

static int make_room(struct read_result *result)
{
	if (result->count < READ_PIECES_MAX &&
	    result->held_count < READ_PIECES_MAX)
		return 0;
	return gather(result);
}

int read_result_add(struct read_result *result, const void *memory, size_t len,
		    struct flight *flight)
{
	int r = make_room(result);

	if (r < 0)
		return r;
	result->pieces[result->count++] = (struct read_piece){
		.fd = -1,
		.memory = memory,
		.len = len,
	};
	result->len += len;
	if (flight)
		result->held[result->held_count++] =
			(void *)((uintptr_t)flight_ref(flight) | HELD_FLIGHT);
	return 0;
}

int read_result_add_file(struct read_result *result, struct blob *blob, int fd,
			 uint64_t fd_offset, size_t len)
{
	struct read_piece *last =
		result->count ? &result->pieces[result->count - 1] : NULL;
	int r;

	if (last && last->fd == fd &&
	    last->fd_offset + last->len == fd_offset) {
		last->len += len;
		result->len += len;
		return 0;
	}
	r = make_room(result);
	if (r < 0)
		return r;
	if (result->held_count == 0 || result->held[0] != blob) {
		result->held[result->held_count++] = blob_ref(blob);
		/* kept first, so that one reference serves all pieces */
		if (result->held_count > 1) {
			void *other = result->held[0];

			result->held[0] = blob;
			result->held[result->held_count - 1] = other;
		}
	}
	result->pieces[result->count++] = (struct read_piece){
		.fd = fd,
		.fd_offset = fd_offset,
		.len = len,
	};
	result->len += len;
	return 0;
}

int read_result_add_copy(struct read_result *result, int fd, uint64_t fd_offset,
			 size_t len)
{
	struct gathered *gathered = gathered_new(len);
	int r = 0;

	if (!gathered)
		return -ENOMEM;
	if (pread_full(fd, gathered->data, len, fd_offset) == (ssize_t)len)
		r = read_result_add(result, gathered->data, len, NULL) ?: 1;
	if (r == 1)
		result->held[result->held_count++] = gathered;
	else
		object_unref(&gathered->object);
	return r;
}
