/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for other processes. They say that something has happened, and who
 * waits looks again after a while anyway, so one that is late or lost while
 * the disk does not answer costs time and nothing else.
 */
#include <config.h>

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/thread.h"
#include "cache/internal.h"
#include "cache/words.h"

/* After a round: what is told meanwhile is the next one, so that a stream of
 * chunks is not a stream of switches between threads. */
static const struct timespec pause_between = {.tv_nsec = 1000000};

/* Moves what waits to ret; 0 at the end. */
static unsigned int words_take(struct words *words, struct word *ret)
{
	unsigned int count;

	scoped_lock(&words->lock);
	words->is_asleep = true;
	while (words->count == 0 && !words->is_stopping)
		pthread_cond_wait(&words->told, &words->lock);
	words->is_asleep = false;
	count = words->count;
	memcpy(ret, words->waiting, count * sizeof(*ret));
	words->count = 0;
	return count;
}

static void words_write(struct words *words, const struct word *all,
			unsigned int count)
{
	bool is_wake = false;
	struct disk_op op;

	if (!disk_begin(words->disk, &op, "word", DISK_CALL))
		return;
	for (unsigned int i = 0; i < count; i++) {
		op.has_written |=
			pwrite_full(words->fd, &all[i].value,
				    sizeof(all[i].value), all[i].offset) == 0;
		is_wake |= all[i].offset == 0;
	}
	disk_end(words->disk, &op);
	if (is_wake)
		syscall(SYS_futex, words->futex, FUTEX_WAKE, INT_MAX, NULL,
			NULL, 0);
}

static void *words_thread(void *arg)
{
	struct words *words = arg;
	struct word all[WORDS_WAITING];
	unsigned int count;

	while ((count = words_take(words, all)) > 0) {
		words_write(words, all, count);
		nanosleep(&pause_between, NULL);
	}
	return NULL;
}

void words_init(struct words *words, struct disk *disk, int fd, uint32_t *futex)
{
	*words = (struct words){.disk = disk, .fd = fd, .futex = futex};
	pthread_mutex_init(&words->lock, NULL);
	pthread_cond_init(&words->told, NULL);
}

void words_release(struct words *words)
{
	pthread_mutex_lock(&words->lock);
	words->is_stopping = true;
	pthread_cond_signal(&words->told);
	pthread_mutex_unlock(&words->lock);
	if (words->is_running)
		pthread_join(words->thread, NULL);
	pthread_mutex_destroy(&words->lock);
	pthread_cond_destroy(&words->told);
}

static struct word *find_word(struct words *words, uint64_t offset)
{
	for (unsigned int i = 0; i < words->count; i++)
		if (words->waiting[i].offset == offset)
			return &words->waiting[i];
	return words->count < WORDS_WAITING ? &words->waiting[words->count++] :
					      NULL;
}

void words_tell(struct words *words, uint64_t offset, uint32_t value)
{
	struct word *word;

	scoped_lock(&words->lock);
	if (!words->is_running) {
		if (words->is_stopping ||
		    thread_start(&words->thread, CACHE_STACK_BYTES,
				 words_thread, words) < 0)
			return;
		pthread_setname_np(words->thread, "larder-words");
		words->is_running = true;
	}
	word = find_word(words, offset);
	if (word)
		*word = (struct word){.offset = offset, .value = value};
	if (words->is_asleep)
		pthread_cond_signal(&words->told);
}
