/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Hugging Face Hub's names: SOURCE as typed, and what is asked for.
 *
 * A revision is one part of a URL, so its slashes are escaped; in SOURCE it
 * ends at the first '/', but for refs/pr/N and refs/convert/NAME, which
 * everybody writes as they are. Any other slash in it is typed as %2F.
 */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "format/catalog-layout.h"
#include "format/limits.h"
#include "source/hub.h"

#define SCHEME "hf://"
#define PART_MAX 96u /* the Hub's own limit of each part of an id */
#define REVISION_MAX 255u

static const struct {
	const char *plural, *prefix;
} kinds[] = {
	[HUB_MODEL] = {"models", ""},
	[HUB_DATASET] = {"datasets", "datasets/"},
	[HUB_SPACE] = {"spaces", "spaces/"},
};

bool hub_is_source(const char *text)
{
	return starts_with(text, SCHEME);
}

bool hub_is_whole(const char *text)
{
	return strcmp(text, SCHEME) == 0;
}

void hub_repo_release(struct hub_repo *repo)
{
	free(repo->id);
	free(repo->revision);
	free(repo->subdir);
	*repo = (struct hub_repo){0};
}

/* ---- SOURCE */

static bool is_id_part(const char *text, size_t len)
{
	if (len == 0 || len > PART_MAX || strchr(".-", text[0]) ||
	    strchr(".-", text[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("_.-", text[i]))
			return false;
		/* The Hub forbids both; "--" stands for '/' in its cache. */
		if (i > 0 && strchr(".-", text[i]) && text[i] == text[i - 1])
			return false;
	}
	return true;
}

/* How much of text is the revision. */
static size_t revision_len(const char *text)
{
	size_t len = 0;

	if (starts_with(text, "refs/pr/"))
		len = strlen("refs/pr/");
	else if (starts_with(text, "refs/convert/"))
		len = strlen("refs/convert/");
	return len + strcspn(text + len, "/");
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Escapes undone, in place. */
static bool unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '%') {
			int high = hex_digit(text[1]);
			int low = high < 0 ? -1 : hex_digit(text[2]);

			if (low < 0 || (high == 0 && low == 0))
				return false;
			*to++ = (char)(high << 4 | low);
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
	return true;
}

bool hub_revision_valid(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > REVISION_MAX || text[0] == '-' ||
	    text[0] == '/' || text[len - 1] == '/' || strstr(text, ".."))
		return false;
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == 0x7f ||
		    strchr("\\^:?*[~", *text))
			return false;
	return true;
}

static bool is_subdir(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "/");

		if (len > LIMIT_NAME_BYTES || !catalog_name_valid(text, len))
			return false;
		text += len;
		if (*text == '/' && !*++text)
			return false;
	}
	return true;
}

static const char *take_kind(const char *text, enum hub_kind *ret)
{
	*ret = HUB_MODEL;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t len = strlen(kinds[i].plural);

		if (strncmp(text, kinds[i].plural, len) == 0 &&
		    text[len] == '/') {
			*ret = (enum hub_kind)i;
			return text + len + 1;
		}
	}
	return text;
}

/* The id's length; 0: it is none. */
static size_t id_len(const char *text)
{
	size_t first = strcspn(text, "/@");
	size_t second;

	if (!is_id_part(text, first))
		return 0;
	if (text[first] != '/')
		return first;
	second = strcspn(text + first + 1, "/@");
	return is_id_part(text + first + 1, second) ? first + 1 + second : 0;
}

static int parse(const char *text, struct hub_repo *repo, struct err *err)
{
	const char *rest = take_kind(text + strlen(SCHEME), &repo->kind);
	size_t len = id_len(rest);

	if (len == 0)
		return err_set(err, EINVAL,
			       "'%s' names no repository (write "
			       "hf://ORG/NAME or hf://datasets/ORG/NAME)",
			       text);
	repo->id = strndup(rest, len);
	rest += len;
	if (*rest == '@') {
		len = revision_len(++rest);
		repo->revision = strndup(rest, len);
		rest += len;
	} else {
		repo->revision = strdup("main");
	}
	if (*rest == '/')
		rest++;
	repo->subdir = strdup(rest);
	if (!repo->id || !repo->revision || !repo->subdir)
		return err_set(err, ENOMEM, "out of memory");
	len = strlen(repo->subdir);
	if (len > 0 && repo->subdir[len - 1] == '/')
		repo->subdir[len - 1] = '\0';
	if (!unescape(repo->revision) || !hub_revision_valid(repo->revision))
		return err_set(err, EINVAL,
			       "'%s' has no valid revision after '@' (a "
			       "branch, a tag, refs/pr/N or a commit)",
			       text);
	if (!is_subdir(repo->subdir))
		return err_set(err, EINVAL,
			       "'%s' names no directory of a repository", text);
	return 0;
}

