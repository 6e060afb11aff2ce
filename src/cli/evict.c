/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder evict SOURCE|DIR [GLOB...]: make room by hand. What is pinned and what
 * a process has open stays, and is named.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cli/option-rows.h"
#include "cli/option-rows.h"
#include "cli/select.h"

struct evict {
	bool is_dry_run, is_sure, is_json;
};

static const struct option_def own_options[] = {
	ROW_DRY_RUN(offsetof(struct evict, is_dry_run)),
	ROW_YES(offsetof(struct evict, is_sure)),
	ROW_JSON(offsetof(struct evict, is_json)),
	{0},
};

static void print_left(uint64_t blobs, uint64_t bytes, const char *why)
{
	char size[FORMAT_MAX];

	if (blobs > 0)
		printf("  left %s in %" PRIu64 " blob%s: %s\n",
		       format_size(bytes, size), blobs, blobs == 1 ? "" : "s",
		       why);
}

static void print_text(const struct cache_evicted *result, bool is_dry_run)
{
	char size[FORMAT_MAX];

	printf("%s %s in %" PRIu64 " blob%s\n",
	       is_dry_run ? "would evict" : "evicted",
	       format_size(result->bytes, size), result->blobs,
	       result->blobs == 1 ? "" : "s");
	print_left(result->pinned_blobs, result->pinned_bytes,
		   "pinned (larder unpin lets go)");
	print_left(result->open_blobs, result->open_bytes,
		   "a process is reading them");
}

static void print_json(const struct cache_evicted *result, bool is_dry_run)
{
	printf("{\"format\": 1, \"dry_run\": %s, \"evicted_bytes\": %" PRIu64
	       ", \"evicted_blobs\": %" PRIu64 ", \"pinned_bytes\": %" PRIu64
	       ", \"pinned_blobs\": %" PRIu64 ", \"open_bytes\": %" PRIu64
	       ", \"open_blobs\": %" PRIu64 "}\n",
	       is_dry_run ? "true" : "false", result->bytes, result->blobs,
	       result->pinned_bytes, result->pinned_blobs, result->open_bytes,
	       result->open_blobs);
}

static bool is_agreed(void)
{
	char answer[16] = "";

	fprintf(stderr, "evict? [y/N] ");
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

/* 1 when something was left, or the answer was no. */
static int evict_ids(struct cache *cache, const struct digest *ids,
		     size_t count, const struct evict *evict, struct err *err)
{
	bool is_asking = !evict->is_dry_run && !evict->is_sure &&
			 isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	struct cache_evicted result;
	int r = 0;

	if (is_asking) {
		r = cache_evict(cache, ids, count, true, &result, err);
		if (r < 0)
			return r;
		print_text(&result, true);
		if (!is_agreed())
			return 1;
	}
	r = cache_evict(cache, ids, count, evict->is_dry_run, &result, err);
	if (r < 0)
		return r;
	if (evict->is_json)
		print_json(&result, evict->is_dry_run);
	else
		print_text(&result, evict->is_dry_run);
	return result.open_blobs > 0 || result.pinned_blobs > 0;
}

static int evict_target(struct cli_target *target, const struct evict *evict,
			struct err *err)
{
	struct target_blobs found;
	int r = cli_target_blobs(target, &found, err);

	if (r < 0)
		return r;
	size_t count = found.blobs.count;
	_cleanup_free_ struct digest *ids = calloc(count + 1, sizeof(*ids));
	for (size_t i = 0; ids && i < count; i++)
		ids[i] = found.blobs.items[i].id;
	target_blobs_release(&found);
	if (!ids)
		return err_set(err, ENOMEM, "out of memory");
	return evict_ids(node_cache(target->source.node), ids, count, evict,
			 err);
}

static int evict(struct cli *cli, void *arg, struct err *err)
{
	const char *const *words = cli->options.operands.items;
	struct cli_target target;
	int r = cli_target_open(cli, words[0], words + 1,
				cli->options.operands.count - 1, &target, err);

	if (r < 0)
		return r;
	r = evict_target(&target, arg, err);
	cli_target_close(&target);
	return r > 0 ? CLI_FAILED : r;
}

int cmd_evict(int argc, char **argv)
{
	struct evict options = {0};
	const struct cli_command command = {
		.name = "evict",
		.usage =
			"larder evict [--dry-run] [-y] SOURCE[:PATH]|DIR [GLOB...]",
		.summary =
			"Remove files' data from the cache; it is fetched again when it is read.\n"
			"Only the owner of the cache may. What is pinned or open stays.",
		.options = own_options,
		.target = &options,
		.operands_min = 1,
		.operands_max = SIZE_MAX,
	};

	return cli_run(&command, argc, argv, evict, &options);
}
