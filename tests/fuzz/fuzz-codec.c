/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a frame; and any bytes through a frame and back. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/codec.h"

#define PLAIN_LIMIT ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void open_any(struct codec *codec, const uint8_t *data, size_t len)
{
	struct digest digest;
	struct buf plain;
	uint64_t size;

	if (codec_plain_size(data, len, &size) < 0)
		return;
	digest_sha256(data, len, &digest);
	buf_init(&plain, PLAIN_LIMIT);
	assert(codec_open_object(codec, data, len, PLAIN_LIMIT, &digest,
				 &plain) < 0);
	if (codec_open_object(codec, data, len, PLAIN_LIMIT, NULL, &plain) == 0)
		assert(plain.len == size);
	buf_release(&plain);
}

static void round_trip(struct codec *codec, const uint8_t *data, size_t len)
{
	size_t bound = codec_bound(len);
	uint8_t *frame = malloc(bound), *plain = malloc(len + 1);
	struct digest digest;
	long frame_len;

	assert(frame && plain);
	digest_sha256(data, len, &digest);
	frame_len = codec_compress(codec, data, len, 1, frame, bound);
	assert(frame_len > 0);
	assert(codec_open_frame(codec, frame, (size_t)frame_len, plain, len,
				&digest) == 0);
	assert(memcmp(plain, data, len) == 0);
	free(frame);
	free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct codec *codec; /* made once: its contexts are large */

	if (!codec)
		codec = codec_new();
	assert(codec);
	open_any(codec, data, len);
	round_trip(codec, data, len);
	return 0;
}
