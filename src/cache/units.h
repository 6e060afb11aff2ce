/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_UNITS_H
#define LARDER_CACHE_UNITS_H

#include "base/bytes.h"
#include "cache/internal.h"
#include "format/limits.h"

/* Shared by units.c and unit-store.c only: the bits of an open blob. */
static inline bool bit_test(_Atomic uint64_t *bits, uint64_t unit)
{
	return atomic_load_explicit(&bits[unit / 64], memory_order_acquire) >>
		       (unit % 64) &
	       1;
}

/* Both return the bit's old value. */
static inline bool bit_set(_Atomic uint64_t *bits, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << (unit % 64);

	return atomic_fetch_or_explicit(&bits[unit / 64], bit,
					memory_order_acq_rel) &
	       bit;
}

static inline bool bit_clear(_Atomic uint64_t *bits, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << (unit % 64);

	return atomic_fetch_and_explicit(&bits[unit / 64], ~bit,
					 memory_order_acq_rel) &
	       bit;
}

/* Whether a unit can lie there. */
static inline bool is_unit(const struct cache_blob *blob, uint64_t unit,
			   uint64_t offset, uint32_t length)
{
	uint64_t end;

	return unit < blob->unit_count && length > 0 &&
	       length <= LIMIT_CHUNK_BYTES &&
	       add_checked(offset, length, &end) && end <= blob->blob_bytes;
}

#endif
