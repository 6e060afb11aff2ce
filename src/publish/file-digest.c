/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a whole file, for those who ask for it.
 *
 * An entry goes into the catalog before its file is read by the pipeline, so
 * the file is read here once more. The second reading mostly comes from
 * memory; that both saw the same file is certain because the pipeline
 * compares its times and size with those of the walk, as here.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "publish/file-digest.h"
#include "publish/walk.h"

#define READ_BYTES (256u << 10)

DEFINE_CLEANUP(struct hasher *, hasher_free);

int file_digest(int root_fd, const char *path, const struct stat *st,
		struct digest *ret, struct err *err)
{
	_cleanup_(hasher_free_p) struct hasher *hasher = hasher_new();
	_cleanup_free_ uint8_t *data = malloc(READ_BYTES);
	_cleanup_close_ int fd = -1;
	uint64_t offset = 0;
	ssize_t n;

	if (!hasher || !data || hasher_start(hasher, DIGEST_SHA256, 0) < 0)
		return err_set(err, ENOMEM, "out of memory");
	fd = open_below(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_set(err, -fd, "cannot read '%s': %s",
			       path_tail(path), strerror(-fd));
	while ((n = pread_full(fd, data, READ_BYTES, offset)) > 0) {
		hasher_add(hasher, data, (size_t)n);
		offset += (uint64_t)n;
	}
	if (n < 0)
		return err_set(err, (int)-n, "cannot read '%s': %s",
			       path_tail(path), strerror((int)-n));
	if (offset != (uint64_t)st->st_size)
		return err_set(
			err, ESTALE,
			"'%s' was changed while it was read; publish a tree that stands still",
			path_tail(path));
	hasher_finish(hasher, ret);
	return digest_is_none(ret) ? err_set(err, ENOMEM, "out of memory") : 0;
}
