/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder publish TREE MIRROR: a directory becomes a snapshot on a mirror.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "publish/publish.h"

/* Without a terminal: a line so often, and none for a short run. */
#define LINE_EVERY_MS 10000u

struct arguments {
	char *name, *key, *tag;
	struct option_list excludes;
	uint64_t level, threads, expires_ms;
	bool is_dry_run, want_owner, want_file_digests, is_forced, json;
};

#define AT(member) .offset = offsetof(struct arguments, member)
static const struct option_def publish_options[] = {
	{.name = "name",
	 .letter = 'n',
	 .type = OPTION_STRING,
	 AT(name),
	 .value = "NAME",
	 .places = OPTION_ARGV,
	 .help = "the dataset's name (default: the last part of TREE)"},
	ROW_SIGNING_KEY(offsetof(struct arguments, key)),
	{.name = "tag",
	 .type = OPTION_STRING,
	 AT(tag),
	 .value = "TAG",
	 .places = OPTION_ARGV,
	 .help = "name the snapshot, so that NAME@TAG stays on it"},
	{.name = "level",
	 .type = OPTION_COUNT,
	 AT(level),
	 .value = "N",
	 .default_text = "3",
	 .min = 1,
	 .max = 19,
	 .places = OPTION_ARGV,
	 .help = "zstd compression level"},
	{.name = "exclude",
	 .type = OPTION_LIST,
	 AT(excludes),
	 .value = "PATTERN",
	 .places = OPTION_ARGV,
	 .help = "leave out names, or with a slash paths, that match; may be repeated"},
	ROW_THREADS(offsetof(struct arguments, threads)),
	{.name = "expires",
	 .type = OPTION_DURATION,
	 AT(expires_ms),
	 .value = "TIME",
	 .places = OPTION_ARGV,
	 .help = "readers refuse the head as new after so long, such as 30d"},
	{.name = "owner",
	 .type = OPTION_BOOL,
	 AT(want_owner),
	 .places = OPTION_ARGV,
	 .help = "record user and group ids"},
	{.name = "file-digests",
	 .type = OPTION_BOOL,
	 AT(want_file_digests),
	 .places = OPTION_ARGV,
	 .help = "record the SHA-256 of each file (reads the tree twice)"},
	{.name = "force",
	 .type = OPTION_BOOL,
	 AT(is_forced),
	 .places = OPTION_ARGV,
	 .help = "write a head although nothing changed, move a tag, or leave a signed dataset unsigned"},
	{.name = "dry-run",
	 .type = OPTION_BOOL,
	 AT(is_dry_run),
	 .places = OPTION_ARGV,
	 .help = "read everything, write nothing"},
	ROW_JSON(offsetof(struct arguments, json)),
	{0},
};
#undef AT

struct display {
	bool is_terminal;
	uint64_t next_line_ms;
	struct progress_rate rate;
};

static void add_ratio(char *line, size_t size, const char *name, uint64_t of,
		      uint64_t by)
{
	size_t len = strlen(line);

	if (by > 0)
		snprintf(line + len, size - len, "   %s %.1fx", name,
			 (double)of / (double)by);
}

static void describe(const struct display *display,
		     const struct publish_progress *p, char *line, size_t size)
{
	char done[FORMAT_MAX], total[FORMAT_MAX], rate[FORMAT_MAX],
		left[FORMAT_MAX];
	double speed = display->rate.bytes_per_ms;
	size_t len;

	if (!p->total_bytes || p->done_bytes >= p->total_bytes)
		snprintf(line, size, "%s  %s  %s/s", p->stage,
			 format_size(p->done_bytes, done),
			 format_size((uint64_t)(speed * 1000), rate));
	else
		snprintf(line, size, "%3d %%  %s of %s  %s/s",
			 (int)((double)p->done_bytes * 100 /
			       (double)p->total_bytes),
			 format_size(p->done_bytes, done),
			 format_size(p->total_bytes, total),
			 format_size((uint64_t)(speed * 1000), rate));
	len = strlen(line);
	if (p->total_bytes > p->done_bytes && speed > 0)
		snprintf(line + len, size - len, "  %s left",
			 format_duration((uint64_t)((double)(p->total_bytes -
							     p->done_bytes) /
						    speed),
					 left));
	add_ratio(line, size, "dedup",
		  p->new_bytes + p->known_bytes + p->zero_bytes, p->new_bytes);
	add_ratio(line, size, "compression", p->new_bytes, p->stored_bytes);
}

