/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder status: the mounts of this machine, their caches and the datasets in
 * them. It asks the mounts (bounded), not the mirrors nor the configuration, so
 * it answers at once whatever is dead, and whoever mounted it from whatever
 * file. A cache that nothing mounts is looked at itself, by its owner, and not
 * for ever either.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/question.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/option-rows.h"
#include "mount/mount.h"

/* Narrower terminals get fewer columns. */
#define COLUMNS_WANTED 80
#define SNAPSHOT_DIGITS 12
/* A commit's digits and what of the repository was asked for; more is cut. */
#define SNAPSHOT_TEXT 48
/* Longer than all that opening a cache waits for by itself. */
#define CACHE_LOOK_MS 6000u

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
	char figures[MOUNT_FIGURES_BYTES];
	bool has_cache; /* a mount shows the configured one */
	const char *cache_dir;
	bool is_short; /* no memory for one of them */
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

/* ---- JSON */

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
		figures_print_state(&status->shown.items[0].state);
	else
		printf("\"state\": \"%s\"", health_names[health]);
	figures_print_cache(status->figures);
	figures_print_process(status->figures);
	for (size_t i = 0; !is_single && i < status->shown.count; i++) {
		const struct shown *shown = &status->shown.items[i];

		printf("%s\n     {\"name\": ", i ? "," : ", \"datasets\": [");
		cli_print_json(shown->name ?: "", strlen(shown->name ?: ""));
		printf(", ");
		figures_print_state(&shown->state);
		printf(i + 1 < status->shown.count ? "}" : "}]");
	}
	putchar('}');
	status->is_first = false;
}

/* ---- text */

static void print_why(const char *indent,
		      const struct mount_dataset_state *state)
{
	if (state->reason[0]) {
		printf("%sreason: ", indent);
		cli_print_name(state->reason, strlen(state->reason));
		putchar('\n');
	}
	if (strcmp(state->state, "stale") == 0)
		printf("%saction: %s\n", indent,
		       figure_number(state->figures, "for-good") ?
			       "check the source, and mount the right one if it is mistyped; what is cached is served" :
			       "none is needed for what is cached; larder goes on asking the mirrors");
	if (is_failed(state))
		printf("%saction: mend that%s\n", indent,
		       figure_number(state->figures, "for-good") ?
			       " and mount again" :
			       "; larder tries again at the next use");
}

/* "   3 files passed through", of "on, 3 files" */
static void print_passed(const char *figures)
{
	size_t len;
	const char *value = mount_figure(figures, "passthrough", &len);

	if (value && starts_with(value, "on, ") && value[4] != '0')
		printf("   %.*s passed through", (int)len - 4, value + 4);
}

/* "   cache 1.8 of 3.5 TiB (412 GiB pinned)   memory 60 MiB   1.2 TiB read, 96
 * % from disk" */
static void print_cache(const char *figures)
{
	char used[FORMAT_MAX], usable[FORMAT_MAX], pinned[FORMAT_MAX],
		all[FORMAT_MAX];
	uint64_t used_bytes, read = figure_number(figures, "read");

	if (figure_has_number(figures, "used", &used_bytes)) {
		printf("   cache %s of %s", format_size(used_bytes, used),
		       format_size(figure_number(figures, "usable"), usable));
		if (figure_number(figures, "pinned"))
			printf(" (%s pinned)",
			       format_size(figure_number(figures, "pinned"),
					   pinned));
	}
	if (figure_number(figures, "memory"))
		printf("   memory %s",
		       format_size(figure_number(figures, "memory"), all));
	if (read > 0)
		printf("   %s read, %u %% from disk", format_size(read, all),
		       figure_percent(figure_number(figures, "read-cached"),
				      read));
	print_passed(figures);
}

/* What somebody should know of, each on a line of its own. */
static void print_worries(const char *figures)
{
	uint64_t corrupt = figure_number(figures, "corrupt");
	uint64_t holder = figure_number(figures, "index-holder");

	if (figure_number(figures, "hanging"))
		printf("  warning: the cache's disk does not answer; until it does reads go past it and nothing is kept\n"
		       "  action: see the kernel's log\n");
	if (corrupt)
		printf("  warning: %" PRIu64
		       " damaged chunks on the cache's disk were dropped and fetched again\n"
		       "  action: larder verify looks for more\n",
		       corrupt);
	if (holder)
		printf("  warning: process %" PRIu64
		       " holds the index; until it goes on nothing new is kept\n",
		       holder);
}

static bool is_wide(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 ||
	       size.ws_col == 0 || size.ws_col >= COLUMNS_WANTED;
}

struct row {
	char snapshot[SNAPSHOT_TEXT], cached[FORMAT_MAX], total[FORMAT_MAX],
		share[8];
	const char *pin;
};

/* The first digits of its digest, or of the Hub's commit as the Hub and its
 * programs write it, "1a2b3c4d5e6f (v1.0)". */
