/* SPDX-License-Identifier: Apache-2.0 */
/* Known answers of every digest type, the text forms, and their refusals. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/digest.h"

#define ABC_SHA256                                                             \
	"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static void test_sha256_known_answer(void **state)
{
	char text[DIGEST_TEXT_MAX], hex[DIGEST_HEX_MAX];
	struct digest digest;

	(void)state;
	digest_sha256("abc", 3, &digest);
	assert_string_equal(digest_text(&digest, text), "sha256:" ABC_SHA256);
	assert_string_equal(digest_hex(&digest, hex), ABC_SHA256);
	digest_sha256(NULL, 0, &digest);
	assert_string_equal(digest_hex(&digest, hex),
			    "e3b0c44298fc1c149afbf4c8996fb924"
			    "27ae41e4649b934ca495991b7852b855");
}

static void test_hasher_is_reusable(void **state)
{
	struct hasher *hasher = hasher_new();
	char text[DIGEST_TEXT_MAX];
	struct digest digest;

	(void)state;
	assert_non_null(hasher);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hasher_start(hasher, DIGEST_SHA256, 0), 0);
		hasher_add(hasher, "a", 1);
		hasher_add(hasher, "", 0);
		hasher_add(hasher, "bc", 2);
		hasher_finish(hasher, &digest);
		assert_string_equal(digest_text(&digest, text),
				    "sha256:" ABC_SHA256);
	}
	/* as git hash-object says of "hello\n" */
	assert_int_equal(hasher_start(hasher, DIGEST_GIT_SHA1, 6), 0);
	hasher_add(hasher, "hello\n", 6);
	hasher_finish(hasher, &digest);
	assert_string_equal(
		digest_text(&digest, text),
		"git-sha1:ce013625030ba8dba906f756967f9e9ca394464a");
	for (size_t i = 20; i < DIGEST_BYTES; i++)
		assert_int_equal(digest.bytes[i], 0);
	hasher_free(hasher);
	hasher_free(NULL);
}

static void test_hasher_refuses(void **state)
{
	struct hasher *hasher = hasher_new();
	struct digest digest;

	(void)state;
	assert_int_equal(hasher_start(hasher, DIGEST_NONE, 0), -EINVAL);
	assert_int_equal(hasher_start(hasher, DIGEST_BLAKE3, 0), -EINVAL);
	assert_int_equal(hasher_start(hasher, (enum digest_type)77, 0),
			 -EINVAL);
	hasher_add(hasher, "x", 1);
	hasher_finish(hasher, &digest); /* never started: no digest */
	assert_true(digest_is_none(&digest));
	hasher_free(hasher);
}

static void test_order_and_equality(void **state)
{
	struct digest a = {.type = DIGEST_SHA256, .bytes = {1}};
	struct digest b = {.type = DIGEST_SHA256, .bytes = {2}};
	struct digest c = {.type = DIGEST_GIT_SHA1, .bytes = {1}};

	(void)state;
	assert_true(digest_compare(&a, &b) < 0);
	assert_true(digest_compare(&b, &a) > 0);
	assert_true(digest_compare(&b, &c) < 0);
	assert_false(digest_equal(&a, &c));
	assert_true(digest_equal(&a, &a));
	assert_int_equal(digest_size(DIGEST_GIT_SHA1), 20);
	assert_int_equal(digest_size(DIGEST_NONE), 0);
	assert_int_equal(digest_size((enum digest_type)255), 0);
}

static void test_parse_is_inverse_of_text(void **state)
{
	static const uint8_t types[] = {DIGEST_NONE, DIGEST_SHA256,
					DIGEST_GIT_SHA1, DIGEST_BLAKE3,
					DIGEST_REFERENCE};
	char text[DIGEST_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		struct digest digest = {.type = types[i]}, back;

		memset(digest.bytes, 0xa5, digest_size(types[i]));
		assert_int_equal(
			digest_parse(digest_text(&digest, text), &back), 0);
		assert_true(digest_equal(&digest, &back));
	}
}

static void test_parse_refuses(void **state)
{
	static const char *const bad[] = {
		"",
		"sha256",
		"sha256:",
		":" ABC_SHA256,
		ABC_SHA256,
		"sha256:" ABC_SHA256 "0",
		"sha256:" ABC_SHA256 " ",
		"sha256: " ABC_SHA256,
		"sha25:" ABC_SHA256,
		"SHA256:" ABC_SHA256,
		"git-sha1:" ABC_SHA256,
		"sha256:zz7816bf8f01cfea414140de5dae2223"
		"b00361a396177a9cb410ff61f20015ad",
		"none:",
	};
	struct digest digest;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(digest_parse(bad[i], &digest), -EINVAL);
}

static void test_path(void **state)
{
	char path[DIGEST_PATH_MAX];
	struct digest digest;

	(void)state;
	digest_sha256("abc", 3, &digest);
	assert_string_equal(
		digest_path("objects", &digest, path),
		"objects/ba/7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff"
		"61f20015ad");
}

/* The man page says: "larder reference\0" URL "\0" validator "\0" size. */
static void test_reference(void **state)
{
	static const char bytes[] = "larder reference\0"
				    "http://a/b\0"
				    "\"tag\"\0"
				    "\x02\x01\0\0\0\0\0";
	struct digest digest, expected;

	(void)state;
	digest_reference("http://a/b", "\"tag\"", 0x102, &digest);
	digest_sha256(bytes, sizeof(bytes), &expected);
	assert_int_equal(digest.type, DIGEST_REFERENCE);
	assert_memory_equal(digest.bytes, expected.bytes, DIGEST_BYTES);
}

/* XXH3 of xxHash's own specification: the empty input. */
static void test_xxh3(void **state)
{
	(void)state;
	assert_true(checksum_xxh3("", 0) == UINT64_C(0x2d06800538d394c2));
}

static int copy_from(void *arg, uint64_t at, void *data, size_t size)
{
	memcpy(data, (const uint8_t *)arg + at, size);
	return 0;
}

static int fail_later(void *arg, uint64_t at, void *data, size_t size)
{
	memset(data, 0, size);
	return at ? -EIO : 0;
}

static void test_xxh3_by_pieces(void **state)
{
	static uint8_t data[300000];
	uint64_t checksum;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 >> 3);
	for (size_t len = 0; len <= sizeof(data); len += 30000) {
		assert_int_equal(checksum_xxh3_read(copy_from, data, len,
						    &checksum),
				 0);
		assert_true(checksum == checksum_xxh3(data, len));
	}
	assert_int_equal(checksum_xxh3_read(fail_later, NULL, sizeof(data),
					    &checksum),
			 -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha256_known_answer),
		cmocka_unit_test(test_hasher_is_reusable),
		cmocka_unit_test(test_hasher_refuses),
		cmocka_unit_test(test_order_and_equality),
		cmocka_unit_test(test_parse_is_inverse_of_text),
		cmocka_unit_test(test_parse_refuses),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_xxh3),
		cmocka_unit_test(test_xxh3_by_pieces),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
