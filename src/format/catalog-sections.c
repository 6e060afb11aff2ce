/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a catalog and its table of sections: where the records of each
 * kind lie, one after the other without a gap. What is in them is looked at by
 * catalog-check.c.
 */
#include <config.h>

#include <errno.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/catalog-layout.h"
#include "format/recipe-layout.h"

const uint16_t catalog_record_bytes[CATALOG_SECTION_COUNT] = {
	[CATALOG_ENTRIES] = ENTRY_BYTES, [CATALOG_CHILDREN] = CHILD_BYTES,
	[CATALOG_BLOBS] = BLOB_BYTES,	 [CATALOG_REFERENCES] = REFERENCE_BYTES,
	[CATALOG_INLINE] = RECORD_BYTES, [CATALOG_DIGESTS] = DIGEST_BYTES,
	[CATALOG_OWNERS] = OWNER_BYTES,	 [CATALOG_LABELS] = LABEL_BYTES,
	[CATALOG_XATTRS] = XATTRS_BYTES, [CATALOG_STRINGS] = 1,
};

const char *const catalog_section_names[CATALOG_SECTION_COUNT] = {
	"entries", "children", "blobs",	 "references", "inline records",
	"digests", "owners",   "labels", "xattrs",     "strings",
};

static void load_params(const uint8_t *header, struct catalog_params *ret)
{
	*ret = (struct catalog_params){
		.chunker = {.min_bytes = load_le32(header + HEADER_CHUNK_MIN),
			    .average_bytes =
				    load_le32(header + HEADER_CHUNK_AVERAGE),
			    .max_bytes = load_le32(header + HEADER_CHUNK_MAX),
			    .normalisation = header[HEADER_NORMALISATION]},
		.small_file_bytes = load_le32(header + HEADER_SMALL_FILE),
		.shared_min_bytes = load_le32(header + HEADER_SHARED_MIN),
		.shared_mean_bytes = load_le32(header + HEADER_SHARED_MEAN),
		.shared_max_bytes = load_le32(header + HEADER_SHARED_MAX),
		.split_min_entries = load_le32(header + HEADER_SPLIT_MIN),
		.split_mean_entries = load_le32(header + HEADER_SPLIT_MEAN),
		.split_max_entries = load_le32(header + HEADER_SPLIT_MAX),
		.has_file_digests =
			header[HEADER_MARKS] & CATALOG_MARK_FILE_DIGESTS,
	};
}

static int check_header(struct catalog *catalog, struct err *err)
{
	const uint8_t *header = catalog->data;
	int r = preamble_check(header, catalog->len, CATALOG_MAGIC, "catalog",
			       err);

	if (r < 0)
		return r;
	if (catalog->len < HEADER_BYTES || catalog->len > LIMIT_CATALOG_BYTES)
		return err_set(err, EBADMSG,
			       "bad catalog: impossible size of %zu bytes",
			       catalog->len);
	load_params(header, &catalog->params);
	catalog->is_part = header[HEADER_MARKS] & CATALOG_MARK_PART;
	if ((header[HEADER_MARKS] & ~CATALOG_MARKS_KNOWN) != 0 ||
	    !catalog_bytes_zero(header + HEADER_ZERO, 4) ||
	    !catalog_params_valid(&catalog->params))
		return err_set(err, EBADMSG,
			       "bad catalog: impossible parameters");
	return 0;
}

/* Section i of the table lies where it must: right after `end`. */
static int check_section(struct catalog *catalog, uint32_t i, uint64_t *end,
			 struct err *err)
{
	const uint8_t *at = catalog->data + HEADER_BYTES + i * SECTION_BYTES;
	uint64_t offset = load_le64(at), len = load_le64(at + 8), stop;
	uint64_t start = (*end + 7) & ~UINT64_C(7);
	const char *name = i < CATALOG_SECTION_COUNT ?
				   catalog_section_names[i] :
				   "unknown";

	if (offset != start || !add_checked(offset, len, &stop) ||
	    stop > catalog->len ||
	    !catalog_bytes_zero(catalog->data + *end, start - *end))
		return err_set(err, EBADMSG,
			       "bad catalog: section of %s: not in its place",
			       name);
	*end = stop;
	if (i >= CATALOG_SECTION_COUNT)
		return 0;
	if (len % catalog_record_bytes[i] != 0)
		return err_set(err, EBADMSG,
			       "bad catalog: section of %s: half a record",
			       name);
	catalog->sections[i] = (struct catalog_section){
		.data = catalog->data + offset,
		.count = (uint32_t)(len / catalog_record_bytes[i]),
	};
	return 0;
}

static int check_sections(struct catalog *catalog, struct err *err)
{
	uint32_t count = load_le16(catalog->data + HEADER_SECTION_COUNT);
	uint64_t end = HEADER_BYTES + (uint64_t)count * SECTION_BYTES;

	if (count < CATALOG_SECTION_COUNT || count > CATALOG_SECTIONS_MAX ||
	    end > catalog->len)
		return err_set(err, EBADMSG,
			       "bad catalog: impossible section table");
	for (uint32_t i = 0; i < count; i++) {
		int r = check_section(catalog, i, &end, err);

		if (r < 0)
			return r;
	}
	if (end != catalog->len)
		return err_set(err, EBADMSG,
			       "bad catalog: bytes after the last section");
	return 0;
}

int catalog_open_sections(struct catalog *catalog, struct err *err)
{
	int r = check_header(catalog, err);

	return r < 0 ? r : check_sections(catalog, err);
}
