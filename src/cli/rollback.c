/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder rollback MIRROR NAME SERIAL|DIGEST: an old snapshot becomes the
 * current one, under a new serial, because readers never go back.
 */
#include <config.h>

#include <stddef.h>

#include "cli/cli.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "publish/publish.h"

struct arguments {
	char *key;
	bool is_forced;
};

#define AT(member) .offset = offsetof(struct arguments, member)
static const struct option_def rollback_options[] = {
	ROW_SIGNING_KEY(offsetof(struct arguments, key)),
	{.name = "force",
	 .type = OPTION_BOOL,
	 AT(is_forced),
	 .places = OPTION_ARGV,
	 .help = "leave the head unsigned where the last one is signed"},
	{0},
};
#undef AT

static int make_current(const struct mirror_command *command,
			const char *const *operands,
			const struct secret_key *key, struct head *ret,
			struct err *err)
{
	const struct arguments *arguments = command->target;

	return publish_rollback(operands[0], &command->reach->access,
				operands[1], operands[2], key,
				arguments->is_forced, ret, err);
}

static int rollback(const struct mirror_command *command,
		    const struct options *options)
{
	const struct arguments *arguments = command->target;

	return mirror_command_sign(command, options->operands.items,
				   arguments->key, make_current, "rolled back");
}

int cmd_rollback(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct mirror_reach reach = {0};
	const struct mirror_command command = {
		.name = "rollback",
		.reach = &reach,
		.usage = "larder rollback [-k KEY] MIRROR NAME SERIAL|DIGEST",
		.summary =
			"Make an old snapshot the current one, under a new serial.",
		.options = rollback_options,
		.target = &arguments,
		.operands_min = 3,
		.operands_max = 3,
	};

	return mirror_command_run(&command, argc, argv, rollback);
}
