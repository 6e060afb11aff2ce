/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mirror holds, listed once. About 60 bytes a file: a mirror of a
 * million objects takes 60 MB, which the machine that looks after it has.
 *
 * Files come and go while a publisher runs beside a check. Heads are listed
 * first: what they reach was there before them.
 */
#include <config.h>

#include <errno.h>

#include "publish/inventory.h"
#include "publish/pack-tables.h"

static int number_packs(struct inventory *inventory)
{
	inventory->tables = pack_tables_new(inventory->mirror);
	if (!inventory->tables)
		return -ENOMEM;
	for (size_t i = 0; i < inventory->packs.list.count; i++) {
		const struct stored_file *file =
			&inventory->packs.list.items[i];
		int64_t number = pack_tables_add_stored(
			inventory->tables, &file->digest, file->size);

		if (number < 0)
			return (int)number;
	}
	return 0;
}

int inventory_take(const struct mirror *mirror, struct inventory *ret,
		   struct err *err)
{
	struct inventory inventory = {.mirror = mirror};
	int r = heads_list(mirror, NULL, &inventory.heads, err);

	if (r == 0)
		r = mirror_list(mirror, "objects", &inventory.objects, err);
	if (r == 0)
		r = mirror_list(mirror, "places", &inventory.places, err);
	if (r == 0)
		r = mirror_list(mirror, "packs", &inventory.packs, err);
	if (r == 0 && number_packs(&inventory) < 0)
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0) {
		inventory_release(&inventory);
		return r;
	}
	*ret = inventory;
	return 0;
}

void inventory_release(struct inventory *inventory)
{
	stored_heads_release(&inventory->heads);
	stored_files_release(&inventory->objects);
	stored_files_release(&inventory->places);
	stored_files_release(&inventory->packs);
	pack_tables_free(inventory->tables);
}
