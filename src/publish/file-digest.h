/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_FILE_DIGEST_H
#define LARDER_PUBLISH_FILE_DIGEST_H

#include <sys/stat.h>

#include "base/err.h"
#include "format/digest.h"

/* SHA-256 of a whole file below root_fd, which must be what st says. */
int file_digest(int root_fd, const char *path, const struct stat *st,
		struct digest *ret, struct err *err);

#endif