int hub_parse(const char *text, struct hub_repo *ret, struct err *err)
{
	struct hub_repo repo = {0};
	int r = parse(text, &repo, err);

	if (r < 0) {
		hub_repo_release(&repo);
		return r;
	}
	*ret = repo;
	return 0;
}

/* ---- what is asked for */

char *hub_name(const struct hub_repo *repo)
{
	char *name;

	if (asprintf(&name, "hf/%s/%s", kinds[repo->kind].plural, repo->id) < 0)
		return NULL;
	return name;
}

/* Bytes outside unreserved are escaped; '/' is one of these or not. */
static char *escape(const char *text, bool keeps_slash)
{
	static const char digits[] = "0123456789ABCDEF";
	char *escaped = malloc(strlen(text) * 3 + 1), *to = escaped;

	if (!escaped)
		return NULL;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (isalnum(c) || strchr("_.-~", c) ||
		    (c == '/' && keeps_slash)) {
			*to++ = (char)c;
		} else {
			*to++ = '%';
			*to++ = digits[c >> 4];
			*to++ = digits[c & 15];
		}
	}
	*to = '\0';
	return escaped;
}

char *hub_info_target(const struct hub_repo *repo)
{
	_cleanup_free_ char *revision = escape(repo->revision, false);
	char *target;

	if (!revision ||
	    asprintf(&target, "api/%s/%s/revision/%s", kinds[repo->kind].plural,
		     repo->id, revision) < 0)
		return NULL;
	return target;
}

char *hub_refs_target(const struct hub_repo *repo)
{
	char *target;

	if (asprintf(&target, "api/%s/%s/refs", kinds[repo->kind].plural,
		     repo->id) < 0)
		return NULL;
	return target;
}

static char *tree_base(const struct hub_repo *repo, const char *commit)
{
	_cleanup_free_ char *subdir = escape(repo->subdir, true);
	char *target;

	if (!subdir ||
	    asprintf(&target, "api/%s/%s/tree/%s%s%s", kinds[repo->kind].plural,
		     repo->id, commit, subdir[0] ? "/" : "", subdir) < 0)
		return NULL;
	return target;
}

char *hub_tree_target(const struct hub_repo *repo, const char *commit)
{
	_cleanup_free_ char *base = tree_base(repo, commit);
	char *target;

	if (!base ||
	    asprintf(&target, "%s?recursive=true&expand=false", base) < 0)
		return NULL;
	return target;
}

char *hub_file_path(const struct hub_repo *repo, const char *commit,
		    const char *path)
{
	char *full;

	if (asprintf(&full, "%s%s/resolve/%s/%s", kinds[repo->kind].prefix,
		     repo->id, commit, path) < 0)
		return NULL;
	return full;
}

/*
 * Mirrors of the Hub hand out its own host in Links. Only path and query
 * count, and only if they go on with what was asked: nothing that a
 * listing says can lead a token elsewhere.
 */
int hub_next_page(const char *headers, const struct hub_repo *repo,
		  const char *commit, char **ret, struct err *err)
{
	_cleanup_free_ char *link = hub_header(headers, "link");
	_cleanup_free_ char *base = tree_base(repo, commit);
	const char *start, *end, *path;

	*ret = NULL;
	if (!base)
		return err_set(err, ENOMEM, "out of memory");
	/* Other relations may stand beside it. */
	for (start = link ? strchr(link, '<') : NULL; start;
	     start = strchr(end, '<')) {
		end = strchr(start, '>');
		if (!end)
			return err_set(err, EBADMSG,
				       "the listing's Link is broken");
		const char *next = strchr(end, '<');
		size_t len = next ? (size_t)(next - end) : strlen(end);

		if (memmem(end, len, "rel=\"next\"", 10))
			break;
	}
	if (!start)
		return 0;
	start++;
	path = memmem(start, (size_t)(end - start), "://", 3);
	path = path ? memchr(path + 3, '/', (size_t)(end - path - 3)) : start;
	while (path && path < end && *path == '/')
		path++;
	/* An endpoint may itself have a path. */
	path = path ? memmem(path, (size_t)(end - path), base, strlen(base)) :
		      NULL;
	if (!path || path[strlen(base)] != '?')
		return err_set(err, EBADMSG,
			       "the listing goes on in another place");
	*ret = strndup(path, (size_t)(end - path));
	return *ret ? 0 : err_set(err, ENOMEM, "out of memory");
}
