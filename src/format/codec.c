/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks and objects as zstd frames.
 *
 * Two things here are our own. Data that does not shrink is found by a
 * sample and framed as raw blocks, since running the compressor over model
 * weights or images costs ten times the copy and gains nothing. And a
 * frame is walked before it is decompressed, so that a legacy frame, a
 * second frame, trailing bytes, a dictionary or a lying content size is
 * refused before any memory is taken for it.
 *
 * The sample misses data whose only redundancy is repeats farther apart
 * than a sample; such a chunk is stored raw. The chunker finds most of it.
 */
#include <config.h>

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "format/codec.h"

#define FRAME_MAGIC 0xFD2FB528u	 /* RFC 8878 3.1.1 */
#define BLOCK_BYTES (128u << 10) /* largest block of any frame */
#define BLOCK_HEADER_BYTES 3u
#define RAW_HEADER_MAX (4u + 1u + 8u)

/*
 * Sixteen pieces of 1 KiB: enough for literals' entropy to show (float
 * weights: 8 to 20 % at level 1) and 30 microseconds of work. Below 64 KiB a
 * sample saves nothing.
 */
#define SAMPLE_PIECES 16u
#define SAMPLE_PIECE_BYTES 1024u
#define SAMPLE_BYTES (SAMPLE_PIECES * SAMPLE_PIECE_BYTES)
#define SAMPLE_FROM_BYTES (64u << 10)

struct codec {
	ZSTD_CCtx *compressor; /* made at first use: readers need none */
	ZSTD_DCtx *decompressor;
	struct hasher *hasher;
	uint8_t sample[SAMPLE_BYTES];
	uint8_t sample_frame[ZSTD_COMPRESSBOUND(SAMPLE_BYTES)];
};

struct codec *codec_new(void)
{
	struct codec *codec = calloc(1, sizeof(*codec));

	if (!codec)
		return NULL;
	codec->decompressor = ZSTD_createDCtx();
	codec->hasher = hasher_new();
	if (!codec->decompressor || !codec->hasher) {
		codec_free(codec);
		return NULL;
	}
	return codec;
}

void codec_free(struct codec *codec)
{
	if (!codec)
		return;
	ZSTD_freeCCtx(codec->compressor);
	ZSTD_freeDCtx(codec->decompressor);
	hasher_free(codec->hasher);
	free(codec);
}

static size_t raw_frame_bytes(size_t len)
{
	size_t blocks = len / BLOCK_BYTES + 1;

	return RAW_HEADER_MAX + blocks * BLOCK_HEADER_BYTES + len;
}

size_t codec_bound(size_t len)
{
	size_t bound = ZSTD_compressBound(len);
	size_t raw = raw_frame_bytes(len);

	return bound > raw ? bound : raw;
}

/* Magic, descriptor (single segment), content size in its shortest form. */
static size_t store_raw_header(uint8_t *frame, uint64_t len)
{
	const uint8_t single_segment = 1u << 5;

	store_le32(frame, FRAME_MAGIC);
	if (len < 256) {
		frame[4] = single_segment;
		frame[5] = (uint8_t)len;
		return 6;
	}
	if (len < 65536 + 256) {
		frame[4] = single_segment | 1u << 6;
		store_le16(frame + 5, (uint16_t)(len - 256));
		return 7;
	}
	if (len <= UINT32_MAX) {
		frame[4] = single_segment | 2u << 6;
		store_le32(frame + 5, (uint32_t)len);
		return 9;
	}
	frame[4] = single_segment | 3u << 6;
	store_le64(frame + 5, len);
	return 13;
}

static void store_block_header(uint8_t *at, size_t len, bool is_last)
{
	uint32_t header = (uint32_t)len << 3 | (is_last ? 1 : 0);

	store_le16(at, (uint16_t)header);
	at[2] = (uint8_t)(header >> 16);
}

