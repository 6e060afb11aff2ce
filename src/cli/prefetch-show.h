/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_PREFETCH_SHOW_H
#define LARDER_CLI_PREFETCH_SHOW_H

#include <stdbool.h>

#include "cli/mirror-command.h"
#include "dataset/dataset.h"

/* What larder prefetch says, wherever the work is done. */
struct prefetch_show {
	bool is_terminal, is_json, is_dry_run, is_pinned;
	uint64_t started_ms, next_line_ms;
	struct progress_rate rate;
};

void prefetch_show_begin(struct prefetch_show *show);
/* Progress on stderr: a bar on a terminal, a line now and then elsewhere. */
void prefetch_show_progress(struct prefetch_show *show,
			    const struct prefetch_info *info);
/* The line of progress goes away. */
void prefetch_show_end(struct prefetch_show *show);
/* The result on stdout. Failures are told by the caller, on stderr. */
void prefetch_show_result(const struct prefetch_show *show,
			  const struct prefetch_info *info, const char *source);

#endif
