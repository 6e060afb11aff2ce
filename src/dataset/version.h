/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_VERSION_H
#define LARDER_DATASET_VERSION_H

#include "fetch/fetch.h"

/*
 * Which version of a file by reference its server sends, by the strong ETag
 * (RFC 9110) of the first answer. Thread-safe.
 */
struct version;

struct version *version_new(void); /* NULL on ENOMEM */
void version_free(struct version *version);
/* What to send as If-Range with this request; "": nothing is known. */
void version_known(struct version *version, const struct fetch_request *request,
		   char ret[FETCH_ETAG_MAX]);
/* An answer has come: false if its bytes are not those of the first one. */
bool version_is_same(struct version *version,
		     const struct fetch_request *request, const char *etag);

#endif
