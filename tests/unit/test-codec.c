/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what we write zstd reads, what zstd writes we read, and every way
 * a frame can lie is refused.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "format/codec.h"
#include "format/limits.h"

#define MIB ((size_t)1 << 20)

static void fill_random(uint8_t *data, size_t len)
{
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (uint8_t)(x >> 32);
	}
}

static void fill_text(uint8_t *data, size_t len)
{
	fill_random(data, len);
	for (size_t i = 0; i < len; i++)
		data[i] = "etaoin shrdlu\n cm"[data[i] % 17];
}

/* Writes, reads back with zstd and with ours; returns the frame's length. */
static size_t check_round_trip(struct codec *codec, const uint8_t *data,
			       size_t len)
{
	size_t bound = codec_bound(len);
	uint8_t *frame = malloc(bound), *plain = malloc(len + 1);
	struct digest digest;
	uint64_t size;
	long r = codec_compress(codec, data, len, 3, frame, bound);

	assert_true(r > 0 && (size_t)r <= bound);
	assert_int_equal(codec_plain_size(frame, (size_t)r, &size), 0);
	assert_int_equal(size, len);
	assert_int_equal(ZSTD_findFrameCompressedSize(frame, (size_t)r), r);
	assert_int_equal(ZSTD_decompress(plain, len, frame, (size_t)r), len);
	assert_memory_equal(plain, data, len);
	digest_sha256(data, len, &digest);
	memset(plain, 0xee, len + 1);
	assert_int_equal(
		codec_open_frame(codec, frame, (size_t)r, plain, len, &digest),
		0);
	assert_memory_equal(plain, data, len);
	assert_int_equal(plain[len], 0xee);
	free(frame);
	free(plain);
	return (size_t)r;
}

/* Every width of the content size, and the edges of a raw block. */
static void test_round_trips_of_all_sizes(void **state)
{
	static const size_t sizes[] = {0,      1,	2,	255,	256,
				       257,    65535,	65536,	65791,	65792,
				       65793,  131071,	131072, 131073, 262144,
				       262145, 1048576, 4194304};
	uint8_t *random = malloc(4 * MIB), *text = malloc(4 * MIB);
	struct codec *codec = codec_new();

	(void)state;
	fill_random(random, 4 * MIB);
	fill_text(text, 4 * MIB);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t raw = check_round_trip(codec, random, sizes[i]);

		assert_true(raw <= sizes[i] + 13 + 3 * (sizes[i] / 131072 + 1));
		check_round_trip(codec, text, sizes[i]);
	}
	assert_true(check_round_trip(codec, text, MIB) < 6 * MIB / 10);
	assert_true(codec_bound(LIMIT_CHUNK_BYTES) <= LIMIT_FRAME_BYTES);
	free(random);
	free(text);
	codec_free(codec);
	codec_free(NULL);
}

/* Random data that is stored raw is so at copy speed: nothing but raw
 * blocks after the header. */
static void test_incompressible_is_raw(void **state)
{
	uint8_t *data = malloc(MIB), *frame = malloc(codec_bound(MIB));
	struct codec *codec = codec_new();
	long r;

	(void)state;
	fill_random(data, MIB);
	r = codec_compress(codec, data, MIB, 19, frame, codec_bound(MIB));
	assert_int_equal(r, MIB + 9 + 8 * 3);
	for (size_t block = 0; block < 8; block++) {
		const uint8_t *at = frame + 9 + block * (131072 + 3);

		assert_int_equal(at[0] & 7, block == 7); /* last, raw */
		assert_memory_equal(at + 3, data + block * 131072, 131072);
	}
	free(data);
	free(frame);
	codec_free(codec);
}

/* Half of it shrinks: the sample must see that. */
static void test_mixed_data_is_compressed(void **state)
{
	uint8_t *data = malloc(MIB);
	struct codec *codec = codec_new();

	(void)state;
	fill_random(data, MIB);
	memset(data + MIB / 4, 0x20, MIB / 8);
	assert_true(check_round_trip(codec, data, MIB) < MIB * 9 / 10);
	free(data);
	codec_free(codec);
}

