/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_PINS_H
#define LARDER_CACHE_PINS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"

/*
 * What all pins of a cache protect, as the evictor sees it. One thread at a
 * time. It follows the directory: a pin counts from the moment its file has
 * its name, whichever process gave it.
 */
struct pin_set {
	int dirfd; /* CACHE/pins, or -1 */
	bool is_known;
	int64_t changed_s, changed_ns; /* of the directory, when it was read */
	uint64_t read_ms;
	uint64_t *names; /* first 8 bytes of each digest, sorted */
	size_t count;
};

void pin_set_init(struct pin_set *pins, int cache_dirfd);
void pin_set_release(struct pin_set *pins);
/* Also true when the pins cannot be read: better too much is kept. Two
 * digests that begin alike are taken for one another. */
bool pin_set_has(struct pin_set *pins, const struct digest *id);

/* For those who ask now and then, on any thread. */
struct pins {
	pthread_mutex_t lock; /* guards the set */
	struct pin_set set;
};
void pins_init(struct pins *pins, int cache_dirfd);
void pins_release(struct pins *pins);

#endif
