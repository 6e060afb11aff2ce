/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is within the limit alone need not be so together with others: what they
 * have written and not recorded yet is not in the total. While the disk is busy
 * that is much of a small limit, so each process tells the others, in a slot of a
 * file that is read and written by system calls only. A slot is held by a lock,
 * which dies with its process, and counts for a few seconds after it was
 * written: what a killed process has left is measured by the others then.
 */
#include <config.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/io.h"
#include "cache/files.h"
#include "cache/unrecorded.h"

/* In locks/wake, behind the words of page 0. */
#define SLOTS_OFFSET 1024u
#define SLOTS 128u
#define SLOT_BYTES 16u /* u64 bytes, u64 milliseconds since the start */
#define FRESH_MS 5000u
#define LATELY_MS 10u
/* Nobody need hear of less. */
#define STEP_BYTES (64u << 10)

static void tell(struct unrecorded *unrecorded, uint64_t bytes)
{
	uint8_t slot[SLOT_BYTES];

	atomic_store(&unrecorded->told, bytes);
	if (unrecorded->fd < 0)
		return;
	store_le64(slot, bytes);
	store_le64(slot + 8, now_ms());
	(void)pwrite_full(unrecorded->fd, slot, sizeof(slot),
			  SLOTS_OFFSET + unrecorded->slot * SLOT_BYTES);
}

/* More than there are slots are not known of each other. */
void unrecorded_init(struct unrecorded *unrecorded, int fd)
{
	unsigned int first = (unsigned int)getpid();

	*unrecorded = (struct unrecorded){ .fd = -1 };
	for (unsigned int i = 0; i < SLOTS && fd >= 0; i++) {
		unsigned int slot = (first + i) % SLOTS;

		if (ofd_lock(fd, F_WRLCK, SLOTS_OFFSET + slot * SLOT_BYTES,
			     1) < 0)
			continue;
		unrecorded->fd = fd;
		unrecorded->slot = slot;
		tell(unrecorded, 0);
		return;
	}
}

static void tell_change(struct unrecorded *unrecorded, uint64_t bytes)
{
	uint64_t told = atomic_load(&unrecorded->told);

	if ((bytes > told ? bytes - told : told - bytes) >= STEP_BYTES ||
	    (bytes == 0 && told > 0))
		tell(unrecorded, bytes);
}

void unrecorded_add(struct unrecorded *unrecorded, uint64_t bytes)
{
	if (bytes > 0)
		tell_change(unrecorded,
			    atomic_fetch_add(&unrecorded->own, bytes) + bytes);
}

void unrecorded_remove(struct unrecorded *unrecorded, uint64_t bytes)
{
	if (bytes > 0)
		tell_change(unrecorded,
			    atomic_fetch_sub(&unrecorded->own, bytes) - bytes);
}

void unrecorded_renew(struct unrecorded *unrecorded)
{
	uint64_t own = atomic_load(&unrecorded->own);

	if (own > 0 || atomic_load(&unrecorded->told) > 0)
		tell(unrecorded, own);
}

uint64_t unrecorded_others(struct unrecorded *unrecorded)
{
	uint8_t slots[SLOTS * SLOT_BYTES] = { 0 };
	uint64_t now = now_ms(), sum = 0;

	if (unrecorded->fd < 0 ||
	    pread_full(unrecorded->fd, slots, sizeof(slots), SLOTS_OFFSET) < 0)
		return 0;
	for (unsigned int i = 0; i < SLOTS; i++) {
		uint64_t bytes = load_le64(slots + (size_t)i * SLOT_BYTES);
		uint64_t at = load_le64(slots + (size_t)i * SLOT_BYTES + 8);

		/* Another boot's times may be later than now. */
		if (i != unrecorded->slot && at <= now && now - at < FRESH_MS)
			sum += bytes;
	}
	atomic_store(&unrecorded->others, sum);
	atomic_store(&unrecorded->seen_ms, now);
	return sum;
}

uint64_t unrecorded_others_lately(struct unrecorded *unrecorded)
{
	return now_ms() - atomic_load(&unrecorded->seen_ms) > LATELY_MS ?
		       unrecorded_others(unrecorded) :
		       atomic_load(&unrecorded->others);
}
