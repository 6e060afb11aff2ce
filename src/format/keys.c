/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signing keys and their files.
 *
 * A key file is one line of text that says what it is, so that a secret key
 * given where a public one belongs is named as such. A secret key is stored
 * as its seed; the public half is derived, never believed. Copies of a
 * secret are wiped where they are made.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "format/head.h"

#define PUBLIC_WORD "larder-public-key"
#define SECRET_WORD "larder-secret-key"
#define ALGORITHM_WORD "ed25519"
#define KEY_BYTES 32u

static int set_id(struct public_key *key)
{
	struct digest digest;

	digest_sha256(key->bytes, sizeof(key->bytes), &digest);
	if (digest_is_none(&digest))
		return -ENOMEM;
	memcpy(key->id, digest.bytes, sizeof(key->id));
	return 0;
}

static int take_public(EVP_PKEY *pkey, struct public_key *ret)
{
	size_t len = sizeof(ret->bytes);

	if (!EVP_PKEY_get_raw_public_key(pkey, ret->bytes, &len) ||
	    len != sizeof(ret->bytes))
		return -EINVAL;
	return set_id(ret);
}

int secret_key_new(struct secret_key *ret)
{
	struct secret_key key = {0};
	size_t len = sizeof(key.seed);
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	int r = -ENOMEM;

	if (!pkey)
		return -ENOMEM;
	if (EVP_PKEY_get_raw_private_key(pkey, key.seed, &len) &&
	    len == sizeof(key.seed))
		r = take_public(pkey, &key.public_key);
	EVP_PKEY_free(pkey);
	if (r == 0)
		*ret = key;
	secret_key_wipe(&key);
	return r;
}

static int derive_public(struct secret_key *key)
{
	EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(
		EVP_PKEY_ED25519, NULL, key->seed, sizeof(key->seed));
	int r = -ENOMEM;

	if (pkey)
		r = take_public(pkey, &key->public_key);
	EVP_PKEY_free(pkey);
	return r;
}

/* The next word of [*at, end), moved past it and the spaces that follow. */
static size_t take_word(const char **at, const char *end, const char **ret_word)
{
	const char *word = *at;
	size_t len;

	while (*at < end && **at != ' ')
		(*at)++;
	len = (size_t)(*at - word);
	while (*at < end && **at == ' ')
		(*at)++;
	*ret_word = word;
	return len;
}

static bool word_is(const char *word, size_t len, const char *expected)
{
	return len == strlen(expected) && memcmp(word, expected, len) == 0;
}

/* The one line of the file; NULL if there is more than one. */
static const char *line_end(const char *text, size_t len)
{
	const char *newline = memchr(text, '\n', len);

	if (!newline)
		return text + len;
	return newline + 1 == text + len ? newline : NULL;
}

static int parse_key(const void *text, size_t len, const char *kind,
		     uint8_t bytes[KEY_BYTES], struct err *err)
{
	const char *at = text, *word;
	const char *end = line_end(text, len);
	size_t word_len, bytes_len;

	if (!end)
		return err_set(err, EINVAL, "key file has more than one line");
	word_len = take_word(&at, end, &word);
	if (!word_is(word, word_len, kind)) {
		if (word_is(word, word_len, SECRET_WORD))
			return err_set(err, EINVAL,
				       "this is a secret key; the public one "
				       "is in the file that ends in .pub");
		if (word_is(word, word_len, PUBLIC_WORD))
			return err_set(err, EINVAL,
				       "this is a public key; signing needs "
				       "the secret one");
		return err_set(err, EINVAL, "not a larder key file");
	}
	word_len = take_word(&at, end, &word);
	if (!word_is(word, word_len, ALGORITHM_WORD))
		return err_set(err, EPROTONOSUPPORT,
			       "key algorithm is not " ALGORITHM_WORD);
	word_len = take_word(&at, end, &word);
	if (base64_decode(word, word_len, bytes, KEY_BYTES, &bytes_len) < 0 ||
	    bytes_len != KEY_BYTES)
		return err_set(err, EINVAL, "key is malformed");
	return 0;
}

int secret_key_parse(const void *text, size_t len, struct secret_key *ret,
		     struct err *err)
{
	struct secret_key key = {0};
	int r = parse_key(text, len, SECRET_WORD, key.seed, err);

	if (r == 0) {
		r = derive_public(&key);
		if (r < 0)
			err_set(err, -r, "cannot derive the public key");
	}
	if (r == 0)
		*ret = key;
	secret_key_wipe(&key);
	return r;
}

int public_key_parse(const void *text, size_t len, struct public_key *ret,
		     struct err *err)
{
	struct public_key key = {0};
	int r = parse_key(text, len, PUBLIC_WORD, key.bytes, err);

	if (r == 0) {
		r = set_id(&key);
		if (r < 0)
			err_set(err, -r, "cannot hash the key");
	}
	if (r == 0)
		*ret = key;
	return r;
}

static int print_key(const char *kind, const uint8_t bytes[KEY_BYTES],
		     struct buf *text)
{
	char *encoded = base64_encode(bytes, KEY_BYTES);
	int r;

	if (!encoded)
		return -ENOMEM;
	r = buf_printf(text, "%s " ALGORITHM_WORD " %s\n", kind, encoded);
	explicit_bzero(encoded, strlen(encoded));
	free(encoded);
	return r;
}

int secret_key_print(const struct secret_key *key, struct buf *ret_text)
{
	return print_key(SECRET_WORD, key->seed, ret_text);
}

int public_key_print(const struct public_key *key, struct buf *ret_text)
{
	return print_key(PUBLIC_WORD, key->bytes, ret_text);
}

void secret_key_wipe(struct secret_key *key)
{
	explicit_bzero(key, sizeof(*key));
}
