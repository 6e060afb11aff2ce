/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DATASET_VERSION_H
#define LARDER_DATASET_VERSION_H

#include "fetch/fetch.h"

/*
 * Which version of a file by reference its server sends, by the strong ETag
 * (RFC 9110) of the first answer. Thread-safe.
 *
 * It is not kept with what is cached. The Hub's files are named by commit and
 * path, and each process asks for a file's location first, whose answer is
 * compared with the listing's size and digest (hub_resolved_check): a file that
 * was replaced between two processes is refused there. What a server does not
 * tell, the digest of the whole file finds, as it does without an ETag.
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
