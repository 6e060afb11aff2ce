/* SPDX-License-Identifier: Apache-2.0 */
/* larder cat: a file's bytes on stdout, through the cache, without a mount. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/cli.h"
#include "format/catalog.h"

#define STEP_BYTES (1u << 20)

/* -EAGAIN: a cache file failed; *offset is behind what was written. */
static int write_pieces(const struct read_result *result, char *buffer,
			uint64_t *offset, struct err *err)
{
	for (unsigned i = 0; i < result->count; i++) {
		const struct read_piece *piece = &result->pieces[i];
		const void *data = piece->memory;
		int r;

		if (piece->fd >= 0) {
			ssize_t n = pread_full(piece->fd, buffer, piece->len,
					       piece->fd_offset);

			if (n != (ssize_t)piece->len)
				return -EAGAIN;
			data = buffer;
		}
		r = write_full(STDOUT_FILENO, data, piece->len);
		if (r < 0)
			return err_set(err, -r, "cannot write: %s",
				       strerror(-r));
		*offset += piece->len;
	}
	return 0;
}

static int copy_file(struct cli_source *source, struct err *err)
{
	_cleanup_free_ char *buffer = malloc(STEP_BYTES);
	uint64_t offset = 0;
	int r = buffer ? 0 : err_set(err, ENOMEM, "out of memory");
	/* A hole is an error whatever its size. */
	bool is_hole = source->attr.type != ENTRY_FILE;

	while (r == 0 && (offset < source->attr.size || is_hole)) {
		struct read_result result;

		r = CLI_WAIT(source,
			     snapshot_read(source->snapshot,
					   source->attr.number, offset,
					   STEP_BYTES, CLI_WAITER(source),
					   &result, err));
		if (r < 0)
			break;
		if (result.len == 0)
			r = err_set(err, EIO, "ends before its size");
		else
			r = write_pieces(&result, buffer, &offset, err);
		if (r == -EAGAIN) {
			r = 0;
			read_result_failed(&result, CLI_WAITER(source));
		} else {
			read_result_release(&result);
		}
	}
	return r;
}

static int print_file(struct cli *cli, const char *text, struct err *err)
{
	struct cli_source source;
	int r = cli_source_or_place_open(cli, text, &source, err);

	if (r < 0)
		return r;
	if (source.attr.type == ENTRY_DIRECTORY)
		r = err_set(err, EISDIR, "'%s' is a directory", text);
	else if (source.attr.type == ENTRY_SYMLINK)
		r = err_set(
			err, ELOOP,
			"'%s' is a symlink (larder ls -l shows where it leads)",
			text);
	else
		r = copy_file(&source, err);
	if (r < 0 && source.attr.type == ENTRY_FILE)
		err_prefix(err, r, "'%s'", text);
	cli_source_close(&source);
	return r;
}

static int print_files(struct cli *cli, void *arg, struct err *err)
{
	int r = 0;

	(void)arg;
	for (size_t i = 0; r == 0 && i < cli->options.operands.count; i++)
		r = print_file(cli, cli->options.operands.items[i], err);
	return r;
}

int cmd_cat(int argc, char **argv)
{
	const struct cli_command command = {
		.name = "cat",
		.usage = "larder cat SOURCE:PATH|FILE...",
		.summary =
			"Write files of a dataset to standard output without mounting it. FILE: on\n"
			"a mount of yours.",
		.operands_min = 1,
		.operands_max = SIZE_MAX,
	};

	return cli_run(&command, argc, argv, print_files, NULL);
}
