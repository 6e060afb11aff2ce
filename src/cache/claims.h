/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_CLAIMS_H
#define LARDER_CACHE_CLAIMS_H

#include <stdatomic.h>
#include <stdint.h>

#include "cache/words.h"
#include "format/digest.h"

/*
 * Flights between processes: lock bytes that say who downloads a digest,
 * words that change while its bytes arrive, and one word that changes when
 * something was recorded or given up.
 */
struct claims {
	int fd;             /* lock bytes; -1: every claim succeeds */
	int wake_fd;        /* -1: waiters poll */
	uint32_t *wake;     /* address for futex calls only; NULL: poll */
	_Atomic uint32_t seen; /* generation at the end of the last wait */
	struct words words; /* with wake */
};

/* dirfd < 0 or a directory that cannot be written: without sharing. */
void claims_open(struct claims *claims, struct disk *disk, int dirfd);
void claims_close(struct claims *claims);

int claims_take(struct claims *claims, const struct digest *unit);
void claims_drop(struct claims *claims, const struct digest *unit);
void claims_progress(struct claims *claims, const struct digest *unit);
uint32_t claims_progress_read(struct claims *claims, const struct digest *unit);
void claims_wake(struct claims *claims);
void claims_wait(struct claims *claims, uint32_t timeout_ms);

/* Ask every process to let go of files it has open and does not use; a value
 * that changes each time that somebody asks. */
void claims_ask_idle(struct claims *claims);
uint32_t claims_idle_asked(struct claims *claims);

#endif
