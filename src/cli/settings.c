/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning and the end of a command that looks into a cache or a source:
 * its words, its help, its configuration.
 */
#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/settings.h"

/* mount.larder is a program of its own for those who call it. */
static const char *program(const char *command)
{
	return strchr(command, '.') ? "" : "larder ";
}

int cli_fail(const char *command, int result, const struct err *err)
{
	fprintf(stderr, "%s%s: %s\n", program(command), command,
		err_text(err, result));
	return CLI_FAILED;
}

int cli_usage(const char *command, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s%s: ", program(command), command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n%s%s --help shows how it is used\n",
		program(command), command);
	return CLI_USAGE;
}

char *cli_keep(struct cli *cli, char *string)
{
	char **kept = string ? vec_push(&cli->strings) : NULL;

	if (!kept) {
		free(string);
		return NULL;
	}
	return *kept = string;
}

const char *cli_absolute(struct cli *cli, const char *path)
{
	char *full;

	if (!path || path[0] == '/' || strstr(path, "://"))
		return path;
	if (!cli->directory ||
	    asprintf(&full, "%s/%s", cli->directory, path) < 0)
		return path;
	return cli_keep(cli, full) ?: path;
}
/* ---- the command line */

/* Somebody who looks at it gets what he may want, programs and pipes get all.
 */
static void print_help(struct cli *cli, const struct cli_command *command)
{
	bool is_short = !command->is_mount && isatty(STDOUT_FILENO);

	printf("usage: %s\n%s\n\n", command->usage, command->summary);
	if (!options_print_help(&cli->options, stdout, is_short))
		return;
	printf("\nMore of them: larder %s --help | less, or larder(1)\n",
	       command->name);
}

/* The options of mounts may stand in [larder] whatever the command. */
static const struct option_def *hidden_options(struct cli *cli)
{
	size_t count = 0;

	while (cli_mount_table[count].name ||
	       cli_mount_table[count].type == OPTION_HEADING)
		count++;
	cli->hidden = calloc(count + 1, sizeof(*cli->hidden));
	for (size_t i = 0; cli->hidden && i < count; i++) {
		cli->hidden[i] = cli_mount_table[i];
		cli->hidden[i].is_hidden = true;
	}
	return cli->hidden;
}

static int add_options(struct cli *cli, const struct cli_command *command,
		       struct err *err)
{
	const struct option_def *of_mounts =
		command->is_mount ? cli_mount_table : hidden_options(cli);
	int r = of_mounts ? 0 : err_set(err, ENOMEM, "out of memory");

	if (r == 0 && command->options)
		r = options_add(&cli->options, command->options,
				command->target, err);
	if (r == 0)
		r = options_add(&cli->options, cli_general_table,
				&cli->settings, err);
	if (r == 0)
		r = options_add(&cli->options, cli_node_table, &cli->settings,
				err);
	if (r == 0)
		r = options_add(&cli->options, cli_network_options,
				&cli->settings.network, err);
	if (r == 0)
		r = options_add(&cli->options, cli_s3_options,
				&cli->settings.s3, err);
	if (r == 0)
		r = options_add(&cli->options, of_mounts, &cli->settings, err);
	return r;
}

/* mount -s: known before the list is read, wherever it stands. */
static bool has_sloppy(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-o") == 0)
			i++;
		else if (argv[i][0] == '-' && argv[i][1] != '-' &&
			 argv[i][1] != 'o' && strchr(argv[i], 's'))
			return true;
	}
	return false;
}

/* The first word that is no module, or NULL. */
static const char *unknown_module(const char *list)
{
	static const char *const modules[] = {"all", "cache", "dataset",
					      "fetch", "mount"};
	const size_t count = sizeof(modules) / sizeof(modules[0]);

	for (;;) {
		size_t i = 0, len = strcspn(list, ",");

		while (i < count && (strlen(modules[i]) != len ||
				     strncmp(modules[i], list, len) != 0))
			i++;
		if (i == count)
			return list;
		if (!list[len])
			return NULL;
		list += len + 1;
	}
}

static int set_debug(const char *list, struct err *err)
{
	const char *bad = unknown_module(list);

	if (bad)
		return err_set(
			err, EINVAL,
			"debug: '%.*s' is no module (all, cache, dataset, fetch, mount)",
			(int)strcspn(bad, ","), bad);
	log_set_debug(list);
	return 0;
}

int cli_begin(struct cli *cli, const struct cli_command *command, int argc,
	      char **argv)
{
	struct err err = {0};

	*cli = (struct cli){.command = command->name,
			    .directory = getcwd(NULL, 0)};
	options_init(&cli->options);
	cli->options.skips_unknown_words =
		command->is_helper && has_sloppy(argc, argv);
	int r = add_options(cli, command, &err);
	if (r < 0)
		return CLI_EXIT(cli_fail(command->name, r, &err));
	r = options_parse(&cli->options, argc, argv, &err);
	if (r < 0)
		return CLI_EXIT(
			cli_usage(command->name, "%s", err_text(&err, r)));
	if (cli->settings.want_help) {
		print_help(cli, command);
		return CLI_EXIT(CLI_DONE);
	}
	size_t count = cli->options.operands.count;
	if (count < command->operands_min || count > command->operands_max)
		return CLI_EXIT(cli_usage(command->name, "%s\nusage: %s",
					  count < command->operands_min ?
						  "an argument is missing" :
						  "too many arguments",
					  command->usage));
	r = cli_read_config(cli, cli->settings.config, &err);
	if (r < 0) {
		int code = cli_fail(command->name, r, &err);

		if (!command->goes_on)
			return CLI_EXIT(code);
		cli->is_unread = true;
	}
	if (cli->settings.debug && set_debug(cli->settings.debug, &err) < 0)
		return CLI_EXIT(cli_usage(command->name, "%s",
					  err_text(&err, -EINVAL)));
	return 0;
}

int cli_read_again(const struct cli *cli, const struct cli_command *command,
		   int argc, char **argv, struct cli *ret, struct err *err)
{
	int r;

	*ret = (struct cli){.command = cli->command,
			    .directory = strdup(cli->directory ?: "/")};
	options_init(&ret->options);
	ret->options.skips_unknown_words = cli->options.skips_unknown_words;
	r = add_options(ret, command, err);
	if (r == 0)
		r = options_parse(&ret->options, argc, argv, err);
	if (r == 0)
		r = cli_read_config(
			ret, cli_absolute(ret, ret->settings.config), err);
	if (r < 0)
		cli_end(ret);
	return r;
}

void cli_end(struct cli *cli)
{
	for (size_t i = 0; i < cli->datasets.count; i++) {
		struct cli_dataset *dataset = cli->datasets.items[i];

		options_release(&dataset->options);
		free(dataset->name);
		free(dataset);
	}
	vec_release(&cli->datasets);
	options_release(&cli->options);
	free(cli->hidden);
	free(cli->directory);
	for (size_t i = 0; i < cli->strings.count; i++)
		free(cli->strings.items[i]);
	vec_release(&cli->strings);
}
