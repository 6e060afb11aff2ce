/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden catalogs, and what must be refused: each promise of catalog_open
 * broken once in a small catalog, the same as files that stay as they are,
 * every byte changed, every length.
 *
 * `test-catalog-bad --write DIR` writes the golden and the broken files.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "catalog-model.h"
#include "data.h"
#include "format/catalog-layout.h"

/*
 * 0 root
 * 1 ab  file, inline blob of 3 chunks      5 ij  file by reference, every field
 * 2 cd  directory                          6 kl  empty directory
 * 3 ef  hole                               7 mn  empty file
 * 4 gh  tombstone                          8 cd/x  file   9 cd/y  symlink
 *                                         10 cd/z  file, inline blob
 */
static void small_tree(struct model *model)
{
	static const char xattrs[] =
		"\x06\0\x03\0\0\0user.kabc\x06\0\0\0\0\0user.l";
	struct blob_handle *chunks, *recipe, *reference;
	struct model_node *node, *directory;

	model_init(model, 42);
	chunks = model_blob(model, BLOB_INLINE, 9u << 20);
	recipe = model_blob(model, BLOB_RECIPE, 1 << 30);
	reference = model_blob(model, BLOB_REFERENCE, 5000);
	model_root(model)->entry.mtime_s = 1700000000;
	node = model_add_file(model, model->root, "ab", chunks, 4096, 8u << 20);
	node->entry.mtime_s = -1;
	node->entry.mtime_ns = 999999999;
	directory = model_add(model, model->root, ENTRY_DIRECTORY, "cd", 2);
	model_add(model, model->root, ENTRY_HOLE, "ef", 2)->entry.size = 1000;
	model_add(model, model->root, ENTRY_TOMBSTONE, "gh", 2)->entry.size =
		1000;
	node = model_add_file(model, model->root, "ij", reference, 0, 5000);
	node->entry.has_owner = true;
	node->entry.uid = 1000;
	node->entry.gid = 100;
	node->entry.label = strdup("internal");
	node->entry.label_len = 8;
	node->entry.xattrs =
		memcpy(malloc(sizeof(xattrs)), xattrs, sizeof(xattrs));
	node->entry.xattrs_len = sizeof(xattrs) - 1;
	node->entry.sha256 = memset(malloc(DIGEST_BYTES), 0xab, DIGEST_BYTES);
	model_add(model, model->root, ENTRY_DIRECTORY, "kl", 2);
	model_add_file(model, model->root, "mn", NULL, 0, 0);
	model_add_file(model, directory, "x", recipe, 0, 1 << 30);
	model_add(model, directory, ENTRY_SYMLINK, "y", 1);
	model_add_file(model, directory, "z",
		       model_blob(model, BLOB_INLINE, 13u << 20), 0, 1);
}

/* Names a to j in parts of 4. */
static void cut_tree(struct model *model)
{
	struct blob_handle *blob;

	model_init(model, 42);
	model_root(model);
	blob = model_blob(model, BLOB_RECIPE, 1000);
	for (char name = 'a'; name <= 'j'; name++)
		model_add_file(model, model->root, (char[]){name, 0}, blob,
			       10u * (uint32_t)(name - 'a'), 10);
}

enum which { SMALL, CUT_ROOT, CUT_PART, WHICH_COUNT };

static const struct {
	const char *name, *digest;
} golden[WHICH_COUNT] = {
	[SMALL] =
		{"catalog-small",
		 "sha256:6e57e08818229b4a4b8ede2fc050aa1e3ef6a9c3228691617d74aa9966d32c54"},
	[CUT_ROOT] =
		{"catalog-cut-root",
		 "sha256:043bdc5bbc746f69b33b2fed82d2bbe1f661f289e413d221377a7e6bd6f3e95e"},
	[CUT_PART] =
		{"catalog-cut-part",
		 "sha256:9f2fb68a02846a12bd92891644346c367a2a587d05b9d9d8d73ffc18174d78cb"},
};

