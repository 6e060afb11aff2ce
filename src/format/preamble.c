/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes of every binary format, in one place so that all formats
 * age in the same way. What is too new is told apart from what is broken: the
 * remedies differ.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/preamble.h"

#define FLAGS_MUST_REFUSE 0xff00u

void preamble_store(uint8_t *data, const char magic[static 4])
{
	memcpy(data, magic, 4);
	store_le16(data + 4, PREAMBLE_VERSION);
	store_le16(data + 6, 0);
}

int preamble_check(const uint8_t *data, size_t len, const char magic[static 4],
		   const char *noun, struct err *err)
{
	unsigned int version, flags;

	if (len < PREAMBLE_BYTES)
		return err_set(err, EBADMSG, "%s is cut short", noun);
	if (memcmp(data, magic, 4) != 0)
		return err_set(err, EBADMSG, "not a %s", noun);
	version = load_le16(data + 4);
	flags = load_le16(data + 6);
	if (version != PREAMBLE_VERSION)
		return err_set(err, EPROTONOSUPPORT,
			       "%s has format version %u, this larder reads %u",
			       noun, version, PREAMBLE_VERSION);
	if (flags & FLAGS_MUST_REFUSE)
		return err_set(err, EPROTONOSUPPORT,
			       "%s needs a newer larder (flags 0x%04x)", noun,
			       flags);
	return 0;
}
