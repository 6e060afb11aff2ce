/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as SOURCE, as the URL of a mirror, as a redirect, as a path and as
 * the marker of a mirror.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "fetch/url.h"
#include "format/head.h"
#include "source/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_source(const char *text)
{
	struct source_name name;
	struct err err = {0};

	if (source_parse(text, &name, &err) < 0) {
		assert(err.text[0]);
		return;
	}
	assert(name.mirror[0] && dataset_name_valid(name.dataset));
	assert(!name.tag || tag_name_valid(name.tag));
	source_name_release(&name);
}

static void try_base(const char *text)
{
	struct url_base base;
	struct err err = {0};
	char *joined;

	if (url_base_parse(text, &base, &err) < 0) {
		assert(err.text[0]);
		return;
	}
	if (base.is_local) {
		assert(base.base[0] == '/');
	} else {
		assert(starts_with(base.base, "http://") ||
		       starts_with(base.base, "https://"));
		assert(!strpbrk(base.base, "?#"));
		/* What is left is a URL without credentials. */
		joined = url_redact(base.base);
		assert(joined && !strcmp(joined, base.base));
		free(joined);
	}
	joined = url_join(&base, text);
	assert(joined && starts_with(joined, base.base));
	free(joined);
	url_base_release(&base);
}

static void try_redirect(const char *text)
{
	struct err err = {0};
	bool is_same = false;
	char *to;

	if (url_redirect("https://h.example/a/b", text, &to, &is_same, &err) <
	    0) {
		assert(err.text[0]);
		return;
	}
	assert(starts_with(to, "https://"));
	assert(!memchr(to + 8, '@', strcspn(to + 8, "/?#")));
	free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1);

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = '\0';
	try_source(text);
	try_base(text);
	try_redirect(text);
	path_below_valid(text);
	free(url_redact(text));
	mirror_marker_check(data, len, NULL);
	free(text);
	return 0;
}
