/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_RECIPE_LAYOUT_H
#define LARDER_FORMAT_RECIPE_LAYOUT_H

#include <stdbool.h>

#include "format/recipe.h"

/*
 * root:  preamble, digest type (u8), 3 zero bytes, records per page (u32),
 *        blob bytes (u64), chunks (u64), pages (u32), zero (u32); then
 *        records, or page entries: digest (32), cumulative end (u64)
 * page:  preamble, records (u32), zero (u32); then records
 * record: digest (32), length (u32); top bit: all zero, no digest
 */
#define RECIPE_MAGIC "LRDR"
#define RECIPE_PAGE_MAGIC "LRDP"
#define ROOT_BYTES 40u
#define PAGE_BYTES 16u
#define PAGE_ENTRY_BYTES 40u
#define RECORD_BYTES 36u
#define RECORD_ZERO_FLAG (UINT32_C(1) << 31)

bool recipe_record_valid(const struct recipe_record *record);
/* Stored form -> record; false if it is not acceptable. */
bool recipe_record_load(const uint8_t *at, struct recipe_record *ret);
void recipe_record_store(uint8_t *at, const struct recipe_record *record);

#endif
