/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_HEAD_H
#define LARDER_FORMAT_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/digest.h"
#include "format/limits.h"

struct buf;
struct err;

/*
 * A dataset's signed pointer: "dataset NAME is catalog C, serial N, made at
 * T". Text, one "key: value" a line, signatures last. What is signed is
 * the first line, "larder head 1\n", as domain, and every line before the
 * first signature.
 */
struct signature {
	uint8_t key_id[8]; /* first 8 bytes of SHA-256 of the raw public key */
	uint8_t value[64]; /* Ed25519, RFC 8032 */
};

struct head {
	char dataset[LIMIT_DATASET_NAME_BYTES + 1];
	char tag[LIMIT_DATASET_NAME_BYTES + 1]; /* empty: current head */
	struct digest catalog;
	uint64_t catalog_bytes; /* plain */
	uint64_t entry_count;	/* totals of the whole tree */
	uint64_t total_bytes;
	uint64_t serial;
	int64_t time;	 /* seconds since 1970 */
	int64_t expires; /* 0: never */
	struct digest
		previous; /* SHA-256 of the previous head's text, or none */
	uint32_t signature_count;
	struct signature signatures[LIMIT_HEAD_SIGNATURES];
	size_t signed_bytes; /* set by head_parse: length of the signed part */
};

/* -EBADMSG for text that is no head, -EPROTONOSUPPORT for one that needs a
 * newer larder. Says nothing about signatures. */
int head_parse(const void *text, size_t len, struct head *ret, struct err *err);
/* Appends the signed part (no signatures). -EINVAL for a head that
 * head_parse would refuse. */
int head_print(const struct head *head, struct buf *ret_text);

/* Letters, digits, '.', '_', '-', '/' between parts; no part '.' or '..',
 * none that starts with '.', no '@'. */
bool dataset_name_valid(const char *name);
bool tag_name_valid(const char *tag);

/* Keys. A key file is text: "larder-public-key ed25519 BASE64 [comment]" or
 * "larder-secret-key ed25519 BASE64 [comment]" (32-byte seed). */
struct public_key {
	uint8_t bytes[32];
	uint8_t id[8];
};
struct secret_key {
	uint8_t seed[32];
	struct public_key public_key;
};

int secret_key_new(struct secret_key *ret);
int secret_key_parse(const void *text, size_t len, struct secret_key *ret,
		     struct err *err);
int public_key_parse(const void *text, size_t len, struct public_key *ret,
		     struct err *err);
int secret_key_print(const struct secret_key *key, struct buf *ret_text);
int public_key_print(const struct public_key *key, struct buf *ret_text);
void secret_key_wipe(struct secret_key *key);

/* Append "signature: ..." for the text so far (the signed part must be all
 * of the text before the first signature line). */
int head_sign(struct buf *text, const struct secret_key *key);

/*
 * -EKEYREJECTED unless one signature verifies under a trusted key that is
 * not revoked; err names what the head was signed with and what is trusted.
 */
int head_verify(const void *text, const struct head *head,
		const struct public_key *trusted, size_t trusted_count,
		const struct public_key *revoked, size_t revoked_count,
		struct err *err);

/*
 * Whether a client that holds `current` (NULL: none yet) may accept `offered`
 * for dataset `name`, or `NAME@TAG`: a tagged head never stands for the
 * current one, nor the other way round. Pure; -EINVAL other dataset or tag,
 * -ESTALE lower serial or same serial with another catalog, -EKEYEXPIRED
 * already expired when first received. A clock before the head's own time
 * judges no expiry.
 */
int head_accept(const struct head *offered, const struct head *current,
		const char *name, int64_t now, struct err *err);

#endif
