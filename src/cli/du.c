/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder du: sizes of directories from the totals that catalogs store, so the
 * answer comes at once however many files there are.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "cli/cli.h"
#include "format/catalog.h"
#include "format/limits.h"

struct du {
	struct cli_source *source;
	uint64_t depth;
	bool is_bytes;
};

static const struct option_def own_options[] = {
	{.name = "depth",
	 .letter = 'd',
	 .type = OPTION_COUNT,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct du, depth),
	 .value = "NUMBER",
	 .default_text = "1",
	 .max = LIMIT_PATH_DEPTH,
	 .help = "show directories so deep"},
	{.name = "bytes",
	 .letter = 'b',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct du, is_bytes),
	 .help = "print plain bytes"},
	{0},
};

static void print_total(const struct du *du, const char *path, size_t len,
			const struct entry_attr *attr)
{
	bool is_directory = attr->type == ENTRY_DIRECTORY;
	uint64_t bytes = is_directory ? attr->bytes_below : attr->size;
	char size[FORMAT_MAX], count[FORMAT_MAX];

	if (du->is_bytes)
		printf("%llu\t%llu\t", (unsigned long long)bytes,
		       (unsigned long long)(is_directory ? attr->entries_below :
							   1));
	else
		printf("%10s  %12s  ", format_size(bytes, size),
		       format_count(is_directory ? attr->entries_below : 1,
				    count));
	cli_print_name(path, len);
	putchar('\n');
}

/* Directories of one listing, kept so that the call is over before the next. */
struct directory {
	struct entry_attr attr;
	char name[LIMIT_NAME_BYTES + 1];
	size_t name_len;
};

struct directories {
	VEC(struct directory) items;
	uint64_t next;
	bool is_out_of_memory;
};

static bool on_name(void *arg, const char *name, size_t name_len,
		    const struct entry_attr *attr, uint64_t index)
{
	struct directories *found = arg;

	found->next = index + 1;
	if (attr->type != ENTRY_DIRECTORY || name_len > LIMIT_NAME_BYTES)
		return true;
	struct directory *directory = vec_push(&found->items);
	if (!directory) {
		found->is_out_of_memory = true;
		return false;
	}
	directory->attr = *attr;
	memcpy(directory->name, name, name_len);
	directory->name_len = name_len;
	return true;
}

static int walk(struct du *du, uint64_t dir, uint64_t depth, struct buf *path,
		struct err *err)
{
	struct directories found = {0};
	size_t prefix = path->len;
	bool is_end = false;
	int r = 0;

	while (r == 0 && !is_end) {
		r = CLI_WAIT(du->source,
			     snapshot_list(du->source->snapshot, dir,
					   found.next, CLI_WAITER(du->source),
					   on_name, &found, &is_end, err));
		if (r == 0 && found.is_out_of_memory)
			r = err_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; r == 0 && i < found.items.count; i++) {
		struct directory *directory = &found.items.items[i];

		r = buf_append(path, directory->name, directory->name_len);
		if (r < 0)
			break;
		print_total(du, (const char *)path->data, path->len,
			    &directory->attr);
		if (depth > 1) {
			r = buf_append(path, "/", 1);
			if (r == 0)
				r = walk(du, directory->attr.number, depth - 1,
					 path, err);
		}
		path->len = prefix;
	}
	vec_release(&found.items);
	return r;
}

static int walk_source(struct cli_source *source, void *arg, struct buf *path,
		       struct err *err)
{
	const char *name = source->path[0] ? source->path : ".";
	struct du *du = arg;
	int r = 0;

	du->source = source;
	if (du->depth && source->attr.type == ENTRY_DIRECTORY)
		r = walk(du, source->attr.number, du->depth, path, err);
	if (r == 0)
		print_total(du, name, strlen(name), &source->attr);
	return r;
}

static int print_totals(struct cli *cli, void *arg, struct err *err)
{
	return cli_look(cli, walk_source, arg, err);
}

int cmd_du(int argc, char **argv)
{
	struct du du = {0};
	const struct cli_command command = {
		.name = "du",
		.usage = "larder du [-b] [-d NUMBER] SOURCE[:PATH]|DIR",
		.summary =
			"Bytes and names below each directory, at once, from stored totals.",
		.options = own_options,
		.target = &du,
		.operands_min = 1,
		.operands_max = 1,
	};

	return cli_run(&command, argc, argv, print_totals, &du);
}
