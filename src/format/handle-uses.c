/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count for each handle: a table with open addressing and linear probing, as
 * there may be one for each of a million files at a time.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "format/handle-uses.h"

void handle_uses_release(struct handle_uses *uses)
{
	free(uses->slots);
	*uses = (struct handle_uses){0};
}

static size_t home_of(const struct handle_uses *uses,
		      const struct blob_handle *handle)
{
	uint64_t hash = (uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(hash >> 32) & (uses->slot_count - 1);
}

static struct use *find(struct handle_uses *uses,
			const struct blob_handle *handle)
{
	size_t at = home_of(uses, handle);

	while (uses->slots[at].count > 0 && uses->slots[at].handle != handle)
		at = (at + 1) & (uses->slot_count - 1);
	return &uses->slots[at];
}

static int grow(struct handle_uses *uses)
{
	struct handle_uses grown = {
		.slot_count = uses->slot_count ? uses->slot_count * 2 : 64,
		.used = uses->used};

	grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < uses->slot_count; i++) {
		if (uses->slots[i].count > 0)
			*find(&grown, uses->slots[i].handle) = uses->slots[i];
	}
	free(uses->slots);
	*uses = grown;
	return 0;
}

int handle_uses_add(struct handle_uses *uses, struct blob_handle *handle)
{
	struct use *use;
	int r;

	if (uses->used * 2 >= uses->slot_count) {
		r = grow(uses);
		if (r < 0)
			return r;
	}
	use = find(uses, handle);
	if (use->count++ == 0)
		uses->used++;
	use->handle = handle;
	return 0;
}

/* Empty a slot and move up what was pushed past it. */
static void remove_slot(struct handle_uses *uses, struct use *use)
{
	size_t mask = uses->slot_count - 1;
	size_t hole = (size_t)(use - uses->slots);

	uses->used--;
	for (size_t at = (hole + 1) & mask; uses->slots[at].count > 0;
	     at = (at + 1) & mask) {
		size_t home = home_of(uses, uses->slots[at].handle);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		uses->slots[hole] = uses->slots[at];
		hole = at;
	}
	uses->slots[hole] = (struct use){0};
}

bool handle_uses_drop(struct handle_uses *uses,
		      const struct blob_handle *handle)
{
	struct use *use = find(uses, handle);

	if (--use->count > 0)
		return false;
	remove_slot(uses, use);
	return true;
}
