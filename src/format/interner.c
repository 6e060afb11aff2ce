/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte strings to small numbers. Open addressing over the numbers; clearing
 * keeps the memory, because one is filled and cleared for every catalog.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "format/digest.h"
#include "format/interner.h"

void interner_clear(struct interner *interner)
{
	interner->count = 0;
	if (interner->slots)
		memset(interner->slots, 0,
		       interner->slot_count * sizeof(*interner->slots));
}

void interner_release(struct interner *interner)
{
	free(interner->items);
	free(interner->slots);
	*interner = (struct interner){0};
}

static int interner_grow(struct interner *interner)
{
	size_t slot_count =
		interner->slot_count ? interner->slot_count * 2 : 64;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < interner->count; i++) {
		size_t at = interner->items[i].hash & (slot_count - 1);

		while (slots[at])
			at = (at + 1) & (slot_count - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(interner->slots);
	interner->slots = slots;
	interner->slot_count = slot_count;
	return 0;
}

int interner_add(struct interner *interner, const void *data, uint32_t len,
		 uint32_t *ret_item)
{
	uint32_t hash = (uint32_t)checksum_xxh3(data, len);
	size_t at;

	if (interner->count * 2 >= interner->slot_count) {
		int r = interner_grow(interner);

		if (r < 0)
			return r;
	}
	at = hash & (interner->slot_count - 1);
	for (; interner->slots[at];
	     at = (at + 1) & (interner->slot_count - 1)) {
		const struct interned *item =
			&interner->items[interner->slots[at] - 1];

		if (item->hash == hash && item->len == len &&
		    memcmp(item->data, data, len) == 0) {
			*ret_item = interner->slots[at] - 1;
			return 0;
		}
	}
	if (interner->count == interner->capacity &&
	    vec_grow_((void **)&interner->items, &interner->capacity,
		      sizeof(*interner->items)) < 0)
		return -ENOMEM;
	interner->items[interner->count] =
		(struct interned){.data = data, .len = len, .hash = hash};
	*ret_item = (uint32_t)interner->count++;
	interner->slots[at] = *ret_item + 1;
	return 1;
}
