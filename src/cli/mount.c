/* SPDX-License-Identifier: Apache-2.0 */
/* larder mount, and what it prints instead of mounting. */
#include <config.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/mount-request.h"

#define FSTAB_WORD_MAX 65536u

struct mount_command {
	bool is_foreground, want_fstab, want_values;
};

static const struct option_def own_options[] = {
	{.name = "foreground",
	 .letter = 'f',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct mount_command, is_foreground),
	 .help = "serve in this process, log to stderr"},
	{.name = "fstab",
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct mount_command, want_fstab),
	 .help = "print the line for /etc/fstab and leave"},
	{.name = "print-config",
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct mount_command, want_values),
	 .help = "print every setting and where it is from, and leave"},
	{0},
};

/* ---- --print-config, --fstab */

/* Defaults that are not in the table since they depend on the user, or are the
 * cache's own. */
static void fill_default(struct cli *cli, const char *name, const char *value)
{
	if (value && !options_is_set(&cli->options, name))
		options_set(&cli->options, OPTION_FILE, "default", name, value,
			    NULL);
}

static void print_values(struct cli *cli)
{
	struct node_options node = {0};

	if (cli_node_options(cli, &node, NULL) == 0)
		fill_default(cli, "cache", node.cache_dir);
	fill_default(cli, "size", "80%");
	fill_default(cli, "min-free", "5%");
	fill_default(cli, "allow_other", geteuid() == 0 ? "yes" : "no");
	printf("[larder]\n");
	options_print_values(&cli->options, stdout);
	for (size_t i = 0; i < cli->datasets.count; i++) {
		printf("\n[%s]\n", cli->datasets.items[i]->name);
		options_print_values(&cli->datasets.items[i]->options, stdout);
	}
}

/* fstab(5): blanks and backslashes as octal, and no '#' at the start. */
static void print_fstab_word(const char *word)
{
	for (const char *at = word; *at; at++) {
		bool is_special = *at == ' ' || *at == '\t' || *at == '\n' ||
				  *at == '\\' || (*at == '#' && at == word);

		if (is_special)
			printf("\\%03o", (unsigned)(unsigned char)*at);
		else
			putchar(*at);
	}
}

/* Backslashes, not quotes: mount(8) drops a word with both. */
static int print_fstab_option(const struct option_def *def, const char *value)
{
	struct buf word;
	int r;

	buf_init(&word, FSTAB_WORD_MAX);
	r = buf_printf(&word,
		       def->type == OPTION_BOOL ? ",%s" : ",%s=", def->name);
	for (const char *at = value; r == 0 && def->type != OPTION_BOOL && *at;
	     at++) {
		if (strchr(",\"\\", *at))
			r = buf_append(&word, "\\", 1);
		if (r == 0)
			r = buf_append(&word, at, 1);
	}
	if (r == 0)
		r = buf_append(&word, "", 1);
	if (r == 0)
		print_fstab_word((const char *)word.data);
	buf_release(&word);
	return r;
}

static bool is_path_option(const char *name)
{
	return !strcmp(name, "cache") || !strcmp(name, "key") ||
	       !strcmp(name, "ca") || !strcmp(name, "config") ||
	       !strcmp(name, "token-file");
}

/* What was typed here; what the files say stays there. */
static void print_fstab(struct mount_request *request)
{
	struct cli *cli = request->cli;
	const char *source = mount_is_whole(request->source) ?
				     MOUNT_WHOLE :
				     cli_absolute(cli, request->source);

	print_fstab_word(source);
	putchar(' ');
	print_fstab_word(cli_absolute(cli, request->mountpoint));
	printf(" larder nofail");
	for (size_t i = 0; i < cli->options.slots.count; i++) {
		const struct option_slot *slot = &cli->options.slots.items[i];

		if ((slot->place != OPTION_LISTED &&
		     slot->place != OPTION_ARGV) ||
		    slot->def->type == OPTION_WORDS ||
		    slot->def->places == OPTION_ARGV)
			continue;
		for (size_t j = 0; j < slot->sources.count; j++) {
			const char *value = slot->sources.items[j].text;

			print_fstab_option(slot->def,
					   is_path_option(slot->def->name) ?
						   cli_absolute(cli, value) :
						   value);
		}
	}
	printf(" 0 0\n");
}

/* ---- commands */

/* One word that names a dataset, and no directory: the other word is missing.
 */
static bool is_source_alone(const char *word)
{
	return (strchr(word, '#') || strstr(word, "://")) &&
	       access(word, F_OK) < 0 && errno == ENOENT;
}

int cmd_mount(int argc, char **argv)
{
	struct mount_command own = {0};
	const struct cli_command command = {
		.name = "mount",
		.usage = "larder mount [OPTION...] [SOURCE] MOUNTPOINT",
		.summary =
			"Mount a dataset, or without SOURCE every configured one. SOURCE is\n"
			"MIRROR#NAME, hf://ORG/NAME or the name of a configured dataset.",
		.options = own_options,
		.target = &own,
		.is_mount = true,
		.operands_max = 2,
	};
	struct err err = {0};
	struct cli cli;
	int code = cli_begin(&cli, &command, argc, argv);

	if (code) {
		cli_end(&cli);
		return code - 1;
	}
	const struct mount_arguments arguments = {&command, argc, argv};
	size_t count = cli.options.operands.count;
	struct mount_request request = {
		.cli = &cli,
		.source = count == 2 ? cli.options.operands.items[0] : NULL,
		.mountpoint =
			count ? cli.options.operands.items[count - 1] : NULL,
		.is_foreground = own.is_foreground,
		.arguments = &arguments,
	};
	code = CLI_DONE;
	if (own.want_values) {
		print_values(&cli);
	} else if (!request.mountpoint ||
		   (count == 1 && is_source_alone(request.mountpoint))) {
		code = cli_usage("mount", "where to? MOUNTPOINT is missing");
	} else if (own.want_fstab) {
		print_fstab(&request);
	} else {
		int r = mount_request_prepare(&request, &err);

		if (r == 0)
			r = mount_request_run(&request, &err);
		if (r < 0)
			code = cli_fail("mount", r, &err);
	}
	cli_end(&cli);
	return code;
}
