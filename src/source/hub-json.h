/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_SOURCE_HUB_JSON_H
#define LARDER_SOURCE_HUB_JSON_H

#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Between hub-info.c and hub-tree.c. */
DEFINE_CLEANUP(json_t *, json_decref);
#define _cleanup_json_ _cleanup_(json_decref_p)

/* An answer of the Hub; NULL and why: it is no JSON. */
json_t *hub_json_load(const void *body, size_t len, struct err *err);
/* NULL: there is none, or it is no text. */
const char *hub_json_text(const json_t *object, const char *key);

#endif
