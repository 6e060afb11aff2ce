/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See refusals.h. A ring and no table: a program that makes up names fills it,
 * and a person who asks for the reason does so at once.
 */
#include <config.h>

#include "base/cleanup.h"
#include "mount/refusals.h"

void refusals_init(struct refusals *refusals)
{
	pthread_mutex_init(&refusals->lock, NULL);
}

void refusals_release(struct refusals *refusals)
{
	pthread_mutex_destroy(&refusals->lock);
}

static struct refusal *find(struct refusals *refusals, uint32_t dir)
{
	for (unsigned i = 0; i < REFUSALS_MAX; i++)
		if (refusals->items[i].dir == dir)
			return &refusals->items[i];
	return NULL;
}

void refusals_note(struct refusals *refusals, uint32_t dir,
		   const struct err *why)
{
	struct refusal *refusal;
	scoped_lock(&refusals->lock);

	refusal = find(refusals, dir);
	if (!refusal) {
		refusal = &refusals->items[refusals->next];
		refusals->next = (refusals->next + 1) % REFUSALS_MAX;
	}
	*refusal = (struct refusal){.dir = dir, .why = *why};
}

bool refusals_read(struct refusals *refusals, uint32_t dir, struct err *ret)
{
	const struct refusal *refusal;
	scoped_lock(&refusals->lock);

	refusal = find(refusals, dir);
	if (refusal)
		*ret = refusal->why;
	return refusal;
}
