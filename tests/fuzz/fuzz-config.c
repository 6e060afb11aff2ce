/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration file from anywhere: its keys reach the table or an error
 * with a line number, never a section they do not stand in. The same bytes
 * are tried as a list of options, as a line of mountinfo and as a pattern.
 */
#undef NDEBUG
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/options.h"
#include "base/text.h"

struct settings {
	bool flag;
	uint64_t size;
	char *cache;
	struct option_list keys;
	struct option_space space;
};

#define FIELD(field) .offset = offsetof(struct settings, field)

static const struct option_def defs[] = {
	{ .name = "flag", .type = OPTION_BOOL, FIELD(flag) },
	{ .name = "size", .type = OPTION_SIZE, FIELD(size) },
	{ .name = "cache", .type = OPTION_STRING, FIELD(cache) },
	{ .name = "key", .type = OPTION_LIST, FIELD(keys) },
	{ .name = "space", .type = OPTION_SPACE, FIELD(space) },
	{ 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct options *section(void *context, const char *name,
			       const char *line_text, struct err *err)
{
	(void)line_text;
	(void)err;
	assert(*name && strcmp(name, "larder"));
	return context;
}

static void as_text(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);
	_cleanup_free_ char *printable = NULL;
	const char *cursor = text;
	char *element;
	size_t len;

	if (!text)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	while (list_next(&cursor, &element) > 0) {
		assert(strlen(element) <= size);
		free(element);
	}
	printable = text_printable(text, size);
	for (char *p = printable; p && *p; p++)
		assert((uint8_t)*p >= 0x20 && *p != 0x7f);
	/* Quadratic in the worst case: keep it short. */
	len = strnlen(text, 256);
	if (len < size)
		text[len] = '\0';
	pattern_matches(text, "datasets/org/name.tar");
	pattern_matches("**/*a*[a-z]/**b", text);
	mountinfo_unescape(text);
	assert(strlen(text) <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct settings global = { 0 }, other = { 0 };
	struct options options, sections;
	struct err err = { 0 };
	int r;

	options_init(&options);
	options_init(&sections);
	options_add(&options, defs, &global, NULL);
	options_add(&sections, defs, &other, NULL);
	r = config_parse(data, size, "fuzz", &options, section, &sections,
			 &err);
	assert(r == 0 || !strncmp(err.text, "fuzz:", 5));
	options_release(&options);
	options_release(&sections);
	as_text(data, size);
	return 0;
}