static uint8_t *make_catalog(enum which which, size_t *ret_len)
{
	struct catalog_params params = catalog_params_defaults;
	const struct stored_catalog *stored;
	struct model model;
	struct store store;
	uint8_t *data;

	if (which == SMALL) {
		small_tree(&model);
	} else {
		cut_tree(&model);
		params.split_min_entries = params.split_mean_entries =
			params.split_max_entries = 4;
	}
	model_write(&model, &params, &store);
	stored = &store.catalogs
			  .items[which == CUT_PART ? 0 :
						     store.catalogs.count - 1];
	data = malloc(stored->len + 8);
	assert_non_null(data);
	memcpy(data, stored->data, stored->len);
	memset(data + stored->len, 0, 8);
	*ret_len = stored->len;
	store_release(&store);
	model_release(&model);
	return data;
}

/* Opens a copy that ends where it ends, so that a reader past it is seen. */
static int open_copy(const uint8_t *data, size_t len, struct catalog **ret,
		     struct err *err)
{
	uint8_t *copy = malloc(len + (len == 0));

	assert_non_null(copy);
	memcpy(copy, data, len);
	return catalog_open(copy, len, ret, err);
}

enum where {
	IN_FILE,    /* at offset */
	IN_TABLE,   /* of sections: index, field */
	IN_SECTION, /* record index, field */
	IN_STRING,  /* the string at that field, byte `skip` */
};

struct fault {
	const char *name;
	const char *words; /* in the error */
	enum which which;
	enum where where;
	int section;
	uint32_t index;
	uint32_t field;
	int width; /* bytes of value; 0: see cut */
	uint64_t value;
	int cut; /* bytes to add or take at the end */
	uint32_t skip;
};

#define ENTRY(number, field, width, value)                                     \
	SMALL, IN_SECTION, CATALOG_ENTRIES, number, ENTRY_##field, width,      \
		value, 0, 0
#define RECORD(section, number, field, width, value)                           \
	SMALL, IN_SECTION, CATALOG_##section, number, field, width, value, 0, 0
#define TEXT(section, number, field, value)                                    \
	SMALL, IN_STRING, CATALOG_##section, number, field, 1, value, 0, 0
#define TEXT_AT(section, number, field, skip, value)                           \
	SMALL, IN_STRING, CATALOG_##section, number, field, 1, value, 0, skip
#define TABLE(section, field, value)                                           \
	SMALL, IN_TABLE, CATALOG_##section, 0, field, 8, value, 0, 0
#define AT(which, offset, width, value)                                        \
	which, IN_FILE, 0, 0, offset, width, value, 0, 0
#define CHILD(number, field, width, value)                                     \
	CUT_ROOT, IN_SECTION, CATALOG_CHILDREN, number, CHILD_##field, width,  \
		value, 0, 0

