/* SPDX-License-Identifier: Apache-2.0 */
/* A whole places file: whatever is accepted leads into its packs. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "format/places.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_page(const struct places_head *head, uint32_t page,
		     const uint8_t *data)
{
	struct place *places;
	struct err err;
	uint32_t count;

	if (places_page_parse(head, page, data + head->pages[page].offset,
			      head->pages[page].stored_bytes, &places, &count,
			      &err) < 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		if (places[i].pack == PLACE_ZERO)
			continue;
		assert(places[i].pack < head->pack_count);
		assert(places[i].offset + places[i].stored_bytes <=
		       head->packs[places[i].pack].size);
	}
	free(places);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct places_head *head;
	struct err err;
	uint64_t bytes;

	places_head_size(data,
			 len < PLACES_FIXED_BYTES ? len : PLACES_FIXED_BYTES,
			 &bytes, &err);
	if (places_head_parse(data, len, &head, &err) < 0)
		return 0;
	assert(head->head_bytes <= len);
	if (head->file_bytes <= len)
		for (uint32_t page = 0; page < head->page_count; page++)
			try_page(head, page, data);
	places_head_free(head);
	return 0;
}
