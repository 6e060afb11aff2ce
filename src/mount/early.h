/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_EARLY_H
#define LARDER_MOUNT_EARLY_H

#include "mount/op.h"

/*
 * Small files whose bytes are here go into the page cache with their open, so
 * that no read has to ask for them: of the two times that a program waits for
 * us per small file one is left.
 */
#define EARLY_BYTES_MAX (128u << 10) /* longer than this is more than a read   \
				      */
#define EARLY_REMEMBERED 4096u
#define EARLY_AT_ONCE 4u

struct early {
	/* given lately and not asked for since: still in the page cache */
	_Atomic uint64_t given[EARLY_REMEMBERED];
	_Atomic unsigned under_way;
};

/*
 * Before the answer to the open of a file that nobody else has open, whose
 * bytes never change. Nothing happens where they are not here, or are in the
 * page cache already as far as is known.
 */
void early_give(struct op *op, const struct target *target, uint64_t bytes);
/* It is read: the page cache did not have the bytes. */
void early_missed(struct early *early, uint64_t ino);

#endif
