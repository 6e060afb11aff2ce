/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_SOURCE_SOURCE_H
#define LARDER_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h" /* struct origin_options */
#include "format/digest.h"
#include "source/hub.h"

/*
 * What a kind of origin means: where things lie below it. Describes
 * requests, performs none.
 */

/* SOURCE as typed: MIRROR#NAME[@TAG], split at the last '#'. */
struct source_name {
	char *mirror; /* path or URL, as typed */
	char *dataset;
	char *tag;    /* NULL: the current head */
};
int source_parse(const char *text, struct source_name *ret, struct err *err);
void source_name_release(struct source_name *name);

/* Paths below a mirror. ret_path has SOURCE_PATH_MAX bytes. */
#define SOURCE_PATH_MAX 600
#define MIRROR_MARKER "larder-mirror"
char *mirror_head_path(const char *dataset, const char *tag, char ret_path[SOURCE_PATH_MAX]);
char *mirror_object_path(const struct digest *digest, char ret_path[SOURCE_PATH_MAX]);
char *mirror_places_path(const struct digest *digest, char ret_path[SOURCE_PATH_MAX]);
char *mirror_pack_path(const struct digest *id, char ret_path[SOURCE_PATH_MAX]);
/* MIRROR/larder-mirror: "larder mirror 1\ncreated: TIME\n". */
struct buf;
int mirror_marker_print(int64_t created, struct buf *ret);
int mirror_marker_check(const void *text, size_t len, struct err *err);

#endif
