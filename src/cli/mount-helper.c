/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.larder SOURCE DIR [-sfnv] [-o LIST] [-N NAMESPACE] [-t TYPE]: what
 * mount(8) calls for fstab's lines of type larder.
 */
#include <config.h>

#include <errno.h>

#include "cli/mount-request.h"

/* Exit codes mount(8) hands on. */
#define HELPER_USAGE 1
#define HELPER_SYSTEM 2
#define HELPER_FAILED 32

struct helper_command {
	bool is_sloppy, is_fake, is_quiet_table, is_verbose;
	char *type, *namespace;
};

static const struct option_def helper_options[] = {
	{.name = "sloppy",
	 .letter = 's',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct helper_command, is_sloppy),
	 .help = "ignore unknown options"},
	{.name = "fake",
	 .letter = 'f',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct helper_command, is_fake),
	 .help = "check everything, mount nothing"},
	{.name = "no-mtab",
	 .letter = 'n',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct helper_command, is_quiet_table),
	 .help = "ignored"},
	{.name = "verbose",
	 .letter = 'v',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct helper_command, is_verbose),
	 .help = "ignored"},
	{.name = "types",
	 .letter = 't',
	 .type = OPTION_STRING,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct helper_command, type),
	 .value = "TYPE",
	 .help = "ignored"},
	{.name = "namespace",
	 .letter = 'N',
	 .type = OPTION_STRING,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct helper_command, namespace),
	 .value = "NS",
	 .help = "ignored"},
	{0},
};

static int helper_code(int r)
{
	switch (-r) {
	case EINVAL:
		return HELPER_USAGE;
	case ENOMEM:
	case EAGAIN:
	case EMFILE:
	case ENFILE:
		return HELPER_SYSTEM;
	default:
		return HELPER_FAILED;
	}
}

static int helper_run(struct cli *cli, const struct helper_command *own,
		      const struct mount_arguments *arguments)
{
	struct mount_request request = {
		.cli = cli,
		.arguments = arguments,
		.source = cli->options.operands.items[0],
		.mountpoint = cli->options.operands.items[1],
	};
	struct err err = {0};
	int r;

	if (cli->settings.remount) {
		r = mount_reload(request.mountpoint, &err);
	} else {
		r = mount_request_prepare(&request, &err);
		if (r == 0)
			r = own->is_fake ? mount_check(&request.options, &err) :
					   mount_request_run(&request, &err);
	}
	if (r < 0)
		fprintf(stderr, "mount.larder: %s\n", err_text(&err, r));
	return r < 0 ? helper_code(r) : 0;
}

int cmd_mount_helper(int argc, char **argv)
{
	struct helper_command own = {0};
	const struct cli_command command = {
		.name = "mount.larder",
		.usage = "mount.larder SOURCE MOUNTPOINT [-sfnv] [-o LIST]",
		.summary =
			"The helper of mount(8). SOURCE \"larder\": every configured dataset.",
		.options = helper_options,
		.target = &own,
		.is_mount = true,
		.is_helper = true,
		.operands_min = 2,
		.operands_max = 2,
	};
	struct cli cli;
	int code = cli_begin(&cli, &command, argc, argv);

	if (code) /* a usage error is 1 for mount(8) */
		code = code - 1 == CLI_DONE ? 0 : HELPER_USAGE;
	else
		code = helper_run(
			&cli, &own,
			&(const struct mount_arguments){&command, argc, argv});
	cli_end(&cli);
	return code;
}
