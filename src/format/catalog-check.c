/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything a catalog must hold before anybody looks anything up in it.
 *
 * The format leaves no freedom in the order of records: names, directories,
 * blobs, strings and all other records stand in the order of their first use.
 * So one pass with a cursor per section proves at once that every reference
 * is in bounds, that every entry but the first is in exactly one directory,
 * that there is no cycle, and that no byte is left over to hide something in.
 * Nothing is allocated.
 */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/catalog-layout.h"
#include "format/recipe-layout.h"

struct check {
	const struct catalog *catalog;
	struct err *err;
	uint32_t used[CATALOG_SECTION_COUNT]; /* records seen so far */
	uint64_t numbers;		      /* entry numbers owned so far */
};

static int bad(const struct check *check, const char *what, uint32_t index,
	       const char *fault)
{
	return err_set(check->err, EBADMSG, "bad catalog: %s %u: %s", what,
		       index, fault);
}

/* Record index is one seen before, or the next. */
static bool claim(struct check *check, enum catalog_section_number section,
		  uint32_t index)
{
	if (index < check->used[section])
		return true;
	if (index > check->used[section] ||
	    index >= check->catalog->sections[section].count)
		return false;
	check->used[section]++;
	return true;
}

/* The optional kind of index: 0 is none, else one more than the index. */
static bool claim_optional(struct check *check,
			   enum catalog_section_number section, uint32_t value)
{
	return value == 0 || claim(check, section, value - 1);
}

/* count records more, which must start at first. */
static bool claim_run(struct check *check, enum catalog_section_number section,
		      uint32_t first, uint32_t count)
{
	uint32_t used = check->used[section];

	if (first != used ||
	    count > check->catalog->sections[section].count - used)
		return false;
	check->used[section] += count;
	return true;
}

/* Bytes among those seen before, or the next; a run never straddles. */
static bool claim_string(struct check *check, uint32_t offset, uint32_t len)
{
	uint32_t used = check->used[CATALOG_STRINGS];

	if (offset < used)
		return len <= used - offset;
	return claim_run(check, CATALOG_STRINGS, offset, len);
}

/* Blobs. */

static int check_inline(struct check *check, uint32_t index,
			const struct catalog_blob *blob)
{
	struct recipe_record records[LIMIT_INLINE_CHUNKS];
	uint64_t sum = 0;
	struct digest id;
	int r;

	if (!claim_run(check, CATALOG_INLINE, blob->inline_first,
		       blob->inline_count))
		return bad(check, "blob", index, "inline records out of order");
	for (uint32_t i = 0; i < blob->inline_count; i++) {
		if (!recipe_record_load(catalog_record(check->catalog,
						       CATALOG_INLINE,
						       blob->inline_first + i),
					&records[i]))
			return bad(check, "blob", index,
				   "malformed inline record");
		sum += records[i].length;
	}
	if (sum != blob->size)
		return bad(check, "blob", index,
			   "chunks do not add up to its size");
	r = recipe_inline_id(records, blob->inline_count, &id);
	if (r < 0)
		return err_set(check->err, -r, "cannot hash an inline recipe");
	if (!digest_equal(&id, &blob->id))
		return bad(check, "blob", index,
			   "id is not the hash of its records");
	return 0;
}

static int check_reference(struct check *check, uint32_t index)
{
	const uint8_t *record =
		catalog_record(check->catalog, CATALOG_REFERENCES, index);

	if (!catalog_bytes_zero(record + REFERENCE_ZERO, 3))
		return bad(check, "reference", index, "unused bytes set");
	return 0;
}

