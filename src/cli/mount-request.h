/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CLI_MOUNT_REQUEST_H
#define LARDER_CLI_MOUNT_REQUEST_H

#include "cli/cli.h"
#include "mount/mount.h"

/* What larder mount and mount.larder have in common. */

/* SOURCE of a mount that shows the whole configuration. */
#define MOUNT_WHOLE "larder"

/* What came from the command line, to parse it again. */
struct mount_arguments {
	const struct cli_command *command;
	int argc;
	char **argv;
};

struct mount_request {
	struct cli *cli;
	const struct mount_arguments *arguments;
	const char *source,
		*mountpoint; /* as typed; source NULL or MOUNT_WHOLE: everything */
	struct mount_options options;
	struct mount_dataset *datasets;
	struct mount_guard *guards;
	size_t guard_count, guard_capacity;
	bool is_foreground;
	int lock_fd; /* while it is checked and mounted; or -1 */
};

/* SOURCE is NULL or MOUNT_WHOLE. */
bool mount_is_whole(const char *source);
/* Refuse at once what can be refused, and fill in options. */
int mount_request_prepare(struct mount_request *request, struct err *err);
/* Mount, and serve: in a child once it works, or here. */
int mount_request_run(struct mount_request *request, struct err *err);

#endif
