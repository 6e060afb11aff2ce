/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that every command with a cache or a source shares, and the
 * configuration file. One table serves the command line, -o and the file, so a
 * word means the same everywhere.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "format/head.h"

#define DATASETS_DIRECTORY "datasets.d"
#define SECTIONS_MAX 65536 /* a loop in a generator */

static const char *const expired_choices[] = {"serve", "refuse", NULL};
static const char *const gated_choices[] = {"owner", "group", "everyone",
					    NULL};
static const char *const path_style_choices[] = {"auto", "yes", "no", NULL};

#define AT(member) .offset = offsetof(struct cli_network, member)

const struct option_def cli_network_options[] = {
	{.name = "proxy",
	 .type = OPTION_STRING,
	 AT(proxy),
	 .value = "URL",
	 .help = "HTTP proxy (default: from the environment)"},
	{.name = "ca",
	 .type = OPTION_STRING,
	 AT(ca),
	 .value = "FILE",
	 .help = "trust these certificates instead of the system's"},
	{.name = "cert",
	 .type = OPTION_STRING,
	 AT(cert),
	 .value = "FILE",
	 .help = "show this client certificate to servers that ask for one"},
	{.name = "cert-key",
	 .type = OPTION_STRING,
	 AT(cert_key),
	 .value = "FILE",
	 .help = "its key (default: in the same file)"},
	{0},
};

#undef AT
#define AT(member) .offset = offsetof(struct cli_s3, member)

/* In commands and sections alike. */
const struct option_def cli_s3_options[] = {
	{.name = "s3-endpoint",
	 .type = OPTION_STRING,
	 AT(endpoint),
	 .value = "URL",
	 .help = "server of s3:// (default: AWS_ENDPOINT_URL, or Amazon's)"},
	{.name = "s3-region",
	 .type = OPTION_STRING,
	 AT(region),
	 .value = "NAME",
	 .help = "region of s3:// (default: AWS_REGION, or us-east-1)"},
	{.name = "s3-path-style",
	 .type = OPTION_CHOICE,
	 AT(path_style),
	 .choices = path_style_choices,
	 .value = "WHEN",
	 .default_text = "auto",
	 .help = "the bucket is a part of the path, not of the host's name"},
	{.name = "s3-credentials",
	 .type = OPTION_STRING,
	 AT(credentials),
	 .value = "FILE",
	 .help = "keys of s3://, as of AWS, or 'none' (default: environment, "
		 "~/.aws/credentials)"},
	{.name = "s3-profile",
	 .type = OPTION_STRING,
	 AT(profile),
	 .value = "NAME",
	 .help = "section of that file (default: AWS_PROFILE, or 'default')"},
	{0},
};

#undef AT
#define AT(member) .offset = offsetof(struct settings, member)

static const struct option_def general_options[] = {
	{.name = "config",
	 .letter = 'c',
	 .type = OPTION_STRING,
	 .places = OPTION_ARGV | OPTION_LISTED,
	 AT(config),
	 .value = "FILE",
	 .help = "read this configuration instead of " CLI_CONFIG},
	{.name = "options",
	 .letter = 'o',
	 .type = OPTION_WORDS,
	 .places = OPTION_ARGV,
	 .value = "LIST",
	 .help = "options below, separated by commas"},
	{.name = "debug",
	 .type = OPTION_STRING,
	 AT(debug),
	 .value = "MODULES",
	 .help = "log more: all, or some of cache, dataset, fetch, mount"},
	{.name = "help",
	 .letter = 'h',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .ends_parsing = true,
	 AT(want_help),
	 .help = "print this text"},
	{0},
};

