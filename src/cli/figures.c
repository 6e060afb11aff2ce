/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures that a mount or a cache tells, as "KEY VALUE" lines: to numbers,
 * and to JSON under the names that larder(1) promises.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cache/cache.h"
#include "cli/cli.h"
#include "cli/figures.h"

/* ---- figures */

bool figure_has_number(const char *figures, const char *key, uint64_t *ret)
{
	char text[24];
	size_t len;
	const char *value = mount_figure(figures, key, &len);

	if (!value || len >= sizeof(text))
		return false;
	memcpy(text, value, len);
	text[len] = '\0';
	return parse_u64(text, ret) == 0;
}

uint64_t figure_number(const char *figures, const char *key)
{
	uint64_t value = 0;

	(void)figure_has_number(figures, key, &value);
	return value;
}

unsigned figure_percent(uint64_t part, uint64_t whole)
{
	if (whole == 0)
		return 100;
	if (part >= whole)
		return 100;
	return (unsigned)((double)part * 100 / (double)whole);
}

/* ---- JSON */

struct json_figure {
	const char *key, *name;
};

static const struct json_figure cache_figures[] = {
	{"used", "used_bytes"},
	{"limit", "limit_bytes"},
	{"usable", "usable_bytes"},
	{"free", "disk_free_bytes"},
	{"pinned", "pinned_bytes"},
	{"blobs", "blobs"},
	{"evicted", "evicted_bytes"},
	{"evicted-blobs", "evicted_blobs"},
	{"corrupt", "corrupt_units"},
	{"lost", "lost_blobs"},
	{"not-stored", "not_stored_units"},
	{"index-holder", "index_holder"},
	{0},
};

static const struct json_figure read_figures[] = {
	{"seconds", "seconds"},
	{"read", "read_bytes"},
	{"read-cached", "cached_bytes"},
	{"read-fetched", "fetched_bytes"},
	{"fetched", "wire_bytes"},
	{"corrupt-fetched", "corrupt_chunks"},
	{0},
};

static const struct json_figure memory_figures[] = {
	{"memory", "used_bytes"},
	{"buffer", "buffer_bytes"},
	{0},
};

static const struct json_figure dataset_json[] = {
	{"serial", "serial"},
	{"entries", "entries"},
	{"total-bytes", "total_bytes"},
	{"cached-bytes", "cached_bytes"},
	{"pinned-bytes", "pinned_bytes"},
	{0},
};

/* Numbers only: nothing is to be escaped. */
static void print_numbers(const char *figures, const struct json_figure *of,
			  const char *separator)
{
	for (; of->key; of++) {
		uint64_t value;

		if (!figure_has_number(figures, of->key, &value))
			continue;
		printf("%s\"%s\": %" PRIu64, separator, of->name, value);
		separator = ", ";
	}
}

static void print_text_figure(const char *figures, const char *key,
			      const char *name)
{
	size_t len;
	const char *value = mount_figure(figures, key, &len);

	if (!value)
		return;
	printf(", \"%s\": ", name);
	cli_print_json(value, len);
}

static void print_waits(const char *figures)
{
	static const char *const names[CACHE_WAITS] = {
		"under_1_ms", "under_10_ms", "under_100_ms", "under_1000_ms",
		"longer"};
	size_t len;
	const char *value = mount_figure(figures, "eviction-waits", &len);

	if (!value)
		return;
	printf(", \"eviction_waits\": {");
	for (int i = 0; i < CACHE_WAITS; i++) {
		int digits = (int)strspn(value, "0123456789");

		printf("%s\"%s\": %.*s", i ? ", " : "", names[i],
		       digits ? digits : 1, digits ? value : "0");
		value += digits + (value[digits] == ' ');
	}
	putchar('}');
}

void figures_print_cache(const char *figures)
{
	if (!mount_figure(figures, "used", &(size_t){0}))
		return;
	printf(",\n     \"cache\": {\"records\": %s",
	       figure_number(figures, "records") ? "true" : "false");
	if (figure_number(figures, "hanging"))
		printf(", \"state\": \"silent\"");
	print_text_figure(figures, "cache", "dir");
	print_numbers(figures, cache_figures, ", ");
	print_waits(figures);
	putchar('}');
}

void figures_print_process(const char *figures)
{
	if (!mount_figure(figures, "read", &(size_t){0}))
		return;
	printf(",\n     \"reads\": {");
	print_numbers(figures, read_figures, "");
	putchar('}');
	if (mount_figure(figures, "memory", &(size_t){0})) {
		printf(",\n     \"memory\": {");
		print_numbers(figures, memory_figures, "");
		putchar('}');
	}
	print_text_figure(figures, "passthrough", "passthrough");
}

void figures_print_state(const struct mount_dataset_state *state)
{
	printf("\"state\": \"%s\", \"reason\": ", state->state);
	cli_print_json(state->reason, strlen(state->reason));
	print_text_figure(state->figures, "snapshot", "snapshot");
	print_text_figure(state->figures, "commit", "commit");
	print_text_figure(state->figures, "revision", "revision");
	print_numbers(state->figures, dataset_json, ", ");
}
