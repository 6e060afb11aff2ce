/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_BASE_VEC_H
#define LARDER_BASE_VEC_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Typed growable array: `VEC(struct thing) things = {0};`. Elements are
 * moved when it grows: keep indexes, not pointers.
 */
#define VEC(type)                                                             \
	struct {                                                              \
		type *items;                                                  \
		size_t count;                                                 \
		size_t capacity;                                              \
	}

/* Make room for one more and return its address (zeroed), or NULL. */
#define vec_push(vec)                                                         \
	((vec)->count < (vec)->capacity ||                                    \
			 vec_grow_((void **)&(vec)->items, &(vec)->capacity,  \
				   sizeof(*(vec)->items)) == 0 ?              \
		 memset(&(vec)->items[(vec)->count++], 0,                     \
			sizeof(*(vec)->items)) :                              \
		 NULL)

#define vec_release(vec)                                                      \
	do {                                                                  \
		free((vec)->items);                                           \
		memset((vec), 0, sizeof(*(vec)));                             \
	} while (0)

static inline int vec_grow_(void **items, size_t *capacity, size_t size)
{
	size_t wanted = *capacity ? *capacity * 2 : 8;
	void *grown = reallocarray(*items, wanted, size);

	if (!grown)
		return -ENOMEM;
	*items = grown;
	*capacity = wanted;
	return 0;
}

#endif
