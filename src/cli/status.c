/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder status: the mounts of this machine and the configured datasets in
 * them. It asks the mounts (bounded), not the mirrors, so it answers at once
 * whatever is dead.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "mount/mount.h"

struct status {
	bool is_json;
	bool is_first;
	size_t mounts, bad;
	struct cli *cli;
};

static const struct option_def own_options[] = {
	{.name = "json",
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct status, is_json),
	 .help = "print JSON"},
	{0},
};

static const char *const health_names[] = {
	[MOUNT_ANSWERS] = "ok",
	[MOUNT_DEAD] = "dead",
	[MOUNT_SILENT] = "silent",
};

static void print_datasets_json(struct status *status, const char *mountpoint)
{
	printf(", \"datasets\": [");
	for (size_t i = 0; i < status->cli->datasets.count; i++) {
		const char *name = status->cli->datasets.items[i]->name;
		struct mount_dataset_state state;

		mount_dataset_state(mountpoint, name, &state);
		printf("%s\n     {\"name\": \"%s\", \"state\": \"%s\", \"reason\": ",
		       i ? "," : "", name, state.state);
		cli_print_json(state.reason, strlen(state.reason));
		putchar('}');
	}
	putchar(']');
}

static void print_datasets(struct status *status, const char *mountpoint)
{
	for (size_t i = 0; i < status->cli->datasets.count; i++) {
		const char *name = status->cli->datasets.items[i]->name;
		struct mount_dataset_state state;

		mount_dataset_state(mountpoint, name, &state);
		printf("  %-40s  %s\n", name, state.state);
		if (state.reason[0])
			printf("    reason: %s\n", state.reason);
	}
}

static void on_mount(void *arg, const struct mount_entry *entry)
{
	struct status *status = arg;
	enum mount_health health =
		mount_probe(entry->mountpoint, MOUNT_LOOK_MS);
	bool is_whole =
		strcmp(entry->source, "larder") == 0 && health == MOUNT_ANSWERS;

	status->mounts++;
	status->bad += health != MOUNT_ANSWERS;
	if (status->is_json) {
		printf("%s\n    {\"mountpoint\": ",
		       status->is_first ? "" : ",");
		cli_print_json(entry->mountpoint, strlen(entry->mountpoint));
		printf(", \"source\": ");
		cli_print_json(entry->source, strlen(entry->source));
		printf(", \"state\": \"%s\"", health_names[health]);
		if (is_whole)
			print_datasets_json(status, entry->mountpoint);
		putchar('}');
		status->is_first = false;
		return;
	}
	cli_print_name(entry->mountpoint, strlen(entry->mountpoint));
	printf("  %s  ", health_names[health]);
	cli_print_name(entry->source, strlen(entry->source));
	putchar('\n');
	if (health == MOUNT_SILENT)
		printf("  reason: the mount does not answer\n  action: larder umount -l %s\n",
		       entry->mountpoint);
	if (health == MOUNT_DEAD)
		printf("  reason: its process is gone\n  action: mount it again\n");
	if (is_whole)
		print_datasets(status, entry->mountpoint);
}

static int print_status(struct status *status, struct err *err)
{
	status->is_first = true;
	if (status->is_json)
		printf("{\"format\": 1, \"mounts\": [");
	int r = mount_list(on_mount, status, err);
	if (r < 0)
		return r;
	if (status->is_json)
		printf("\n  ], \"configured\": %zu}\n",
		       status->cli->datasets.count);
	else if (!status->mounts)
		printf("nothing is mounted; %zu dataset%s configured\n",
		       status->cli->datasets.count,
		       status->cli->datasets.count == 1 ? " is" : "s are");
	return 0;
}

int cmd_status(int argc, char **argv)
{
	struct status status = {0};
	const struct cli_command command = {
		.name = "status",
		.usage = "larder status [--json]",
		.summary =
			"Show larder's mounts and whether they answer; exit 1 if one does not.",
		.options = own_options,
		.target = &status,
	};
	struct err err = {0};
	struct cli cli;
	int code = cli_begin(&cli, &command, argc, argv);

	if (code == 0) {
		status.cli = &cli;
		int r = print_status(&status, &err);

		code = CLI_EXIT(r < 0	   ? cli_fail("status", r, &err) :
				status.bad ? CLI_FAILED :
					     CLI_DONE);
	}
	cli_end(&cli);
	return code - 1;
}
