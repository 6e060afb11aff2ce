/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_PREAMBLE_H
#define LARDER_FORMAT_PREAMBLE_H

#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * The first 8 bytes of every binary format: magic (4), version (u16), flags
 * (u16). Unknown flags of the low byte are ignored, of the high byte refused.
 */
#define PREAMBLE_BYTES 8
#define PREAMBLE_VERSION 1

void preamble_store(uint8_t *data, const char magic[static 4]);
/* noun names the thing in the error: "recipe". -EBADMSG if it is something
 * else, -EPROTONOSUPPORT for an unknown version or must-refuse flag. */
int preamble_check(const uint8_t *data, size_t len, const char magic[static 4],
		   const char *noun, struct err *err);

#endif
