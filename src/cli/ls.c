/* SPDX-License-Identifier: Apache-2.0 */
/* larder ls: names of a dataset without mounting it; without SOURCE, the
 * datasets. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/option-rows.h"
#include "format/catalog.h"

/* Deeper than any catalog may be: paths are printed, not recursed into blindly.
 */

struct ls {
	struct cli_source *source;
	bool is_long, is_recursive, is_json;
	bool is_first; /* of the JSON array */
};

static const struct option_def own_options[] = {
	{.name = "long",
	 .letter = 'l',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct ls, is_long),
	 .help = "type, mode, size, time and target"},
	{.name = "recursive",
	 .letter = 'R',
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 .offset = offsetof(struct ls, is_recursive),
	 .help = "also what is below, with paths"},
	ROW_JSON(offsetof(struct ls, is_json)),
	{0},
};

static char type_letter(uint8_t type)
{
	switch (type) {
	case ENTRY_DIRECTORY:
		return 'd';
	case ENTRY_SYMLINK:
		return 'l';
	case ENTRY_HOLE:
		return '?';
	case ENTRY_TOMBSTONE:
		return 'x';
	default:
		return '-';
	}
}

static const char *type_name(uint8_t type)
{
	switch (type) {
	case ENTRY_DIRECTORY:
		return "directory";
	case ENTRY_SYMLINK:
		return "symlink";
	case ENTRY_HOLE:
		return "hole";
	case ENTRY_TOMBSTONE:
		return "tombstone";
	default:
		return "file";
	}
}

static char *target_of(struct ls *ls, const struct entry_attr *attr)
{
	char *target = NULL;
	struct err err;

	if (attr->type != ENTRY_SYMLINK ||
	    CLI_WAIT(ls->source,
		     snapshot_readlink(ls->source->snapshot, attr->number,
				       CLI_WAITER(ls->source), &target, &err)) <
		    0)
		return NULL;
	return target;
}

static void print_long(const struct entry_attr *attr)
{
	static const char letters[] = "rwxrwxrwx";
	char time[FORMAT_MAX];

	putchar(type_letter(attr->type));
	for (int bit = 0; bit < 9; bit++)
		putchar(attr->mode & (0400 >> bit) ? letters[bit] : '-');
	printf(" %14llu %s ",
	       (unsigned long long)(attr->type == ENTRY_DIRECTORY ?
					    attr->bytes_below :
					    attr->size),
	       format_time(attr->mtime_s, time));
}

static void print_entry_json(struct ls *ls, const char *path, size_t len,
			     const struct entry_attr *attr, const char *target)
{
	char time[FORMAT_MAX];

	printf("%s\n  {\"path\": ", ls->is_first ? "" : ",");
	ls->is_first = false;
	cli_print_json(path, len);
	printf(", \"type\": \"%s\", \"mode\": \"%04o\", \"size\": %llu, \"mtime\": \"%s\"",
	       type_name(attr->type), (unsigned)attr->mode,
	       (unsigned long long)attr->size,
	       format_time(attr->mtime_s, time));
	if (attr->type == ENTRY_DIRECTORY)
		printf(", \"entries_below\": %llu, \"bytes_below\": %llu",
		       (unsigned long long)attr->entries_below,
		       (unsigned long long)attr->bytes_below);
	if (target) {
		printf(", \"target\": ");
		cli_print_json(target, strlen(target));
	}
	putchar('}');
}

static void print_entry(struct ls *ls, const char *path, size_t len,
			const struct entry_attr *attr)
{
	_cleanup_free_ char *target =
		ls->is_long || ls->is_json ? target_of(ls, attr) : NULL;

	if (ls->is_json) {
		print_entry_json(ls, path, len, attr, target);
		return;
	}
	if (ls->is_long)
		print_long(attr);
	cli_print_name(path, len);
	if (target) {
		printf(" -> ");
		cli_print_name(target, strlen(target));
	}
	putchar('\n');
}

/* A part of a listing: printed once the call that made it is over, since
 * printing a link asks the snapshot again. */
struct part_entry {
	struct entry_attr attr;
	size_t name_at, name_len;
};

struct part {
	VEC(struct part_entry) entries;
	struct buf names;
	uint64_t next;
	bool is_out_of_memory;
};

#define PART_ENTRIES 4096

