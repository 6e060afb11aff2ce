/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads and keys: one text form only, signatures of RFC 8032 made by another
 * program verify, and a client never goes back.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "format/head.h"

#include "data.h"

static struct public_key read_public(const char *name)
{
	struct public_key key;
	size_t len;
	void *data = data_read(name, &len);

	assert_int_equal(public_key_parse(data, len, &key, NULL), 0);
	free(data);
	return key;
}

static struct secret_key read_secret(const char *name)
{
	struct secret_key key;
	size_t len;
	void *data = data_read(name, &len);

	assert_int_equal(secret_key_parse(data, len, &key, NULL), 0);
	free(data);
	return key;
}

static void test_golden_file(void **state)
{
	struct public_key key = read_public("good/public-key-a");
	struct head head;
	size_t len;
	char *data = data_read("good/head", &len);

	(void)state;
	assert_int_equal(head_parse(data, len, &head, NULL), 0);
	assert_string_equal(head.dataset, "hf/pile.v2");
	assert_string_equal(head.tag, "");
	assert_int_equal(head.catalog.type, DIGEST_SHA256);
	assert_int_equal(head.catalog_bytes, 4096);
	assert_int_equal(head.entry_count, 12411);
	assert_true(head.total_bytes == UINT64_C(442381631488));
	assert_int_equal(head.serial, 7);
	assert_int_equal(head.time, 1796029200);
	assert_int_equal(head.expires, 1801299600);
	assert_int_equal(head.previous.type, DIGEST_SHA256);
	assert_int_equal(head.signature_count, 2);
	assert_memory_equal(data + head.signed_bytes, "signature: ", 11);
	assert_memory_equal(head.signatures[0].key_id, key.id, 8);
	free(data);
}

static void test_unknown_keys_are_ignored(void **state)
{
	struct public_key key = read_public("good/public-key-b");
	struct head head;
	size_t len;
	char *data = data_read("good/head-tagged", &len);

	(void)state;
	assert_int_equal(head_parse(data, len, &head, NULL), 0);
	assert_string_equal(head.tag, "v2");
	assert_int_equal(head.expires, 0);
	assert_true(digest_is_none(&head.previous));
	assert_int_equal(head_verify(data, &head, &key, 1, NULL, 0, NULL), 0);
	free(data);
}

/* Printing the fields and signing again gives the golden bytes. */
static void test_an_empty_file(void **state)
{
	struct head head;
	struct err err = {0};

	(void)state;
	assert_int_equal(head_parse(NULL, 0, &head, &err), -EBADMSG);
	assert_string_equal(err.text, "not a larder head");
}

static void test_print_and_sign(void **state)
{
	struct secret_key a = read_secret("good/secret-key-a");
	struct secret_key b = read_secret("good/secret-key-b");
	struct head head;
	struct buf text;
	size_t len;
	char *data = data_read("good/head", &len);

	(void)state;
	assert_int_equal(head_parse(data, len, &head, NULL), 0);
	buf_init(&text, LIMIT_HEAD_BYTES);
	assert_int_equal(head_print(&head, &text), 0);
	assert_int_equal(text.len, head.signed_bytes);
	assert_int_equal(head_sign(&text, &a), 0);
	assert_int_equal(head_sign(&text, &b), 0);
	assert_int_equal(text.len, len);
	assert_memory_equal(text.data, data, len);
	for (int i = 2; i < 8; i++)
		assert_int_equal(head_sign(&text, &a), 0);
	assert_int_equal(head_sign(&text, &a), -E2BIG);
	buf_release(&text);
	free(data);
}

static void test_print_refuses(void **state)
{
	struct head head = {.dataset = "a", .catalog_bytes = 1, .serial = 1};
	struct buf text;

	(void)state;
	buf_init(&text, LIMIT_HEAD_BYTES);
	assert_int_equal(head_print(&head, &text), -EINVAL); /* no digest */
	head.catalog.type = DIGEST_SHA256;
	assert_int_equal(head_print(&head, &text), 0);
	text.len = 0;
	head.dataset[0] = '\n';
	assert_int_equal(head_print(&head, &text), -EINVAL);
	head.dataset[0] = 'a';
	head.tag[0] = '/';
	assert_int_equal(head_print(&head, &text), -EINVAL);
	assert_int_equal(text.len, 0);
	buf_release(&text);
}

static void refuse(const char *path, const void *data, size_t len)
{
	struct err err = {""};
	struct head head;
	int r = head_parse(data, len, &head, &err);

	assert_refused(path, r, &err);
	if (strstr(path, "version") || strstr(path, "must-refuse"))
		assert_int_equal(r, -EPROTONOSUPPORT);
}

static void refuse_key(const char *path, const void *data, size_t len)
{
	struct err err = {""};
	struct public_key key;

	if (public_key_parse(data, len, &key, &err) >= 0)
		fail_msg("%s: accepted", path);
	if (err.text[0] == '\0')
		fail_msg("%s: refused without a word", path);
}