static const struct fault faults[] = {
	{"magic", "not a catalog", AT(SMALL, 0, 1, 'X')},
	{"version", "version 2", AT(SMALL, 4, 2, 2)},
	{"flags", "newer larder", AT(SMALL, 6, 2, 0x8000)},
	{"marks", "parameters", AT(SMALL, HEADER_MARKS, 1, 4)},
	{"params-chunk", "parameters",
	 AT(SMALL, HEADER_CHUNK_MAX, 4, 1u << 31)},
	{"params-split", "parameters", AT(SMALL, HEADER_SPLIT_MIN, 4, 0)},
	{"header-zero", "parameters", AT(SMALL, HEADER_ZERO, 4, 1)},
	{"section-count", "section table",
	 AT(SMALL, HEADER_SECTION_COUNT, 2, 9)},
	{"section-count-huge", "section table",
	 AT(SMALL, HEADER_SECTION_COUNT, 2, 0xffff)},
	{"section-outside", "entries: not in its place",
	 TABLE(ENTRIES, 0, UINT64_C(1) << 63)},
	{"section-overlap", "children: not in its place",
	 TABLE(CHILDREN, 0, 216)},
	{"section-long", "strings: not in its place",
	 TABLE(STRINGS, 8, UINT64_MAX)},
	{"section-lying-count", "entries: not in its place",
	 TABLE(ENTRIES, 8, 64u << 20)},
	{"section-half", "entries: half a record", TABLE(ENTRIES, 8, 63)},
	{"cut-short", "strings: not in its place", SMALL, IN_FILE, 0, 0, 0, 0,
	 0, -1, 0},
	{"bytes-after", "after the last section", SMALL, IN_FILE, 0, 0, 0, 0, 0,
	 1, 0},
	{"name-slash", "entry 1: impossible name",
	 TEXT(ENTRIES, 1, ENTRY_NAME, '/')},
	{"name-nul", "entry 1: impossible name",
	 TEXT(ENTRIES, 1, ENTRY_NAME, 0)},
	{"name-dot", "entry 8: impossible name",
	 TEXT(ENTRIES, 8, ENTRY_NAME, '.')},
	{"name-long", "impossible name", ENTRY(1, NAME_LEN, 2, 256)},
	{"name-empty", "impossible name", ENTRY(1, NAME_LEN, 2, 0)},
	{"name-outside", "impossible name", ENTRY(1, NAME, 4, 0xfffffffe)},
	{"name-unused-string", "impossible name", ENTRY(1, NAME, 4, 1)},
	{"name-order", "ascending", ENTRY(2, NAME, 4, 0)},
	{"root-name", "root", ENTRY(0, NAME_LEN, 2, 1)},
	{"root-file", "entry 0", ENTRY(0, TYPE, 1, ENTRY_FILE)},
	{"parent", "wrong parent", ENTRY(8, PARENT, 4, 0)},
	{"cycle", "not in their place", ENTRY(2, FIRST, 4, 0)},
	{"listed-twice", "not in their place", ENTRY(6, FIRST, 4, 8)},
	{"count-lying", "not in their place", ENTRY(2, COUNT, 4, UINT32_MAX)},
	{"entry-orphan", "totals", ENTRY(2, COUNT, 4, 2)},
	{"type", "unknown type", ENTRY(1, TYPE, 1, 6)},
	{"entry-flags", "unknown flags", ENTRY(1, FLAGS, 1, 0x80)},
	{"split-file", "split", ENTRY(1, FLAGS, 1, ENTRY_FLAG_SPLIT)},
	{"split-without-children", "children",
	 ENTRY(6, FLAGS, 1, ENTRY_FLAG_SPLIT)},
	{"mode-setuid", "mode", ENTRY(1, MODE, 2, 04755)},
	{"time", "time", ENTRY(1, MTIME_NS, 4, 1000000000)},
	{"entry-zero", "unused bytes", ENTRY(1, ZERO_2, 4, 1)},
	{"text-zero", "impossible length", ENTRY(9, ZERO, 2, 1)},
	{"symlink-nul", "NUL", TEXT(ENTRIES, 9, ENTRY_TEXT, 0)},
	{"symlink-empty", "impossible length", ENTRY(9, TEXT_LEN, 2, 0)},
	{"symlink-long", "impossible length", ENTRY(9, TEXT_LEN, 2, 4096)},
	{"symlink-size", "target's length", ENTRY(9, SIZE, 8, 5)},
	{"hole-blob", "blob", ENTRY(3, BLOB, 4, 1)},
	{"hole-size", "size", ENTRY(3, SIZE, 8, UINT64_MAX)},
	{"file-past-blob", "past the end", ENTRY(1, SIZE, 8, 9u << 20)},
	{"file-offset-wraps", "past the end", ENTRY(1, OFFSET, 8, UINT64_MAX)},
	{"file-empty-in-blob", "empty", ENTRY(1, SIZE, 8, 0)},
	{"file-without-blob", "without a blob", ENTRY(1, BLOB, 4, 0)},
	{"file-blob-outside", "blob out of order", ENTRY(1, BLOB, 4, 4)},
	{"label-outside", "label", ENTRY(1, LABEL, 2, 2)},
	{"owner-outside", "owner", ENTRY(1, OWNER, 4, UINT32_MAX)},
	{"xattrs-outside", "xattrs", ENTRY(1, XATTRS, 4, 77)},
	{"sha256-outside", "digest", ENTRY(1, SHA256, 4, 2)},
	{"label-unused", "bad catalog", ENTRY(5, LABEL, 2, 0)},
	{"sha256-unused", "digests: something", ENTRY(5, SHA256, 4, 0)},
	{"entries-below", "totals", ENTRY(0, BELOW, 8, 11)},
	{"bytes-below", "totals", ENTRY(0, SIZE, 8, 1)},
	{"bytes-below-wraps", "overflow", ENTRY(2, SIZE, 8, UINT64_MAX)},
	{"blob-kind", "unknown kind", RECORD(BLOBS, 0, BLOB_KIND, 1, 4)},
	{"blob-size", "size",
	 RECORD(BLOBS, 2, BLOB_SIZE, 8, (UINT64_C(1) << 50) + 1)},
	{"blob-id-type", "id type",
	 RECORD(BLOBS, 0, BLOB_ID_TYPE, 1, DIGEST_BLAKE3)},
	{"blob-zero", "unused bytes", RECORD(BLOBS, 0, BLOB_ZERO, 1, 1)},
	{"inline-first", "out of order", RECORD(BLOBS, 0, BLOB_FIRST, 4, 1)},
	{"inline-count", "number of inline records",
	 RECORD(BLOBS, 0, BLOB_COUNT, 4, 5)},
	{"inline-length", "malformed", RECORD(INLINE, 0, 32, 4, 0)},
	{"inline-sum", "add up", RECORD(INLINE, 0, 32, 4, 1)},
	{"inline-id", "hash of its records",
	 RECORD(INLINE, 0, 0, 4, 0x12345678)},
	{"reference-order", "reference out of order",
	 RECORD(BLOBS, 1, BLOB_FIRST, 4, 7)},
	{"reference-id", "id", RECORD(REFERENCES, 0, REFERENCE_CONTENT, 1, 0)},
	{"reference-zero", "unused bytes",
	 RECORD(REFERENCES, 0, REFERENCE_ZERO, 1, 1)},
	{"url-newline", "URL", TEXT(REFERENCES, 0, REFERENCE_URL, '\n')},
	{"validator-control", "URL",
	 TEXT(REFERENCES, 0, REFERENCE_VALIDATOR, 0x7f)},
	{"xattr-lengths", "xattr", TEXT(XATTRS, 0, XATTRS_SET, 200)},
	{"xattr-order", "xattr set 0", TEXT_AT(XATTRS, 0, XATTRS_SET, 26, 'a')},
	{"xattr-not-user", "xattr set 0",
	 TEXT_AT(XATTRS, 0, XATTRS_SET, 6, 'x')},
	{"xattr-half", "xattr set 0", RECORD(XATTRS, 0, XATTRS_SET_LEN, 4, 17)},
	{"label-empty", "label 0", RECORD(LABELS, 0, LABEL_TEXT_LEN, 2, 0)},
	{"reference-content-type", "content digest type",
	 RECORD(REFERENCES, 0, REFERENCE_CONTENT_TYPE, 1, 3)},
	{"reference-padding", "past its end",
	 RECORD(REFERENCES, 0, REFERENCE_CONTENT + 31, 1, 9)},
	{"url-empty", "impossible length",
	 RECORD(REFERENCES, 0, REFERENCE_URL_LEN, 2, 0)},
	{"url-long", "impossible length",
	 RECORD(REFERENCES, 0, REFERENCE_URL_LEN, 2, 8193)},
	{"child-bytes-wrap", "overflow", CHILD(1, TOTAL_BYTES, 8, UINT64_MAX)},
	{"child-digest-type", "digest type", CHILD(0, DIGEST, 1, 2)},
	{"child-zero", "unused bytes", CHILD(0, ZERO, 4, 1)},
	{"child-size", "impossible size",
	 CHILD(0, OBJECT_BYTES, 8, UINT64_MAX)},
	{"child-owner", "owner", CHILD(1, OWNER, 4, 1)},
	{"child-base", "entry numbers", CHILD(1, BASE, 8, 1)},
	{"child-span", "too many", CHILD(0, SPAN, 8, UINT64_MAX)},
	{"child-span-small", "impossible counts", CHILD(0, SPAN, 8, 4)},
	{"child-names", "impossible counts", CHILD(0, NAME_COUNT, 8, 0)},
	{"child-name-start", "do not follow", CHILD(1, NAME_START, 8, 5)},
	{"child-entries", "impossible counts", CHILD(0, ENTRY_COUNT, 8, 5)},
	{"child-bytes", "totals", CHILD(0, TOTAL_BYTES, 8, 1)},
	{"child-name-order", "ascending", CHILD(1, NAME, 4, 0)},
	{"child-count", "children", CUT_ROOT, IN_SECTION, CATALOG_ENTRIES, 0,
	 ENTRY_COUNT, 4, UINT32_MAX, 0, 0},
	{"part-mode", "top of a part", CUT_PART, IN_SECTION, CATALOG_ENTRIES, 0,
	 ENTRY_MODE, 2, 0755, 0, 0},
};
#define FAULT_COUNT (sizeof(faults) / sizeof(faults[0]))

