/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs by number, and their tables.
 *
 * What a mirror has may be far more than memory: only a digest and a size
 * per pack are kept, and the tables used last. Chunks that were neighbours when
 * they were published are neighbours now, so a small cache is hit nearly
 * always. The disk is read without the lock.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/vec.h"
#include "format/limits.h"
#include "publish/mirror-store.h"
#include "publish/pack-tables.h"
#include "source/source.h"

/* 56 bytes each: 14 MiB; a usual pack has some hundred. */
#define CACHED_RECORDS_MAX (256u << 10)

struct pack {
	struct digest id;
	uint64_t size;
	struct pack_record *records; /* NULL: not in memory */
	uint32_t count, capacity;
	bool is_open;
	uint64_t last_use;
};

struct pack_tables {
	const struct mirror *mirror;
	pthread_mutex_t mutex; /* guards what follows */
	VEC(struct pack) packs;
	uint64_t clock;
	uint64_t cached_records; /* of stored packs */
};

struct pack_tables *pack_tables_new(const struct mirror *mirror)
{
	struct pack_tables *tables = calloc(1, sizeof(*tables));

	if (!tables)
		return NULL;
	tables->mirror = mirror;
	pthread_mutex_init(&tables->mutex, NULL);
	return tables;
}

void pack_tables_free(struct pack_tables *tables)
{
	if (!tables)
		return;
	for (size_t i = 0; i < tables->packs.count; i++)
		free(tables->packs.items[i].records);
	vec_release(&tables->packs);
	pthread_mutex_destroy(&tables->mutex);
	free(tables);
}

static struct pack *add_pack(struct pack_tables *tables)
{
	if (tables->packs.count >= UINT32_MAX)
		return NULL;
	return vec_push(&tables->packs);
}

int64_t pack_tables_add_stored(struct pack_tables *tables,
			       const struct digest *id, uint64_t size)
{
	scoped_lock(&tables->mutex);
	struct pack *pack = add_pack(tables);

	if (!pack)
		return -ENOMEM;
	pack->id = *id;
	pack->size = size;
	return (int64_t)tables->packs.count - 1;
}

int64_t pack_tables_add_open(struct pack_tables *tables)
{
	scoped_lock(&tables->mutex);
	struct pack *pack = add_pack(tables);

	if (!pack)
		return -ENOMEM;
	pack->is_open = true;
	return (int64_t)tables->packs.count - 1;
}

int pack_tables_append(struct pack_tables *tables, uint32_t pack,
		       const struct pack_record *record, uint32_t *ret_position)
{
	scoped_lock(&tables->mutex);
	struct pack *p = &tables->packs.items[pack];

	if (p->count == p->capacity) {
		uint32_t wanted = p->capacity ? 2 * p->capacity : 64;
		void *grown =
			reallocarray(p->records, wanted, sizeof(*p->records));

		if (!grown)
			return -ENOMEM;
		p->records = grown;
		p->capacity = wanted;
	}
	*ret_position = p->count;
	p->records[p->count++] = *record;
	return 0;
}

const struct pack_record *pack_tables_open_records(struct pack_tables *tables,
						   uint32_t pack,
						   uint32_t *ret_count)
{
	scoped_lock(&tables->mutex);

	*ret_count = tables->packs.items[pack].count;
	return tables->packs.items[pack].records;
}

static void drop_table(struct pack_tables *tables, struct pack *pack)
{
	tables->cached_records -= pack->count;
	free(pack->records);
	pack->records = NULL;
	pack->count = pack->capacity = 0;
}

/* A scan over all packs: rare, since a table has many records. */
static void make_room(struct pack_tables *tables, const struct pack *keep)
{
	while (tables->cached_records > CACHED_RECORDS_MAX) {
		struct pack *oldest = NULL;

		for (size_t i = 0; i < tables->packs.count; i++) {
			struct pack *p = &tables->packs.items[i];

			if (p->records && !p->is_open && p != keep &&
			    (!oldest || p->last_use < oldest->last_use))
				oldest = p;
		}
		if (!oldest)
			return;
		drop_table(tables, oldest);
	}
}

void pack_tables_close(struct pack_tables *tables, uint32_t pack,
		       const struct digest *id, uint64_t size)
{
	scoped_lock(&tables->mutex);
	struct pack *p = &tables->packs.items[pack];

	p->id = *id;
	p->size = size;
	p->is_open = false;
	p->last_use = ++tables->clock;
	tables->cached_records += p->count;
	make_room(tables, p);
}

