/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder prefetch: files into the cache before somebody reads them. This
 * process fetches them itself, sharing the cache with every mount; only on
 * somebody else's mount the process that serves it is asked to.
 */
#include <config.h>

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/prefetch-show.h"
#include "cli/select.h"
#include "mount/mount.h"

/* A bar moves so often. */
#define TICK_MS 200u

struct arguments {
	bool is_dry_run, is_json, is_pinned;
	uint64_t limit_rate;
};

#define AT(member) .offset = offsetof(struct arguments, member)
static const struct option_def own_options[] = {
	{.name = "dry-run",
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 AT(is_dry_run),
	 .help = "say how much is missing and whether it fits, fetch nothing"},
	{.name = "pin",
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 AT(is_pinned),
	 .help = "pin them first, so that the cache keeps them"},
	{.name = "limit-rate",
	 .type = OPTION_SIZE,
	 .places = OPTION_ARGV,
	 AT(limit_rate),
	 .value = "SIZE",
	 .min = 1024,
	 .help = "fetch at most so many bytes a second"},
	{.name = "json",
	 .type = OPTION_BOOL,
	 .places = OPTION_ARGV,
	 AT(is_json),
	 .help = "print the result as JSON"},
	{0},
};
#undef AT

struct running {
	struct prefetch *prefetch;
	struct prefetch_info info;
	sem_t ended;
};

static void on_end(void *arg)
{
	sem_post(&((struct running *)arg)->ended);
}

/* Until the end, a signal, or for a tick. */
static bool has_ended(struct running *running)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TICK_MS * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return sem_timedwait(&running->ended, &until) == 0;
}

static void tell_failure(void *arg, const char *path, const char *reason)
{
	_cleanup_free_ char *shown = text_printable(path, strlen(path));

	(void)arg;
	fprintf(stderr, "  %s: %s\n", shown ?: "?", reason);
}

static void watch(struct running *running, struct prefetch_show *show)
{
	bool is_over;

	do {
		is_over = has_ended(running);
		prefetch_info(running->prefetch, &running->info);
		if (!is_over)
			prefetch_show_progress(show, &running->info);
	} while (!is_over && !stop_signal);
	prefetch_show_end(show);
}

static int stopped(struct err *err)
{
	return err_set(
		err, EINTR,
		"stopped; what is here stays, the same command goes on from there");
}

static int fetch(const struct prefetch_options *options,
		 struct running *running, struct prefetch_show *show,
		 struct err *err)
{
	struct prefetch_info *info = &running->info;
	int r = prefetch_start(options, &running->prefetch, err);

	if (r < 0)
		return r;
	watch(running, show);
	if (info->state != PREFETCH_ENDED)
		return stopped(err);
	if (info->result < 0 && info->files_failed)
		prefetch_failures(running->prefetch, tell_failure, NULL);
	*err = info->err;
	return info->result;
}

/* First, so that nothing of it is evicted while the rest comes. */
static int pin(struct cli_target *target, struct err *err)
{
	struct target_blobs blobs;
	int r = cli_target_blobs(target, &blobs, err);

	if (r < 0)
		return r;
	r = cli_pin(target, &blobs, err);
	target_blobs_release(&blobs);
	return r;
}

/* What the origins are called goes with the node: results are told before. */
static int prefetch_target(struct cli_target *target,
			   const struct arguments *arguments, struct err *err)
{
	struct prefetch_show show = {
		.is_json = arguments->is_json,
		.is_dry_run = arguments->is_dry_run,
		.is_pinned = arguments->is_pinned && !arguments->is_dry_run,
	};
	struct running running = {0};
	const struct prefetch_options options = {
		.selection = target->selection,
		.limit_bytes_per_s = arguments->limit_rate,
		.is_dry_run = arguments->is_dry_run,
		.ended = on_end,
		.arg = &running,
	};
	int r = show.is_pinned ? pin(target, err) : 0;

	if (r < 0)
		return r;
	sem_init(&running.ended, 0, 0);
	prefetch_show_begin(&show);
	stop_on_signals();
	r = fetch(&options, &running, &show, err);
	if (running.info.state == PREFETCH_ENDED)
		prefetch_show_result(&show, &running.info, target->source.name);
	if (running.prefetch)
		prefetch_cancel(running.prefetch);
	cli_target_close(target);
	prefetch_free(running.prefetch);
	sem_destroy(&running.ended);
	return r;
}

/* ---- on somebody else's mount */

static int watch_queued(struct mount_prefetch *queued,
			struct prefetch_show *show, struct prefetch_info *info,
			struct err *err)
{
	const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
	int r;

	for (;;) {
		r = mount_prefetch_look(queued, info, err);
		if (r < 0 || info->state == PREFETCH_ENDED)
			break;
		if (stop_signal) {
			mount_prefetch_stop(queued);
			r = stopped(err);
			break;
		}
		prefetch_show_progress(show, info);
		nanosleep(&tick, NULL);
	}
	prefetch_show_end(show);
	return r;
}

static int prefetch_queued(struct cli *cli, const struct arguments *arguments,
			   struct err *err)
{
	const char *const *words = cli->options.operands.items;
	struct prefetch_show show = {
		.is_json = arguments->is_json,
		.is_dry_run = arguments->is_dry_run,
	};
	struct mount_prefetch *queued;
	struct prefetch_info info;
	int r = mount_prefetch_start(
		words[0], words + 1, cli->options.operands.count - 1,
		arguments->limit_rate, arguments->is_dry_run, &queued, err);

	if (r < 0)
		return r;
	prefetch_show_begin(&show);
	stop_on_signals();
	r = watch_queued(queued, &show, &info, err);
	if (r == 0) {
		prefetch_show_result(&show, &info, words[0]);
		*err = info.err;
		r = info.result;
	}
	mount_prefetch_free(queued);
	return r;
}

/* Whose cache it is decides who does the work. */
static int prefetch(struct cli *cli, void *arg, struct err *err)
{
	const struct arguments *arguments = arg;
	const char *const *words = cli->options.operands.items;
	struct cli_target target;
	int r = cli_target_open(cli, words[0], words + 1,
				cli->options.operands.count - 1, &target, err);

	if (r == -EPERM && !arguments->is_pinned && access(words[0], R_OK) == 0)
		return prefetch_queued(cli, arguments, err);
	if (r < 0)
		return r;
	r = prefetch_target(&target, arguments, err);
	cli_target_close(&target);
	return r;
}

int cmd_prefetch(int argc, char **argv)
{
	struct arguments arguments = {0};
	const struct cli_command command = {
		.name = "prefetch",
		.usage =
			"larder prefetch [--pin] [OPTION...] SOURCE[:PATH]|DIR [GLOB...]",
		.summary =
			"Fetch files into the cache, behind whatever is read meanwhile. Exit 0 when every\n"
			"byte of them is there.",
		.options = own_options,
		.target = &arguments,
		.operands_min = 1,
		.operands_max = SIZE_MAX,
	};

	return cli_run(&command, argc, argv, prefetch, &arguments);
}