static void store_value(uint8_t *at, int width, uint64_t value)
{
	for (int i = 0; i < width; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t section_offset(const uint8_t *data, int section)
{
	return load_le64(data + HEADER_BYTES + section * SECTION_BYTES);
}

static uint8_t *break_catalog(const struct fault *fault, size_t *ret_len)
{
	uint8_t *data = make_catalog(fault->which, ret_len),
		*at = data + fault->field;

	if (fault->where == IN_TABLE)
		at += HEADER_BYTES + fault->section * SECTION_BYTES;
	if (fault->where == IN_SECTION || fault->where == IN_STRING)
		at += section_offset(data, fault->section) +
		      fault->index * catalog_record_bytes[fault->section];
	if (fault->where == IN_STRING)
		at = data + section_offset(data, CATALOG_STRINGS) +
		     load_le32(at) + fault->skip;
	store_value(at, fault->width, fault->value);
	*ret_len += (size_t)fault->cut;
	return data;
}

static void test_each_fault_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < FAULT_COUNT; i++) {
		struct catalog *catalog = NULL;
		struct err err = {0};
		size_t len;
		uint8_t *data = break_catalog(&faults[i], &len);
		int r = open_copy(data, len, &catalog, &err);

		if ((r != -EBADMSG && r != -EPROTONOSUPPORT) ||
		    !strstr(err.text, faults[i].words))
			fail_msg("%s: %d, '%s'", faults[i].name, r, err.text);
		free(data);
	}
}