static const uint8_t plain[] = "abcdefghabcdefghabcdefghabcdefgh";
#define PLAIN_BYTES (sizeof(plain) - 1)

/* Magic, single segment, size 32; one raw block. */
static size_t good_frame(uint8_t frame[64])
{
	static const uint8_t header[] = {
		0x28,	 0xb5, 0x2f, 0xfd, 0x20, 32, (32 << 3 & 0xff) | 1,
		32 >> 5, 0};

	memcpy(frame, header, sizeof(header));
	memcpy(frame + sizeof(header), plain, PLAIN_BYTES);
	return sizeof(header) + PLAIN_BYTES;
}

static int open_frame(const uint8_t *frame, size_t len, size_t plain_len)
{
	struct codec *codec = codec_new();
	uint8_t *out = malloc(plain_len + 1);
	struct digest digest;
	int r;

	digest_sha256(plain, PLAIN_BYTES, &digest);
	r = codec_open_frame(codec, frame, len, out, plain_len, &digest);
	free(out);
	codec_free(codec);
	return r;
}

static void test_good_frame(void **state)
{
	uint8_t frame[64];
	size_t len = good_frame(frame);

	(void)state;
	assert_int_equal(open_frame(frame, len, PLAIN_BYTES), 0);
}

static void test_refuses_cut_and_trailing_bytes(void **state)
{
	uint8_t frame[128];
	size_t len = good_frame(frame);

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(open_frame(frame, cut, PLAIN_BYTES), -EBADMSG);
	frame[len] = 0;
	assert_int_equal(open_frame(frame, len + 1, PLAIN_BYTES), -EBADMSG);
	/* a second frame; an empty skippable one */
	good_frame(frame + len);
	assert_int_equal(open_frame(frame, 2 * len, PLAIN_BYTES), -EBADMSG);
	memcpy(frame + len, "\x50\x2a\x4d\x18\0\0\0\0", 8);
	assert_int_equal(open_frame(frame, len + 8, PLAIN_BYTES), -EBADMSG);
}

static void test_refuses_lies(void **state)
{
	static const struct {
		const char *what;
		size_t at;
		uint8_t value;
		bool is_plausible; /* seen only when it is decompressed */
	} cases[] = {
		{"skippable frame", 0, 0x50, false},
		{"frame of zstd 0.7", 0, 0x27, false},
		{"no content size", 4, 0x00, false},
		{"reserved bit", 4, 0x28, false},
		{"dictionary", 4, 0x21, false},
		{"larger size", 5, 33, false},
		{"smaller size", 5, 31, true},
		{"not the last block", 6, 32 << 3 & 0xff, false},
		{"reserved block type", 6, (32 << 3 & 0xff) | 7, false},
		{"block too long", 8, 1, false},
		{"other bytes", 20, '!', true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t frame[64];
		size_t len = good_frame(frame);
		uint64_t size;

		frame[cases[i].at] = cases[i].value;
		assert_int_equal(codec_plain_size(frame, len, &size),
				 cases[i].is_plausible ? 0 : -EBADMSG);
		assert_int_equal(open_frame(frame, len, PLAIN_BYTES), -EBADMSG);
	}
}

/* The frame that data starts with; what follows is the caller's. */
static void test_frame_length(void **state)
{
	uint8_t frames[128];
	size_t len = good_frame(frames);
	uint64_t size;

	(void)state;
	good_frame(frames + len);
	assert_int_equal(codec_frame_length(frames, 2 * len, &size), len);
	assert_int_equal(size, PLAIN_BYTES);
	assert_int_equal(codec_frame_length(frames, len, &size), len);
	assert_int_equal(codec_frame_length(frames, len - 1, &size), -EBADMSG);
}

static void test_refuses_other_size_and_digest(void **state)
{
	struct codec *codec = codec_new();
	struct digest digest;
	uint8_t frame[64], out[64];
	size_t len = good_frame(frame);

	(void)state;
	assert_int_equal(open_frame(frame, len, PLAIN_BYTES - 1), -EBADMSG);
	assert_int_equal(open_frame(frame, len, PLAIN_BYTES + 1), -EBADMSG);
	digest_sha256("x", 1, &digest);
	assert_int_equal(
		codec_open_frame(codec, frame, len, out, PLAIN_BYTES, &digest),
		-EBADMSG);
	digest = (struct digest){0};
	assert_int_equal(
		codec_open_frame(codec, frame, len, out, PLAIN_BYTES, &digest),
		-EBADMSG);
	assert_int_equal(
		codec_open_frame(codec, frame, len, out, PLAIN_BYTES, NULL), 0);
	codec_free(codec);
}

/* A dictionary that was announced nowhere, made by the real library. */
static void test_refuses_a_dictionary(void **state)
{
	uint8_t frame[64];
	static const uint8_t with_id[] = {0x28, 0xb5, 0x2f, 0xfd, 0x21,
					  7,	32,   1,    1,	  0};
	uint64_t size;

	(void)state;
	memcpy(frame, with_id, sizeof(with_id));
	memcpy(frame + sizeof(with_id), plain, PLAIN_BYTES);
	assert_int_equal(ZSTD_getDictID_fromFrame(frame, 42), 7);
	assert_int_equal(codec_plain_size(frame, 42, &size), -EBADMSG);
}

/* A few bytes that declare a gigabyte are refused before any is taken. */
static void test_declared_size_is_bounded_by_blocks(void **state)
{
	uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0,  0,
			   0,	 0x40, 0x03, 0,	   2,	 'x'};
	struct codec *codec = codec_new();
	struct digest digest = {.type = DIGEST_SHA256};
	struct buf plain_buf;

	(void)state;
	buf_init(&plain_buf, (size_t)2 << 30);
	assert_int_equal(codec_open_object(codec, frame, sizeof(frame),
					   (size_t)2 << 30, &digest,
					   &plain_buf),
			 -EBADMSG);
	assert_int_equal(plain_buf.capacity, 0);
	codec_free(codec);
}

