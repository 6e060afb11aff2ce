/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_REACH_H
#define LARDER_PUBLISH_REACH_H

#include <stdint.h>

#include "base/err.h"
#include "format/head.h"
#include "format/recipe.h"

struct inventory;
struct pack_record;

/*
 * Follow a head to everything a reader of it needs: catalogs, recipes and
 * their pages, places, and for every chunk its record in a pack. What is
 * there gets is_reached in the inventory; each thing is visited once over all
 * heads.
 */
struct reach_ops {
	/* A chunk that is where its place says, with the right digest. */
	void (*chunk)(void *arg, uint32_t pack, uint32_t position,
		      const struct pack_record *record);
	/* Something is missing or damaged; the rest is still visited. */
	void (*bad)(void *arg, const char *path, const char *text);
};

struct reach;

/* NULL: out of memory. */
struct reach *reach_new(struct inventory *inventory,
			const struct reach_ops *ops, void *arg);
void reach_free(struct reach *reach);

/* Negative only when it could not be done (out of memory). */
int reach_head(struct reach *reach, const struct head *head, struct err *err);

#endif