static void refuse(const char *path, const void *data, size_t len)
{
	struct catalog *catalog = NULL;
	struct err err = {0};

	if (open_copy(data, len, &catalog, &err) == 0)
		fail_msg("accepted '%s'", path);
	assert_true(strlen(err.text) > 10);
}

static void test_bad_files_are_refused(void **state)
{
	(void)state;
	assert_int_equal(data_each("bad-catalog-*", refuse), FAULT_COUNT);
}

/* The format is frozen: the writer's bytes and their names stay. */
static void test_golden_files(void **state)
{
	(void)state;
	for (int i = 0; i < WHICH_COUNT; i++) {
		char name[64], text[DIGEST_TEXT_MAX];
		struct catalog *catalog = NULL;
		struct err err = {0};
		struct digest digest;
		size_t len, file_len;
		uint8_t *data = make_catalog((enum which)i, &len), *file;

		snprintf(name, sizeof(name), "good/%s", golden[i].name);
		file = data_read(name, &file_len);
		digest_sha256(data, len, &digest);
		assert_string_equal(digest_text(&digest, text),
				    golden[i].digest);
		assert_int_equal(file_len, len);
		assert_memory_equal(file, data, len);
		assert_int_equal(open_copy(data, len, &catalog, &err), 0);
		catalog_close(catalog);
		free(file);
		free(data);
	}
}

