/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_WORDS_H
#define LARDER_CACHE_WORDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct disk;

/* Distinct words that wait to be written; more are not told. */
#define WORDS_WAITING 256u

/*
 * Words of a small file that processes share, written by a thread of their own:
 * a write waits for as long as the disk does, and those who have something to
 * tell must not. What is told of one word before it was written is one write.
 */
struct words {
	struct disk *disk;
	int fd;
	uint32_t *futex; /* who sleeps on word 0, woken once it is written */
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t told;
	struct word {
		uint64_t offset;
		uint32_t value;
	} waiting[WORDS_WAITING];
	unsigned int count;
	bool is_running, is_stopping, is_asleep;
};

/* The thread starts with the first word. */
void words_init(struct words *words, struct disk *disk, int fd,
		uint32_t *futex);
/* Writes what waits. */
void words_release(struct words *words);
void words_tell(struct words *words, uint64_t offset, uint32_t value);

#endif
