/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_SELECT_H
#define LARDER_CLI_SELECT_H

#include "cli/cli.h"

/*
 * SOURCE|DIR [GLOB...]: what prefetch, pin, unpin and evict work on. DIR is a
 * path on a mount of the asking user's: the dataset is opened again here, with
 * the mount's options, on the mount's cache. Somebody else's mount is -EPERM.
 */
struct cli_target {
	struct cli *cli;
	struct cli_source source;
	struct selection selection; /* of source.snapshot */
};
int cli_target_open(struct cli *cli, const char *text, const char *const *globs,
		    size_t glob_count, struct cli_target *ret, struct err *err);
void cli_target_close(struct cli_target *target);

/* The blobs that the selected files lie in, each once and in order, and the
 * catalogs and recipes that lead to them. A blob holds other files too when
 * they are small. */
struct target_blob {
	struct digest id;
	uint64_t bytes;
};
struct target_blobs {
	uint64_t files, file_bytes;
	VEC(struct target_blob) blobs;
	VEC(struct digest) objects;
};
int cli_target_blobs(struct cli_target *target, struct target_blobs *ret,
		     struct err *err);
void target_blobs_release(struct target_blobs *blobs);
/* Pin them, replacing a pin of the same target; -ENOSPC with the next step when
 * the cache cannot hold so much. */
int cli_pin(struct cli_target *target, const struct target_blobs *blobs,
	    struct err *err);

#endif
