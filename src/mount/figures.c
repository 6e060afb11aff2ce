/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mount tells about its cache and datasets, as attributes anybody may
 * read: ordinary users cannot look into the cache, and the counters are in this
 * process. Text, "KEY VALUE" lines; keys are only added.
 */
#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "mount/internal.h"
#include "mount/op.h"
#include "mount/passthrough.h"

static int put_node(struct buf *buf, struct fs *fs)
{
	char passthrough[PASSTHROUGH_TEXT];
	int r = node_figures_text(fs->node, buf);

	passthrough_text(fs->passthrough, passthrough);
	return r < 0 ? r :
		       buf_printf(buf, "seconds %" PRId64 "\npassthrough %s\n",
				  wall_seconds() - fs->start_s, passthrough);
}

static int put_dataset(struct buf *buf, struct dataset *dataset)
{
	char text[DIGEST_TEXT_MAX];
	struct dataset_figures figures;
	struct dataset_info info;
	int r;

	dataset_info(dataset, &info);
	if (digest_is_none(&info.snapshot))
		return 0;
	dataset_figures(dataset, &figures);
	if (info.commit[0]) {
		r = buf_printf(buf, "commit %s\nrevision %s\n", info.commit,
			       info.revision);
		if (r < 0)
			return r;
	}
	if (info.is_for_good) {
		r = buf_printf(buf, "for-good 1\n");
		if (r < 0)
			return r;
	}
	return buf_printf(buf,
			  "snapshot %s\nserial %" PRIu64 "\nentries %" PRIu64
			  "\ntotal-bytes %" PRIu64 "\ncached-bytes %" PRIu64
			  "\npinned-bytes %" PRIu64 "\nfresh %d\n",
			  digest_text(&info.snapshot, text), info.serial,
			  info.entry_count, info.total_bytes,
			  figures.cached_bytes, figures.pinned_bytes,
			  figures.is_fresh);
}

int figures_text(struct fs *fs, bool is_root, const struct tree_dir *dir,
		 struct buf *ret)
{
	int r = is_root ? put_node(ret, fs) : 0;

	if (r == 0 && dir && dir->fault)
		return buf_printf(ret, "for-good 1\n");
	return r == 0 && dir && dir->dataset ? put_dataset(ret, dir->dataset) :
					       r;
}
