/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder verify: what the cache holds, against its checksums and digests.
 * Exit codes as of fsck(8), which scripts know: 0, 1, 4, and 8 where there is
 * nothing to tell.
 */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cli/faults.h"
#include "cli/mirror-command.h"
#include "cli/option-rows.h"
#include "cli/select.h"

#define VERIFY_REPAIRED 1
#define VERIFY_LEFT 4
#define VERIFY_FAILED 8

#define REDRAW_EVERY_MS 200u
#define LINE_EVERY_MS 30000u /* where no line can be redrawn */

struct verify {
	/* options */
	bool is_repair, json;
	uint64_t threads;
	/* the display */
	bool is_terminal;
	uint64_t start_ms, next_ms;
	struct progress_rate rate;
	struct faults faults;
};

#define AT(member) offsetof(struct verify, member)
static const struct option_def own_options[] = {
	ROW_FLAG("repair", 0, AT(is_repair),
		 "drop what is bad, so that it is fetched again"),
	ROW_THREADS(AT(threads)),
	ROW_JSON(AT(json)),
	{0},
};
#undef AT

static void add_fault(void *arg, const char *path, const char *text)
{
	struct verify *verify = arg;

	faults_add(&verify->faults, path, text);
}

static void show(void *arg, uint64_t bytes, uint64_t total)
{
	struct verify *verify = arg;
	char done[FORMAT_MAX], all[FORMAT_MAX], rate[FORMAT_MAX];
	char left[FORMAT_MAX] = "", line[200];
	uint64_t now = now_ms() - verify->start_ms;

	if (now < verify->next_ms)
		return;
	verify->next_ms =
		now + (verify->is_terminal ? REDRAW_EVERY_MS : LINE_EVERY_MS);
	if (now == 0 || bytes == 0)
		return;
	progress_rate_add(&verify->rate, now, bytes);
	if (verify->rate.bytes_per_ms > 0 && total > bytes)
		format_duration((uint64_t)((double)(total - bytes) /
					   verify->rate.bytes_per_ms),
				left);
	snprintf(line, sizeof(line),
		 "%3d %%  %s of %s  %s/s  %s%s  %zu fault%s",
		 total ? (int)((double)bytes * 100 / (double)total) : 0,
		 format_size(bytes, done), format_size(total, all),
		 format_size((uint64_t)(verify->rate.bytes_per_ms * 1000),
			     rate),
		 left, left[0] ? " left" : "", verify->faults.items.count,
		 plural(verify->faults.items.count));
	if (verify->is_terminal)
		redraw(line);
	else
		fprintf(stderr, "larder verify: %s\n", line);
}

static const char *verdict(const struct cache_verify_result *result)
{
	return result->left	? "damaged" :
	       result->repaired ? "repaired" :
				  "clean";
}

static void print_text(const struct verify *verify,
		       const struct cache_verify_result *result)
{
	char bytes[FORMAT_MAX], bad[FORMAT_MAX];
	uint64_t faults = result->repaired + result->left;

	if (faults)
		printf("%s: %" PRIu64 " fault%s, %s of data\n",
		       verdict(result), faults, plural(faults),
		       format_size(result->bad_bytes, bad));
	else
		printf("clean\n");
	faults_print(&verify->faults, faults);
	printf("  %" PRIu64 " blob%s, %" PRIu64 " unit%s (%" PRIu64
	       " against digests), %" PRIu64 " object%s, %s read\n",
	       result->blobs, plural(result->blobs), result->units,
	       plural(result->units), result->proven_units, result->objects,
	       plural(result->objects), format_size(result->bytes, bytes));
	if (result->repaired && result->bad_bytes)
		printf("  %s will be fetched again when it is read\n", bad);
	if (result->left && !verify->is_repair)
		printf("  larder verify --repair drops it, so that it is fetched again\n");
}

