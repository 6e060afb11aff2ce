/* SPDX-License-Identifier: Apache-2.0 */
/* larder-format(5) lists every limit with the value the code has. */
#include <config.h>

#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/io.h"
#include "format/limits.h"

#include "data.h"

#define LIMIT(name)                                                            \
	{                                                                      \
#name, name                                                    \
	}

static const struct {
	const char *name;
	uint64_t value;
} limits[] = {
	LIMIT(LIMIT_NAME_BYTES),
	LIMIT(LIMIT_PATH_DEPTH),
	LIMIT(LIMIT_SYMLINK_BYTES),
	LIMIT(LIMIT_XATTR_NAME_BYTES),
	LIMIT(LIMIT_XATTR_VALUE_BYTES),
	LIMIT(LIMIT_XATTRS_BYTES),
	LIMIT(LIMIT_DATASET_NAME_BYTES),
	LIMIT(LIMIT_HEAD_BYTES),
	LIMIT(LIMIT_HEAD_SIGNATURES),
	LIMIT(LIMIT_CATALOG_BYTES),
	LIMIT(LIMIT_CATALOG_SPLIT_ENTRIES),
	LIMIT(LIMIT_RECIPE_BYTES),
	LIMIT(LIMIT_RECIPE_PAGE_RECORDS),
	LIMIT(LIMIT_INLINE_CHUNKS),
	LIMIT(LIMIT_PLACES_BYTES),
	LIMIT(LIMIT_PLACES_HEAD_BYTES),
	LIMIT(LIMIT_CHUNK_BYTES),
	LIMIT(LIMIT_FRAME_BYTES),
	LIMIT(LIMIT_BLOB_BYTES),
	LIMIT(LIMIT_ENTRY_NUMBER),
	LIMIT(LIMIT_URL_BYTES),
	LIMIT(LIMIT_VALIDATOR_BYTES),
	LIMIT(LIMIT_PACK_BYTES),
	LIMIT(LIMIT_PACK_RECORDS),
};
#define LIMIT_COUNT (sizeof(limits) / sizeof(limits[0]))

/* A file of the source tree, with a NUL at its end. */
static char *read_source(const char *path)
{
	const char *srcdir = getenv("srcdir");
	char full[1024];
	struct buf text;

	snprintf(full, sizeof(full), "%s/%s", srcdir ? srcdir : ".", path);
	buf_init(&text, 1 << 20);
	assert_int_equal(file_read(AT_FDCWD, full, &text), 0);
	assert_int_equal(buf_append(&text, "", 1), 0);
	return (char *)buf_steal(&text, NULL);
}

static size_t count_of(const char *text, const char *word)
{
	size_t count = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		count++;
	}
	return count;
}

static void test_manual_agrees(void **state)
{
	char *manual = read_source("man/larder-format.5");

	(void)state;
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		char row[128];

		snprintf(row, sizeof(row), ".It Dv %s Ta %" PRIu64 " Ta ",
			 limits[i].name, limits[i].value);
		if (!strstr(manual, row))
			fail_msg("larder-format(5) has no '%s'", row);
	}
	assert_int_equal(count_of(manual, ".It Dv LIMIT_"), LIMIT_COUNT);
	free(manual);
}

static void test_list_above_is_whole(void **state)
{
	char *header = read_source("src/format/limits.h");

	(void)state;
	assert_int_equal(count_of(header, "#define LIMIT_"), LIMIT_COUNT);
	free(header);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manual_agrees),
		cmocka_unit_test(test_list_above_is_whole),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
