/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder refresh SOURCE|DIR...: look now whether there is a new snapshot, a
 * branch of the Hub that has moved among them. What lies on a mount is looked
 * at by the process that serves it, since its readers are to be led there; of a
 * source the cache remembers what the next mount begins with.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/cli.h"
#include "mount/mount.h"

/* A path, unless it can only be a source. */
static bool is_place(const char *word)
{
	struct stat st;

	return !strchr(word, '#') && !strstr(word, "://") &&
	       stat(word, &st) == 0;
}

static int refresh_place(const char *path, struct err *err)
{
	struct mount_refreshed result;
	int r = mount_refresh(path, &result, err);

	if (r < 0)
		return r;
	printf("%s: %" PRIu32 " of %" PRIu32 " dataset%s changed\n", path,
	       result.changed, result.count, plural(result.count));
	return result.failed ? err_set(err, EIO, "%s", result.error) : 0;
}

static int refresh_source(struct cli *cli, const char *text, struct err *err)
{
	struct dataset_info before, after;
	struct cli_source source;
	enum dataset_look look = LOOK_NONE;
	int r = cli_source_open(cli, text, &source, err);

	if (r < 0)
		return r;
	dataset_info(source.dataset, &before);
	r = CLI_WAIT(&source, dataset_refresh(source.dataset,
					      CLI_WAITER(&source), &look, err));
	dataset_info(source.dataset, &after);
	if (r == 0)
		printf("%s: %s\n", source.name,
		       digest_equal(&before.snapshot, &after.snapshot) ?
			       "unchanged" :
			       "changed");
	cli_source_close(&source);
	return r;
}

static int refresh(struct cli *cli, void *arg, struct err *err)
{
	int result = 0;

	(void)arg;
	for (size_t i = 0; i < cli->options.operands.count; i++) {
		const char *word = cli->options.operands.items[i];
		int r = is_place(word) ? refresh_place(word, err) :
					 refresh_source(cli, word, err);

		if (r < 0)
			result = cli_fail("refresh", r, err);
	}
	return result;
}

int cmd_refresh(int argc, char **argv)
{
	const struct cli_command command = {
		.name = "refresh",
		.usage = "larder refresh [OPTION...] SOURCE|DIR...",
		.summary =
			"Look now for a new snapshot of a dataset, or for the commit that a branch of the\n"
			"Hub is at. Files that are open stay as they are.",
		.operands_min = 1,
		.operands_max = SIZE_MAX,
	};

	return cli_run(&command, argc, argv, refresh, NULL);
}
