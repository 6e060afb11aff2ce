/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments become mount_options, everything that can be refused at once is,
 * then a child serves. Paths are made absolute before the child leaves for "/".
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cli/mount-request.h"

/* What a start may take beyond the reader's time-out. */
#define START_EXTRA_MS 10000u

bool mount_is_whole(const char *source)
{
	return !source || strcmp(source, MOUNT_WHOLE) == 0;
}

static void guard(struct mount_request *request, const char *what,
		  const char *path)
{
	if (path && starts_with(path, "file://"))
		path += strlen("file://");
	if (path && path[0] == '/' &&
	    request->guard_count < request->guard_capacity)
		request->guards[request->guard_count++] =
			(struct mount_guard){.what = what, .path = path};
}

static int add_dataset(struct mount_request *request,
		       struct cli_dataset *dataset, struct err *err)
{
	struct mount_options *options = &request->options;
	struct mount_dataset *added =
		&request->datasets[options->dataset_count];
	int r = cli_dataset_options(request->cli, dataset, &added->options,
				    err);

	if (r < 0)
		return dataset->where ? err_prefix(err, r, "%s: [%s]",
						   dataset->where,
						   dataset->name) :
					r;
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

static int choose_datasets(struct mount_request *request, struct err *err)
{
	struct cli *cli = request->cli;
	struct cli_dataset *only = NULL;
	int r = 0;

	if (!mount_is_whole(request->source)) {
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

static int set_filesystem(struct mount_request *request, struct err *err)
{
	struct cli *cli = request->cli;
	const struct settings *settings = &cli->settings;
	struct mount_options *options = &request->options;

	options->source = settings->fsname ?:
				  mount_is_whole(request->source) ?
				  MOUNT_WHOLE :
				  cli_keep(cli, cli_redact(request->source));
	options->mountpoint = cli_absolute(cli, request->mountpoint);
	options->is_single = !mount_is_whole(request->source) &&
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

int mount_request_prepare(struct mount_request *request, struct err *err)
{
	struct mount_options *options = &request->options;
	int r = choose_datasets(request, err);

	if (r == 0)
		r = set_filesystem(request, err);
	if (r == 0)
		r = cli_node_options(request->cli, &options->node, err);
	if (r < 0)
		return r;
	options->node.is_service = true;
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
	struct mount_request request;
};

struct serving {
	struct mount_request *request;
	struct daemon *daemon;
	struct reading *readings;
};

/* In the background the lock is the waiting parent's. */
static void unlock_foreground(struct mount_request *request)
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
	const struct mount_request *first = serving->request;
	const struct mount_arguments *arguments = first->arguments;
	int r = cli_read_again(first->cli, arguments->command, arguments->argc,
			       arguments->argv, &reading->cli, err);

	if (r < 0)
		return r;
	reading->request = (struct mount_request){
		.cli = &reading->cli,
		.source = first->source,
		.mountpoint = first->mountpoint,
	};
	r = mount_request_prepare(&reading->request, err);
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

int mount_request_run(struct mount_request *request, struct err *err)
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