static void show(void *arg, const struct publish_progress *progress)
{
	struct display *display = arg;
	char line[256];

	progress_rate_add(&display->rate, progress->elapsed_ms,
			  progress->done_bytes);
	if (!display->is_terminal &&
	    progress->elapsed_ms < display->next_line_ms)
		return;
	describe(display, progress, line, sizeof(line));
	if (display->is_terminal) {
		redraw(line);
	} else {
		fprintf(stderr, "%s\n", line);
		display->next_line_ms = progress->elapsed_ms + LINE_EVERY_MS;
	}
}

static void print_totals(const struct publish_result *result)
{
	char files[FORMAT_MAX], directories[FORMAT_MAX], links[FORMAT_MAX],
		bytes[FORMAT_MAX], count[FORMAT_MAX];

	printf("  %s file%s, %s director%s, %s symlink%s, %s\n",
	       format_count(result->files, files), plural(result->files),
	       format_count(result->directories, directories),
	       result->directories == 1 ? "y" : "ies",
	       format_count(result->symlinks, links), plural(result->symlinks),
	       format_size(result->head.total_bytes, bytes));
	if (result->skipped)
		printf("  %s skipped: sockets, devices, FIFOs\n",
		       format_count(result->skipped, count));
	if (result->excluded)
		printf("  %s excluded\n",
		       format_count(result->excluded, count));
}

static void print_transfer(const struct publish_result *result, bool is_dry_run)
{
	char new_bytes[FORMAT_MAX], chunks[FORMAT_MAX], stored[FORMAT_MAX],
		known[FORMAT_MAX], zeros[FORMAT_MAX], time[FORMAT_MAX],
		rate[FORMAT_MAX];
	uint64_t ms = result->elapsed_ms ? result->elapsed_ms : 1;

	printf("  %s new in %s chunk%s, %s %s",
	       format_size(result->new_bytes, new_bytes),
	       format_count(result->new_chunks, chunks),
	       plural(result->new_chunks),
	       is_dry_run ? "to be stored in" : "stored in",
	       format_size(result->stored_bytes + result->object_bytes,
			   stored));
	if (result->stored_bytes)
		printf(" (compression %.1fx)",
		       (double)result->new_bytes /
			       (double)result->stored_bytes);
	printf("; %s known", format_size(result->known_bytes, known));
	if (result->zero_bytes)
		printf(", %s zeros", format_size(result->zero_bytes, zeros));
	printf("\n  %s, %s/s\n", format_duration(ms, time),
	       format_size((uint64_t)((double)result->head.total_bytes * 1000 /
				      (double)ms),
			   rate));
}

static void print_text(const struct arguments *arguments,
		       const struct publish_result *result)
{
	char digest[DIGEST_TEXT_MAX];

	printf("%s %s serial %" PRIu64 " %s\n",
	       result->is_unchanged  ? "unchanged" :
	       arguments->is_dry_run ? "would publish" :
				       "published",
	       result->head.dataset, result->head.serial,
	       digest_text(&result->head.catalog, digest));
	if (arguments->tag)
		printf("  tag %s\n", arguments->tag);
	print_totals(result);
	print_transfer(result, arguments->is_dry_run);
}

static void print_json(const struct publish_result *result, bool is_dry_run)
{
	printf("{\"format\": 1, \"result\": \"%s\", \"dry_run\": %s, ",
	       result->is_unchanged ? "unchanged" : "published",
	       is_dry_run ? "true" : "false");
	print_json_head(&result->head);
	printf(", \"files\": %" PRIu64 ", \"directories\": %" PRIu64
	       ", \"symlinks\": %" PRIu64 ", \"skipped\": %" PRIu64
	       ", \"excluded\": %" PRIu64,
	       result->files, result->directories, result->symlinks,
	       result->skipped, result->excluded);
	printf(", \"new_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64
	       ", \"known_bytes\": %" PRIu64 ", \"zero_bytes\": %" PRIu64
	       ", \"object_bytes\": %" PRIu64 ", \"salvaged_bytes\": %" PRIu64,
	       result->new_bytes, result->stored_bytes, result->known_bytes,
	       result->zero_bytes, result->object_bytes,
	       result->salvaged_bytes);
	printf(", \"new_chunks\": %" PRIu64 ", \"known_chunks\": %" PRIu64
	       ", \"damaged_packs\": %" PRIu64 ", \"elapsed_ms\": %" PRIu64
	       "}\n",
	       result->new_chunks, result->known_chunks, result->damaged_packs,
	       result->elapsed_ms);
}

