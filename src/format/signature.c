/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: sign and verify (Ed25519, RFC 8032).
 *
 * The signed text begins with "larder head 1\n", which is the domain: no
 * signature made for anything else of larder's can be one of a head. The
 * bytes as received are verified, not a reprint of what was parsed.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "format/head.h"

static int sign(const struct secret_key *key, const void *text, size_t len,
		struct signature *ret)
{
	EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(
		EVP_PKEY_ED25519, NULL, key->seed, sizeof(key->seed));
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	size_t value_len = sizeof(ret->value);
	int r = -ENOMEM;

	if (pkey && context &&
	    EVP_DigestSignInit(context, NULL, NULL, NULL, pkey) == 1 &&
	    EVP_DigestSign(context, ret->value, &value_len, text, len) == 1 &&
	    value_len == sizeof(ret->value)) {
		memcpy(ret->key_id, key->public_key.id, sizeof(ret->key_id));
		r = 0;
	}
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(pkey);
	return r;
}

static bool is_signed_by(const struct public_key *key,
			 const struct signature *signature, const void *text,
			 size_t len)
{
	EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(
		EVP_PKEY_ED25519, NULL, key->bytes, sizeof(key->bytes));
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool is_signed;

	is_signed =
		pkey && context &&
		EVP_DigestVerifyInit(context, NULL, NULL, NULL, pkey) == 1 &&
		EVP_DigestVerify(context, signature->value,
				 sizeof(signature->value), text, len) == 1;
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(pkey);
	return is_signed;
}

int head_sign(struct buf *text, const struct secret_key *key)
{
	struct signature signature;
	struct head head;
	char id[2 * sizeof(signature.key_id) + 1];
	char *value;
	int r = head_parse(text->data, text->len, &head, NULL);

	if (r < 0)
		return r;
	if (head.signature_count == LIMIT_HEAD_SIGNATURES)
		return -E2BIG;
	r = sign(key, text->data, head.signed_bytes, &signature);
	if (r < 0)
		return r;
	value = base64_encode(signature.value, sizeof(signature.value));
	if (!value)
		return -ENOMEM;
	hex_encode(signature.key_id, sizeof(signature.key_id), id);
	r = buf_printf(text, "signature: %s %s\n", id, value);
	free(value);
	return r;
}

static bool is_among(const struct public_key *key,
		     const struct public_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (memcmp(keys[i].bytes, key->bytes, sizeof(key->bytes)) == 0)
			return true;
	return false;
}

/* Appends a key id to a list in words, as far as it fits. */
static void list_id(char *list, size_t size, const uint8_t id[8])
{
	char hex[17];
	size_t len = strlen(list);

	hex_encode(id, 8, hex);
	snprintf(list + len, size - len, "%s%s", len ? ", " : "", hex);
}

static int refuse(const struct head *head, const struct public_key *trusted,
		  size_t trusted_count, const char *reason, struct err *err)
{
	char signers[64] = "", known[64] = "";

	if (head->signature_count == 0)
		return err_set(err, EKEYREJECTED, "head of '%s' is not signed",
			       head->dataset);
	for (uint32_t i = 0; i < head->signature_count; i++)
		list_id(signers, sizeof(signers), head->signatures[i].key_id);
	for (size_t i = 0; i < trusted_count; i++)
		list_id(known, sizeof(known), trusted[i].id);
	return err_set(err, EKEYREJECTED,
		       "head of '%.40s' %s: signed by key %s, trusted: %s",
		       head->dataset, reason, signers, *known ? known : "none");
}

int head_verify(const void *text, const struct head *head,
		const struct public_key *trusted, size_t trusted_count,
		const struct public_key *revoked, size_t revoked_count,
		struct err *err)
{
	const char *reason = "has no trusted signature";

	for (uint32_t i = 0; i < head->signature_count; i++) {
		const struct signature *signature = &head->signatures[i];

		for (size_t k = 0; k < trusted_count; k++) {
			const struct public_key *key = &trusted[k];

			if (memcmp(key->id, signature->key_id,
				   sizeof(key->id)) != 0)
				continue;
			if (is_among(key, revoked, revoked_count))
				reason = "is signed with a revoked key";
			else if (is_signed_by(key, signature, text,
					      head->signed_bytes))
				return 0;
			else
				reason = "has a wrong signature";
		}
	}
	return refuse(head, trusted, trusted_count, reason, err);
}
