/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder mount, and the same for mount(8): arguments become mount_options,
 * everything that can be refused at once is, then a child serves. Paths are
 * made absolute before the child leaves for "/".
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cli/cli.h"
#include "mount/mount.h"

/* SOURCE of a mount that shows the whole configuration. */
#define WHOLE "larder"
/* What a start may take beyond the reader's time-out. */
#define START_EXTRA_MS 10000u

#define FSTAB_WORD_MAX 65536u

/* Exit codes mount(8) hands on. */
#define HELPER_USAGE 1
#define HELPER_SYSTEM 2
#define HELPER_FAILED 32

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

/* ---- to mount_options */

/* What came from the command line, to parse it again. */
struct arguments {
	const struct cli_command *command;
	int argc;
	char **argv;
};

struct request {
	struct cli *cli;
	const struct arguments *arguments;
	const char *source,
		*mountpoint; /* as typed; source NULL or WHOLE: everything */
	struct mount_options options;
	struct mount_dataset *datasets;
	struct mount_guard *guards;
	size_t guard_count, guard_capacity;
	bool is_foreground;
	int lock_fd; /* while it is checked and mounted; or -1 */
};

static bool is_whole(const char *source)
{
	return !source || strcmp(source, WHOLE) == 0;
}

static void guard(struct request *request, const char *what, const char *path)
{
	if (path && starts_with(path, "file://"))
		path += strlen("file://");
	if (path && path[0] == '/' &&
	    request->guard_count < request->guard_capacity)
		request->guards[request->guard_count++] =
			(struct mount_guard){.what = what, .path = path};
}

static int add_dataset(struct request *request, struct cli_dataset *dataset,
		       struct err *err)
{
	struct mount_options *options = &request->options;
	struct mount_dataset *added =
		&request->datasets[options->dataset_count];
	int r = cli_dataset_options(request->cli, dataset, &added->options,
				    err);

	if (r < 0)
		return r;
	added->path = dataset->name;
	added->where = dataset->where;
	options->dataset_count++;
	for (size_t i = 0; i < added->options.mirror_count; i++)
		guard(request, "mirror", added->options.mirrors[i]);
	for (size_t i = 0; i < added->options.key_count; i++)
		guard(request, "key file", added->options.key_files[i]);
	guard(request, "credentials", dataset->origin.s3_credentials);
	if (added->options.hub)
		guard(request, "token file", added->options.hub->token_file);
	return 0;
}

static size_t guards_needed(const struct cli *cli)
{
	size_t count = 5 + cli->datasets.count + 2 * cli->settings.keys.count;

	for (size_t i = 0; i < cli->datasets.count; i++) {
		const struct cli_dataset *dataset = cli->datasets.items[i];

		count += 1 + dataset->mirrors.count + dataset->keys.count +
			 cli->settings.keys.count;
	}
	return count;
}

/* Which is many: it is shown as a section of the configuration would be. */
static bool is_whole_hub(const struct mount_dataset *dataset)
{
	return dataset->options.hub && dataset->options.hub->is_whole;
}

static int choose_datasets(struct request *request, struct err *err)
{
	struct cli *cli = request->cli;
	struct cli_dataset *only = NULL;
	int r = 0;

	if (!is_whole(request->source)) {
		r = cli_dataset_find(cli, request->source, &only, err);
		if (r < 0)
			return r;
	} else if (!cli->datasets.count) {
		return err_set(err, EINVAL, "no dataset is configured in '%s'",
			       cli->settings.config ?: CLI_CONFIG);
	}
	request->guard_capacity = guards_needed(cli);
	request->guards =
		calloc(request->guard_capacity, sizeof(*request->guards));
	request->datasets =
		calloc(cli->datasets.count, sizeof(*request->datasets));
	cli_keep(cli, (char *)request->guards);
	cli_keep(cli, (char *)request->datasets);
	if (!request->guards || !request->datasets)
		return err_set(err, ENOMEM, "out of memory");
	if (only) {
		r = add_dataset(request, only, err);
		if (r == 0 && is_whole_hub(&request->datasets[0]))
			request->datasets[0].path = "";
		return r;
	}
	for (size_t i = 0; r == 0 && i < cli->datasets.count; i++)
		r = add_dataset(request, cli->datasets.items[i], err);
	return r;
}

static int set_filesystem(struct request *request, struct err *err)
{
	struct cli *cli = request->cli;
	const struct settings *settings = &cli->settings;
	struct mount_options *options = &request->options;

	options->source = settings->fsname ?:
				  is_whole(request->source) ?
				  WHOLE :
				  cli_keep(cli, cli_redact(request->source));
	options->mountpoint = cli_absolute(cli, request->mountpoint);
	options->is_single = !is_whole(request->source) &&
			     !is_whole_hub(&request->datasets[0]);
	options->restricted = (enum mount_for)settings->gated;
	options->allow_other = options_is_set(&cli->options, "allow_other") ?
				       settings->allow_other :
				       geteuid() == 0;
	options->allow_root = settings->allow_root;
	options->noexec = settings->noexec;
	options->nopassthrough = settings->nopassthrough;
	options->has_uid = options_is_set(&cli->options, "uid");
	options->has_gid = options_is_set(&cli->options, "gid");
	options->uid = (uid_t)settings->uid;
	options->gid = (gid_t)settings->gid;
	options->read_ahead_bytes = settings->read_ahead_bytes;
	options->context = settings->context;
	return options->source && options->mountpoint ?
		       0 :
		       err_set(err, ENOMEM, "out of memory");
}