static void warn(const struct arguments *arguments,
		 const struct publish_result *result)
{
	char size[FORMAT_MAX];

	if (result->is_other_key)
		fprintf(stderr,
			"larder publish: the head before was signed by another key: nodes that trust only that one stay on the old snapshot\n");
	if (result->salvaged_bytes)
		fprintf(stderr,
			"larder publish: went on with %s of a run that was interrupted\n",
			format_size(result->salvaged_bytes, size));
	if (result->damaged_packs)
		fprintf(stderr,
			"larder publish: %" PRIu64
			" damaged packs were not used: larder check names them\n",
			result->damaged_packs);
	if (!arguments->key && !arguments->is_dry_run)
		fprintf(stderr,
			"larder publish: the head is not signed: readers must give the option 'insecure' (larder keygen makes a key for -k)\n");
}

/* "dir/" means "dir": whether a name is a directory makes no difference. */
static void trim_patterns(const struct option_list *patterns)
{
	for (size_t i = 0; i < patterns->count; i++) {
		char *pattern = patterns->items[i];
		size_t len = strlen(pattern);

		while (len > 1 && pattern[len - 1] == '/')
			pattern[--len] = '\0';
	}
}

static int publish(const struct mirror_command *command,
		   const struct options *words)
{
	struct arguments *arguments = command->target;
	const char *tree = words->operands.items[0];
	struct display display = {
		.is_terminal = can_redraw(),
		.next_line_ms = LINE_EVERY_MS,
	};
	char default_name[LIMIT_DATASET_NAME_BYTES + 1];
	struct publish_options options = {
		.tree = tree,
		.mirror = words->operands.items[1],
		.access = &command->reach->access,
		.name = arguments->name,
		.tag = arguments->tag,
		.excludes = (const char *const *)arguments->excludes.items,
		.exclude_count = arguments->excludes.count,
		.level = (int)arguments->level,
		.threads = (unsigned int)arguments->threads,
		.expires_s = arguments->expires_ms / 1000,
		.is_dry_run = arguments->is_dry_run,
		.want_owner = arguments->want_owner,
		.want_file_digests = arguments->want_file_digests,
		.is_forced = arguments->is_forced,
		.progress = show,
		.progress_arg = &display,
		.stop = &stop_signal,
	};
	struct publish_result result;
	struct secret_key key;
	struct err err = {0};
	int r = load_secret_key(arguments->key, &key, &options.key, &err);

	if (r == 0 && !options.name) {
		r = publish_default_name(tree, default_name, &err);
		options.name = default_name;
	}
	if (r == 0) {
		trim_patterns(&arguments->excludes);
		stop_on_signals();
		r = publish_run(&options, &result, &err);
	}
	secret_key_wipe(&key);
	if (display.is_terminal)
		redraw("");
	if (r < 0)
		return cli_fail("publish", r, &err);
	warn(arguments, &result);
	if (arguments->json)
		print_json(&result, arguments->is_dry_run);
	else
		print_text(arguments, &result);
	return CLI_DONE;
}

int cmd_publish(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct mirror_reach reach = {0};
	const struct mirror_command command = {
		.name = "publish",
		.reach = &reach,
		.usage =
			"larder publish [-n NAME] [-k KEY] [OPTION]... TREE MIRROR",
		.summary =
			"Publish a directory as a new snapshot on a mirror, which is made if need be.",
		.options = publish_options,
		.target = &arguments,
		.operands_min = 2,
		.operands_max = 2,
	};

	return mirror_command_run(&command, argc, argv, publish);
}
