/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder gc MIRROR: remove what no kept head reaches.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "publish/publish.h"

#define DAY_S UINT64_C(86400)

struct arguments {
	uint64_t keep_days, grace_days;
	bool is_dry_run, is_verbose, is_sure, json;
};

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define AT(member) .offset = offsetof(struct arguments, member)
static const struct option_def gc_options_table[] = {
	{.name = "keep",
	 .type = OPTION_COUNT,
	 AT(keep_days),
	 .value = "DAYS",
	 .default_text = STRING(GC_KEEP_DAYS),
	 .max = 36500,
	 .places = OPTION_ARGV,
	 .help = "keep snapshots that were current in the last so many days"},
	{.name = "grace",
	 .type = OPTION_COUNT,
	 AT(grace_days),
	 .value = "DAYS",
	 .default_text = STRING(GC_GRACE_DAYS),
	 .max = 36500,
	 .places = OPTION_ARGV,
	 .help = "spare files younger than this: of a publish to be resumed"},
	ROW_DRY_RUN(offsetof(struct arguments, is_dry_run)),
	{.name = "verbose",
	 .letter = 'v',
	 .type = OPTION_BOOL,
	 AT(is_verbose),
	 .places = OPTION_ARGV,
	 .help = "name every file"},
	ROW_YES(offsetof(struct arguments, is_sure)),
	ROW_JSON(offsetof(struct arguments, json)),
	{0},
};
#undef AT

static void print_removed(void *arg, const char *path, uint64_t bytes)
{
	const struct arguments *arguments = arg;

	(void)bytes;
	if (arguments->is_verbose)
		fprintf(arguments->json ? stderr : stdout, "%s\n", path);
}

static void print_failed(void *arg, const struct err *err)
{
	(void)arg;
	(void)cli_fail("gc", -EIO, err);
}

static void print_text(const struct gc_result *result, bool is_dry_run)
{
	char bytes[FORMAT_MAX], kept[FORMAT_MAX], dead[FORMAT_MAX],
		spared[FORMAT_MAX];

	printf("%s %s: %" PRIu64 " head%s, %" PRIu64 " object%s, %" PRIu64
	       " places, %" PRIu64 " pack%s, %" PRIu64 " temporary file%s\n",
	       is_dry_run ? "would remove" : "removed",
	       format_size(result->removed_bytes, bytes), result->heads,
	       plural(result->heads), result->objects, plural(result->objects),
	       result->places, result->packs, plural(result->packs),
	       result->temporaries, plural(result->temporaries));
	printf("  kept %" PRIu64 " head%s, %" PRIu64 " pack%s with %s\n",
	       result->kept_heads, plural(result->kept_heads),
	       result->kept_packs, plural(result->kept_packs),
	       format_size(result->kept_bytes, kept));
	if (result->spared_files)
		printf("  spared %" PRIu64 " young file%s with %s\n",
		       result->spared_files, plural(result->spared_files),
		       format_size(result->spared_bytes, spared));
	if (result->sparse_packs)
		printf("  %" PRIu64
		       " kept pack%s more than half dead; %s dead in all\n",
		       result->sparse_packs, plural(result->sparse_packs),
		       format_size(result->dead_bytes, dead));
}

static void print_json(const struct gc_result *result, bool is_dry_run)
{
	printf("{\"format\": 1, \"dry_run\": %s, \"removed_bytes\": %" PRIu64
	       ", \"heads\": %" PRIu64 ", \"objects\": %" PRIu64
	       ", \"places\": %" PRIu64 ", \"packs\": %" PRIu64
	       ", \"temporary_files\": %" PRIu64,
	       is_dry_run ? "true" : "false", result->removed_bytes,
	       result->heads, result->objects, result->places, result->packs,
	       result->temporaries);
	printf(", \"kept_heads\": %" PRIu64 ", \"kept_packs\": %" PRIu64
	       ", \"kept_bytes\": %" PRIu64 ", \"spared_files\": %" PRIu64
	       ", \"spared_bytes\": %" PRIu64 ", \"dead_bytes\": %" PRIu64
	       ", \"sparse_packs\": %" PRIu64 "}\n",
	       result->kept_heads, result->kept_packs, result->kept_bytes,
	       result->spared_files, result->spared_bytes, result->dead_bytes,
	       result->sparse_packs);
}

/* Say how much first, and ask. */
static bool is_agreed(const struct gc_options *options, int *ret_r,
		      struct err *err)
{
	struct gc_options look = *options;
	struct gc_result result;
	char answer[16] = "";

	look.is_dry_run = true;
	look.removed = NULL;
	*ret_r = gc_mirror(&look, &result, err);
	if (*ret_r < 0)
		return false;
	print_text(&result, true);
	fprintf(stderr, "remove? [y/N] ");
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

static int gc(const struct mirror_command *command, const struct options *words)
{
	struct arguments *arguments = command->target;
	const struct gc_options options = {
		.mirror = words->operands.items[0],
		.access = &command->reach->access,
		.keep_s = arguments->keep_days * DAY_S,
		.grace_s = arguments->grace_days * DAY_S,
		.is_dry_run = arguments->is_dry_run,
		.removed = print_removed,
		.failed = print_failed,
		.arg = arguments,
		.stop = &stop_signal,
	};
	struct gc_result result;
	struct err err = {0};
	int r = 0;

	if (!arguments->is_dry_run && !arguments->is_sure &&
	    isatty(STDIN_FILENO) && isatty(STDERR_FILENO) &&
	    !is_agreed(&options, &r, &err))
		return r < 0 ? cli_fail("gc", r, &err) : CLI_FAILED;
	stop_on_signals();
	r = gc_mirror(&options, &result, &err);
	if (r < 0)
		return cli_fail("gc", r, &err);
	if (arguments->json)
		print_json(&result, arguments->is_dry_run);
	else
		print_text(&result, arguments->is_dry_run);
	return CLI_DONE;
}

int cmd_gc(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct mirror_reach reach = {0};
	const struct mirror_command command = {
		.name = "gc",
		.reach = &reach,
		.usage =
			"larder gc [--keep DAYS] [--dry-run] [OPTION]... MIRROR",
		.summary = "Remove from a mirror what no kept head reaches.",
		.options = gc_options_table,
		.target = &arguments,
		.operands_min = 1,
		.operands_max = 1,
	};

	return mirror_command_run(&command, argc, argv, gc);
}
