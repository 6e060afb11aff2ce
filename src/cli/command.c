/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a command that looks into a source or a cache. */
#include <config.h>

#include "base/buf.h"
#include "cli/cli.h"

#define PATH_BYTES_MAX (1u << 20)

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

int cli_look(struct cli *cli,
	     int (*look)(struct cli_source *source, void *arg, struct buf *path,
			 struct err *err),
	     void *arg, struct err *err)
{
	struct cli_source source;
	struct buf path;
	int r = cli_source_or_place_open(cli, cli->options.operands.items[0],
					 &source, err);

	if (r < 0)
		return r;
	buf_init(&path, PATH_BYTES_MAX);
	r = look(&source, arg, &path, err);
	buf_release(&path);
	cli_source_close(&source);
	return r;
}

int cli_cache_open(struct cli *cli, struct cache **ret, struct err *err)
{
	struct cache_options options = {0};
	struct node_options node;
	int r = cli_node_options(cli, &node, err);

	options.dir = node.cache_dir;
	options.limit_bytes = node.cache_limit_bytes;
	options.min_free_bytes = node.cache_min_free_bytes;
	if (r == 0)
		r = cache_answers(options.dir, err);
	return r < 0 ? r : cache_open(&options, ret, err);
}
