/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to cut a blob: FastCDC with normalised chunking.
 *
 * Two choices differ from the papers. A cut at length L looks at the 64
 * bytes before it also when L is near min_bytes, so it depends on content
 * alone and not on where the chunk began. And the masks are nested: the bits
 * of the easy mask are among those of the strict one, so a place where one
 * version of a file was cut early is a cut for every other version too.
 */
#include <config.h>

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "format/chunker.h"
#include "format/gear.h"
#include "format/limits.h"

/* The gear hash is a sum of shifted table entries: after 64 shifts a byte
 * has left it. */
#define WINDOW_BYTES 64u

const struct chunker_params chunker_defaults = {
	.min_bytes = 256u << 10,
	.average_bytes = 1u << 20,
	.max_bytes = 4u << 20,
	.normalisation = 2,
};

bool chunker_params_valid(const struct chunker_params *params)
{
	uint32_t average = params->average_bytes;

	return params->min_bytes >= WINDOW_BYTES &&
	       params->min_bytes <= average && average <= params->max_bytes &&
	       params->max_bytes <= LIMIT_CHUNK_BYTES && average >= 256 &&
	       (average & (average - 1)) == 0 && params->normalisation <= 3;
}

/*
 * Bits 63 - (19 i mod 48) for i below count: high bits, because they depend
 * on many bytes, and 19 spreads every prefix of the order over the 48.
 */
static uint64_t spread_mask(unsigned int count)
{
	uint64_t mask = 0;

	for (unsigned int i = 0; i < count; i++)
		mask |= UINT64_C(1) << (63 - 19 * i % 48);
	return mask;
}

/*
 * The first length in [from, to) at which the hash matches, or to. *hash
 * covers the bytes before from - 1. Four bytes a turn: the loop's speed is
 * that of its loads and branches, not of the hash.
 */
static size_t find_match(const uint8_t *data, size_t from, size_t to,
			 uint64_t mask, uint64_t *hash)
{
	uint64_t h = *hash;
	size_t length = from;

	for (; length + 4 <= to; length += 4) {
		h = (h << 1) + gear[data[length - 1]];
		if (!(h & mask))
			return length;
		h = (h << 1) + gear[data[length]];
		if (!(h & mask))
			return length + 1;
		h = (h << 1) + gear[data[length + 1]];
		if (!(h & mask))
			return length + 2;
		h = (h << 1) + gear[data[length + 2]];
		if (!(h & mask))
			return length + 3;
	}
	for (; length < to; length++) {
		h = (h << 1) + gear[data[length - 1]];
		if (!(h & mask))
			return length;
	}
	*hash = h;
	return to;
}

size_t chunker_cut(const struct chunker_params *params, const uint8_t *data,
		   size_t len, bool is_end)
{
	unsigned int bits = (unsigned int)__builtin_ctz(params->average_bytes);
	size_t end = len < params->max_bytes ? len : params->max_bytes;
	size_t average =
		params->average_bytes < end ? params->average_bytes : end;
	uint64_t hash = 0;
	size_t cut;

	assert(is_end || len >= params->max_bytes);
	(void)is_end;
	if (end <= params->min_bytes)
		return end;
	for (size_t i = params->min_bytes - WINDOW_BYTES;
	     i < params->min_bytes - 1; i++)
		hash = (hash << 1) + gear[data[i]];
	cut = find_match(data, params->min_bytes, average,
			 spread_mask(bits + params->normalisation), &hash);
	if (cut < average)
		return cut;
	return find_match(data, average, end,
			  spread_mask(bits - params->normalisation), &hash);
}

bool is_all_zero(const void *data, size_t len)
{
	const uint8_t *bytes = data;

	/* Most data differs early; equal to itself shifted by one is equal
	 * to its first byte throughout. */
	return len == 0 || (bytes[0] == 0 && bytes[len - 1] == 0 &&
			    memcmp(bytes, bytes + 1, len - 1) == 0);
}
