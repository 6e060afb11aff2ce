/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_MOUNT_DATASETS_H
#define LARDER_MOUNT_DATASETS_H

#include "base/err.h"

struct fs;
struct mount_status;

/* Those of the options, into fs->tree. Fails where nothing could be served. */
int datasets_build(struct fs *fs, struct err *err);
/* From here on new heads are told to the kernel, which must be answering. */
void datasets_watch(struct fs *fs);
/* SIGHUP: new sections appear; what else was changed is only reported. */
void datasets_reload(struct fs *fs, const struct mount_status *status);

#endif
