/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a command that looks into a source or a cache. */
#include <config.h>

#include "cli/cli.h"

int cli_run(const struct cli_command *command, int argc, char **argv,
	    int (*run)(struct cli *cli, void *arg, struct err *err), void *arg)
{
	struct err err = {0};
	struct cli cli;
	int code = cli_begin(&cli, command, argc, argv);

	if (code == 0) {
		int r = run(&cli, arg, &err);

		code = CLI_EXIT(r < 0 ? cli_fail(command->name, r, &err) : r);
	}
	cli_end(&cli);
	return code - 1;
}

int cli_cache_open(struct cli *cli, struct cache **ret, struct err *err)
{
	struct cache_options options = {0};
	struct node_options node;
	int r = cli_node_options(cli, &node, err);

	options.dir = node.cache_dir;
	options.limit_bytes = node.cache_limit_bytes;
	options.min_free_bytes = node.cache_min_free_bytes;
	return r < 0 ? r : cache_open(&options, ret, err);
}
