/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records in the memfd are the truth; which inode has how many of them, and
 * which records are free, is kept beside it in ordinary memory, where a look
 * costs one short list. Both are guarded by one lock, held for a few
 * instructions.
 */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "mount/opened.h"

#define BUCKETS 4096u /* an open file is found in a list of a few */
#define RESENT (UINT64_C(1) << 63) /* uapi: FUSE_UNIQUE_RESEND */
#define TABLE_BYTES                                                            \
	(sizeof(struct opened_header) +                                        \
	 (size_t)OPENED_MAX * sizeof(struct opened_record))

struct node {
	struct node *next;
	uint64_t ino;
	uint32_t count;
	struct open_way way;
};

struct opened {
	int fd;
	struct opened_header *header;
	struct opened_record *records;
	pthread_mutex_t lock; /* guards the records and all below */
	uint32_t used;	      /* records that were ever used */
	VEC(uint32_t) free;
	struct node *buckets[BUCKETS];
	uint64_t passed_count;
};

static void *map_records(int fd)
{
	void *map;

	if (ftruncate(fd, (off_t)TABLE_BYTES) < 0)
		return NULL;
	map = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_NORESERVE, fd, 0);
	return map == MAP_FAILED ? NULL : map;
}

int opened_new(struct opened **ret, struct err *err)
{
	struct opened *opened = calloc(1, sizeof(*opened));

	if (!opened)
		return err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&opened->lock, NULL);
	opened->fd = memfd_create("larder-opened", MFD_CLOEXEC);
	if (opened->fd >= 0)
		opened->header = map_records(opened->fd);
	if (!opened->header) {
		int r = err_set(err, errno,
				"cannot make the table of open files: %s",
				strerror(errno));
		opened_free(opened);
		return r;
	}
	opened->records = (struct opened_record *)(opened->header + 1);
	*opened->header = (struct opened_header){
		.magic = OPENED_MAGIC,
		.record_bytes = sizeof(struct opened_record),
		.record_max = OPENED_MAX,
	};
	*ret = opened;
	return 0;
}

void opened_free(struct opened *opened)
{
	struct open_way way;

	if (!opened)
		return;
	while (opened_take(opened, &way) == 1)
		;
	if (opened->header)
		munmap(opened->header, TABLE_BYTES);
	if (opened->fd >= 0)
		close(opened->fd);
	vec_release(&opened->free);
	pthread_mutex_destroy(&opened->lock);
	free(opened);
}

int opened_fd(const struct opened *opened)
{
	return opened->fd;
}

/* ---- with the lock held */

static struct node **node_at(struct opened *opened, uint64_t ino)
{
	uint64_t hash = ino * UINT64_C(0x9E3779B97F4A7C15);
	struct node **at = &opened->buckets[(hash >> 32) % BUCKETS];

	while (*at && (*at)->ino != ino)
		at = &(*at)->next;
	return at;
}

static uint64_t unique_of(struct opened_record *record)
{
	return atomic_load_explicit(&record->unique, memory_order_acquire);
}

static void set_unique(struct opened_record *record, uint64_t unique)
{
	atomic_store_explicit(&record->unique, unique, memory_order_release);
}

static uint64_t handle_of(const struct opened *opened, uint32_t index)
{
	return (uint64_t)opened->records[index].generation << 32 | index;
}

/* Sent again since nobody had answered: it has a record already, or none. */
static bool find_resent(struct opened *opened, uint64_t unique,
			uint64_t *ret_handle)
{
	if (!(unique & RESENT))
		return false;
	for (uint32_t i = 0; i < opened->used; i++) {
		if (unique_of(&opened->records[i]) != (unique & ~RESENT))
			continue;
		*ret_handle = handle_of(opened, i);
		return true;
	}
	return false;
}

static int record_add(struct opened *opened, const struct node *node,
		      uint64_t unique, uint64_t *ret_handle)
{
	uint32_t index = opened->used;

	if (opened->free.count)
		index = opened->free.items[--opened->free.count];
	else if (opened->used == OPENED_MAX)
		return -ENFILE;
	else
		opened->used++;
	struct opened_record *record = &opened->records[index];

	record->ino = node->ino;
	record->mode = node->way.mode;
	record->backing_id = node->way.backing_id;
	record->generation += record->generation == UINT32_MAX ? 2 : 1;
	set_unique(record, unique & ~RESENT);
	*ret_handle = handle_of(opened, index);
	return 0;
}

static int join(struct opened *opened, struct node *node, uint64_t unique,
		struct open_way *ret_way, uint64_t *ret_handle)
{
	int r = 0;

	if (!find_resent(opened, unique, ret_handle)) {
		r = record_add(opened, node, unique, ret_handle);
		if (r == 0)
			node->count++;
	}
	if (r == 0)
		*ret_way = node->way;
	return r;
}

/* ---- */

int opened_join(struct opened *opened, uint64_t ino, uint64_t unique,
		struct open_way *ret_way, uint64_t *ret_handle)
{
	scoped_lock(&opened->lock);
	struct node *node = *node_at(opened, ino);

	if (!node)
		return 0;
	int r = join(opened, node, unique, ret_way, ret_handle);
	return r < 0 ? r : 1;
}

int opened_add(struct opened *opened, uint64_t ino, uint64_t unique,
	       const struct open_way *way, struct open_way *ret_way,
	       uint64_t *ret_handle)
{
	scoped_lock(&opened->lock);
	struct node **at = node_at(opened, ino), *node;

	if (*at)
		return join(opened, *at, unique, ret_way, ret_handle);
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct node){.ino = ino, .count = 1, .way = *way};
	int r = record_add(opened, node, unique, ret_handle);
	if (r < 0) {
		free(node);
		return r;
	}
	*at = node;
	opened->passed_count += way->mode == OPEN_PASSTHROUGH;
	*ret_way = *way;
	return 1;
}

static void forget(struct opened *opened, struct node **at,
		   struct open_way *ret_way)
{
	struct node *node = *at;

	*at = node->next;
	*ret_way = node->way;
	opened->passed_count -= node->way.mode == OPEN_PASSTHROUGH;
	free(node);
}

int opened_remove(struct opened *opened, uint64_t handle,
		  struct open_way *ret_way)
{
	scoped_lock(&opened->lock);
	uint32_t index = (uint32_t)handle;

	if (index >= opened->used || handle_of(opened, index) != handle ||
	    unique_of(&opened->records[index]) == 0)
		return 0;
	struct node **at = node_at(opened, opened->records[index].ino);
	uint32_t *slot = vec_push(&opened->free);

	set_unique(&opened->records[index], 0);
	if (slot) /* without memory the record is lost, not the count */
		*slot = index;
	if (!*at || --(*at)->count)
		return 0;
	forget(opened, at, ret_way);
	return 1;
}

int opened_take(struct opened *opened, struct open_way *ret_way)
{
	scoped_lock(&opened->lock);

	for (uint32_t i = 0; i < BUCKETS; i++) {
		if (!opened->buckets[i])
			continue;
		forget(opened, &opened->buckets[i], ret_way);
		return 1;
	}
	return 0;
}

enum open_mode opened_mode(struct opened *opened, uint64_t ino)
{
	scoped_lock(&opened->lock);
	const struct node *node = *node_at(opened, ino);

	return node ? node->way.mode : 0;
}

uint64_t opened_passed_count(struct opened *opened)
{
	scoped_lock(&opened->lock);
	return opened->passed_count;
}