static void test_refuses_bad_files(void **state)
{
	(void)state;
	assert_true(data_each("bad-head-*", refuse) >= 35);
	assert_true(data_each("bad-key-*", refuse_key) >= 7);
}

static void test_verify(void **state)
{
	struct public_key a = read_public("good/public-key-a");
	struct public_key b = read_public("good/public-key-b");
	struct public_key both[2] = {a, b};
	struct secret_key other;
	struct err err = {""};
	struct head head;
	size_t len;
	char *data = data_read("good/head", &len);

	(void)state;
	assert_int_equal(secret_key_new(&other), 0);
	assert_int_equal(head_parse(data, len, &head, NULL), 0);
	assert_int_equal(head_verify(data, &head, &a, 1, NULL, 0, NULL), 0);
	assert_int_equal(head_verify(data, &head, &b, 1, NULL, 0, NULL), 0);
	assert_int_equal(head_verify(data, &head, both, 2, &a, 1, NULL), 0);
	assert_int_equal(head_verify(data, &head, both, 2, both, 2, &err),
			 -EKEYREJECTED);
	assert_non_null(strstr(err.text, "revoked"));
	assert_int_equal(head_verify(data, &head, &a, 1, &a, 1, NULL),
			 -EKEYREJECTED);
	assert_int_equal(head_verify(data, &head, NULL, 0, NULL, 0, &err),
			 -EKEYREJECTED);
	assert_int_equal(
		head_verify(data, &head, &other.public_key, 1, NULL, 0, &err),
		-EKEYREJECTED);
	/* says who signed and who is trusted */
	assert_non_null(strstr(err.text, "no trusted signature"));
	assert_non_null(strstr(err.text, "21fe31dfa154a261"));
	assert_non_null(strstr(err.text, "39f713d0a644253f"));
	/* every bit of the signed part counts */
	for (size_t i = 0; i < head.signed_bytes; i++) {
		data[i] ^= 1;
		assert_int_equal(head_verify(data, &head, &a, 1, NULL, 0, NULL),
				 -EKEYREJECTED);
		data[i] ^= 1;
	}
	head.signatures[0].value[0] ^= 1;
	assert_int_equal(head_verify(data, &head, &a, 1, NULL, 0, &err),
			 -EKEYREJECTED);
	assert_non_null(strstr(err.text, "wrong signature"));
	head.signature_count = 0;
	assert_int_equal(head_verify(data, &head, &a, 1, NULL, 0, &err),
			 -EKEYREJECTED);
	assert_non_null(strstr(err.text, "not signed"));
	/* a key that claims another's id proves nothing */
	memcpy(other.public_key.id, a.id, sizeof(a.id));
	assert_int_equal(head_parse(data, len, &head, NULL), 0);
	assert_int_equal(
		head_verify(data, &head, &other.public_key, 1, NULL, 0, NULL),
		-EKEYREJECTED);
	secret_key_wipe(&other);
	free(data);
}

#define NOW 1000000
static const struct head held = {.dataset = "a/b",
				 .catalog = {.type = 1, .bytes = {1}},
				 .serial = 5,
				 .time = NOW - 100,
				 .expires = NOW - 50};

