/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel locks a page while it asks us for it, and a store waits for that
 * lock. Nobody else has the file open when we store, so nobody asks; but who
 * opens it meanwhile may. So few threads store at a time: the others answer
 * what they wait for.
 */
#include <config.h>

#include <errno.h>
#include <sys/uio.h>

#include "mount/early.h"
#include "mount/session.h"

static _Atomic uint64_t *slot_of(struct early *early, uint64_t ino)
{
	uint64_t hash = ino * UINT64_C(0x9E3779B97F4A7C15);

	return &early->given[(hash >> 32) % EARLY_REMEMBERED];
}

/* ---- uapi: linux/fuse.h. libfuse would send it through a pipe: four calls. */

#define ABI_NOTIFY_STORE 4

struct abi_store_out {
	uint32_t len;
	int32_t error; /* what a notice is */
	uint64_t unique;
	uint64_t nodeid, offset;
	uint32_t size, padding;
};

static int store(const struct op *op, const struct read_result *result)
{
	struct abi_store_out out = {
		.len = (uint32_t)(sizeof(out) + result->len),
		.error = ABI_NOTIFY_STORE,
		.nodeid = op->ino,
		.size = (uint32_t)result->len,
	};
	struct iovec iov[1 + READ_PIECES_MAX] = {
		{.iov_base = &out, .iov_len = sizeof(out)}};
	int r = read_collect(op->fs, result, iov + 1);

	if (r < 0)
		return r;
	if (writev(op->fs->session->fd, iov, (int)(1 + result->count)) < 0)
		return -errno;
	return 0;
}

static void give(struct op *op, const struct target *target, uint64_t bytes,
		 _Atomic uint64_t *slot)
{
	struct read_result result;

	if (snapshot_peek(target->slot->snapshot, target->number, bytes,
			  &op->waiter, &result) < 0)
		return;
	if (result.len == bytes && store(op, &result) == 0)
		atomic_store_explicit(slot, op->ino, memory_order_relaxed);
	read_result_release(&result);
}

void early_give(struct op *op, const struct target *target, uint64_t bytes)
{
	struct early *early = op->fs->early;
	_Atomic uint64_t *slot = slot_of(early, op->ino);
	unsigned before;

	if (bytes > EARLY_BYTES_MAX ||
	    atomic_load_explicit(slot, memory_order_relaxed) == op->ino)
		return;
	before = atomic_fetch_add(&early->under_way, 1);
	/* Of those that take requests in turn one may wait here, not all. */
	if (before > 0)
		session_may_sleep(op->fs->session);
	if (before < EARLY_AT_ONCE)
		give(op, target, bytes, slot);
	atomic_fetch_sub(&early->under_way, 1);
}

void early_missed(struct early *early, uint64_t ino)
{
	_Atomic uint64_t *slot = slot_of(early, ino);

	if (atomic_load_explicit(slot, memory_order_relaxed) == ino)
		atomic_store_explicit(slot, 0, memory_order_relaxed);
}
