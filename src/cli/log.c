/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder log MIRROR [NAME]: which snapshots a mirror has, newest first.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "publish/publish.h"

struct line {
	enum publish_head_kind kind;
	struct head head;
};

struct log {
	VEC(struct line) lines;
	uint64_t unreadable;
};

static int add_line(void *arg, enum publish_head_kind kind, const char *path,
		    const struct head *head, const char *err_text)
{
	struct log *log = arg;
	struct line *line;

	if (err_text) {
		log->unreadable++;
		fprintf(stderr, "larder log: %s\n", err_text);
		(void)path;
		return 0;
	}
	line = vec_push(&log->lines);
	if (!line)
		return -ENOMEM;
	line->kind = kind;
	line->head = *head;
	return 0;
}

/* Of one dataset: newest serial first, its tags after it. */
static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int r = strcmp(x->head.dataset, y->head.dataset);

	if (r != 0)
		return r;
	if (x->head.serial != y->head.serial)
		return x->head.serial > y->head.serial ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return strcmp(x->head.tag, y->head.tag);
}

/* The history holds the current head as well. */
static bool is_copy(const struct log *log, size_t i)
{
	const struct line *line = &log->lines.items[i];

	for (size_t k = i; line->kind == PUBLISH_HISTORY && k > 0; k--) {
		const struct line *other = &log->lines.items[k - 1];

		if (strcmp(other->head.dataset, line->head.dataset) != 0 ||
		    other->head.serial != line->head.serial)
			return false;
		if (other->kind == PUBLISH_CURRENT)
			return true;
	}
	return false;
}

static const char *kind_name(const struct line *line)
{
	return line->kind == PUBLISH_CURRENT ? "current" :
	       line->kind == PUBLISH_TAGGED  ? "tag" :
					       "past";
}

static void print_line(const struct line *line)
{
	char time[FORMAT_MAX], size[FORMAT_MAX], count[FORMAT_MAX],
		digest[DIGEST_TEXT_MAX], signature[64];
	const struct head *head = &line->head;

	printf("%6" PRIu64 "  %s  %10s entries  %10s  %s%s\n", head->serial,
	       format_time(head->time, time),
	       format_count(head->entry_count, count),
	       format_size(head->total_bytes, size),
	       line->kind == PUBLISH_TAGGED ? "@" : "",
	       line->kind == PUBLISH_TAGGED ? head->tag : kind_name(line));
	printf("        %s  %s", digest_text(&head->catalog, digest),
	       describe_signature(head, signature, sizeof(signature)));
	if (head->expires)
		printf("  expires %s", format_time(head->expires, time));
	printf("\n");
}

static void print_text(const struct log *log)
{
	const char *dataset = "";

	for (size_t i = 0; i < log->lines.count; i++) {
		const struct line *line = &log->lines.items[i];

		if (is_copy(log, i))
			continue;
		if (strcmp(dataset, line->head.dataset) != 0)
			printf("%s%s\n", *dataset ? "\n" : "",
			       line->head.dataset);
		dataset = line->head.dataset;
		print_line(line);
	}
}

static void print_json(const struct log *log)
{
	const char *separator = "";

	printf("{\"format\": 1, \"heads\": [");
	for (size_t i = 0; i < log->lines.count; i++) {
		if (is_copy(log, i))
			continue;
		printf("%s\n  {\"kind\": \"%s\", ", separator,
		       kind_name(&log->lines.items[i]));
		print_json_head(&log->lines.items[i].head);
		printf("}");
		separator = ",";
	}
	printf("%s]}\n", *separator ? "\n" : "");
}

static int show_log(const struct mirror_command *command,
		    const struct options *options)
{
	const char *const *words = options->operands.items;
	const char *name = options->operands.count > 1 ? words[1] : NULL;
	const bool *json = command->target;
	struct log log = {0};
	struct err err = {0};
	int r = publish_log(words[0], &command->reach->access, name, add_line,
			    &log, &err);

	if (r == 0) {
		if (log.lines.count > 0)
			qsort(log.lines.items, log.lines.count,
			      sizeof(log.lines.items[0]), compare_lines);
		if (*json)
			print_json(&log);
		else
			print_text(&log);
	}
	vec_release(&log.lines);
	if (r < 0)
		return cli_fail("log", r, &err);
	return log.unreadable ? CLI_FAILED : CLI_DONE;
}

int cmd_log(int argc, char **argv)
{
	static const struct option_def log_options[] = {
		ROW_JSON(0),
		{0},
	};
	bool json = false;
	struct mirror_reach reach = {0};
	const struct mirror_command command = {
		.name = "log",
		.reach = &reach,
		.usage = "larder log [--json] MIRROR [NAME]",
		.summary = "List the snapshots of a mirror, newest first.",
		.options = log_options,
		.target = &json,
		.operands_min = 1,
		.operands_max = 2,
	};

	return mirror_command_run(&command, argc, argv, show_log);
}