static int check_blob(struct check *check, uint32_t index)
{
	const uint8_t *record =
		catalog_record(check->catalog, CATALOG_BLOBS, index);
	uint32_t first = load_le32(record + BLOB_FIRST);
	uint32_t count = load_le32(record + BLOB_COUNT);
	uint8_t kind = record[BLOB_KIND];
	struct catalog_blob blob;
	const char *fault;

	if (kind == BLOB_REFERENCE &&
	    !claim_run(check, CATALOG_REFERENCES, first, 1))
		return bad(check, "blob", index, "reference out of order");
	catalog_get_blob(check->catalog, index, &blob);
	fault = catalog_blob_fault(&blob);
	if (fault)
		return bad(check, "blob", index, fault);
	if (!catalog_bytes_zero(record + BLOB_ZERO, 6) ||
	    (kind != BLOB_INLINE && count != 0) ||
	    (kind == BLOB_RECIPE && first != 0))
		return bad(check, "blob", index, "unused bytes set");
	if (kind == BLOB_INLINE)
		return check_inline(check, index, &blob);
	return kind == BLOB_REFERENCE ? check_reference(check, first) : 0;
}

/* Entries. Each returns NULL or what is wrong. */

static const char *text_fault(struct check *check, const uint8_t *record)
{
	uint32_t offset = load_le32(record + ENTRY_TEXT);
	uint16_t len = load_le16(record + ENTRY_TEXT_LEN);

	if (len == 0 || len > LIMIT_SYMLINK_BYTES ||
	    !catalog_bytes_zero(record + ENTRY_ZERO, 2))
		return "target or reason of impossible length";
	if (!claim_string(check, offset, len))
		return "target or reason out of order";
	if (memchr(catalog_string(check->catalog, offset), '\0', len))
		return "target or reason with a NUL";
	return NULL;
}

static const char *file_fault(struct check *check, const uint8_t *record)
{
	uint64_t size = load_le64(record + ENTRY_SIZE);
	uint64_t offset = load_le64(record + ENTRY_OFFSET), end;
	uint32_t blob = load_le32(record + ENTRY_BLOB);

	if (blob == 0)
		return size == 0 && offset == 0 ? NULL : "bytes without a blob";
	if (size == 0)
		return "empty, but in a blob";
	if (!claim(check, CATALOG_BLOBS, blob - 1))
		return "blob out of order";
	if (!add_checked(offset, size, &end) ||
	    end > load_le64(catalog_record(check->catalog, CATALOG_BLOBS,
					   blob - 1) +
			    BLOB_SIZE))
		return "bytes past the end of its blob";
	return NULL;
}

static const char *content_fault(struct check *check, const uint8_t *record)
{
	uint8_t type = record[ENTRY_TYPE];
	uint32_t sha256 = load_le32(record + ENTRY_SHA256);
	const char *fault;

	fault = type == ENTRY_FILE ? file_fault(check, record) :
				     text_fault(check, record);
	if (fault)
		return fault;
	if (record[ENTRY_FLAGS] & ENTRY_FLAG_SPLIT)
		return "split, but no directory";
	if (type != ENTRY_FILE && load_le32(record + ENTRY_BLOB) != 0)
		return "blob without bytes";
	if (load_le64(record + ENTRY_SIZE) > LIMIT_BLOB_BYTES)
		return "impossible size";
	if (type == ENTRY_SYMLINK &&
	    (sha256 != 0 || load_le64(record + ENTRY_SIZE) !=
				    load_le16(record + ENTRY_TEXT_LEN)))
		return "size differs from the target's length";
	if (!claim_optional(check, CATALOG_DIGESTS, sha256))
		return "digest out of order";
	return NULL;
}

static const char *entry_fault(struct check *check, const uint8_t *record)
{
	uint8_t type = record[ENTRY_TYPE];

	if (type < ENTRY_FILE || type > ENTRY_TOMBSTONE)
		return "unknown type";
	if (record[ENTRY_FLAGS] & ENTRY_FLAGS_REFUSED)
		return "unknown flags";
	if (load_le16(record + ENTRY_MODE) > 0777)
		return "impossible mode";
	if (load_le32(record + ENTRY_MTIME_NS) >= 1000000000)
		return "impossible time";
	if (load_le32(record + ENTRY_ZERO_2) != 0)
		return "unused bytes set";
	if (!claim_optional(check, CATALOG_LABELS,
			    load_le16(record + ENTRY_LABEL)))
		return "label out of order";
	if (!claim_optional(check, CATALOG_OWNERS,
			    load_le32(record + ENTRY_OWNER)))
		return "owner out of order";
	if (!claim_optional(check, CATALOG_XATTRS,
			    load_le32(record + ENTRY_XATTRS)))
		return "xattrs out of order";
	return type == ENTRY_DIRECTORY ? NULL : content_fault(check, record);
}