static size_t store_raw_frame(const uint8_t *data, size_t len, uint8_t *frame)
{
	size_t at = store_raw_header(frame, len);

	do {
		size_t block = len < BLOCK_BYTES ? len : BLOCK_BYTES;

		store_block_header(frame + at, block, block == len);
		memcpy(frame + at + BLOCK_HEADER_BYTES, data, block);
		at += BLOCK_HEADER_BYTES + block;
		data += block;
		len -= block;
	} while (len > 0);
	return at;
}

/* Less than this is not worth a decompression at every read. */
static bool is_worth_compressing(size_t compressed, size_t len)
{
	return compressed < len && len - compressed > len / 64;
}

static bool sample_shrinks(struct codec *codec, const uint8_t *data, size_t len)
{
	size_t stride = (len - SAMPLE_PIECE_BYTES) / (SAMPLE_PIECES - 1);
	size_t r;

	for (size_t i = 0; i < SAMPLE_PIECES; i++)
		memcpy(codec->sample + i * SAMPLE_PIECE_BYTES,
		       data + i * stride, SAMPLE_PIECE_BYTES);
	r = ZSTD_compressCCtx(codec->compressor, codec->sample_frame,
			      sizeof(codec->sample_frame), codec->sample,
			      SAMPLE_BYTES, 1);
	return !ZSTD_isError(r) && is_worth_compressing(r, SAMPLE_BYTES);
}

long codec_compress(struct codec *codec, const void *data, size_t len,
		    int level, void *frame, size_t capacity)
{
	size_t r;

	if (len > LONG_MAX / 2 || capacity < codec_bound(len))
		return -EINVAL;
	if (!codec->compressor)
		codec->compressor = ZSTD_createCCtx();
	if (!codec->compressor)
		return -ENOMEM;
	if (len >= SAMPLE_FROM_BYTES && !sample_shrinks(codec, data, len))
		return (long)store_raw_frame(data, len, frame);
	r = ZSTD_compressCCtx(codec->compressor, frame, capacity, data, len,
			      level);
	if (ZSTD_isError(r))
		return -ENOMEM; /* the only cause left: capacity is enough */
	if (!is_worth_compressing(r, len))
		return (long)store_raw_frame(data, len, frame);
	return (long)r;
}

/* A little-endian number of width bytes at *at, which is moved past it. */
static bool take_number(const uint8_t *frame, size_t len, size_t *at,
			size_t width, uint64_t *ret)
{
	uint64_t value = 0;

	if (len - *at < width)
		return false;
	for (size_t i = 0; i < width; i++)
		value |= (uint64_t)frame[*at + i] << (8 * i);
	*at += width;
	*ret = value;
	return true;
}

/* RFC 8878 3.1.1.1. Returns the header's length, 0 if it is not acceptable. */
static size_t parse_frame_header(const uint8_t *frame, size_t len,
				 uint64_t *ret_size)
{
	static const size_t dictionary_widths[] = {0, 1, 2, 4};
	static const size_t size_widths[] = {0, 2, 4, 8};
	uint64_t magic, descriptor, window, dictionary, size;
	size_t at = 0, size_width;
	bool is_single;

	if (!take_number(frame, len, &at, 4, &magic) || magic != FRAME_MAGIC ||
	    !take_number(frame, len, &at, 1, &descriptor))
		return 0;
	is_single = descriptor & 1u << 5;
	size_width = size_widths[descriptor >> 6];
	if (size_width == 0 && is_single)
		size_width = 1;
	if (size_width == 0 || (descriptor & 1u << 3)) /* reserved bit */
		return 0;
	if (!take_number(frame, len, &at, is_single ? 0 : 1, &window) ||
	    !take_number(frame, len, &at, dictionary_widths[descriptor & 3],
			 &dictionary) ||
	    !take_number(frame, len, &at, size_width, &size))
		return 0;
	if (dictionary != 0)
		return 0;
	*ret_size = size_width == 2 ? size + 256 : size;
	return at;
}

