/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_INTERNER_H
#define LARDER_FORMAT_INTERNER_H

#include <stddef.h>
#include <stdint.h>

/*
 * Distinct byte strings, numbered in the order they came. The caller keeps
 * the bytes alive until interner_clear. All zero is an empty one.
 */
struct interner {
	struct interned {
		const void *data;
		uint32_t len;
		uint32_t hash;
		uint32_t offset; /* the caller's: where it was stored */
	} *items;
	uint32_t *slots; /* item + 1, or 0 */
	size_t count, capacity, slot_count;
};

/* 1 if it is new, 0 if not, or -ENOMEM. */
int interner_add(struct interner *interner, const void *data, uint32_t len,
		 uint32_t *ret_item);
void interner_clear(struct interner *interner); /* memory is kept */
void interner_release(struct interner *interner);

#endif
