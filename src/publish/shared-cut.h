/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_SHARED_CUT_H
#define LARDER_PUBLISH_SHARED_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/catalog.h"

/*
 * Where shared blobs end, as larder-format(5) states. Pure. blob_bytes and
 * blob_files are what the blob holds so far.
 */

/* Files of one shared blob, so that a blob of tiny files fits in memory. */
#define SHARED_FILES_MAX 65536u

/* Does the blob end before a file of that size is added? */
bool shared_blob_ends_before(const struct catalog_params *params,
			     uint64_t blob_bytes, uint64_t blob_files,
			     uint64_t file_bytes);
/* Does it end after that file, which is in blob_bytes already? */
bool shared_blob_ends_after(const struct catalog_params *params,
			    uint64_t blob_bytes, const char *path,
			    size_t path_len, uint64_t file_bytes);

#endif