int pack_table_load(const struct mirror *mirror, const struct digest *id,
		    uint64_t size, struct pack_record **ret,
		    uint32_t *ret_count, struct err *err)
{
	char path[SOURCE_PATH_MAX];
	uint8_t trailer[PACK_TRAILER_BYTES];
	_cleanup_(mirror_reader_close) struct mirror_reader reader;
	struct err why = {0};
	_cleanup_free_ void *table = NULL;
	uint64_t offset, bytes;
	struct pack_record *records;
	struct digest actual;
	uint32_t count;
	ssize_t n;
	int r;

	r = mirror_reader_open(&reader, mirror, mirror_pack_path(id, path),
			       size, 0, &why);
	if (r < 0)
		return err_set(err, -r, "%s: %s", path, err_text(&why, r));
	if (size < PACK_TRAILER_BYTES)
		return err_set(err, EBADMSG, "%s is cut short", path);
	n = mirror_reader_read(&reader, trailer, sizeof(trailer),
			       size - sizeof(trailer), &why);
	if (n != (ssize_t)sizeof(trailer))
		return err_set(err, n < 0 ? (int)-n : EBADMSG,
			       "cannot read %s: %s", path,
			       n < 0 ? err_text(&why, (int)n) : "cut short");
	r = pack_trailer_parse(trailer, size, &offset, &bytes, err);
	if (r < 0)
		return err_prefix(err, r, "%s", path);
	table = malloc(bytes);
	if (!table)
		return err_set(err, ENOMEM, "out of memory");
	n = mirror_reader_read(&reader, table, bytes, offset, &why);
	if (n != (ssize_t)bytes)
		return err_set(err, n < 0 ? (int)-n : EBADMSG,
			       "cannot read %s: %s", path,
			       n < 0 ? err_text(&why, (int)n) : "cut short");
	r = pack_table_parse(table, bytes, offset, &records, &count, &actual,
			     err);
	if (r < 0)
		return err_prefix(err, r, "%s", path);
	if (!digest_equal(&actual, id)) {
		free(records);
		return err_set(err, EBADMSG,
			       "%s: table does not match the name", path);
	}
	*ret = records;
	*ret_count = count;
	return 0;
}

/* With the lock held on entry and exit; p may have moved meanwhile. */
static int bring_table(struct pack_tables *tables, uint32_t pack)
{
	struct pack *p = &tables->packs.items[pack];
	struct digest id = p->id;
	uint64_t size = p->size;
	struct pack_record *records;
	uint32_t count;
	int r;

	if (p->records || p->is_open) {
		p->last_use = ++tables->clock;
		return 0;
	}
	pthread_mutex_unlock(&tables->mutex);
	r = pack_table_load(tables->mirror, &id, size, &records, &count, NULL);
	pthread_mutex_lock(&tables->mutex);
	if (r < 0)
		return r;
	p = &tables->packs.items[pack];
	p->last_use = ++tables->clock;
	if (p->records) { /* another thread was faster */
		free(records);
		return 0;
	}
	p->records = records;
	p->count = p->capacity = count;
	tables->cached_records += count;
	make_room(tables, p);
	return 0;
}

int pack_tables_get(struct pack_tables *tables, uint32_t pack,
		    uint32_t position, struct pack_record *ret)
{
	scoped_lock(&tables->mutex);
	int r = bring_table(tables, pack);
	const struct pack *p = &tables->packs.items[pack];

	if (r < 0)
		return r;
	if (position >= p->count)
		return -EBADMSG;
	*ret = p->records[position];
	return 0;
}

int pack_tables_find(struct pack_tables *tables, uint32_t pack, uint64_t offset,
		     uint32_t *ret_position, struct pack_record *ret)
{
	scoped_lock(&tables->mutex);
	int r = bring_table(tables, pack);
	const struct pack *p = &tables->packs.items[pack];
	uint32_t low = 0, high = r < 0 ? 0 : p->count;

	if (r < 0)
		return r;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (p->records[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == p->count || p->records[low].offset != offset)
		return -ENOENT;
	*ret_position = low;
	*ret = p->records[low];
	return 0;
}

int pack_tables_frames(struct pack_tables *tables, uint32_t pack,
		       uint64_t *ret_bytes)
{
	scoped_lock(&tables->mutex);
	int r = bring_table(tables, pack);
	const struct pack *p = &tables->packs.items[pack];

	if (r < 0)
		return r;
	*ret_bytes = p->count == 0 ?
			     0 :
			     p->records[p->count - 1].offset +
				     p->records[p->count - 1].stored_bytes;
	return 0;
}

bool pack_tables_id(struct pack_tables *tables, uint32_t pack,
		    struct digest *ret_id, uint64_t *ret_size)
{
	scoped_lock(&tables->mutex);
	const struct pack *p = &tables->packs.items[pack];

	if (p->is_open)
		return false;
	*ret_id = p->id;
	*ret_size = p->size;
	return true;
}