static void print_snapshot(const char *figures, char ret[SNAPSHOT_TEXT])
{
	size_t len, revision_len;
	const char *commit = mount_figure(figures, "commit", &len);
	const char *revision = mount_figure(figures, "revision", &revision_len);
	const char *snapshot = mount_figure(figures, "snapshot", &len);
	const char *colon = snapshot ? memchr(snapshot, ':', len) : NULL;

	if (commit && revision && strncmp(commit, revision, revision_len))
		snprintf(ret, SNAPSHOT_TEXT, "%.*s (%.*s)", SNAPSHOT_DIGITS,
			 commit, (int)revision_len, revision);
	else if (commit || colon)
		snprintf(ret, SNAPSHOT_TEXT, "%.*s", SNAPSHOT_DIGITS,
			 commit ?: colon + 1);
}

static void fill_row(const char *figures, struct row *ret)
{
	uint64_t total = 0, cached, pinned;

	*ret = (struct row){"-", "-", "-", "-", "-"};
	print_snapshot(figures, ret->snapshot);
	if (!figure_has_number(figures, "total-bytes", &total))
		return;
	format_size(total, ret->total);
	cached = figure_number(figures, "cached-bytes");
	pinned = figure_number(figures, "pinned-bytes");
	format_size(cached, ret->cached);
	snprintf(ret->share, sizeof(ret->share), "%u",
		 figure_percent(cached, total));
	if (pinned > 0)
		ret->pin = pinned >= total ? "yes" : "part";
}

struct widths {
	size_t name, snapshot; /* 0: not shown */
};

static void print_row(const char *name, const struct widths *widths,
		      const struct row *row, const char *state)
{
	bool wide = widths->snapshot > 0;

	printf("  %-*s", (int)widths->name, name);
	if (wide)
		printf("  %-*s", (int)widths->snapshot, row->snapshot);
	printf("  %10s  %10s  %3s", row->cached, row->total, row->share);
	if (wide)
		printf("  %-4s", row->pin);
	printf("  %s\n", state);
}

static struct widths measure(const struct status *status)
{
	struct widths widths = {strlen("DATASET"), SNAPSHOT_DIGITS};

	for (size_t i = 0; i < status->shown.count; i++) {
		const struct shown *shown = &status->shown.items[i];
		size_t len = strlen(shown->name ?: "");
		struct row row;

		fill_row(shown->state.figures, &row);
		widths.name = len > widths.name ? len : widths.name;
		len = strlen(row.snapshot);
		widths.snapshot = len > widths.snapshot ? len : widths.snapshot;
	}
	if (!is_wide())
		widths.snapshot = 0;
	return widths;
}

static void print_datasets(const struct status *status)
{
	const struct row head = {"SNAPSHOT", "CACHED", "TOTAL", "%", "PIN"};
	struct widths widths = measure(status);

	print_row("DATASET", &widths, &head, "STATE");
	for (size_t i = 0; i < status->shown.count; i++) {
		const struct shown *shown = &status->shown.items[i];
		struct row row;

		fill_row(shown->state.figures, &row);
		print_row(shown->name ?: "", &widths, &row, shown->state.state);
		print_why("    ", &shown->state);
	}
}

/* "  9f31c2ab77d0  812 GiB of 825 GiB cached, 98 %, pinned" */
static void print_single(const struct mount_dataset_state *state)
{
	struct row row;

	fill_row(state->figures, &row);
	if (row.total[0] != '-')
		printf("  %s  %s of %s cached, %s %%%s\n", row.snapshot,
		       row.cached, row.total, row.share,
		       row.pin[0] == 'y' ? ", pinned" :
		       row.pin[0] == 'p' ? ", partly pinned" :
					   "");
	print_why("  ", state);
}

static void print_mount(const struct status *status,
			const struct mount_entry *entry,
			enum mount_health health, bool is_single)
{
	cli_print_name(entry->mountpoint, strlen(entry->mountpoint));
	printf("  %s  ", is_single ? status->shown.items[0].state.state :
				     health_names[health]);
	cli_print_name(entry->source, strlen(entry->source));
	print_cache(status->figures);
	putchar('\n');
	if (health == MOUNT_SILENT)
		printf("  reason: the mount does not answer\n  action: larder umount -l %s\n",
		       entry->mountpoint);
	if (health == MOUNT_DEAD)
		printf("  reason: its process is gone\n  action: mount it again\n");
	print_worries(status->figures);
	if (is_single)
		print_single(&status->shown.items[0].state);
	else if (status->shown.count > 0)
		print_datasets(status);
	else if (health == MOUNT_ANSWERS)
		printf("  nothing of it was opened yet\n");
}

/* ---- mounts */

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
	status->figures[0] = '\0';
}

static void note_cache(struct status *status)
{
	size_t len;
	const char *dir = mount_figure(status->figures, "cache", &len);

	status->has_cache |= dir && status->cache_dir &&
			     strlen(status->cache_dir) == len &&
			     memcmp(status->cache_dir, dir, len) == 0;
}

