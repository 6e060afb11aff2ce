/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as huggingface_hub's cache has it: directories as they are, files
 * as relative links to blobs/ETAG, two levels above the snapshot's root. The
 * ETag is the digest by which the Hub and our cache know the bytes: SHA-256, or
 * git's SHA-1 for what git keeps itself. What has no bytes on the Hub (a
 * submodule) stays a file that cannot be read.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/catalog.h"
#include "format/limits.h"
#include "mount/views.h"

#define BLOBS "blobs/"
#define UP "../"
#define UPS_OF_ROOT 2u /* snapshots/COMMIT */

/* git's SHA-1 of no bytes: an empty file lies nowhere in a catalog. */
static const uint8_t empty_blob[] = {0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6,
				     0x43, 0x4b, 0x8b, 0x29, 0xae, 0x77, 0x5a,
				     0xd8, 0xc2, 0xe4, 0x8c, 0x53, 0x91};

bool links_blob_name(const struct file_location *location,
		     const struct entry_attr *attr, struct digest *ret)
{
	if (attr->type != ENTRY_FILE)
		return false;
	*ret = location->blob;
	if (attr->size == 0) {
		*ret = (struct digest){.type = DIGEST_GIT_SHA1};
		memcpy(ret->bytes, empty_blob, sizeof(empty_blob));
	}
	return !digest_is_none(ret);
}

/* How many directories lead to it from the root. */
static int depth_of(struct op *op, struct snapshot *snapshot, uint64_t number,
		    unsigned *ret, struct err *err)
{
	uint64_t parent = number;

	for (*ret = 0;; (*ret)++) {
		int r = snapshot_parent(snapshot, parent, &op->waiter, &parent,
					err);

		if (r || parent == 0)
			return r;
	}
}

static int locate(struct op *op, const struct slot *slot,
		  const struct entry_attr *attr, struct digest *ret_blob,
		  unsigned *ret_ups, struct err *err)
{
	struct file_location location;
	int r = snapshot_locate(slot->snapshot, attr->number, &op->waiter,
				&location, NULL, NULL, err);

	if (!r)
		r = depth_of(op, slot->snapshot, attr->number, ret_ups, err);
	if (r)
		return r;
	*ret_ups += UPS_OF_ROOT;
	if (!links_blob_name(&location, attr, ret_blob))
		return err_set(err, EIO, "a file without a digest");
	return 0;
}

int links_attr(struct op *op, const struct slot *slot,
	       const struct entry_attr *attr, struct stat *ret, struct err *err)
{
	struct digest blob;
	unsigned ups;
	int r;

	if (attr->type != ENTRY_FILE)
		return 0;
	r = locate(op, slot, attr, &blob, &ups, err);
	if (r)
		return r;
	ret->st_mode = S_IFLNK | 0777;
	ret->st_size = (off_t)(ups * strlen(UP) + strlen(BLOBS) +
			       2 * digest_size(blob.type));
	ret->st_blocks = 0;
	return 0;
}

int links_read(struct op *op, const struct target *target, char **ret,
	       struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	struct entry_attr attr;
	struct digest blob;
	struct buf text;
	unsigned ups;
	size_t len;
	int r = snapshot_getattr(target->slot->snapshot, target->number,
				 &op->waiter, &attr, err);

	if (!r && attr.type != ENTRY_FILE)
		return -EINVAL;
	if (!r)
		r = locate(op, target->slot, &attr, &blob, &ups, err);
	if (r)
		return r;
	buf_init(&text, LIMIT_SYMLINK_BYTES);
	while (ups-- > 0 && r == 0)
		r = buf_printf(&text, UP);
	if (r == 0)
		r = buf_printf(&text, BLOBS "%s", digest_hex(&blob, hex));
	if (r == 0)
		r = buf_append(&text, "", 1);
	if (r == 0)
		*ret = (char *)buf_steal(&text, &len);
	buf_release(&text);
	return r;
}
