/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large buffers. They are mapped, not malloc'd: with malloc the threshold
 * above which memory returns to the system grows with use, and a
 * daemon that once fetched much would stay large. Sizes are powers of two;
 * the pages behind the end of what is in it are never touched and cost nothing.
 * Much is given back at once and wanted again soon: fresh pages were a tenth of
 * the work of a cold read, first those of chunks, then those of the bodies they
 * come in. So what was in use just now is kept, and only what comes on top of
 * that is not.
 */
#include <config.h>

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/pool.h"

#define SMALL_SHIFT 16u /* up to 64 KiB: malloc */
#define LARGE_SHIFT 23u
#define HUGE_BYTES ((size_t)2 << 20)
#define CLASSES (LARGE_SHIFT - SMALL_SHIFT + 1)

struct pool_buffer {
	struct pool_buffer *next;
	size_t len; /* of its last use: the pages that it has */
};

struct pool {
	pthread_mutex_t lock; /* guards all but keep_bytes, a constant */
	struct pool_buffer *idle[CLASSES];
	uint64_t idle_bytes, used_bytes;
	uint64_t keep_bytes;
};

struct pool *pool_new(uint64_t keep_bytes)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	static_assert(POOL_BYTES_MAX == 1u << LARGE_SHIFT, "class missing");
	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	pool->keep_bytes = keep_bytes;
	return pool;
}

/*
 * What AddressSanitizer is told, which knows of malloc only: of a buffer in use
 * the bytes up to len are the user's, of an idle one only its link is ours.
 */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
static void allow(void *data, size_t len, size_t capacity)
{
	ASAN_UNPOISON_MEMORY_REGION(data, len);
	ASAN_POISON_MEMORY_REGION((char *)data + len, capacity - len);
}
#else
static void allow(void *data, size_t len, size_t capacity)
{
	(void)data, (void)len, (void)capacity;
}
#endif

static unsigned class_of(size_t len)
{
	unsigned class = 0;

	while ((size_t)1 << (SMALL_SHIFT + class) < len)
		class ++;
	return class;
}

static size_t class_bytes(unsigned class)
{
	return (size_t)1 << (SMALL_SHIFT + class);
}

static struct pool_buffer *take_idle(struct pool *pool, unsigned class)
{
	struct pool_buffer *buffer;

	scoped_lock(&pool->lock);
	buffer = pool->idle[class];
	if (buffer) {
		pool->idle[class] = buffer->next;
		pool->idle_bytes -= buffer->len;
	}
	return buffer;
}

/* A third of the time of a transfer over loopback went into page faults of
 * fresh small pages: large buffers ask for huge ones, where there are some.
 * Only for whole ones, so that no memory beyond len is taken. */
static void *map(unsigned class, size_t len)
{
	void *data = mmap(NULL, class_bytes(class), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data != MAP_FAILED && len >= HUGE_BYTES)
		(void)madvise(data, len & ~(HUGE_BYTES - 1), MADV_HUGEPAGE);
	return data;
}

static void unmap(void *data, unsigned class)
{
	allow(data, class_bytes(class), class_bytes(class));
	munmap(data, class_bytes(class));
}

uint8_t *pool_get(struct pool *pool, size_t len)
{
	unsigned class = class_of(len);
	void *data;

	assert(len <= POOL_BYTES_MAX);
	if (class == 0)
		return malloc(len ? len : 1);
	data = take_idle(pool, class);
	if (!data)
		data = map(class, len);
	if (data == MAP_FAILED)
		return NULL;
	allow(data, len, class_bytes(class));
	pthread_mutex_lock(&pool->lock);
	pool->used_bytes += len;
	pthread_mutex_unlock(&pool->lock);
	return data;
}

static bool keep_idle(struct pool *pool, void *data, size_t len)
{
	struct pool_buffer *buffer = data;
	unsigned class = class_of(len);

	scoped_lock(&pool->lock);
	pool->used_bytes -= len;
	if (pool->used_bytes + pool->idle_bytes + len > pool->keep_bytes)
		return false;
	buffer->len = len;
	buffer->next = pool->idle[class];
	allow(buffer, sizeof(*buffer), class_bytes(class));
	pool->idle[class] = buffer;
	pool->idle_bytes += len;
	return true;
}

void pool_put(struct pool *pool, uint8_t *data, size_t len)
{
	unsigned class = class_of(len);

	if (class == 0)
		free(data);
	else if (!keep_idle(pool, data, len))
		unmap(data, class);
}

void pool_trim(struct pool *pool)
{
	for (unsigned class = 1; class < CLASSES; class ++) {
		struct pool_buffer *buffer;

		while ((buffer = take_idle(pool, class)))
			unmap(buffer, class);
	}
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	pool_trim(pool);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
