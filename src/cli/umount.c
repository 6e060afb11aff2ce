/* SPDX-License-Identifier: Apache-2.0 */
/* larder umount: only what is ours, and never a hang. */
#include <config.h>

#include "cli/cli.h"
#include "mount/mount.h"

struct umount_command {
	bool is_lazy, want_help;
};

static const struct option_def own_options[] = {
	{.name = "lazy",
	 .letter = 'l',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct umount_command, is_lazy),
	 .help = "detach it though it is in use or does not answer"},
	{.name = "help",
	 .letter = 'h',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .ends_parsing = true,
	 .offset = offsetof(struct umount_command, want_help),
	 .help = "print this text"},
	{0},
};

#define USAGE "larder umount [-l] MOUNTPOINT..."

/* Reads no configuration: a broken one must not keep a mount in place. */
int cmd_umount(int argc, char **argv)
{
	struct umount_command own = {0};
	struct options options;
	struct err err = {0};
	int code = CLI_DONE;

	options_init(&options);
	int r = options_add(&options, own_options, &own, &err);
	if (r == 0)
		r = options_parse(&options, argc, argv, &err);
	if (r < 0) {
		code = cli_usage("umount", "%s", err_text(&err, r));
	} else if (own.want_help) {
		printf("usage: " USAGE "\nUnmount what larder mounted.\n\n");
		(void)options_print_help(&options, stdout, false);
	} else if (!options.operands.count) {
		code = cli_usage("umount",
				 "MOUNTPOINT is missing\nusage: " USAGE);
	}
	for (size_t i = 0;
	     r == 0 && !own.want_help && i < options.operands.count; i++) {
		struct err reason = {0};
		int result = mount_unmount(options.operands.items[i],
					   own.is_lazy, &reason);

		if (result < 0)
			code = cli_fail("umount", result, &reason);
	}
	options_release(&options);
	return code;
}
