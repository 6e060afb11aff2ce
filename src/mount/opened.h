/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_OPENED_H
#define LARDER_MOUNT_OPENED_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Which inodes are open, how, and how often. The kernel wants one way for all
 * opens of an inode at a time, and a backing id that lives until the last of
 * them is released.
 *
 * Every open is a record in a memfd, which outlives the process where somebody
 * keeps it: header, then records, dense from the start. A record is valid
 * while its `unique` is not 0, which is stored last and cleared first, so a
 * process that is killed at any instruction leaves each open either recorded
 * or not. The file handle names record and generation: a RELEASE that is sent
 * again frees nothing else, and an OPEN that is sent again finds its record by
 * the request's number. An inode's count is the number of its records.
 */
enum open_mode { OPEN_CACHED = 1, OPEN_PASSTHROUGH };

#define OPENED_MAGIC UINT64_C(0x31306e65706f726c)
#define OPENED_MAX                                                             \
	(1u << 20) /* open files of one mount: 32 MiB when all are             \
		    */

struct opened_header {
	uint64_t magic;
	uint32_t record_bytes, record_max;
	uint8_t reserved[16];
};

struct opened_record {
	_Atomic uint64_t unique; /* of the request that opened it; 0: free */
	uint64_t ino;
	uint32_t generation; /* counts the uses of this record */
	uint32_t mode;	     /* enum open_mode */
	int32_t backing_id;  /* 0: none */
	uint32_t reserved;
};

/* What all opens of an inode share. */
struct open_way {
	enum open_mode mode;
	int32_t backing_id;
	void *held; /* the first opener's, until the last release */
};

struct opened;
int opened_new(struct opened **ret, struct err *err);
void opened_free(struct opened *opened);
/* The memfd; still the table's. */
int opened_fd(const struct opened *opened);

/* One more open of an inode that is open: 1, the way and the file handle
 * (never 0). 0: it is not open. -ENFILE, -ENOMEM. */
int opened_join(struct opened *opened, uint64_t ino, uint64_t unique,
		struct open_way *ret_way, uint64_t *ret_handle);
/* Opens it this way: 1 and the handle, or 0 where somebody was faster: then it
 * is one more open in that one's way, and `way` stays the caller's. -ENFILE,
 * -ENOMEM. */
int opened_add(struct opened *opened, uint64_t ino, uint64_t unique,
	       const struct open_way *way, struct open_way *ret_way,
	       uint64_t *ret_handle);
/* 1: that was the inode's last open, and *ret_way is the caller's to end; 0. */
int opened_remove(struct opened *opened, uint64_t handle,
		  struct open_way *ret_way);
/* Any one inode that is open, forgotten; for the end. 1 and its way, or 0. */
int opened_take(struct opened *opened, struct open_way *ret_way);

/* 0: it is not open. */
enum open_mode opened_mode(struct opened *opened, uint64_t ino);
/* Inodes that are passed through now. */
uint64_t opened_passed_count(struct opened *opened);

#endif
