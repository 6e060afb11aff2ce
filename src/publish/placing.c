/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing places files, after the packs.
 *
 * They are made anew at each publish and compared with what is there: a
 * places file may name a pack that gc has removed since, when its recipe
 * was dead for a while. Four bytes a chunk wait in memory until the end.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/vec.h"
#include "format/limits.h"
#include "format/places.h"
#include "publish/chunk-index.h"
#include "publish/mirror-store.h"
#include "publish/pack-tables.h"
#include "publish/parallel.h"
#include "publish/placing.h"
#include "source/source.h"

struct waiting {
	struct digest object;
	uint32_t *numbers;
	size_t count;
};

struct placing {
	pthread_mutex_t mutex; /* guards waiting */
	VEC(struct waiting) waiting;
};

struct placing *placing_new(void)
{
	struct placing *placing = calloc(1, sizeof(*placing));

	if (placing)
		pthread_mutex_init(&placing->mutex, NULL);
	return placing;
}

void placing_free(struct placing *placing)
{
	if (!placing)
		return;
	for (size_t i = 0; i < placing->waiting.count; i++)
		free(placing->waiting.items[i].numbers);
	vec_release(&placing->waiting);
	pthread_mutex_destroy(&placing->mutex);
	free(placing);
}

int placing_add(struct placing *placing, const struct digest *object,
		const uint32_t *numbers, size_t count)
{
	_cleanup_free_ uint32_t *copy = malloc(count * sizeof(*copy));
	struct waiting *waiting;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, numbers, count * sizeof(*copy));
	scoped_lock(&placing->mutex);
	waiting = vec_push(&placing->waiting);
	if (!waiting)
		return -ENOMEM;
	waiting->object = *object;
	waiting->numbers = steal_ptr(copy);
	waiting->count = count;
	return 0;
}

struct write {
	struct placing *placing;
	struct mirror *mirror;
	struct pack_tables *tables;
	struct chunk_index *index;
	uint64_t stored;
};

/* The packs of one places file, and which of them each run number is. */
struct numbering {
	VEC(struct places_pack) packs;
	VEC(uint32_t) numbers;
	size_t last; /* the one found last: chunks come in long runs */
};

static int64_t number_pack(struct numbering *numbering,
			   struct pack_tables *tables, uint32_t pack)
{
	struct places_pack *added;
	uint32_t *number;

	if (numbering->last < numbering->numbers.count &&
	    numbering->numbers.items[numbering->last] == pack)
		return (int64_t)numbering->last;
	for (size_t i = 0; i < numbering->numbers.count; i++) {
		if (numbering->numbers.items[i] != pack)
			continue;
		numbering->last = i;
		return (int64_t)i;
	}
	added = vec_push(&numbering->packs);
	number = vec_push(&numbering->numbers);
	if (!added || !number)
		return -ENOMEM;
	if (!pack_tables_id(tables, pack, &added->id, &added->size))
		return -EINVAL;
	*number = pack;
	numbering->last = numbering->numbers.count - 1;
	return (int64_t)numbering->last;
}

static int find_place(const struct write *write, struct numbering *numbering,
		      uint32_t number, struct place *ret)
{
	struct pack_record record;
	uint32_t pack;
	int64_t local;
	int r;

	if (number == CHUNK_NONE) {
		*ret = (struct place){.pack = PLACE_ZERO};
		return 0;
	}
	r = chunk_index_place(write->index, number, &pack, &record);
	if (r < 0)
		return r;
	local = number_pack(numbering, write->tables, pack);
	if (local < 0)
		return (int)local;
	*ret = (struct place){
		.pack = (uint32_t)local,
		.stored_bytes = record.stored_bytes,
		.offset = record.offset,
	};
	return 0;
}

static int make_file(const struct write *write, const struct waiting *waiting,
		     struct buf *ret_file)
{
	_cleanup_free_ struct place *places = NULL;
	struct numbering numbering = {0};
	int r = 0;

	places = calloc(waiting->count, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < waiting->count && r == 0; i++)
		r = find_place(write, &numbering, waiting->numbers[i],
			       &places[i]);
	if (r == 0)
		r = places_write(numbering.packs.items,
				 (uint32_t)numbering.packs.count, places,
				 waiting->count, ret_file);
	vec_release(&numbering.packs);
	vec_release(&numbering.numbers);
	return r;
}

static bool is_same_file(const struct mirror *mirror, const char *path,
			 const struct buf *wanted)
{
	struct buf found;
	bool is_same;

	buf_init(&found, wanted->len);
	is_same = mirror->ops->read(mirror, path, &found, NULL) == 0 &&
		  found.len == wanted->len &&
		  memcmp(found.data, wanted->data, wanted->len) == 0;
	buf_release(&found);
	return is_same;
}

static int write_one(void *arg, size_t i, struct err *err)
{
	struct write *write = arg;
	const struct waiting *waiting = &write->placing->waiting.items[i];
	char path[SOURCE_PATH_MAX];
	struct buf file;
	int r;

	mirror_places_path(&waiting->object, path);
	buf_init(&file, LIMIT_PLACES_BYTES);
	r = make_file(write, waiting, &file);
	if (r < 0) {
		err_set(err, -r, "cannot make %s: %s", path, strerror(-r));
	} else if (!is_same_file(write->mirror, path, &file)) {
		r = mirror_file_write(write->mirror, path, file.data, file.len,
				      err);
		__atomic_fetch_add(&write->stored, file.len, __ATOMIC_RELAXED);
	}
	buf_release(&file);
	return r;
}

int placing_write(struct placing *placing, struct mirror *mirror,
		  struct pack_tables *tables, struct chunk_index *index,
		  unsigned int threads, uint64_t *ret_stored, struct err *err)
{
	struct write write = {
		.placing = placing,
		.mirror = mirror,
		.tables = tables,
		.index = index,
	};
	int r = parallel_for(placing->waiting.count, threads, write_one, &write,
			     err);

	*ret_stored = write.stored;
	return r;
}
