/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a head and as a key file; what is accepted prints and parses
 * to the same. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_head(const uint8_t *data, size_t len)
{
	struct public_key key = {{1}, {2}};
	struct head head, back;
	struct buf text;
	struct err err;

	if (head_parse(data, len, &head, &err) < 0)
		return;
	assert(head.signed_bytes <= len && dataset_name_valid(head.dataset));
	buf_init(&text, LIMIT_HEAD_BYTES);
	if (head_print(&head, &text) == 0) {
		assert(head_parse(text.data, text.len, &back, &err) == 0);
		back.signed_bytes = head.signed_bytes;
		back.signature_count = head.signature_count;
		memcpy(back.signatures, head.signatures,
		       sizeof(back.signatures));
		assert(memcmp(&back, &head, sizeof(head)) == 0);
	}
	buf_release(&text);
	memcpy(key.id, head.signatures[0].key_id, sizeof(key.id));
	assert(head_verify(data, &head, &key, 1, NULL, 0, &err) < 0);
	head_accept(&head, NULL, head.dataset, head.time, &err);
}

static void try_keys(const uint8_t *data, size_t len)
{
	struct public_key public;
	struct secret_key secret;
	struct err err;

	if (public_key_parse(data, len, &public, &err) < 0)
		secret_key_parse(data, len, &secret, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	try_head(data, len);
	try_keys(data, len);
	return 0;
}
