/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts are part of every blob's identity: golden lists hold them, and a plain
 * restatement of the manual page's rule must agree with the fast loop.
 */
#include <config.h>

#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "format/chunker.h"
#include "format/digest.h"
#include "format/gear.h"
#include "format/limits.h"

static const struct chunker_params small = {
	.min_bytes = 256,
	.average_bytes = 1024,
	.max_bytes = 4096,
	.normalisation = 2,
};

/* splitmix64, little-endian, from a seed: the golden buffer. */
static void fill(uint8_t *data, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		store_le64(data + i, z ^ (z >> 31));
	}
}

static uint64_t derived_gear(unsigned int i)
{
	uint8_t input[12] = "larder gear";
	struct digest digest;

	input[11] = (uint8_t)i;
	digest_sha256(input, sizeof(input), &digest);
	return load_le64(digest.bytes);
}

static uint64_t derived_mask(unsigned int bits)
{
	uint64_t mask = 0;

	for (unsigned int i = 0; i < bits; i++)
		mask |= UINT64_C(1) << (63 - (19 * i) % 48);
	return mask;
}

/* larder-format(5), word by word and slowly. */
static size_t reference_cut(const struct chunker_params *params,
			    const uint8_t *data, size_t len)
{
	unsigned int bits = (unsigned int)__builtin_ctz(params->average_bytes);

	for (size_t length = params->min_bytes;
	     length < params->max_bytes && length < len; length++) {
		unsigned int n = length < params->average_bytes ?
					 bits + params->normalisation :
					 bits - params->normalisation;
		uint64_t hash = 0;

		for (unsigned int j = 0; j < 64; j++)
			hash += gear[data[length - 1 - j]] << j;
		if ((hash & derived_mask(n)) == 0)
			return length;
	}
	return len < params->max_bytes ? len : params->max_bytes;
}

static void test_gear_is_derived(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 256; i++)
		assert_true(gear[i] == derived_gear(i));
}

static void test_agrees_with_the_rule(void **state)
{
	const size_t len = 256 << 10;
	uint8_t *data = malloc(len);

	(void)state;
	fill(data, len, 7);
	memset(data + 50000, 0, 9000); /* a run that straddles chunks */
	for (uint8_t level = 0; level <= 3; level++) {
		struct chunker_params params = small;

		params.normalisation = level;
		for (size_t at = 0; at < len;) {
			size_t cut =
				chunker_cut(&params, data + at, len - at, true);

			assert_int_equal(cut, reference_cut(&params, data + at,
							    len - at));
			at += cut;
		}
	}
	free(data);
}

static void test_golden_cuts(void **state)
{
	static const size_t golden[] = {
		1053590, 990228,  1414384, 1080227, 1128432, 1278275,
		1183869, 1103658, 1049618, 1362865, 1189835, 1071458,
		411001,	 1192032, 1256716, 11028,
	};
	const size_t len = 16 << 20;
	uint8_t *data = malloc(len);
	size_t at = 0;

	(void)state;
	fill(data, len, 1);
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		size_t cut = chunker_cut(&chunker_defaults, data + at, len - at,
					 true);

		assert_int_equal(cut, golden[i]);
		at += cut;
	}
	assert_int_equal(at, len);
	free(data);
}

/* Every mask that valid parameters can ask for, and the run-up to it. */
static void test_zeros_match_no_mask(void **state)
{
	(void)state;
	for (unsigned int bits = 5; bits <= 25; bits++)
		assert_true((derived_mask(bits) & (0 - gear[0])) != 0);
}

static void test_zero_runs_cut_at_max(void **state)
{
	const size_t len = (size_t)3 * chunker_defaults.max_bytes;
	uint8_t *data = calloc(1, len);

	(void)state;
	assert_int_equal(chunker_cut(&chunker_defaults, data, len, true),
			 chunker_defaults.max_bytes);
	for (uint8_t level = 0; level <= 3; level++) {
		struct chunker_params params = small;

		params.normalisation = level;
		assert_int_equal(chunker_cut(&params, data, len, true),
				 params.max_bytes);
	}
	free(data);
}

static void test_ends(void **state)
{
	uint8_t data[8192];

	(void)state;
	fill(data, sizeof(data), 3);
	for (size_t len = 1; len <= small.min_bytes; len++)
		assert_int_equal(chunker_cut(&small, data, len, true), len);
	/* what lies beyond max_bytes has no say */
	assert_int_equal(chunker_cut(&small, data, sizeof(data), false),
			 chunker_cut(&small, data, small.max_bytes, false));
}

/* An insertion changes the chunks around it and no others. */
static void test_cuts_come_back_after_an_insertion(void **state)
{
	const size_t len = 1 << 20;
	uint8_t *data = malloc(len + 8);
	static bool is_cut[(1 << 20) + 1];
	size_t at = 0, shared = 0, count = 0;

	(void)state;
	fill(data, len, 11);
	while (at < len) {
		at += chunker_cut(&small, data + at, len - at, true);
		is_cut[at] = true;
	}
	memmove(data + 1, data, len);
	data[0] = 'x';
	for (at = 0; at < len + 1; count++) {
		at += chunker_cut(&small, data + at, len + 1 - at, true);
		shared += is_cut[at - 1];
	}
	assert_true(count - shared <= 8);
	free(data);
}

static void test_params(void **state)
{
	static const struct {
		struct chunker_params params;
		bool is_valid;
	} cases[] = {
		{{256 << 10, 1 << 20, 4 << 20, 2}, true},
		{{64, 256, 256, 3}, true},
		{{63, 256, 1024, 2}, false},
		{{64, 128, 1024, 2}, false},
		{{64, 1000, 4096, 2}, false},
		{{2048, 1024, 4096, 2}, false},
		{{64, 1024, 512, 2}, false},
		{{64, 1024, LIMIT_CHUNK_BYTES + 1, 2}, false},
		{{64, 1024, 4096, 4}, false},
		{{0, 0, 0, 0}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(chunker_params_valid(&cases[i].params),
				 cases[i].is_valid);
	assert_true(chunker_params_valid(&chunker_defaults));
}

static void test_is_all_zero(void **state)
{
	uint8_t data[300] = {0};

	(void)state;
	for (size_t len = 0; len <= sizeof(data); len++)
		assert_true(is_all_zero(data, len));
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 1;
		assert_false(is_all_zero(data, sizeof(data)));
		assert_true(is_all_zero(data, i));
		data[i] = 0;
	}
	memset(data, 7, sizeof(data));
	assert_false(is_all_zero(data, sizeof(data)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gear_is_derived),
		cmocka_unit_test(test_agrees_with_the_rule),
		cmocka_unit_test(test_golden_cuts),
		cmocka_unit_test(test_zeros_match_no_mask),
		cmocka_unit_test(test_zero_runs_cut_at_max),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_cuts_come_back_after_an_insertion),
		cmocka_unit_test(test_params),
		cmocka_unit_test(test_is_all_zero),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
