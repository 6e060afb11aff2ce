/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A published mirror: where its heads, objects, places and packs lie, its
 * marker file, and how people name a dataset on it. Describes paths and
 * judges texts, makes no request.
 *
 * SOURCE is split at the last '#', because a path or URL may hold one and a
 * dataset's name never does. Error texts name the dataset's part only: the
 * mirror's may carry a password.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "format/head.h"
#include "format/limits.h"
#include "source/source.h"

#define MARKER_FIRST_LINE "larder mirror "
#define MARKER_VERSION 1
/* Three short lines, with room for keys that later versions may add. */
#define MARKER_BYTES_MAX 4096

static int check_scheme(const char *text, struct err *err)
{
	if (hub_is_source(text))
		return err_set(err, EINVAL,
			       "a repository of the Hub is no mirror (write "
			       "hf://ORG/NAME, without '#')");
	return 0;
}

/* NAME[@TAG] into its parts; neither may hold an '@' itself. */
static int split_tag(const char *text, struct source_name *ret)
{
	const char *at = strchr(text, '@');

	ret->dataset = at ? strndup(text, (size_t)(at - text)) : strdup(text);
	if (!ret->dataset)
		return -ENOMEM;
	if (!at)
		return 0;
	ret->tag = strdup(at + 1);
	return ret->tag ? 0 : -ENOMEM;
}

static int check_names(const struct source_name *name, struct err *err)
{
	if (!name->mirror[0])
		return err_set(err, EINVAL,
			       "no mirror before '#%s' (write MIRROR#NAME)",
			       name->dataset);
	if (!dataset_name_valid(name->dataset))
		return err_set(err, EINVAL, "'%s' is no name of a dataset",
			       name->dataset);
	if (name->tag && !tag_name_valid(name->tag))
		return err_set(err, EINVAL, "'%s' is no name of a tag",
			       name->tag);
	return 0;
}

int source_parse(const char *text, struct source_name *ret, struct err *err)
{
	struct source_name name = {0};
	const char *hash;
	int r;

	r = check_scheme(text, err);
	if (r < 0)
		return r;
	hash = strrchr(text, '#');
	if (!hash)
		return err_set(err, EINVAL,
			       "no '#' in the source (write MIRROR#NAME)");
	name.mirror = strndup(text, (size_t)(hash - text));
	r = name.mirror ? split_tag(hash + 1, &name) : -ENOMEM;
	if (r < 0)
		err_set(err, ENOMEM, "out of memory");
	else
		r = check_names(&name, err);
	if (r < 0) {
		source_name_release(&name);
		return r;
	}
	*ret = name;
	return 0;
}

void source_name_release(struct source_name *name)
{
	if (!name)
		return;
	free(name->mirror);
	free(name->dataset);
	free(name->tag);
	*name = (struct source_name){0};
}

char *mirror_head_path(const char *dataset, const char *tag,
		       char ret_path[SOURCE_PATH_MAX])
{
	snprintf(ret_path, SOURCE_PATH_MAX, "heads/%s%s%s", dataset,
		 tag ? "@" : "", tag ? tag : "");
	return ret_path;
}

static char *digest_path_below(const char *dir, const struct digest *digest,
			       char ret_path[SOURCE_PATH_MAX])
{
	char path[DIGEST_PATH_MAX];

	snprintf(ret_path, SOURCE_PATH_MAX, "%s",
		 digest_path(dir, digest, path));
	return ret_path;
}

char *mirror_object_path(const struct digest *digest,
			 char ret_path[SOURCE_PATH_MAX])
{
	return digest_path_below("objects", digest, ret_path);
}

char *mirror_places_path(const struct digest *digest,
			 char ret_path[SOURCE_PATH_MAX])
{
	return digest_path_below("places", digest, ret_path);
}

char *mirror_pack_path(const struct digest *id, char ret_path[SOURCE_PATH_MAX])
{
	return digest_path_below("packs", id, ret_path);
}

int mirror_marker_print(int64_t created, struct buf *ret)
{
	char time[FORMAT_MAX];

	return buf_printf(ret, MARKER_FIRST_LINE "%d\ncreated: %s\n",
			  MARKER_VERSION, format_time(created, time));
}

/*
 * Only the first line is judged: what follows may grow. A page that some
 * server or proxy answers instead of the marker is the likeliest failure.
 */
int mirror_marker_check(const void *text, size_t len, struct err *err)
{
	static const char first[] = MARKER_FIRST_LINE;
	const char *number, *end;
	char digits[24];
	uint64_t version;
	size_t n;

	if (len > MARKER_BYTES_MAX || len < sizeof(first) - 1 ||
	    memcmp(text, first, sizeof(first) - 1))
		return err_set(err, EBADMSG,
			       "not a mirror of larder: '%s' "
			       "holds something else",
			       MIRROR_MARKER);
	number = (const char *)text + sizeof(first) - 1;
	end = memchr(number, '\n', len - (sizeof(first) - 1));
	n = end ? (size_t)(end - number) : sizeof(digits);
	if (n >= sizeof(digits) || memchr(number, '\0', n))
		return err_set(err, EBADMSG, "'%s' is damaged", MIRROR_MARKER);
	memcpy(digits, number, n);
	digits[n] = '\0';
	if (parse_u64(digits, &version) < 0)
		return err_set(err, EBADMSG, "'%s' is damaged", MIRROR_MARKER);
	if (version != MARKER_VERSION)
		return err_set(err, EPROTONOSUPPORT,
			       "the mirror has format %s, this program reads "
			       "format %d (a newer larder may read it)",
			       digits, MARKER_VERSION);
	return 0;
}
