/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder rollback MIRROR NAME SERIAL|DIGEST: an old snapshot becomes the
 * current one, under a new serial, because readers never go back.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

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

static int rollback(const struct mirror_command *command,
		    const struct options *options)
{
	const struct arguments *arguments = command->target;
	const char *const *operands = options->operands.items;
	char digest[DIGEST_TEXT_MAX];
	const struct secret_key *used;
	struct secret_key key;
	struct head head;
	struct err err = {0};
	int r = load_secret_key(arguments->key, &key, &used, &err);

	if (r == 0)
		r = publish_rollback(operands[0], &command->reach->access,
				     operands[1], operands[2], used,
				     arguments->is_forced, &head, &err);
	secret_key_wipe(&key);
	if (r < 0)
		return cli_fail("rollback", r, &err);
	printf("rolled back %s serial %" PRIu64 " %s\n", head.dataset,
	       head.serial, digest_text(&head.catalog, digest));
	return CLI_DONE;
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
