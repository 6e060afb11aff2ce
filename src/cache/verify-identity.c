/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a complete blob is what it is named by. A blob by reference is named
 * by the digest of its bytes, a published one by that of its recipe, which
 * follows from its chunks. So nothing but the data is needed, and what a
 * checksum that was damaged along with it would let pass is seen. Small blobs,
 * whose list of chunks is in a catalog, have no other check.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cache/verify.h"
#include "format/recipe.h"

struct identity {
	struct digest id;
	struct hasher *hasher;	      /* by reference, */
	struct recipe_writer *writer; /* or published */
	uint64_t at;		      /* the next unit must begin here */
	uint64_t blob_bytes;
	int failure;
};

static int page_done(void *arg, const struct digest *digest, const void *data,
		     size_t len)
{
	(void)arg;
	(void)digest;
	(void)data;
	(void)len;
	return 0;
}

struct identity *identity_new(const struct digest *id,
			      const struct blob_row *row)
{
	struct identity *identity = calloc(1, sizeof(*identity));
	bool is_started = false;

	if (!identity)
		return NULL;
	identity->id = *id;
	identity->blob_bytes = row->blob_bytes;
	if (row->is_by_content) {
		identity->hasher = hasher_new();
		is_started = identity->hasher &&
			     hasher_start(identity->hasher, id->type,
					  row->blob_bytes) == 0;
	} else if (id->type == DIGEST_SHA256) {
		identity->writer = recipe_writer_new(page_done, NULL);
		is_started = identity->writer != NULL;
	}
	if (is_started)
		return identity;
	identity_free(identity);
	return NULL;
}

void identity_free(struct identity *identity)
{
	if (!identity)
		return;
	hasher_free(identity->hasher);
	recipe_writer_free(identity->writer);
	free(identity);
}

static bool is_zero(const uint8_t *data, size_t len)
{
	return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

static int add(struct identity *identity, const struct unit_row *unit,
	       const uint8_t *data)
{
	struct recipe_record record = {
		.length = unit->length,
		.is_zero = is_zero(data, unit->length),
	};

	if (unit->offset != identity->at)
		return -EINVAL;
	identity->at += unit->length;
	if (identity->hasher) {
		hasher_add(identity->hasher, data, unit->length);
		return 0;
	}
	if (!record.is_zero)
		digest_sha256(data, unit->length, &record.digest);
	return recipe_writer_add(identity->writer, &record);
}

void identity_add(struct identity *identity, const struct unit_row *unit,
		  const uint8_t *data)
{
	if (identity->failure == 0)
		identity->failure = add(identity, unit, data);
}

int identity_compare(struct identity *identity)
{
	struct digest digest;
	struct buf root;
	int r = identity->failure;

	if (r < 0)
		return r;
	if (identity->at != identity->blob_bytes)
		return -ENODATA;
	buf_init(&root, LIMIT_RECIPE_BYTES);
	if (identity->hasher)
		hasher_finish(identity->hasher, &digest);
	else
		r = recipe_writer_finish(identity->writer, &root, &digest);
	buf_release(&root);
	if (r < 0)
		return r;
	if (digest_is_none(&digest))
		return -ENOMEM;
	return digest_equal(&digest, &identity->id);
}