static const struct option_def node_options_table[] = {
	{.type = OPTION_HEADING, .help = "Cache and sources:"},
	{.name = "cache",
	 .type = OPTION_STRING,
	 AT(cache),
	 .value = "DIR",
	 .help = "keep what was read here (default: /var/cache/larder, or "
		 "~/.cache/larder for ordinary users)"},
	{.name = "size",
	 .type = OPTION_SPACE,
	 AT(size),
	 .value = "SIZE",
	 .min = 1 << 20, /* less holds no chunk */
	 .help = "let the cache grow to this size or percentage of its disk "
		 "(default: 80%)"},
	{.name = "min-free",
	 .type = OPTION_SPACE,
	 AT(min_free),
	 .value = "SIZE",
	 .help = "leave so much of the disk free (default: 5%)"},
	{.name = "key",
	 .type = OPTION_LIST,
	 AT(keys),
	 .value = "FILE",
	 .help = "trust heads signed with this public key; may be repeated"},
	{.name = "insecure",
	 .type = OPTION_BOOL,
	 AT(insecure),
	 .help = "accept mirrors that are not signed"},
	{.name = "expired",
	 .type = OPTION_CHOICE,
	 AT(expired),
	 .choices = expired_choices,
	 .value = "WHAT",
	 .default_text = "serve",
	 .help = "what to do with a head past its expiry"},
	{.name = "timeout",
	 .type = OPTION_DURATION,
	 AT(timeout_ms),
	 .value = "TIME",
	 .default_text = "30s",
	 .min = 100,
	 .max = 86400000,
	 .help = "a reader waits at most so long"},
	{.name = "refresh",
	 .type = OPTION_DURATION,
	 AT(refresh_ms),
	 .value = "TIME",
	 .default_text = "60s",
	 .min = 100,
	 .help = "look for a new head so often"},
	{.name = "buffer",
	 .type = OPTION_SIZE,
	 AT(buffer_bytes),
	 .value = "SIZE",
	 .default_text = "256M",
	 .min = 16 << 20,
	 .help = "use at most so much memory"},
	{.name = "connections",
	 .type = OPTION_COUNT,
	 AT(connections),
	 .value = "NUMBER",
	 .default_text = "16",
	 .min = 1,
	 .max = 256,
	 .help = "ask one server at most so much at a time"},
	{.name = "total-connections",
	 .type = OPTION_COUNT,
	 AT(total_connections),
	 .value = "NUMBER",
	 .default_text = "64",
	 .min = 1,
	 .max = 1024,
	 .help = "and all servers together; two of each are always allowed"},
	{.name = "token-file",
	 .type = OPTION_STRING,
	 AT(token_file),
	 .value = "FILE",
	 .help = "token for the Hugging Face Hub (default: HF_TOKEN, or the "
		 "file it keeps)"},
	{.name = "allow",
	 .type = OPTION_LIST,
	 AT(allow),
	 .value = "PATTERN",
	 .help = "let in only these repositories of the Hub; may be repeated"},
	{.name = "deny",
	 .type = OPTION_LIST,
	 AT(deny),
	 .value = "PATTERN",
	 .help = "but none of these; may be repeated"},
	{0},
};

