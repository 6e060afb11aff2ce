/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder status: the mounts of this machine and the datasets in them. It asks
 * the mounts (bounded), not the mirrors nor the configuration, so it answers at
 * once whatever is dead, and whoever mounted it from whatever file.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/option-rows.h"
#include "mount/mount.h"

struct shown {
	char *name;
	struct mount_dataset_state state;
};

struct status {
	bool is_json;
	bool is_first;
	size_t mounts, bad;
	struct cli *cli;
	VEC(struct shown) shown; /* of the mount at hand */
	bool is_short;		 /* no memory for one of them */
};

static const struct option_def own_options[] = {
	ROW_JSON(offsetof(struct status, is_json)),
	{0},
};

static const char *const health_names[] = {
	[MOUNT_ANSWERS] = "ok",
	[MOUNT_DEAD] = "dead",
	[MOUNT_SILENT] = "silent",
};

static bool is_failed(const struct mount_dataset_state *state)
{
	return strcmp(state->state, "failed") == 0;
}

static void print_why_json(const struct mount_dataset_state *state)
{
	printf("\"state\": \"%s\", \"reason\": ", state->state);
	cli_print_json(state->reason, strlen(state->reason));
}

static void print_why(const char *indent,
		      const struct mount_dataset_state *state)
{
	if (state->reason[0]) {
		printf("%sreason: ", indent);
		cli_print_name(state->reason, strlen(state->reason));
		putchar('\n');
	}
	if (strcmp(state->state, "stale") == 0)
		printf("%saction: none is needed for what is cached; larder goes on asking the mirrors\n",
		       indent);
	if (is_failed(state))
		printf("%saction: mend that; larder tries again at the next use\n",
		       indent);
}

static void on_dataset(void *arg, const char *name,
		       const struct mount_dataset_state *state)
{
	struct status *status = arg;
	struct shown *shown = vec_push(&status->shown);

	status->is_short |= !shown;
	if (shown)
		*shown = (struct shown){.name = strdup(name), .state = *state};
}

static void forget_datasets(struct status *status)
{
	for (size_t i = 0; i < status->shown.count; i++)
		free(status->shown.items[i].name);
	vec_release(&status->shown);
}

static void print_mount_json(struct status *status,
			     const struct mount_entry *entry,
			     enum mount_health health, bool is_single)
{
	printf("%s\n    {\"mountpoint\": ", status->is_first ? "" : ",");
	cli_print_json(entry->mountpoint, strlen(entry->mountpoint));
	printf(", \"source\": ");
	cli_print_json(entry->source, strlen(entry->source));
	printf(", ");
	if (is_single)
		print_why_json(&status->shown.items[0].state);
	else
		printf("\"state\": \"%s\"", health_names[health]);
	for (size_t i = 0; !is_single && i < status->shown.count; i++) {
		const struct shown *shown = &status->shown.items[i];

		printf("%s\n     {\"name\": ", i ? "," : ", \"datasets\": [");
		cli_print_json(shown->name ?: "", strlen(shown->name ?: ""));
		printf(", ");
		print_why_json(&shown->state);
		printf(i + 1 < status->shown.count ? "}" : "}]");
	}
	putchar('}');
	status->is_first = false;
}

static void print_mount(const struct status *status,
			const struct mount_entry *entry,
			enum mount_health health, bool is_single)
{
	cli_print_name(entry->mountpoint, strlen(entry->mountpoint));
	printf("  %s  ", is_single ? status->shown.items[0].state.state :
				     health_names[health]);
	cli_print_name(entry->source, strlen(entry->source));
	putchar('\n');
	if (health == MOUNT_SILENT)
		printf("  reason: the mount does not answer\n  action: larder umount -l %s\n",
		       entry->mountpoint);
	if (health == MOUNT_DEAD)
		printf("  reason: its process is gone\n  action: mount it again\n");
	if (is_single)
		print_why("  ", &status->shown.items[0].state);
	for (size_t i = 0; !is_single && i < status->shown.count; i++) {
		const struct shown *shown = &status->shown.items[i];

		printf("  %-40s  %s\n", shown->name ?: "", shown->state.state);
		print_why("    ", &shown->state);
	}
}

static void on_mount(void *arg, const struct mount_entry *entry)
{
	struct status *status = arg;
	enum mount_health health =
		mount_probe(entry->mountpoint, MOUNT_LOOK_MS);
	bool has_failed = false;

	if (health == MOUNT_ANSWERS &&
	    mount_datasets(entry->mountpoint, on_dataset, status) ==
		    -ETIMEDOUT) {
		health = MOUNT_SILENT;
		forget_datasets(status);
	}
	const struct shown *first = status->shown.items;
	bool is_single = status->shown.count == 1 && first->name &&
			 first->name[0] == '\0';
	for (size_t i = 0; i < status->shown.count; i++)
		has_failed |= is_failed(&status->shown.items[i].state);
	status->mounts++;
	status->bad += health != MOUNT_ANSWERS || has_failed;
	if (status->is_json)
		print_mount_json(status, entry, health, is_single);
	else
		print_mount(status, entry, health, is_single);
	forget_datasets(status);
}

static int print_status(struct status *status, struct err *err)
{
	status->is_first = true;
	if (status->is_json)
		printf("{\"format\": 1, \"mounts\": [");
	int r = mount_list(on_mount, status, err);
	if (r == 0 && status->is_short)
		r = err_set(err, ENOMEM, "out of memory");
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
			"Show larder's mounts and their datasets; exit 1 if a mount does not answer\n"
			"or a dataset has failed.",
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
