/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder check MIRROR: every byte of a mirror against its digests.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/io.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/faults.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "publish/publish.h"

#define REDRAW_EVERY_MS 200u

struct arguments {
	bool json;
	uint64_t threads;
};

static const struct option_def check_options_table[] = {
	ROW_THREADS(offsetof(struct arguments, threads)),
	ROW_JSON(offsetof(struct arguments, json)),
	{0},
};

struct display {
	bool is_terminal;
	uint64_t start_ms, next_ms;
	struct progress_rate rate;
	struct faults faults;
};

static void add_fault(void *arg, const char *path, const char *text)
{
	struct display *display = arg;

	faults_add(&display->faults, path, text);
}

static void show(void *arg, uint64_t bytes, uint64_t total)
{
	struct display *display = arg;
	char done[FORMAT_MAX], all[FORMAT_MAX], rate[FORMAT_MAX], line[160];
	uint64_t now = now_ms() - display->start_ms;

	if (!display->is_terminal || now < display->next_ms)
		return;
	display->next_ms = now + REDRAW_EVERY_MS;
	progress_rate_add(&display->rate, now, bytes);
	snprintf(line, sizeof(line), "%3d %%  %s of %s  %s/s   %zu faults",
		 total ? (int)((double)bytes * 100 / (double)total) : 0,
		 format_size(bytes, done), format_size(total, all),
		 format_size((uint64_t)(display->rate.bytes_per_ms * 1000),
			     rate),
		 display->faults.items.count);
	redraw(line);
}

static void print_text(const struct display *display,
		       const struct check_result *result)
{
	char bytes[FORMAT_MAX];

	if (result->bad)
		printf("damaged: %" PRIu64 " fault%s\n", result->bad,
		       plural(result->bad));
	else
		printf("ok\n");
	faults_print(&display->faults, result->bad);
	printf("  %" PRIu64 " head%s, %" PRIu64 " object%s, %" PRIu64
	       " places, %" PRIu64 " pack%s, %s read\n",
	       result->heads, plural(result->heads), result->objects,
	       plural(result->objects), result->places, result->packs,
	       plural(result->packs), format_size(result->bytes, bytes));
	if (result->unreferenced_packs && !result->bad)
		printf("  %" PRIu64
		       " pack%s of no head: larder gc removes what is old enough\n",
		       result->unreferenced_packs,
		       plural(result->unreferenced_packs));
	if (result->bad)
		printf("  remove the damaged files and publish the tree again to put back what is missing\n");
}

static void print_json(const struct display *display,
		       const struct check_result *result)
{
	printf("{\"format\": 1, \"ok\": %s, \"fault_count\": %" PRIu64
	       ", \"heads\": %" PRIu64 ", \"objects\": %" PRIu64
	       ", \"places\": %" PRIu64 ", \"packs\": %" PRIu64
	       ", \"unreferenced_packs\": %" PRIu64 ", \"bytes\": %" PRIu64 ", ",
	       result->bad ? "false" : "true", result->bad, result->heads,
	       result->objects, result->places, result->packs,
	       result->unreferenced_packs, result->bytes);
	faults_print_json(&display->faults);
	printf("}\n");
}

static int check(const struct mirror_command *command,
		 const struct options *words)
{
	const struct arguments *arguments = command->target;
	struct display display = {
		.is_terminal = can_redraw(),
		.start_ms = now_ms(),
	};
	const struct check_options options = {
		.mirror = words->operands.items[0],
		.access = &command->reach->access,
		.threads = (unsigned int)arguments->threads,
		.report = add_fault,
		.progress = show,
		.arg = &display,
		.stop = &stop_signal,
	};
	struct check_result result;
	struct err err = {0};
	int r;

	stop_on_signals();
	r = check_mirror(&options, &result, &err);
	if (display.is_terminal)
		redraw("");
	if (r < 0)
		r = cli_fail("check", r, &err);
	else {
		if (arguments->json)
			print_json(&display, &result);
		else
			print_text(&display, &result);
		r = result.bad ? CLI_FAILED : CLI_DONE;
	}
	faults_release(&display.faults);
	return r;
}

int cmd_check(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct mirror_reach reach = {0};
	const struct mirror_command command = {
		.name = "check",
		.reach = &reach,
		.usage = "larder check [--json] MIRROR",
		.summary =
			"Check every object, places file and pack of a mirror against its digest.",
		.options = check_options_table,
		.target = &arguments,
		.operands_min = 1,
		.operands_max = 1,
	};

	return mirror_command_run(&command, argc, argv, check);
}
