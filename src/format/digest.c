/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content hashes: compute, compare, print, parse.
 *
 * The algorithms are fetched from libcrypto once per process, because an
 * implicit fetch at every start costs more than hashing a small file. They
 * are constants after that, shared by all threads. A failure inside
 * libcrypto yields DIGEST_NONE: verification then fails, and writers refuse.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "format/digest.h"

#define CHECKSUM_PIECE_BYTES 65536u

static const struct {
	const char *name;
	size_t size;
} digest_types[] = {
	[DIGEST_SHA256] = {"sha256", 32},
	[DIGEST_GIT_SHA1] = {"git-sha1", 20},
	[DIGEST_BLAKE3] = {"blake3", 32},
	[DIGEST_REFERENCE] = {"reference", 32},
};
#define DIGEST_TYPE_COUNT (sizeof(digest_types) / sizeof(digest_types[0]))

static pthread_once_t algorithms_once = PTHREAD_ONCE_INIT;
static EVP_MD *algorithm_sha256, *algorithm_sha1;

static void fetch_algorithms(void)
{
	algorithm_sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	algorithm_sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
}

static const EVP_MD *algorithm(enum digest_type type)
{
	pthread_once(&algorithms_once, fetch_algorithms);
	switch (type) {
	case DIGEST_SHA256:
	case DIGEST_REFERENCE:
		return algorithm_sha256;
	case DIGEST_GIT_SHA1:
		return algorithm_sha1;
	default:
		return NULL;
	}
}

size_t digest_size(enum digest_type type)
{
	if ((size_t)type >= DIGEST_TYPE_COUNT)
		return 0;
	return digest_types[type].size;
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
	return digest_compare(a, b) == 0;
}

bool digest_is_none(const struct digest *digest)
{
	return digest->type == DIGEST_NONE;
}

int digest_compare(const struct digest *a, const struct digest *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	return memcmp(a->bytes, b->bytes, DIGEST_BYTES);
}

void digest_sha256(const void *data, size_t len, struct digest *ret)
{
	struct digest digest = {.type = DIGEST_SHA256};
	unsigned int size = 0;

	if (!EVP_Digest(data, len, digest.bytes, &size,
			algorithm(DIGEST_SHA256), NULL) ||
	    size != 32)
		digest = (struct digest){0};
	*ret = digest;
}

int digest_md5(const void *data, size_t len, uint8_t ret[DIGEST_MD5_BYTES])
{
	if (EVP_Digest(data, len, ret, NULL, EVP_md5(), NULL) != 1)
		return -ENOTSUP;
	return 0;
}

void digest_reference(const char *url, const char *validator, uint64_t size,
		      struct digest *ret)
{
	static const char domain[] = "larder reference";
	struct hasher *hasher = hasher_new();
	uint8_t size_le[8];

	*ret = (struct digest){0};
	if (!hasher || hasher_start(hasher, DIGEST_REFERENCE, 0) < 0)
		goto out;
	store_le64(size_le, size);
	hasher_add(hasher, domain, sizeof(domain));
	hasher_add(hasher, url, strlen(url) + 1);
	hasher_add(hasher, validator, strlen(validator) + 1);
	hasher_add(hasher, size_le, sizeof(size_le));
	hasher_finish(hasher, ret);
out:
	hasher_free(hasher);
}

struct hasher {
	EVP_MD_CTX *context;
	enum digest_type type;
	bool is_failed;
};

struct hasher *hasher_new(void)
{
	struct hasher *hasher = calloc(1, sizeof(*hasher));

	if (!hasher)
		return NULL;
	hasher->context = EVP_MD_CTX_new();
	if (!hasher->context) {
		free(hasher);
		return NULL;
	}
	hasher->is_failed = true; /* until started */
	return hasher;
}

void hasher_free(struct hasher *hasher)
{
	if (!hasher)
		return;
	EVP_MD_CTX_free(hasher->context);
	free(hasher);
}