/* Entry index as a name of directory parent, after the name before it. */
static const char *name_fault(struct check *check, uint32_t index,
			      uint32_t parent, const uint8_t *before)
{
	const struct catalog *catalog = check->catalog;
	const uint8_t *record = catalog_record(catalog, CATALOG_ENTRIES, index);
	uint32_t offset = load_le32(record + ENTRY_NAME);
	uint16_t len = load_le16(record + ENTRY_NAME_LEN);

	if (load_le32(record + ENTRY_PARENT) != parent)
		return "wrong parent";
	if (len > LIMIT_NAME_BYTES || !claim_string(check, offset, len) ||
	    !catalog_name_valid(catalog_string(catalog, offset), len))
		return "impossible name";
	if (before &&
	    catalog_name_compare(
		    catalog_string(catalog, load_le32(before + ENTRY_NAME)),
		    load_le16(before + ENTRY_NAME_LEN),
		    catalog_string(catalog, offset), len) >= 0)
		return "names not in ascending order";
	return entry_fault(check, record);
}

struct totals {
	uint64_t entries, bytes;
};

static bool add_entry(struct totals *totals, const uint8_t *record)
{
	uint64_t size = load_le64(record + ENTRY_SIZE), below = 0;

	if (record[ENTRY_TYPE] == ENTRY_DIRECTORY)
		below = load_le64(record + ENTRY_BELOW);
	else if (record[ENTRY_TYPE] != ENTRY_FILE)
		size = 0;
	return add_checked(totals->bytes, size, &totals->bytes) &&
	       add_checked(totals->entries, below, &totals->entries) &&
	       add_checked(totals->entries, 1, &totals->entries);
}

/* The names of an unsplit directory. */
static int check_names(struct check *check, uint32_t index, uint32_t first,
		       uint32_t count, struct totals *totals)
{
	const uint8_t *before = NULL;

	if (!claim_run(check, CATALOG_ENTRIES, first, count))
		return bad(check, "entry", index,
			   "its names are not in their place");
	for (uint32_t i = first; i < first + count; i++) {
		const uint8_t *record =
			catalog_record(check->catalog, CATALOG_ENTRIES, i);
		const char *fault = name_fault(check, i, index, before);

		if (!fault && !add_entry(totals, record))
			fault = "totals overflow";
		if (fault)
			return bad(check, "entry", i, fault);
		before = record;
	}
	return 0;
}

static const char *child_fault(struct check *check, uint32_t owner,
			       const uint8_t *record, uint64_t *names,
			       struct totals *totals)
{
	uint64_t object_bytes = load_le64(record + CHILD_OBJECT_BYTES);
	uint64_t entries = load_le64(record + CHILD_ENTRY_COUNT);
	uint64_t name_count = load_le64(record + CHILD_NAME_COUNT);
	uint64_t span = load_le64(record + CHILD_SPAN);

	if (record[CHILD_DIGEST] != DIGEST_SHA256)
		return "unknown digest type";
	if (!catalog_bytes_zero(record + CHILD_DIGEST + 1, 7) ||
	    !catalog_bytes_zero(record + CHILD_ZERO, 6))
		return "unused bytes set";
	if (object_bytes < HEADER_BYTES || object_bytes > LIMIT_CATALOG_BYTES)
		return "impossible size";
	if (load_le32(record + CHILD_OWNER) != owner)
		return "wrong owner";
	if (load_le64(record + CHILD_NAME_START) != *names)
		return "its names do not follow the ones before";
	if (name_count == 0 || name_count > entries || entries >= span)
		return "impossible counts";
	if (load_le64(record + CHILD_BASE) != check->numbers)
		return "its entry numbers do not follow the ones before";
	if (span > LIMIT_ENTRY_NUMBER - check->numbers)
		return "too many entry numbers";
	check->numbers += span;
	*names += name_count; /* bounded by the numbers */
	totals->entries += entries;
	if (!add_checked(totals->bytes, load_le64(record + CHILD_TOTAL_BYTES),
			 &totals->bytes))
		return "totals overflow";
	return NULL;
}