static const struct option_def mount_options_table[] = {
	{.type = OPTION_HEADING, .help = "The mounted filesystem:"},
	{.name = "allow_other",
	 .type = OPTION_BOOL,
	 AT(allow_other),
	 .help = "let other users in (default for root)"},
	{.name = "allow_root",
	 .type = OPTION_BOOL,
	 AT(allow_root),
	 .help = "let root in"},
	{.name = "uid",
	 .type = OPTION_COUNT,
	 AT(uid),
	 .value = "NUMBER",
	 .max = UINT32_MAX - 1,
	 .help = "show this owner instead of the stored one"},
	{.name = "gid",
	 .type = OPTION_COUNT,
	 AT(gid),
	 .value = "NUMBER",
	 .max = UINT32_MAX - 1,
	 .help = "show this group instead of the stored one"},
	{.name = "gated",
	 .type = OPTION_CHOICE,
	 AT(gated),
	 .choices = gated_choices,
	 .value = "WHO",
	 .default_text = "owner",
	 .help = "who reads gated and private repositories of the Hub"},
	{.name = "noexec",
	 .type = OPTION_BOOL,
	 AT(noexec),
	 .help = "run no programs from it"},
	{.name = "nopassthrough",
	 .type = OPTION_BOOL,
	 AT(nopassthrough),
	 .help = "do not let the kernel read complete files by itself"},
	{.name = "read-ahead",
	 .type = OPTION_SIZE,
	 AT(read_ahead_bytes),
	 .value = "SIZE",
	 .default_text = "4M",
	 .max = 1 << 30,
	 .help = "let the kernel read so far ahead (root only)"},
	{.name = "fsname",
	 .type = OPTION_STRING,
	 AT(fsname),
	 .value = "NAME",
	 .help = "show this as the device (default: SOURCE)"},
	{.name = "context",
	 .type = OPTION_STRING,
	 AT(context),
	 .value = "LABEL",
	 .help = "SELinux label of all files (root only)"},
	/* accepted because other FUSE filesystems have them, or because a
	 * remount lists what the kernel shows */
	{.name = "default_permissions",
	 .type = OPTION_BOOL,
	 AT(default_permissions),
	 .is_hidden = true},
	{.name = "max_read",
	 .type = OPTION_SIZE,
	 AT(max_read),
	 .is_hidden = true},
	{.name = "subtype",
	 .type = OPTION_STRING,
	 AT(subtype),
	 .is_hidden = true},
	{.name = "user_id",
	 .type = OPTION_COUNT,
	 AT(ignored),
	 .is_hidden = true},
	{.name = "group_id",
	 .type = OPTION_COUNT,
	 AT(ignored),
	 .is_hidden = true},
	{.name = "remount",
	 .type = OPTION_BOOL,
	 .places = OPTION_LISTED,
	 AT(remount),
	 .is_hidden = true},
	{0},
};

#undef AT
#define AT(member) .offset = offsetof(struct cli_dataset, member)

static const struct option_def section_options[] = {
	{.name = "mirror",
	 .type = OPTION_LIST,
	 .places = OPTION_FILE,
	 AT(mirrors),
	 .value = "URL",
	 .help = ""},
	{.name = "source",
	 .type = OPTION_STRING,
	 .places = OPTION_FILE,
	 AT(source),
	 .value = "SOURCE",
	 .help = ""},
	{.name = "token-file",
	 .type = OPTION_STRING,
	 .places = OPTION_FILE,
	 AT(token_file),
	 .value = "FILE",
	 .help = ""},
	{.name = "allow",
	 .type = OPTION_LIST,
	 .places = OPTION_FILE,
	 AT(allow),
	 .value = "PATTERN",
	 .help = ""},
	{.name = "deny",
	 .type = OPTION_LIST,
	 .places = OPTION_FILE,
	 AT(deny),
	 .value = "PATTERN",
	 .help = ""},
	{.name = "name",
	 .type = OPTION_STRING,
	 .places = OPTION_FILE,
	 AT(remote_name),
	 .value = "NAME",
	 .help = ""},
	{.name = "tag",
	 .type = OPTION_STRING,
	 .places = OPTION_FILE,
	 AT(tag),
	 .value = "TAG",
	 .help = ""},
	{.name = "key",
	 .type = OPTION_LIST,
	 .places = OPTION_FILE,
	 AT(keys),
	 .value = "FILE",
	 .help = ""},
	{.name = "insecure",
	 .type = OPTION_BOOL,
	 .places = OPTION_FILE,
	 AT(insecure),
	 .help = ""},
	{.name = "expired",
	 .type = OPTION_CHOICE,
	 .places = OPTION_FILE,
	 AT(expired),
	 .choices = expired_choices,
	 .help = ""},
	{0},
};

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

/* ---- the configuration */

struct cli_dataset *cli_dataset_new(struct cli *cli, const char *name,
				    struct err *err)
{
	struct cli_dataset *dataset = calloc(1, sizeof(*dataset));
	struct cli_dataset **listed = dataset ? vec_push(&cli->datasets) : NULL;