static void test_accept(void **state)
{
	static const struct {
		const char *what;
		const char *dataset, *tag, *name;
		uint64_t serial;
		uint8_t catalog;
		int64_t time, expires;
		bool has_current;
		int result;
	} cases[] = {
		{"first", "a/b", "", "a/b", 1, 1, NOW, 0, false, 0},
		{"newer", "a/b", "", "a/b", 6, 2, NOW, 0, true, 0},
		{"same", "a/b", "", "a/b", 5, 1, NOW - 100, 0, true, 0},
		{"other dataset", "a/c", "", "a/b", 6, 1, NOW, 0, true,
		 -EINVAL},
		{"prefix", "a/b", "", "a/bc", 6, 1, NOW, 0, false, -EINVAL},
		{"longer", "a/bc", "", "a/b", 6, 1, NOW, 0, false, -EINVAL},
		{"tag as current", "a/b", "v1", "a/b", 6, 1, NOW, 0, false,
		 -EINVAL},
		{"current as tag", "a/b", "", "a/b@v1", 6, 1, NOW, 0, false,
		 -EINVAL},
		{"other tag", "a/b", "v2", "a/b@v1", 6, 1, NOW, 0, false,
		 -EINVAL},
		{"tag", "a/b", "v1", "a/b@v1", 6, 1, NOW, 0, false, 0},
		{"older", "a/b", "", "a/b", 4, 1, NOW, 0, true, -ESTALE},
		{"same serial, other catalog", "a/b", "", "a/b", 5, 2, NOW, 0,
		 true, -ESTALE},
		{"expired when first received", "a/b", "", "a/b", 1, 1,
		 NOW - 10, NOW - 1, false, -EKEYEXPIRED},
		{"expires now", "a/b", "", "a/b", 1, 1, NOW - 10, NOW, false,
		 -EKEYEXPIRED},
		{"not yet", "a/b", "", "a/b", 1, 1, NOW - 10, NOW + 1, false,
		 0},
		{"newer but expired", "a/b", "", "a/b", 6, 2, NOW - 10, NOW - 1,
		 true, -EKEYEXPIRED},
		{"expired since accepted", "a/b", "", "a/b", 5, 1, NOW - 100,
		 NOW - 50, true, 0},
		{"clock before the head's time", "a/b", "", "a/b", 6, 2,
		 NOW + 10, NOW - 1, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct head offered = {.serial = cases[i].serial,
				       .time = cases[i].time,
				       .expires = cases[i].expires};
		struct err err = {""};
		int r;

		snprintf(offered.dataset, sizeof(offered.dataset), "%s",
			 cases[i].dataset);
		snprintf(offered.tag, sizeof(offered.tag), "%s", cases[i].tag);
		offered.catalog =
			(struct digest){.type = 1, .bytes = {cases[i].catalog}};
		r = head_accept(&offered, cases[i].has_current ? &held : NULL,
				cases[i].name, NOW, &err);
		if (r != cases[i].result)
			fail_msg("%s: %d", cases[i].what, r);
		assert_int_equal(err.text[0] != '\0', r < 0);
	}
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool is_dataset, is_tag;
	} cases[] = {
		{"pile", true, true},
		{"a", true, true},
		{"A-b_c.d0", true, true},
		{"hf/models/Qwen/Qwen2.5-0.5B", true, false},
		{"", false, false},
		{".", false, false},
		{"..", false, false},
		{".hidden", false, false},
		{"a/.hidden", false, false},
		{"a/../b", false, false},
		{"/a", false, false},
		{"a/", false, false},
		{"a//b", false, false},
		{"a@b", false, false},
		{"a b", false, false},
		{"a#b", false, false},
		{"\xc3\xa9", false, false},
		{"a\n", false, false},
	};
	char name[258];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (dataset_name_valid(cases[i].name) != cases[i].is_dataset ||
		    tag_name_valid(cases[i].name) != cases[i].is_tag)
			fail_msg("'%s'", cases[i].name);
	}
	memset(name, 'x', sizeof(name));
	name[255] = '\0';
	assert_true(dataset_name_valid(name));
	name[255] = 'x';
	name[256] = '\0';
	assert_false(dataset_name_valid(name));
}

/* RFC 8032 7.1, tests 1 and 2: the seed gives the public key. */
static void test_keys_of_the_rfc(void **state)
{
	struct secret_key a = read_secret("good/secret-key-a");
	struct public_key public_a = read_public("good/public-key-a");
	struct secret_key b = read_secret("good/secret-key-b");
	struct public_key public_b = read_public("good/public-key-b");

	(void)state;
	assert_memory_equal(&a.public_key, &public_a, sizeof(public_a));
	assert_memory_equal(&b.public_key, &public_b, sizeof(public_b));
}

static void test_new_keys(void **state)
{
	struct secret_key key, other, back;
	struct public_key public;
	struct err err = {""};
	struct buf text;

	(void)state;
	assert_int_equal(secret_key_new(&key), 0);
	assert_int_equal(secret_key_new(&other), 0);
	assert_memory_not_equal(key.seed, other.seed, sizeof(key.seed));
	buf_init(&text, 1024);
	assert_int_equal(secret_key_print(&key, &text), 0);
	assert_int_equal(secret_key_parse(text.data, text.len, &back, NULL), 0);
	assert_memory_equal(&back, &key, sizeof(key));
	assert_int_equal(public_key_parse(text.data, text.len, &public, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, ".pub"));
	text.len = 0;
	assert_int_equal(public_key_print(&key.public_key, &text), 0);
	assert_int_equal(public_key_parse(text.data, text.len, &public, NULL),
			 0);
	assert_memory_equal(&public, &key.public_key, sizeof(public));
	assert_int_equal(secret_key_parse(text.data, text.len, &back, &err),
			 -EINVAL);
	secret_key_wipe(&key);
	for (size_t i = 0; i < sizeof(key.seed); i++)
		assert_int_equal(key.seed[i], 0);
	buf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_file),
		cmocka_unit_test(test_unknown_keys_are_ignored),
		cmocka_unit_test(test_an_empty_file),
		cmocka_unit_test(test_print_and_sign),
		cmocka_unit_test(test_print_refuses),
		cmocka_unit_test(test_refuses_bad_files),
		cmocka_unit_test(test_verify),
		cmocka_unit_test(test_accept),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_keys_of_the_rfc),
		cmocka_unit_test(test_new_keys),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