static void test_object(void **state)
{
	struct codec *codec = codec_new();
	struct digest digest;
	struct buf out;
	uint8_t frame[64];
	size_t len = good_frame(frame);

	(void)state;
	digest_sha256(plain, PLAIN_BYTES, &digest);
	buf_init(&out, 1000);
	assert_int_equal(codec_open_object(codec, frame, len, PLAIN_BYTES,
					   &digest, &out),
			 0);
	assert_int_equal(codec_open_object(codec, frame, len, PLAIN_BYTES,
					   &digest, &out),
			 0);
	assert_int_equal(out.len, 2 * PLAIN_BYTES); /* appended */
	assert_int_equal(codec_open_object(codec, frame, len, PLAIN_BYTES - 1,
					   &digest, &out),
			 -EBADMSG);
	digest.bytes[0] ^= 1;
	assert_int_equal(codec_open_object(codec, frame, len, PLAIN_BYTES,
					   &digest, &out),
			 -EBADMSG);
	assert_int_equal(out.len, 2 * PLAIN_BYTES);
	buf_release(&out);
	codec_free(codec);
}

static void test_compress_wants_room(void **state)
{
	struct codec *codec = codec_new();
	uint8_t frame[16];

	(void)state;
	assert_int_equal(codec_compress(codec, plain, PLAIN_BYTES, 3, frame,
					sizeof(frame)),
			 -EINVAL);
	codec_free(codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips_of_all_sizes),
		cmocka_unit_test(test_incompressible_is_raw),
		cmocka_unit_test(test_mixed_data_is_compressed),
		cmocka_unit_test(test_good_frame),
		cmocka_unit_test(test_refuses_cut_and_trailing_bytes),
		cmocka_unit_test(test_refuses_lies),
		cmocka_unit_test(test_frame_length),
		cmocka_unit_test(test_refuses_other_size_and_digest),
		cmocka_unit_test(test_refuses_a_dictionary),
		cmocka_unit_test(test_declared_size_is_bounded_by_blocks),
		cmocka_unit_test(test_object),
		cmocka_unit_test(test_compress_wants_room),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