/* Use every accessor on everything, as a mount would. */
static void walk(const struct catalog *catalog)
{
	struct catalog_entry entry;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < catalog_entry_count(catalog); i++) {
		uint32_t found, position = 0, value_len;
		uint16_t name_len;
		const char *name;
		const uint8_t *value;

		catalog_get(catalog, i, &entry);
		if (i > 0) {
			struct catalog_entry parent;

			catalog_get(catalog, entry.parent, &parent);
			assert_int_equal(catalog_find(catalog, parent.first,
						      parent.count, entry.name,
						      entry.name_len, &found),
					 0);
			assert_int_equal(found, i);
		}
		while (catalog_xattr_next(&entry, &position, &name, &name_len,
					  &value, &value_len) == 1)
			sum += checksum_xxh3(name, name_len) +
			       checksum_xxh3(value, value_len);
		sum += checksum_xxh3(entry.text ? entry.text : "",
				     entry.text_len) +
		       checksum_xxh3(entry.label ? entry.label : "",
				     entry.label_len) +
		       (entry.sha256 ? checksum_xxh3(entry.sha256, 32) : 0);
		if (entry.child_count > 0)
			sum += catalog_child_for_name(catalog, &entry, "m", 1);
	}
	for (uint32_t i = 0; i < catalog_blob_count(catalog); i++) {
		struct catalog_blob blob;

		catalog_get_blob(catalog, i, &blob);
		if (blob.url)
			sum += checksum_xxh3(blob.url, blob.url_len) +
			       checksum_xxh3(blob.validator,
					     blob.validator_len);
	}
	assert_true(sum != 1);
}

static void test_every_byte_changed(void **state)
{
	static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x10};

	(void)state;
	for (int which = 0; which < WHICH_COUNT; which++) {
		size_t len;
		uint8_t *data = make_catalog((enum which)which, &len);

		for (size_t i = 0; i < len * sizeof(changes); i++) {
			struct catalog *catalog = NULL;
			struct err err = {0};

			data[i / sizeof(changes)] ^=
				changes[i % sizeof(changes)];
			if (open_copy(data, len, &catalog, &err) == 0)
				walk(catalog);
			else
				assert_true(err.text[0] != '\0');
			catalog_close(catalog);
			data[i / sizeof(changes)] ^=
				changes[i % sizeof(changes)];
		}
		free(data);
	}
}

static void test_every_length(void **state)
{
	struct catalog *catalog = NULL;
	struct err err;
	size_t len;
	uint8_t *data = make_catalog(SMALL, &len);

	(void)state;
	for (size_t i = 0; i < len; i++)
		assert_true(open_copy(data, i, &catalog, &err) < 0);
	assert_int_equal(open_copy(data, len, &catalog, NULL), 0);
	catalog_close(catalog);
	assert_int_equal(open_copy(data, 3, &catalog, NULL), -EBADMSG);
	free(data);
}

/* A later version 1 may add sections that this reader skips. */
static void test_later_sections_are_skipped(void **state)
{
	struct catalog *catalog = NULL;
	struct err err = {0};
	uint8_t *longer;
	size_t len, head = HEADER_BYTES + CATALOG_SECTION_COUNT * SECTION_BYTES,
		    end;
	uint8_t *data = make_catalog(SMALL, &len);

	(void)state;
	end = (len + SECTION_BYTES + 7) & ~(size_t)7;
	longer = calloc(1, end + 8);
	assert_non_null(longer);
	memcpy(longer, data, head);
	memcpy(longer + head + SECTION_BYTES, data + head, len - head);
	store_le16(longer + HEADER_SECTION_COUNT, CATALOG_SECTION_COUNT + 1);
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++)
		store_le64(longer + HEADER_BYTES + i * SECTION_BYTES,
			   section_offset(data, i) + SECTION_BYTES);
	store_le64(longer + head, end);
	store_le64(longer + head + 8, 8);
	if (open_copy(longer, end + 8, &catalog, &err) < 0)
		fail_msg("%s", err.text);
	walk(catalog);
	catalog_close(catalog);
	assert_int_equal(open_copy(longer, end + 7, &catalog, &err), -EBADMSG);
	free(longer);
	free(data);
}

