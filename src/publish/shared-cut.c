/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where shared blobs end.
 *
 * A file ends a blob with a probability that grows with its size, so that
 * the mean holds in bytes; and the choice hangs on the path, not on what came
 * before, so after a change the cuts soon fall where they fell before.
 */
#include <config.h>

#include "publish/shared-cut.h"

bool shared_blob_ends_before(const struct catalog_params *params,
			     uint64_t blob_bytes, uint64_t blob_files,
			     uint64_t file_bytes)
{
	return blob_files > 0 &&
	       (blob_files >= SHARED_FILES_MAX ||
		blob_bytes + file_bytes > params->shared_max_bytes);
}

bool shared_blob_ends_after(const struct catalog_params *params,
			    uint64_t blob_bytes, const char *path,
			    size_t path_len, uint64_t file_bytes)
{
	uint64_t gap = params->shared_mean_bytes - params->shared_min_bytes;
	__extension__ unsigned __int128 threshold;

	if (blob_bytes < params->shared_min_bytes)
		return false;
	if (file_bytes >= gap)
		return true;
	threshold = ((unsigned __int128)file_bytes << 64) / gap;
	return checksum_xxh3(path, path_len) < (uint64_t)threshold;
}
