/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_DIGEST_H
#define LARDER_FORMAT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Content hashes. Every stored digest has a type byte; unused tail bytes of
 * the value are zero.
 */
enum digest_type {
	DIGEST_NONE = 0,
	DIGEST_SHA256 = 1, /* of the plain bytes */
	DIGEST_GIT_SHA1 =
		2, /* git blob id: "blob SIZE\0" and the bytes; 20 bytes */
	DIGEST_BLAKE3 = 3, /* reserved */
	DIGEST_REFERENCE =
		4, /* SHA-256 of URL, validator, size: no content hash */
};

#define DIGEST_BYTES 32
#define DIGEST_HEX_MAX (DIGEST_BYTES * 2 + 1)
#define DIGEST_TEXT_MAX (16 + DIGEST_HEX_MAX)

struct digest {
	uint8_t type;
	uint8_t bytes[DIGEST_BYTES];
};

size_t digest_size(enum digest_type type); /* 0 for unknown types */
bool digest_equal(const struct digest *a, const struct digest *b);
bool digest_is_none(const struct digest *digest);
/* Total order for sorting: type, then bytes. */
int digest_compare(const struct digest *a, const struct digest *b);

/*
 * Should the crypto library fail (out of memory), the result is DIGEST_NONE,
 * which equals no digest that is expected and is refused by every writer.
 */
void digest_sha256(const void *data, size_t len, struct digest *ret);
/* For what asks for nothing better; -ENOTSUP where it is forbidden. */
#define DIGEST_MD5_BYTES 16
int digest_md5(const void *data, size_t len, uint8_t ret[DIGEST_MD5_BYTES]);
/* The id of a blob by reference without a content digest, DIGEST_REFERENCE:
 * SHA-256 of "larder reference", url, validator, each followed by a zero
 * byte, and the size as u64. */
void digest_reference(const char *url, const char *validator, uint64_t size,
		      struct digest *ret);

/* Incremental. A hasher belongs to one thread at a time and can be reused. */
struct hasher;
struct hasher *hasher_new(void); /* NULL on ENOMEM */
void hasher_free(struct hasher *hasher);
/* size_bytes is needed by git ids only. -EINVAL for types it cannot compute. */
int hasher_start(struct hasher *hasher, enum digest_type type,
		 uint64_t size_bytes);
void hasher_add(struct hasher *hasher, const void *data, size_t len);
void hasher_finish(struct hasher *hasher, struct digest *ret);

/* Hex of the value only: names of files. */
char *digest_hex(const struct digest *digest, char ret_text[DIGEST_HEX_MAX]);
/* "sha256:9f31...", for people and heads. */
char *digest_text(const struct digest *digest, char ret_text[DIGEST_TEXT_MAX]);
int digest_parse(const char *text,
		 struct digest *ret); /* of digest_text; -EINVAL */
/* DIR/ab/cdef...: the path below a mirror or cache. ret has DIGEST_PATH_MAX. */
#define DIGEST_PATH_MAX 128
char *digest_path(const char *dir, const struct digest *digest,
		  char ret_path[DIGEST_PATH_MAX]);

/* XXH3-64: integrity at rest only, never authenticity. */
uint64_t checksum_xxh3(const void *data, size_t len);
/* The same of len bytes that come piece by piece: read(arg, at, data, size)
 * brings each in full, or a negative errno, which is returned. */
int checksum_xxh3_read(int (*read)(void *arg, uint64_t at, void *data,
				   size_t size),
		       void *arg, uint64_t len, uint64_t *ret);

#endif