/* The children of a split directory; their names are checked later. */
static int check_children(struct check *check, uint32_t index, uint32_t first,
			  uint32_t count, struct totals *totals)
{
	uint64_t names = 0;

	if (count == 0 || !claim_run(check, CATALOG_CHILDREN, first, count))
		return bad(check, "entry", index,
			   "its children are not in their place");
	for (uint32_t i = first; i < first + count; i++) {
		const uint8_t *record =
			catalog_record(check->catalog, CATALOG_CHILDREN, i);
		const char *fault =
			child_fault(check, index, record, &names, totals);

		if (fault)
			return bad(check, "child", i, fault);
	}
	return 0;
}

static int check_directory(struct check *check, uint32_t index)
{
	const uint8_t *record =
		catalog_record(check->catalog, CATALOG_ENTRIES, index);
	uint32_t first = load_le32(record + ENTRY_FIRST);
	uint32_t count = load_le32(record + ENTRY_COUNT);
	struct totals totals = {0};
	int r;

	if (record[ENTRY_FLAGS] & ENTRY_FLAG_SPLIT)
		r = check_children(check, index, first, count, &totals);
	else
		r = check_names(check, index, first, count, &totals);
	if (r < 0)
		return r;
	if (totals.entries != load_le64(record + ENTRY_BELOW) ||
	    totals.bytes != load_le64(record + ENTRY_SIZE))
		return bad(check, "entry", index,
			   "its totals are not those of its names");
	return 0;
}

/* Entry 0 has no name; that of a part has nothing but its list of names. */
static int check_top(struct check *check)
{
	const struct catalog *catalog = check->catalog;
	const uint8_t *top = catalog_record(catalog, CATALOG_ENTRIES, 0);
	const char *fault;

	if (catalog_entry_count(catalog) == 0)
		return err_set(check->err, EBADMSG, "bad catalog: no entries");
	check->used[CATALOG_ENTRIES] = 1;
	check->numbers = catalog_entry_count(catalog);
	fault = entry_fault(check, top);
	if (fault)
		return bad(check, "entry", 0, fault);
	if (top[ENTRY_TYPE] != ENTRY_DIRECTORY ||
	    !catalog_bytes_zero(top + ENTRY_NAME, ENTRY_TYPE - ENTRY_NAME) ||
	    !catalog_bytes_zero(top + ENTRY_PARENT, 4))
		return bad(check, "entry", 0, "not a root directory");
	if (catalog->is_part &&
	    (top[ENTRY_FLAGS] != 0 ||
	     !catalog_bytes_zero(top + ENTRY_MODE, ENTRY_SIZE - ENTRY_MODE) ||
	     !catalog_bytes_zero(top + ENTRY_OWNER,
				 ENTRY_BELOW - ENTRY_OWNER) ||
	     load_le32(top + ENTRY_COUNT) == 0))
		return bad(check, "entry", 0, "not the top of a part");
	return 0;
}

/*
 * Directories are taken in the order of their entries, and each takes the
 * next run of entries: a level of the tree ends where the entries known when
 * it began end.
 */