int hasher_start(struct hasher *hasher, enum digest_type type,
		 uint64_t size_bytes)
{
	const EVP_MD *md = algorithm(type);

	hasher->is_failed = true;
	if (!md)
		return -EINVAL;
	if (!EVP_DigestInit_ex2(hasher->context, md, NULL))
		return -ENOMEM;
	hasher->type = type;
	hasher->is_failed = false;
	if (type == DIGEST_GIT_SHA1) {
		char prefix[32];
		int len = snprintf(prefix, sizeof(prefix), "blob %llu",
				   (unsigned long long)size_bytes);

		hasher_add(hasher, prefix, (size_t)len + 1);
	}
	return 0;
}

void hasher_add(struct hasher *hasher, const void *data, size_t len)
{
	if (len > 0 && !hasher->is_failed &&
	    !EVP_DigestUpdate(hasher->context, data, len))
		hasher->is_failed = true;
}

void hasher_finish(struct hasher *hasher, struct digest *ret)
{
	uint8_t value[EVP_MAX_MD_SIZE];
	unsigned int size = 0;

	*ret = (struct digest){0};
	if (!hasher->is_failed &&
	    EVP_DigestFinal_ex(hasher->context, value, &size) &&
	    size == digest_size(hasher->type)) {
		ret->type = (uint8_t)hasher->type;
		memcpy(ret->bytes, value, size);
	}
	hasher->is_failed = true; /* until started again */
}

char *digest_hex(const struct digest *digest, char ret_text[DIGEST_HEX_MAX])
{
	hex_encode(digest->bytes, digest_size(digest->type), ret_text);
	return ret_text;
}

char *digest_text(const struct digest *digest, char ret_text[DIGEST_TEXT_MAX])
{
	char hex[DIGEST_HEX_MAX];

	if (digest_size(digest->type) == 0)
		snprintf(ret_text, DIGEST_TEXT_MAX, "none");
	else
		snprintf(ret_text, DIGEST_TEXT_MAX, "%s:%s",
			 digest_types[digest->type].name,
			 digest_hex(digest, hex));
	return ret_text;
}

int digest_parse(const char *text, struct digest *ret)
{
	const char *colon = strchr(text, ':');

	if (strcmp(text, "none") == 0) {
		*ret = (struct digest){0};
		return 0;
	}
	if (!colon)
		return -EINVAL;
	for (size_t type = 1; type < DIGEST_TYPE_COUNT; type++) {
		const char *name = digest_types[type].name;
		struct digest digest = {.type = (uint8_t)type};

		if (strlen(name) != (size_t)(colon - text) ||
		    memcmp(name, text, strlen(name)) != 0)
			continue;
		if (hex_decode(colon + 1, digest.bytes,
			       digest_types[type].size) < 0)
			return -EINVAL;
		*ret = digest;
		return 0;
	}
	return -EINVAL;
}

char *digest_path(const char *dir, const struct digest *digest,
		  char ret_path[DIGEST_PATH_MAX])
{
	char hex[DIGEST_HEX_MAX];

	assert(digest_size(digest->type) > 0);
	digest_hex(digest, hex);
	snprintf(ret_path, DIGEST_PATH_MAX, "%s/%.2s/%s", dir, hex, hex + 2);
	return ret_path;
}

uint64_t checksum_xxh3(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

int checksum_xxh3_read(int (*read)(void *arg, uint64_t at, void *data,
				   size_t size),
		       void *arg, uint64_t len, uint64_t *ret)
{
	/* below malloc's limit for a mapping: memory that was used before */
	_cleanup_free_ uint8_t *piece = malloc(CHECKSUM_PIECE_BYTES);
	XXH3_state_t *state = XXH3_createState();
	int r = piece && state ? 0 : -ENOMEM;

	if (r == 0)
		XXH3_64bits_reset(state);
	for (uint64_t at = 0; r == 0 && at < len;) {
		size_t size = len - at < CHECKSUM_PIECE_BYTES ?
				      (size_t)(len - at) :
				      CHECKSUM_PIECE_BYTES;

		r = read(arg, at, piece, size);
		if (r == 0)
			XXH3_64bits_update(state, piece, size);
		at += size;
	}
	if (r == 0)
		*ret = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return r;
}
