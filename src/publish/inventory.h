/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_INVENTORY_H
#define LARDER_PUBLISH_INVENTORY_H

#include "publish/heads.h"
#include "publish/mirror-store.h"

struct pack_tables;

/* Everything a mirror holds, for check and gc. Pack i of the list has number
 * i in tables. */
struct inventory {
	const struct mirror *mirror;
	struct stored_heads heads;
	struct stored_files objects, places, packs;
	struct pack_tables *tables;
};

int inventory_take(const struct mirror *mirror, struct inventory *ret,
		   struct err *err);
void inventory_release(struct inventory *inventory);

#endif