	if (!listed) {
		free(dataset);
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	*listed = dataset;
	options_init(&dataset->options);
	dataset->name = strdup(name);
	if (!dataset->name ||
	    options_add(&dataset->options, section_options, dataset, err) < 0 ||
	    options_add(&dataset->options, cli_s3_options, &dataset->s3, err) <
		    0)
		return NULL;
	return dataset;
}

static struct options *on_section(void *context, const char *name,
				  const char *where, struct err *err)
{
	struct cli *cli = context;

	if (!dataset_name_valid(name)) {
		err_set(err, EINVAL, "'%s' cannot be the name of a dataset",
			name);
		return NULL;
	}
	for (size_t i = 0; i < cli->datasets.count; i++) {
		if (strcmp(cli->datasets.items[i]->name, name) == 0) {
			err_set(err, EINVAL, "there is another section [%s]",
				name);
			return NULL;
		}
	}
	if (cli->datasets.count >= SECTIONS_MAX) {
		err_set(err, E2BIG, "too many sections");
		return NULL;
	}
	struct cli_dataset *dataset = cli_dataset_new(cli, name, err);
	if (!dataset)
		return NULL;
	/* in errors of this function the parser names it */
	dataset->where = cli_keep(cli, strdup(where));
	return &dataset->options;
}

static int is_conf(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && ends_with(entry->d_name, ".conf");
}

/* datasets.d beside the file; no such directory is fine. */
static int read_directory(struct cli *cli, const char *file, struct err *err)
{
	const char *slash = strrchr(file, '/');
	_cleanup_free_ char *directory = NULL;
	struct dirent **names;
	int r = 0;

	if (asprintf(&directory, "%.*s" DATASETS_DIRECTORY,
		     slash ? (int)(slash - file + 1) : 0, file) < 0)
		return err_set(err, ENOMEM, "out of memory");
	int count = scandir(directory, &names, is_conf, alphasort);
	if (count < 0)
		return errno == ENOENT ?
			       0 :
			       err_set(err, errno, "cannot read '%s': %s",
				       directory, strerror(errno));
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;

		if (r == 0)
			r = asprintf(&path, "%s/%s", directory,
				     names[i]->d_name) < 0 ?
				    err_set(err, ENOMEM, "out of memory") :
				    config_read(path, &cli->options, on_section,
						cli, err);
		free(names[i]);
	}
	free(names);
	return r;
}

/* path: cli->settings.config, or where that is from elsewhere. */
static int read_config(struct cli *cli, const char *path, struct err *err)
{
	int r;

	path = path ?: CLI_CONFIG;
	r = config_read(path, &cli->options, on_section, cli, err);

	/* only a file that was asked for must be there */
	if (r == -ENOENT && !cli->settings.config) {
		if (err)
			err->text[0] = '\0';
		r = 0;
	}
	return r < 0 ? r : read_directory(cli, path, err);
}

/* ---- the command line */

static void print_help(struct cli *cli, const struct cli_command *command)
{
	printf("usage: %s\n%s\n\n", command->usage, command->summary);
	options_print_help(&cli->options, stdout);
}

/* The options of mounts may stand in [larder] whatever the command. */
static const struct option_def *hidden_options(struct cli *cli)
{
	size_t count =
		sizeof(mount_options_table) / sizeof(mount_options_table[0]);

	cli->hidden = malloc(sizeof(mount_options_table));
	if (!cli->hidden)
		return NULL;
	memcpy(cli->hidden, mount_options_table, sizeof(mount_options_table));
	for (size_t i = 0; i < count - 1; i++)
		cli->hidden[i].is_hidden = true;
	return cli->hidden;
}

static int add_options(struct cli *cli, const struct cli_command *command,
		       struct err *err)
{
	const struct option_def *of_mounts =
		command->is_mount ? mount_options_table : hidden_options(cli);
	int r = of_mounts ? 0 : err_set(err, ENOMEM, "out of memory");

	if (r == 0 && command->options)
		r = options_add(&cli->options, command->options,
				command->target, err);
	if (r == 0)
		r = options_add(&cli->options, general_options, &cli->settings,
				err);
	if (r == 0)
		r = options_add(&cli->options, node_options_table,
				&cli->settings, err);
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
	r = read_config(cli, cli->settings.config, &err);
	if (r < 0)
		return CLI_EXIT(cli_fail(command->name, r, &err));
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
		r = read_config(ret, cli_absolute(ret, ret->settings.config),
				err);
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