static int prepare(struct request *request, struct err *err)
{
	struct mount_options *options = &request->options;
	int r = choose_datasets(request, err);

	if (r == 0)
		r = set_filesystem(request, err);
	if (r == 0)
		r = cli_node_options(request->cli, &options->node, err);
	if (r < 0)
		return r;
	guard(request, "cache directory", options->node.cache_dir);
	guard(request, "certificate file", options->node.ca_file);
	guard(request, "client certificate", options->node.cert_file);
	guard(request, "client key", options->node.cert_key_file);
	guard(request, "configuration",
	      cli_absolute(request->cli, request->cli->settings.config));
	options->datasets = request->datasets;
	options->guards = request->guards;
	options->guard_count = request->guard_count;
	return 0;
}

/* ---- serving */

struct reading {
	struct reading *older; /* the mount still has datasets of it */
	struct cli cli;
	struct request request;
};

struct serving {
	struct request *request;
	struct daemon *daemon;
	struct reading *readings;
};

/* In the background the lock is the waiting parent's. */
static void unlock_foreground(struct request *request)
{
	if (request->is_foreground && request->lock_fd >= 0) {
		close(request->lock_fd);
		request->lock_fd = -1;
	}
}

static void on_ready(void *arg, const char *line)
{
	struct serving *serving = arg;

	unlock_foreground(serving->request);
	daemon_ready(serving->daemon, line);
}

static void on_tick(void *arg, const char *line)
{
	struct serving *serving = arg;

	daemon_tick(serving->daemon, line);
}

static int read_again(struct serving *serving, struct reading *reading,
		      struct err *err)
{
	const struct request *first = serving->request;
	const struct arguments *arguments = first->arguments;
	int r = cli_read_again(first->cli, arguments->command, arguments->argc,
			       arguments->argv, &reading->cli, err);

	if (r < 0)
		return r;
	reading->request = (struct request){
		.cli = &reading->cli,
		.source = first->source,
		.mountpoint = first->mountpoint,
	};
	r = prepare(&reading->request, err);
	if (r < 0)
		cli_end(&reading->cli);
	return r;
}

static int on_reload(void *arg, const struct mount_options **ret,
		     struct err *err)
{
	struct serving *serving = arg;
	struct reading *reading = calloc(1, sizeof(*reading));
	int r = reading ? read_again(serving, reading, err) :
			  err_set(err, ENOMEM, "out of memory");

	if (r < 0) {
		free(reading);
		return r;
	}
	reading->older = serving->readings;
	serving->readings = reading;
	*ret = &reading->request.options;
	return 0;
}

static void readings_free(struct reading *reading)
{
	while (reading) {
		struct reading *older = reading->older;

		cli_end(&reading->cli);
		free(reading);
		reading = older;
	}
}

static int serve(void *arg, struct daemon *daemon, struct err *err)
{
	struct serving serving = {.request = arg, .daemon = daemon};
	struct mount_status status = {
		.ready = on_ready,
		.tick = on_tick,
		.reload = on_reload,
		.arg = &serving,
	};
	int r = mount_run(&serving.request->options, &status, err);

	readings_free(serving.readings);
	return r;
}

static int run(struct request *request, struct err *err)
{
	uint64_t limit_ms = request->options.node.timeout_ms + START_EXTRA_MS;
	int r = mount_check(&request->options, err);

	if (r < 0)
		return r;
	r = mount_lock(&request->options, limit_ms, &request->lock_fd, err);
	if (r == 0)
		r = mount_check(&request->options, err);
	if (r == 0)
		r = daemon_run(request->is_foreground,
			       mountpoint_fd(request->options.mountpoint),
			       limit_ms, serve, request, err);
	if (request->lock_fd >= 0)
		close(request->lock_fd);
	return r;
}

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
static void print_fstab(struct request *request)
{
	struct cli *cli = request->cli;
	const char *source = is_whole(request->source) ?
				     WHOLE :
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
	const struct arguments arguments = {&command, argc, argv};
	size_t count = cli.options.operands.count;
	struct request request = {
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
		int r = prepare(&request, &err);

		if (r == 0)
			r = run(&request, &err);
		if (r < 0)
			code = cli_fail("mount", r, &err);
	}
	cli_end(&cli);
	return code;
}

/* mount.larder SOURCE DIR [-sfnv] [-o LIST] [-N NAMESPACE] [-t TYPE] */
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
		      const struct arguments *arguments)
{
	struct request request = {
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
		r = prepare(&request, &err);
		if (r == 0)
			r = own->is_fake ? mount_check(&request.options, &err) :
					   run(&request, &err);
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
			&(const struct arguments){&command, argc, argv});
	cli_end(&cli);
	return code;
}