static bool on_name(void *arg, const char *name, size_t name_len,
		    const struct entry_attr *attr, uint64_t index)
{
	struct part *part = arg;
	struct part_entry *entry;

	if (part->entries.count >= PART_ENTRIES)
		return false;
	entry = vec_push(&part->entries);
	if (!entry || buf_append(&part->names, name, name_len) < 0) {
		part->is_out_of_memory = true;
		return false;
	}
	entry->attr = *attr;
	entry->name_at = part->names.len - name_len;
	entry->name_len = name_len;
	part->next = index + 1;
	return true;
}

static int list_directory(struct ls *ls, uint64_t dir, struct buf *path, struct err *err);

static int print_part(struct ls *ls, const struct part *part, struct buf *path,
		      struct err *err)
{
	size_t prefix = path->len;
	int r = 0;

	for (size_t i = 0; r == 0 && i < part->entries.count; i++) {
		const struct part_entry *entry = &part->entries.items[i];

		r = buf_append(path, part->names.data + entry->name_at,
			       entry->name_len);
		if (r < 0)
			break;
		print_entry(ls, (const char *)path->data, path->len,
			    &entry->attr);
		if (ls->is_recursive && entry->attr.type == ENTRY_DIRECTORY) {
			r = buf_append(path, "/", 1);
			if (r == 0)
				r = list_directory(ls, entry->attr.number, path, err);
		}
		path->len = prefix;
	}
	return r;
}

static int list_directory(struct ls *ls, uint64_t dir, struct buf *path, struct err *err)
{
	struct part part = {0};
	bool is_end = false;
	int r = 0;

	buf_init(&part.names, PART_ENTRIES * 256);
	while (r == 0 && !is_end) {
		part.entries.count = 0;
		buf_clear(&part.names);
		r = CLI_WAIT(ls->source,
			     snapshot_list(ls->source->snapshot, dir, part.next,
					   CLI_WAITER(ls->source), on_name,
					   &part, &is_end, err));
		if (r == 0 && part.is_out_of_memory)
			r = err_set(err, ENOMEM, "out of memory");
		if (r == 0)
			r = print_part(ls, &part, path, err);
	}
	vec_release(&part.entries);
	buf_release(&part.names);
	return r;
}

static int list_source(struct cli_source *source, void *arg, struct buf *path,
		       struct err *err)
{
	struct ls *ls = arg;
	int r = 0;

	ls->source = source;
	if (ls->is_json)
		printf("{\"format\": 1, \"entries\": [");
	ls->is_first = true;
	if (source->attr.type == ENTRY_DIRECTORY)
		r = list_directory(ls, source->attr.number, path, err);
	else
		print_entry(ls, source->path, strlen(source->path),
			    &source->attr);
	if (ls->is_json)
		printf("\n]}\n");
	if (r == 0 && (fflush(stdout) || ferror(stdout)))
		r = err_set(err, EIO, "cannot write the list");
	return r;
}

static int list_configured(struct cli *cli, const struct ls *ls)
{
	if (ls->is_json)
		printf("{\"format\": 1, \"datasets\": [");
	for (size_t i = 0; i < cli->datasets.count; i++) {
		const char *name = cli->datasets.items[i]->name;

		if (ls->is_json)
			printf("%s\"%s\"", i ? ", " : "", name);
		else
			printf("%s\n", name);
	}
	if (ls->is_json)
		printf("]}\n");
	else if (!cli->datasets.count)
		fprintf(stderr,
			"larder ls: no dataset is configured in '%s'; larder ls MIRROR#NAME lists another\n",
			cli->settings.config ?: CLI_CONFIG);
	return 0;
}

static int list(struct cli *cli, void *arg, struct err *err)
{
	return cli->options.operands.count ?
		       cli_look(cli, list_source, arg, err) :
		       list_configured(cli, arg);
}

int cmd_ls(int argc, char **argv)
{
	struct ls ls = {0};
	const struct cli_command command = {
		.name = "ls",
		.usage = "larder ls [-lR] [--json] [SOURCE[:PATH]|DIR]",
		.summary =
			"List a dataset's files without mounting it; without SOURCE, the\n"
			"configured datasets.",
		.options = own_options,
		.target = &ls,
		.operands_max = 1,
	};

	return cli_run(&command, argc, argv, list, &ls);
}