static int check_entries(struct check *check)
{
	uint32_t level_end = 1, depth = 0;
	int r = check_top(check);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < check->used[CATALOG_ENTRIES]; i++) {
		const uint8_t *record =
			catalog_record(check->catalog, CATALOG_ENTRIES, i);

		if (i == level_end) {
			level_end = check->used[CATALOG_ENTRIES];
			depth++;
		}
		if (record[ENTRY_TYPE] != ENTRY_DIRECTORY)
			continue;
		if (depth > LIMIT_PATH_DEPTH)
			return bad(check, "entry", i, "too deep");
		r = check_directory(check, i);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Strings of the other records, in the order of the sections. */

static int check_labels(struct check *check)
{
	for (uint32_t i = 0; i < check->used[CATALOG_LABELS]; i++) {
		const uint8_t *record =
			catalog_record(check->catalog, CATALOG_LABELS, i);
		uint16_t len = load_le16(record + LABEL_TEXT_LEN);

		if (len == 0 || len > LIMIT_NAME_BYTES ||
		    !catalog_bytes_zero(record + LABEL_ZERO, 2) ||
		    !claim_string(check, load_le32(record + LABEL_TEXT), len))
			return bad(check, "label", i, "impossible text");
	}
	return 0;
}

static int check_xattrs(struct check *check)
{
	for (uint32_t i = 0; i < check->used[CATALOG_XATTRS]; i++) {
		const uint8_t *record =
			catalog_record(check->catalog, CATALOG_XATTRS, i);
		uint32_t offset = load_le32(record + XATTRS_SET);
		uint32_t len = load_le32(record + XATTRS_SET_LEN);

		if (!claim_string(check, offset, len) ||
		    !catalog_xattrs_valid((const uint8_t *)catalog_string(
						  check->catalog, offset),
					  len))
			return bad(check, "xattr set", i,
				   "impossible contents");
	}
	return 0;
}

static bool claim_url_text(struct check *check, uint32_t offset, uint32_t len)
{
	return claim_string(check, offset, len) &&
	       catalog_url_text_valid(catalog_string(check->catalog, offset),
				      len);
}

static int check_reference_texts(struct check *check)
{
	for (uint32_t i = 0; i < check->used[CATALOG_REFERENCES]; i++) {
		const uint8_t *record =
			catalog_record(check->catalog, CATALOG_REFERENCES, i);

		if (!claim_url_text(check, load_le32(record + REFERENCE_URL),
				    load_le16(record + REFERENCE_URL_LEN)) ||
		    !claim_url_text(
			    check, load_le32(record + REFERENCE_VALIDATOR),
			    load_le16(record + REFERENCE_VALIDATOR_LEN)))
			return bad(check, "reference", i,
				   "impossible URL or validator");
	}
	return 0;
}

static int check_child_names(struct check *check)
{
	const struct catalog *catalog = check->catalog;

	for (uint32_t i = 0; i < check->used[CATALOG_CHILDREN]; i++) {
		const uint8_t *record =
			catalog_record(catalog, CATALOG_CHILDREN, i);
		const uint8_t *before = record - CHILD_BYTES;
		uint32_t offset = load_le32(record + CHILD_NAME);
		uint16_t len = load_le16(record + CHILD_NAME_LEN);

		if (len > LIMIT_NAME_BYTES ||
		    !claim_string(check, offset, len) ||
		    !catalog_name_valid(catalog_string(catalog, offset), len))
			return bad(check, "child", i, "impossible name");
		if (load_le64(record + CHILD_NAME_START) > 0 &&
		    catalog_name_compare(
			    catalog_string(catalog,
					   load_le32(before + CHILD_NAME)),
			    load_le16(before + CHILD_NAME_LEN),
			    catalog_string(catalog, offset), len) >= 0)
			return bad(check, "child", i,
				   "names not in ascending order");
	}
	return 0;
}

static int check_nothing_left(const struct check *check)
{
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++) {
		if (check->used[i] != check->catalog->sections[i].count)
			return err_set(
				check->err, EBADMSG,
				"bad catalog: section of %s: something in it is not used",
				catalog_section_names[i]);
	}
	return 0;
}

int catalog_check(struct catalog *catalog, struct err *err)
{
	static int (*const steps[])(struct check *) = {
		check_entries,	       check_labels,	  check_xattrs,
		check_reference_texts, check_child_names,
	};
	struct check check = {.catalog = catalog, .err = err};
	int r = catalog_open_sections(catalog, err);

	/* Entries need their blobs' sizes, so blobs come first. */
	for (uint32_t i = 0;
	     r == 0 && i < catalog->sections[CATALOG_BLOBS].count; i++)
		r = check_blob(&check, i);
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
		r = steps[i](&check);
	if (r == 0)
		r = check_nothing_left(&check);
	catalog->span = check.numbers;
	return r;
}
