/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as hf:// source, as header lines of the Hub, as what it says of a
 * repository, as its listing, as its refs and as a signed location.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/head.h"
#include "source/source.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int check_catalog(void *arg, const struct digest *digest,
			 const void *data, size_t len)
{
	struct catalog *catalog;
	void *copy = malloc(len);

	(void)arg;
	(void)digest;
	assert(copy);
	memcpy(copy, data, len);
	assert(catalog_open(copy, len, &catalog, NULL) == 0);
	catalog_close(catalog);
	return 0;
}

static void try_listing(const struct hub_repo *repo, const uint8_t *data,
			size_t len)
{
	const struct hub_info info = {.commit = COMMIT};
	struct hub_tree *tree = hub_tree_new(repo);
	struct hub_totals totals;
	struct err err = {0};
	int r;

	assert(tree);
	r = hub_tree_add(tree, data, len, &err);
	if (r == 0)
		r = hub_tree_finish(tree, &info, check_catalog, NULL, &totals,
				    &err);
	assert(r == 0 || err.text[0]);
	hub_tree_free(tree);
}

static void try_headers(const struct hub_repo *repo, const char *text)
{
	struct digest content = {.type = DIGEST_SHA256};
	struct err err = {0};
	char *next;

	if (hub_next_page(text, repo, COMMIT, &next, &err) == 0 && next)
		assert(strstr(next, COMMIT) && !strstr(next, "://"));
	free(next);
	assert(hub_rate_wait_ms(text) <= 600000);
	assert(hub_refusal(403, text, repo, false, &err) < 0);
	assert(hub_refusal(404, text, repo, true, &err) < 0);
	(void)hub_resolved_check(text, COMMIT, 1, &content, &err);
	(void)hub_location_expires(text, 1796000000);
}

/* What is kept has every name in it; any text may lie there instead. */
static void try_refs(const uint8_t *data, size_t len, const char *text)
{
	struct err err = {0};
	struct buf refs;
	int r;

	buf_init(&refs, 1 << 20);
	r = hub_refs_parse(data, len, &refs, &err);
	assert(r == 0 || r == -EFBIG || err.text[0]);
	for (size_t at = 0; r == 0 && at < refs.len;) {
		char *line =
			(char *)memchr(refs.data + at, '\n', refs.len - at);
		char name[300];

		assert(line);
		snprintf(name, sizeof(name), "%.*s",
			 (int)(line - (char *)refs.data - (ptrdiff_t)at),
			 refs.data + at);
		assert(at == 0 || hub_refs_below(refs.data, refs.len, name));
		at = (size_t)(line + 1 - (char *)refs.data);
	}
	(void)hub_refs_below(data, len, text);
	buf_release(&refs);
}

/* A rule, and behind a line's end who asks: what is denied is denied
 * whatever is allowed, and an id that nobody can have is no matter. */
static void try_rules(const char *text)
{
	const char *end = strchr(text, '\n'), *id = end ? end + 1 : "a/b";
	char *pattern = strndup(text, end ? (size_t)(end - text) : 256);
	const char *const patterns[] = {pattern, "**"};
	const struct hub_rules denied = {.allow = patterns,
					 .allow_count = 2,
					 .deny = patterns,
					 .deny_count = 1};
	const struct hub_rules allowed = {.allow = patterns, .allow_count = 1};
	struct err err = {0};

	assert(pattern);
	if (strlen(id) < 200 && strlen(pattern) < 256) {
		int allow = hub_rules_check(&allowed, HUB_DATASET, id, &err);
		int deny = hub_rules_check(&denied, HUB_DATASET, id, &err);

		assert(allow == 0 ? deny == -EACCES : allow == -EACCES);
	}
	free(pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = calloc(1, len + 1);
	struct hub_repo repo, typed;
	struct hub_info info;
	struct err err = {0};

	assert(text);
	if (len > 0)
		memcpy(text, data, len);
	assert(hub_parse("hf://datasets/a/b", &repo, NULL) == 0);
	if (hub_is_source(text) && hub_parse(text, &typed, &err) == 0) {
		char *name = hub_name(&typed);

		assert(name && dataset_name_valid(name));
		free(name);
		hub_repo_release(&typed);
	}
	try_headers(&repo, text);
	try_rules(text);
	if (hub_info_parse(data, len, &info, &err) == 0)
		hub_info_release(&info);
	try_listing(&repo, data, len);
	try_refs(data, len, text);
	hub_repo_release(&repo);
	free(text);
	return 0;
}
