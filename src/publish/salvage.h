/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_SALVAGE_H
#define LARDER_PUBLISH_SALVAGE_H

#include <stdint.h>

#include "base/err.h"

struct mirror;

/*
 * Turn the temporary packs that dead runs left below packs/ into packs: whole
 * frames are kept, checked one by one; what follows the last is cut off. Only
 * under the lease, which says that no run is alive. ret_bytes: stored bytes
 * that were kept.
 */
int salvage_packs(const struct mirror *mirror, unsigned int threads,
		  uint64_t *ret_bytes, struct err *err);

#endif