static void on_mount(void *arg, const struct mount_entry *entry)
{
	struct status *status = arg;
	enum mount_health health =
		mount_probe(entry->mountpoint, MOUNT_LOOK_MS);
	bool has_failed = false;

	if (health == MOUNT_ANSWERS &&
	    mount_datasets(entry->mountpoint, status->figures, on_dataset,
			   status) == -ETIMEDOUT) {
		health = MOUNT_SILENT;
		forget_datasets(status);
	}
	const struct shown *first = status->shown.items;
	bool is_single = status->shown.count == 1 && first->name &&
			 first->name[0] == '\0';
	for (size_t i = 0; i < status->shown.count; i++)
		has_failed |= is_failed(&status->shown.items[i].state);
	status->mounts++;
	status->bad += health != MOUNT_ANSWERS || has_failed ||
		       figure_number(status->figures, "hanging");
	note_cache(status);
	if (status->is_json)
		print_mount_json(status, entry, health, is_single);
	else
		print_mount(status, entry, health, is_single);
	forget_datasets(status);
}

/* ---- a cache without a mount */

/* NULL: there is none, or it is not ours to open. Nothing is made. */
static struct cache *open_unmounted(const struct status *status)
{
	_cleanup_free_ char *path = NULL;
	struct node_options node;
	struct cache *cache;

	if (asprintf(&path, "%s/larder-cache", status->cache_dir) < 0 ||
	    access(path, R_OK | W_OK) < 0 ||
	    cli_node_options(status->cli, &node, NULL) < 0)
		return NULL;
	const struct cache_options options = {
		.dir = node.cache_dir,
		.limit_bytes = node.cache_limit_bytes,
		.min_free_bytes = node.cache_min_free_bytes,
		.tells_limits = true,
	};
	return cache_open(&options, &cache, NULL) < 0 ? NULL : cache;
}

/* In a child. The cache is not closed: that is left to its end. */
static void ask_cache(const void *arg, int to_parent)
{
	const struct status *status = arg;
	struct cache *cache = open_unmounted(status);
	static char figures[MOUNT_FIGURES_BYTES];
	struct buf text;

	if (!cache)
		return;
	buf_init(&text, sizeof(figures) - 1);
	if (cache_figures_text(cache, cache_pinned_bytes(cache), &text) == 0) {
		memcpy(figures, text.data, text.len);
		(void)write_full(to_parent, figures, sizeof(figures));
	}
	buf_release(&text);
}

static void print_silent_cache(struct status *status)
{
	status->bad++;
	if (status->is_json) {
		printf(",\n     \"cache\": {\"state\": \"silent\", \"dir\": ");
		cli_print_json(status->cache_dir, strlen(status->cache_dir));
		putchar('}');
		return;
	}
	cli_print_name(status->cache_dir, strlen(status->cache_dir));
	printf("  silent\n  reason: the cache's disk does not answer\n"
	       "  action: see the kernel's log; larder mount -o cache=DIR takes another\n");
}

static void show_cache(struct status *status)
{
	struct question question;
	size_t len;

	if (status->has_cache || !status->cache_dir ||
	    question_begin(&question, ask_cache, status, CACHE_LOOK_MS) < 0)
		return;
	int r = question_read(&question, status->figures,
			      sizeof(status->figures));
	question_end(&question, r);
	if (r == -ETIMEDOUT) {
		print_silent_cache(status);
	} else if (r == 1 && status->is_json) {
		figures_print_cache(status->figures);
	} else if (r == 1) {
		const char *dir = mount_figure(status->figures, "cache", &len);

		if (dir)
			cli_print_name(dir, len);
		print_cache(status->figures);
		putchar('\n');
		print_worries(status->figures);
	}
}

static int print_status(struct cli *cli, void *arg, struct err *err)
{
	struct status *status = arg;
	struct node_options node;

	status->cli = cli;
	status->bad = cli->is_unread;
	if (!cli->is_unread && cli_node_options(cli, &node, NULL) == 0)
		status->cache_dir = node.cache_dir;
	status->is_first = true;
	if (status->is_json)
		printf("{\"format\": 1, \"mounts\": [");
	int r = mount_list(on_mount, status, err);
	if (r == 0 && status->is_short)
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	if (status->is_json)
		printf("\n  ], \"configured\": %zu",
		       status->cli->datasets.count);
	else if (!status->mounts && cli->is_unread)
		printf("nothing is mounted\n");
	else if (!status->mounts)
		printf("nothing is mounted; %zu dataset%s configured\n",
		       status->cli->datasets.count,
		       status->cli->datasets.count == 1 ? " is" : "s are");
	show_cache(status);
	if (status->is_json)
		printf("}\n");
	return status->bad ? CLI_FAILED : CLI_DONE;
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
		.goes_on = true,
	};

	return cli_run(&command, argc, argv, print_status, &status);
}
