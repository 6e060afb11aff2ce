/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder tag MIRROR NAME TAG: a name that stays on one snapshot.
 */
#include <config.h>

#include <stdio.h>

#include "cli/cli.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "publish/publish.h"

struct arguments {
	char *key;
	uint64_t serial;
	bool is_forced, is_delete;
};

#define AT(member) .offset = offsetof(struct arguments, member)
static const struct option_def tag_options[] = {
	ROW_SIGNING_KEY(offsetof(struct arguments, key)),
	{.name = "serial",
	 .type = OPTION_COUNT,
	 AT(serial),
	 .value = "N",
	 .places = OPTION_ARGV,
	 .help = "tag that snapshot instead of the current one"},
	{.name = "force",
	 .type = OPTION_BOOL,
	 AT(is_forced),
	 .places = OPTION_ARGV,
	 .help = "move a tag, or leave it unsigned where the head is signed"},
	{.name = "delete",
	 .type = OPTION_BOOL,
	 AT(is_delete),
	 .places = OPTION_ARGV,
	 .help = "remove the tag"},
	{0},
};
#undef AT

static int delete_tag(const struct mirror_access *access,
		      const char *const *operands)
{
	struct err err = {0};
	int r = publish_untag(operands[0], access, operands[1], operands[2],
			      &err);

	if (r < 0)
		return cli_fail("tag", r, &err);
	printf("removed %s@%s\n", operands[1], operands[2]);
	return CLI_DONE;
}

static int make_tag(const struct mirror_command *command,
		    const char *const *operands, const struct secret_key *key,
		    struct head *ret, struct err *err)
{
	const struct arguments *arguments = command->target;

	return publish_tag(operands[0], &command->reach->access, operands[1],
			   operands[2], arguments->serial, key,
			   arguments->is_forced, ret, err);
}

static int tag(const struct mirror_command *command,
	       const struct options *options)
{
	const struct arguments *arguments = command->target;
	const char *const *operands = options->operands.items;

	return arguments->is_delete ?
		       delete_tag(&command->reach->access, operands) :
		       mirror_command_sign(command, operands, arguments->key,
					   make_tag, "tagged");
}

int cmd_tag(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct mirror_reach reach = {0};
	const struct mirror_command command = {
		.name = "tag",
		.reach = &reach,
		.usage = "larder tag [-k KEY] [--serial N] MIRROR NAME TAG",
		.summary =
			"Give a snapshot a name that stays on it, and keep it from gc.",
		.options = tag_options,
		.target = &arguments,
		.operands_min = 3,
		.operands_max = 3,
	};

	return mirror_command_run(&command, argc, argv, tag);
}
