/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FORMAT_CATALOG_LAYOUT_H
#define LARDER_FORMAT_CATALOG_LAYOUT_H

#include "format/catalog.h"
#include "format/preamble.h"

/*
 * Where each field of a catalog stands, as larder-format(5) says; for
 * catalog*.c only. A file is the header, the section table, then the sections
 * in this order, each at the next multiple of 8.
 */
enum catalog_section_number {
	CATALOG_ENTRIES,
	CATALOG_CHILDREN,
	CATALOG_BLOBS,
	CATALOG_REFERENCES,
	CATALOG_INLINE,
	CATALOG_DIGESTS,
	CATALOG_OWNERS,
	CATALOG_LABELS,
	CATALOG_XATTRS,
	CATALOG_STRINGS,
	CATALOG_SECTION_COUNT,
};
/* Later sections are skipped; this many are believed possible. */
#define CATALOG_SECTIONS_MAX 32

#define CATALOG_MAGIC "LRDC"

enum catalog_marks {
	CATALOG_MARK_PART = 1 << 0,
	CATALOG_MARK_FILE_DIGESTS = 1 << 1,
	CATALOG_MARKS_KNOWN = 3,
};

enum catalog_header_layout {
	HEADER_SECTION_COUNT = PREAMBLE_BYTES,
	HEADER_NORMALISATION = 10,
	HEADER_MARKS = 11,
	HEADER_CHUNK_MIN = 12,
	HEADER_CHUNK_AVERAGE = 16,
	HEADER_CHUNK_MAX = 20,
	HEADER_SMALL_FILE = 24,
	HEADER_SHARED_MIN = 28,
	HEADER_SHARED_MEAN = 32,
	HEADER_SHARED_MAX = 36,
	HEADER_SPLIT_MIN = 40,
	HEADER_SPLIT_MEAN = 44,
	HEADER_SPLIT_MAX = 48,
	HEADER_ZERO = 52,
	HEADER_BYTES = 56,
	SECTION_BYTES = 16, /* u64 offset, u64 length */
};

enum entry_flags {
	ENTRY_FLAG_SPLIT = 1 << 4,
	ENTRY_FLAGS_REFUSED = 0xe0, /* unknown, must refuse */
};

enum entry_layout {
	ENTRY_NAME = 0,
	ENTRY_NAME_LEN = 4,
	ENTRY_TYPE = 6,
	ENTRY_FLAGS = 7,
	ENTRY_MODE = 8,
	ENTRY_LABEL = 10,
	ENTRY_MTIME_NS = 12,
	ENTRY_MTIME_S = 16,
	ENTRY_SIZE = 24,
	ENTRY_OFFSET = 32,   /* file */
	ENTRY_FIRST = 32,    /* directory: names, or children if split */
	ENTRY_COUNT = 36,
	ENTRY_TEXT = 32,     /* symlink, hole, tombstone */
	ENTRY_TEXT_LEN = 36,
	ENTRY_ZERO = 38,
	ENTRY_OWNER = 40,
	ENTRY_XATTRS = 44,
	ENTRY_PARENT = 48,
	ENTRY_ZERO_2 = 52,
	ENTRY_BELOW = 56,    /* directory */
	ENTRY_BLOB = 56,     /* file */
	ENTRY_SHA256 = 60,   /* file, hole, tombstone */
	ENTRY_BYTES = 64,
};

enum child_layout {
	CHILD_DIGEST = 0, /* type, 7 zero bytes, value */
	CHILD_OBJECT_BYTES = 40,
	CHILD_BASE = 48,
	CHILD_SPAN = 56,
	CHILD_ENTRY_COUNT = 64,
	CHILD_TOTAL_BYTES = 72,
	CHILD_NAME_START = 80,
	CHILD_NAME_COUNT = 88,
	CHILD_OWNER = 96,
	CHILD_NAME = 100,
	CHILD_NAME_LEN = 104,
	CHILD_ZERO = 106, /* 6 bytes */
	CHILD_BYTES = 112,
};

enum blob_layout {
	BLOB_ID_TYPE = 0,
	BLOB_KIND = 1,
	BLOB_ZERO = 2, /* 6 bytes */
	BLOB_ID = 8,
	BLOB_SIZE = 40,
	BLOB_FIRST = 48, /* inline record, or reference */
	BLOB_COUNT = 52,
	BLOB_BYTES = 56,
};

enum reference_layout {
	REFERENCE_URL = 0,
	REFERENCE_URL_LEN = 4,
	REFERENCE_VALIDATOR_LEN = 6,
	REFERENCE_VALIDATOR = 8,
	REFERENCE_CONTENT_TYPE = 12,
	REFERENCE_ZERO = 13, /* 3 bytes */
	REFERENCE_CONTENT = 16,
	REFERENCE_BYTES = 48,
};

enum owner_layout { OWNER_UID = 0, OWNER_GID = 4, OWNER_BYTES = 8 };

enum label_layout {
	LABEL_TEXT = 0,
	LABEL_TEXT_LEN = 4,
	LABEL_ZERO = 6, /* 2 bytes */
	LABEL_BYTES = 8,
};

enum xattrs_layout { XATTRS_SET = 0, XATTRS_SET_LEN = 4, XATTRS_BYTES = 8 };

/* One attribute in a set: head, name, value. */
enum xattr_layout { XATTR_NAME_LEN = 0, XATTR_VALUE_LEN = 2, XATTR_HEAD_BYTES = 6 };

/* Bytes of one record of each section. */
extern const uint16_t catalog_record_bytes[CATALOG_SECTION_COUNT];
extern const char *const catalog_section_names[CATALOG_SECTION_COUNT];

struct catalog_section {
	const uint8_t *data;
	uint32_t count; /* records */
};

struct catalog {
	uint8_t *data;
	size_t len;
	struct catalog_section sections[CATALOG_SECTION_COUNT];
	struct catalog_params params;
	bool is_part;
	uint64_t span;
};

static inline const uint8_t *catalog_record(const struct catalog *catalog,
					    enum catalog_section_number section,
					    uint32_t index)
{
	return catalog->sections[section].data +
	       (size_t)index * catalog_record_bytes[section];
}

static inline const char *catalog_string(const struct catalog *catalog,
					 uint32_t offset)
{
	return (const char *)catalog->sections[CATALOG_STRINGS].data + offset;
}

/* catalog-sections.c: finds the sections, each where it must be. */
int catalog_open_sections(struct catalog *catalog, struct err *err);
/* Everything catalog.h promises about a catalog whose data and len are set;
 * fills the rest. catalog-check.c. */
int catalog_check(struct catalog *catalog, struct err *err);

/* catalog-rules.c. */
bool catalog_bytes_zero(const uint8_t *data, size_t len);
/* Not empty, no '/' or NUL, not "." or "..". The length is the caller's. */
bool catalog_name_valid(const char *name, size_t len);
/* A set in stored form: whole, "user." names in ascending order, limits. */
bool catalog_xattrs_valid(const uint8_t *set, size_t len);
/* No NUL; for what goes into requests, no control bytes either. */
bool catalog_url_text_valid(const char *text, size_t len);
bool catalog_params_valid(const struct catalog_params *params);
/* NULL, or what is wrong with a blob (its records and texts apart). */
const char *catalog_blob_fault(const struct catalog_blob *blob);

/* Names in byte order, a prefix first. */
int catalog_name_compare(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
