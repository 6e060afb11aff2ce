/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_CHUNKER_H
#define LARDER_FORMAT_CHUNKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where to cut a blob: FastCDC (Xia et al., USENIX ATC 2016; 2020 TPDS
 * version for normalised chunking). The gear table is derived as
 * larder-format(5) states: entry i is the first 8 bytes, little-endian, of
 * SHA-256("larder gear" || i as one byte).
 */
struct chunker_params {
	uint32_t min_bytes;
	uint32_t average_bytes; /* a power of two */
	uint32_t max_bytes;
	uint8_t normalisation; /* 0 to 3 */
};

/* 256 KiB / 1 MiB / 4 MiB, normalisation 2. */
extern const struct chunker_params chunker_defaults;

bool chunker_params_valid(const struct chunker_params *params);

/*
 * Length of the chunk that starts at data. len bytes are available; when
 * is_end is false, len must be at least max_bytes. Pure. Runs of zero bytes
 * never match a mask (a test holds this), so a zero run cuts at max_bytes.
 */
size_t chunker_cut(const struct chunker_params *params, const uint8_t *data,
		   size_t len, bool is_end);

bool is_all_zero(const void *data, size_t len);

#endif