/* Walks one block at *at; adds what it can hold at most to *size_max. */
static bool walk_block(const uint8_t *frame, size_t len, size_t *at,
		       uint64_t *size_max, bool *ret_last)
{
	enum { BLOCK_RAW, BLOCK_RLE, BLOCK_COMPRESSED, BLOCK_RESERVED };
	uint64_t header;
	uint32_t type, bytes;

	if (!take_number(frame, len, at, BLOCK_HEADER_BYTES, &header))
		return false;
	type = (uint32_t)header >> 1 & 3;
	bytes = (uint32_t)header >> 3;
	if (type == BLOCK_RESERVED || bytes > BLOCK_BYTES)
		return false;
	*size_max += type == BLOCK_COMPRESSED ? BLOCK_BYTES : bytes;
	if (type == BLOCK_RLE)
		bytes = 1;
	if (len - *at < bytes)
		return false;
	*at += bytes;
	*ret_last = header & 1;
	return true;
}

long codec_frame_length(const void *data, size_t len, uint64_t *ret_size)
{
	const size_t checksum = 1u << 2;
	uint64_t size, size_max = 0;
	bool is_last = false;
	size_t at = parse_frame_header(data, len, &size);

	if (at == 0)
		return -EBADMSG;
	while (!is_last)
		if (!walk_block(data, len, &at, &size_max, &is_last))
			return -EBADMSG;
	if (((const uint8_t *)data)[4] & checksum)
		at += 4;
	if (at > len || at > LONG_MAX || size > size_max)
		return -EBADMSG;
	*ret_size = size;
	return (long)at;
}

int codec_plain_size(const void *frame, size_t frame_len, uint64_t *ret_size)
{
	uint64_t size;
	long len = codec_frame_length(frame, frame_len, &size);

	if (len < 0 || (size_t)len != frame_len)
		return -EBADMSG;
	*ret_size = size;
	return 0;
}

/* The frame has been walked and declares plain_len. */
static int decompress(struct codec *codec, const void *frame, size_t frame_len,
		      void *plain, size_t plain_len,
		      const struct digest *expected)
{
	struct digest actual;
	size_t r = ZSTD_decompressDCtx(codec->decompressor, plain, plain_len,
				       frame, frame_len);

	if (ZSTD_isError(r) || r != plain_len)
		return -EBADMSG;
	if (!expected)
		return 0;
	if (expected->type != DIGEST_SHA256 ||
	    hasher_start(codec->hasher, DIGEST_SHA256, plain_len) < 0)
		return -EBADMSG;
	hasher_add(codec->hasher, plain, plain_len);
	hasher_finish(codec->hasher, &actual);
	return digest_equal(&actual, expected) ? 0 : -EBADMSG;
}

int codec_open_frame(struct codec *codec, const void *frame, size_t frame_len,
		     void *plain, size_t plain_len,
		     const struct digest *expected)
{
	uint64_t size;

	if (codec_plain_size(frame, frame_len, &size) < 0 || size != plain_len)
		return -EBADMSG;
	return decompress(codec, frame, frame_len, plain, plain_len, expected);
}

int codec_open_object(struct codec *codec, const void *frame, size_t frame_len,
		      size_t limit_bytes, const struct digest *expected,
		      struct buf *ret_plain)
{
	uint8_t nothing, *plain = &nothing;
	uint64_t size;
	int r;

	if (codec_plain_size(frame, frame_len, &size) < 0 || size > limit_bytes)
		return -EBADMSG;
	if (size > SIZE_MAX - ret_plain->len)
		return -EFBIG;
	r = buf_reserve(ret_plain, ret_plain->len + (size_t)size);
	if (r < 0)
		return r;
	if (size > 0) /* else the buffer may have no memory yet */
		plain = ret_plain->data + ret_plain->len;
	r = decompress(codec, frame, frame_len, plain, (size_t)size, expected);
	if (r == 0)
		ret_plain->len += (size_t)size;
	return r;
}