/* Nothing but a header is no catalog: there is no entry 0. */
static void test_no_entries(void **state)
{
	size_t len, end = HEADER_BYTES + CATALOG_SECTION_COUNT * SECTION_BYTES;
	uint8_t *data = make_catalog(SMALL, &len);
	struct catalog *catalog;
	struct err err = {0};

	(void)state;
	for (int i = 0; i < CATALOG_SECTION_COUNT; i++) {
		store_le64(data + HEADER_BYTES + i * SECTION_BYTES, end);
		store_le64(data + HEADER_BYTES + i * SECTION_BYTES + 8, 0);
	}
	assert_int_equal(open_copy(data, end, &catalog, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "no entries"));
	free(data);
}

/* A file at the limit of depth that says it is one more directory. */
static void test_too_deep(void **state)
{
	struct model_node *directory;
	struct catalog *catalog = NULL;
	struct err err = {0};
	struct store store;
	struct model model;
	uint8_t *last;

	(void)state;
	model_init(&model, 1);
	directory = model_root(&model);
	for (uint32_t i = 0; i < LIMIT_PATH_DEPTH; i++)
		directory =
			model_add(&model, directory, ENTRY_DIRECTORY, "d", 1);
	model_add_file(&model, directory, "d", NULL, 0, 0);
	model_write(&model, &catalog_params_defaults, &store);
	last = store.catalogs.items[0].data +
	       section_offset(store.catalogs.items[0].data, CATALOG_ENTRIES) +
	       (LIMIT_PATH_DEPTH + 1) * ENTRY_BYTES;
	assert_int_equal(open_copy(store.catalogs.items[0].data,
				   store.root_bytes, &catalog, &err),
			 0);
	catalog_close(catalog);
	last[ENTRY_TYPE] = ENTRY_DIRECTORY;
	store_le32(last + ENTRY_FIRST, LIMIT_PATH_DEPTH + 2);
	assert_int_equal(open_copy(store.catalogs.items[0].data,
				   store.root_bytes, &catalog, &err),
			 -EBADMSG);
	assert_non_null(strstr(err.text, "too deep"));
	store_release(&store);
	model_release(&model);
}

static int write_files(const char *dir)
{
	char path[512], text[DIGEST_TEXT_MAX];
	struct digest digest;
	size_t len;
	int r = 0;

	for (int i = 0; r == 0 && i < WHICH_COUNT; i++) {
		uint8_t *data = make_catalog((enum which)i, &len);

		snprintf(path, sizeof(path), "%s/good/%s", dir, golden[i].name);
		r = file_write(AT_FDCWD, path, data, len, 0644,
			       FILE_WRITE_MKDIR);
		digest_sha256(data, len, &digest);
		printf("%s %s\n", golden[i].name, digest_text(&digest, text));
		free(data);
	}
	for (size_t i = 0; r == 0 && i < FAULT_COUNT; i++) {
		uint8_t *data = break_catalog(&faults[i], &len);

		snprintf(path, sizeof(path), "%s/bad-catalog-%s", dir,
			 faults[i].name);
		r = file_write(AT_FDCWD, path, data, len, 0644,
			       FILE_WRITE_MKDIR);
		free(data);
	}
	return r < 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_fault_is_refused),
		cmocka_unit_test(test_bad_files_are_refused),
		cmocka_unit_test(test_golden_files),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_later_sections_are_skipped),
		cmocka_unit_test(test_no_entries),
		cmocka_unit_test(test_too_deep),
	};

	if (argc == 3 && strcmp(argv[1], "--write") == 0)
		return write_files(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
