/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be in a catalog, one value at a time: the same rules for the
 * reader, which says what is wrong, and the writer, which refuses to write it.
 */
#include <config.h>

#include <string.h>

#include "base/bytes.h"
#include "format/catalog-layout.h"

bool catalog_bytes_zero(const uint8_t *data, size_t len)
{
	uint8_t all = 0;

	for (size_t i = 0; i < len; i++)
		all |= data[i];
	return all == 0;
}

bool catalog_name_valid(const char *name, size_t len)
{
	if (len == 0 || memchr(name, '/', len) || memchr(name, '\0', len))
		return false;
	return name[0] != '.' || !(len == 1 || (len == 2 && name[1] == '.'));
}

bool catalog_url_text_valid(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	}
	return true;
}

bool catalog_xattrs_valid(const uint8_t *set, size_t len)
{
	static const char prefix[] = "user.";
	const char *last = NULL;
	size_t last_len = 0, left = len, sum = 0;

	while (left > 0) {
		const char *name = (const char *)set + XATTR_HEAD_BYTES;
		size_t name_len, value_len;

		if (left < XATTR_HEAD_BYTES)
			return false;
		name_len = load_le16(set + XATTR_NAME_LEN);
		value_len = load_le32(set + XATTR_VALUE_LEN);
		left -= XATTR_HEAD_BYTES;
		if (name_len < sizeof(prefix) ||
		    name_len > LIMIT_XATTR_NAME_BYTES ||
		    value_len > LIMIT_XATTR_VALUE_BYTES ||
		    name_len + value_len > left)
			return false;
		sum += name_len + value_len;
		if (memcmp(name, prefix, sizeof(prefix) - 1) != 0 ||
		    memchr(name, '\0', name_len) ||
		    (last &&
		     catalog_name_compare(last, last_len, name, name_len) >= 0))
			return false;
		last = name;
		last_len = name_len;
		left -= name_len + value_len;
		set += XATTR_HEAD_BYTES + name_len + value_len;
	}
	return sum > 0 && sum <= LIMIT_XATTRS_BYTES;
}

bool catalog_params_valid(const struct catalog_params *params)
{
	return chunker_params_valid(&params->chunker) &&
	       params->shared_min_bytes > 0 &&
	       params->shared_min_bytes <= params->shared_mean_bytes &&
	       params->shared_mean_bytes <= params->shared_max_bytes &&
	       params->small_file_bytes <= params->shared_max_bytes &&
	       params->split_min_entries > 0 &&
	       params->split_min_entries <= params->split_mean_entries &&
	       params->split_mean_entries <= params->split_max_entries &&
	       params->split_max_entries <= LIMIT_CATALOG_SPLIT_ENTRIES;
}

static bool digest_padded(const struct digest *digest)
{
	size_t size = digest_size(digest->type);

	return catalog_bytes_zero(digest->bytes + size, DIGEST_BYTES - size);
}

static const char *reference_fault(const struct catalog_blob *blob)
{
	bool has_content = blob->content.type == DIGEST_SHA256 ||
			   blob->content.type == DIGEST_GIT_SHA1;

	if (!has_content && blob->content.type != DIGEST_NONE)
		return "unknown content digest type";
	if (!digest_padded(&blob->id) || !digest_padded(&blob->content))
		return "digest has bytes past its end";
	if (has_content ? !digest_equal(&blob->id, &blob->content) :
			  blob->id.type != DIGEST_REFERENCE)
		return "id does not follow from the reference";
	if (blob->url_len == 0 || blob->url_len > LIMIT_URL_BYTES ||
	    blob->validator_len > LIMIT_VALIDATOR_BYTES)
		return "URL or validator of impossible length";
	return NULL;
}

const char *catalog_blob_fault(const struct catalog_blob *blob)
{
	if (blob->size == 0 || blob->size > LIMIT_BLOB_BYTES)
		return "impossible size";
	if (blob->kind == BLOB_REFERENCE)
		return reference_fault(blob);
	if (blob->kind != BLOB_RECIPE && blob->kind != BLOB_INLINE)
		return "unknown kind";
	if (blob->id.type != DIGEST_SHA256)
		return "unknown id type";
	if (blob->kind == BLOB_INLINE &&
	    (blob->inline_count == 0 ||
	     blob->inline_count > LIMIT_INLINE_CHUNKS))
		return "impossible number of inline records";
	return NULL;
}