static void print_json(const struct verify *verify,
		       const struct cache_verify_result *result)
{
	printf("{\"format\": 1, \"state\": \"%s\", \"repaired\": %" PRIu64
	       ", \"left\": %" PRIu64 ", \"blobs\": %" PRIu64
	       ", \"units\": %" PRIu64 ", \"proven_units\": %" PRIu64
	       ", \"objects\": %" PRIu64 ", \"bytes\": %" PRIu64,
	       verdict(result), result->repaired, result->left, result->blobs,
	       result->units, result->proven_units, result->objects,
	       result->bytes);
	printf(", \"bad_units\": %" PRIu64 ", \"bad_bytes\": %" PRIu64
	       ", \"bad_objects\": %" PRIu64 ", \"lost_files\": %" PRIu64
	       ", \"leftovers\": %" PRIu64 ", \"leftover_bytes\": %" PRIu64 ", ",
	       result->bad_units, result->bad_bytes, result->bad_objects,
	       result->lost_files, result->leftovers, result->leftover_bytes);
	faults_print_json(&verify->faults);
	printf("}\n");
}

static int verify_cache(struct verify *verify, struct cache *cache,
			const struct digest *ids, size_t id_count,
			struct cache_verify_result *ret, struct err *err)
{
	const struct cache_verify_options options = {
		.is_repair = verify->is_repair,
		.threads = (unsigned int)verify->threads,
		.ids = ids,
		.id_count = id_count,
		.report = add_fault,
		.progress = show,
		.arg = verify,
		.stop = &stop_signal,
	};
	int r;

	verify->is_terminal = can_redraw();
	verify->start_ms = now_ms();
	if (!verify->is_terminal)
		verify->next_ms = LINE_EVERY_MS;
	stop_on_signals();
	r = cache_verify(cache, &options, ret, err);
	if (verify->is_terminal)
		redraw("");
	return r;
}

static int verify_all(struct cli *cli, struct verify *verify,
		      struct cache_verify_result *ret, struct err *err)
{
	struct cache *cache;
	int r = cli_cache_open(cli, &cache, err);

	if (r < 0)
		return r;
	r = verify_cache(verify, cache, NULL, 0, ret, err);
	cache_close(cache);
	return r;
}

static int verify_target(struct cli *cli, struct verify *verify,
			 const char *text, struct cache_verify_result *ret,
			 struct err *err)
{
	_cleanup_free_ struct digest *ids = NULL;
	struct target_blobs found;
	struct cli_target target;
	int r = cli_target_open(cli, text, NULL, 0, &target, err);

	if (r < 0)
		return r;
	r = cli_target_blobs(&target, &found, err);
	if (r == 0) {
		ids = calloc(found.blobs.count + 1, sizeof(*ids));
		if (!ids)
			r = err_set(err, ENOMEM, "out of memory");
		for (size_t i = 0; r == 0 && i < found.blobs.count; i++)
			ids[i] = found.blobs.items[i].id;
		if (r == 0)
			r = verify_cache(verify, node_cache(target.source.node),
					 ids, found.blobs.count, ret, err);
		target_blobs_release(&found);
	}
	cli_target_close(&target);
	return r;
}

static int verify_and_print(struct cli *cli, struct verify *verify)
{
	const char *target = cli->options.operands.count ?
				     cli->options.operands.items[0] :
				     NULL;
	struct cache_verify_result result;
	struct err err = {0};
	int r = target ? verify_target(cli, verify, target, &result, &err) :
			 verify_all(cli, verify, &result, &err);

	if (r < 0) {
		(void)cli_fail("verify", r, &err);
		return VERIFY_FAILED;
	}
	if (verify->json)
		print_json(verify, &result);
	else
		print_text(verify, &result);
	return result.left     ? VERIFY_LEFT :
	       result.repaired ? VERIFY_REPAIRED :
				 CLI_DONE;
}

int cmd_verify(int argc, char **argv)
{
	struct verify verify = {0};
	const struct cli_command command = {
		.name = "verify",
		.usage = "larder verify [--repair] [SOURCE[:PATH]|DIR]",
		.summary =
			"Check what the cache holds; exit 0 clean, 1 repaired, 4 damage is left.",
		.options = own_options,
		.target = &verify,
		.operands_max = 1,
	};
	struct cli cli;
	int code = cli_begin(&cli, &command, argc, argv);

	if (code == 0)
		code = CLI_EXIT(verify_and_print(&cli, &verify));
	else if (code == CLI_EXIT(CLI_FAILED)) /* here it means repaired */
		code = CLI_EXIT(VERIFY_FAILED);
	faults_release(&verify.faults);
	cli_end(&cli);
	return code - 1;
}
