/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Hub says of a repository beside its files: which commit a revision
 * is, who may see it, and which revisions there are.
 *
 * Of the revisions only branches and tags with a slash in their names are
 * taken. All others can be asked for by name; these cannot be told from a
 * directory that nobody made, since the Hub knows no parts of names.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "source/hub-json.h"
#include "source/hub.h"

json_t *hub_json_load(const void *body, size_t len, struct err *err)
{
	json_error_t fault;
	json_t *json = json_loadb(body, len, 0, &fault);

	if (!json)
		err_set(err, EBADMSG, "the Hub's answer is no JSON");
	return json;
}

const char *hub_json_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* ---- what it is */

static bool is_commit(const char *text)
{
	return text && strlen(text) == 40 &&
	       strspn(text, "0123456789abcdef") == 40;
}

/* RFC 3339 with a fraction, which is dropped. */
static int64_t parse_stamp(const char *text)
{
	char whole[24];
	int64_t seconds;

	if (!text || strlen(text) < 20)
		return 0;
	snprintf(whole, sizeof(whole), "%.19sZ", text);
	return parse_time(whole, &seconds) == 0 ? seconds : 0;
}

/* "gated" is false or a word that says how. */
static bool is_restricted(const json_t *info)
{
	const json_t *gated = json_object_get(info, "gated");

	return (gated && !json_is_false(gated) && !json_is_null(gated)) ||
	       json_is_true(json_object_get(info, "private"));
}

int hub_info_parse(const void *body, size_t len, struct hub_info *ret,
		   struct err *err)
{
	_cleanup_json_ json_t *json = hub_json_load(body, len, err);
	struct hub_repo canonical = {0};
	_cleanup_free_ char *source = NULL;
	const char *id;

	if (!json)
		return -EBADMSG;
	id = hub_json_text(json, "id");
	if (!id || !is_commit(hub_json_text(json, "sha")))
		return err_set(err, EBADMSG,
			       "the Hub's answer describes no repository");
	/* It becomes part of URLs and names: the same rules as for ours. */
	if (asprintf(&source, "hf://%s", id) < 0) {
		source = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	if (hub_parse(source, &canonical, NULL) < 0 ||
	    strcmp(canonical.id, id) != 0) {
		hub_repo_release(&canonical);
		return err_set(err, EBADMSG,
			       "the Hub names a repository '%.60s'", id);
	}
	*ret = (struct hub_info){
		.id = steal_ptr(canonical.id),
		.modified = parse_stamp(hub_json_text(json, "lastModified")),
		.is_disabled = json_is_true(json_object_get(json, "disabled")),
		.is_restricted = is_restricted(json),
	};
	memcpy(ret->commit, hub_json_text(json, "sha"), sizeof(ret->commit));
	hub_repo_release(&canonical);
	return 0;
}

void hub_info_release(struct hub_info *info)
{
	free(info->id);
	*info = (struct hub_info){0};
}

/* ---- its revisions */

#define FORMAT_LINE "larder-refs 1\n"

/* What it is called in a request, or NULL: not to be kept. */
static const char *name_with_slash(const char *ref)
{
	static const char *const groups[] = {"refs/heads/", "refs/tags/"};

	for (size_t i = 0; ref && i < sizeof(groups) / sizeof(groups[0]); i++) {
		const char *name = ref + strlen(groups[i]);

		if (starts_with(ref, groups[i]))
			return strchr(name, '/') && hub_revision_valid(name) ?
				       name :
				       NULL;
	}
	return NULL;
}

int hub_refs_parse(const void *body, size_t len, struct buf *ret,
		   struct err *err)
{
	static const char *const groups[] = {"branches", "tags"};
	_cleanup_json_ json_t *json = hub_json_load(body, len, err);
	int r = json ? buf_printf(ret, FORMAT_LINE) : -EBADMSG;

	if (json && !json_is_array(json_object_get(json, "branches")))
		r = err_set(err, EBADMSG, "the Hub's answer names no branches");
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		const json_t *group = json_object_get(json, groups[i]);

		for (size_t k = 0; r == 0 && k < json_array_size(group); k++) {
			const char *name = name_with_slash(
				hub_json_text(json_array_get(group, k), "ref"));

			if (name)
				r = buf_printf(ret, "%s\n", name);
		}
	}
	if (r == -EFBIG)
		return err_set(err, EFBIG, "the Hub names too many branches");
	return r;
}

bool hub_refs_below(const void *text, size_t len, const char *prefix)
{
	_cleanup_free_ char *line = NULL;

	if (len < strlen(FORMAT_LINE) ||
	    memcmp(text, FORMAT_LINE, strlen(FORMAT_LINE)) != 0 ||
	    strchr(prefix, '\n'))
		return false;
	if (asprintf(&line, "\n%s", prefix) < 0) {
		line = NULL;
		return false;
	}
	return memmem(text, len, line, strlen(line));
}
