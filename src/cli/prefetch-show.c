/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The looks of larder prefetch. One bar for everything, weighted by bytes,
 * that starts at what is here; when nothing comes it says why instead of how
 * fast.
 */
#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/prefetch-show.h"

#define LINE_EVERY_MS 10000u
/* Shorter pauses are no news. */
#define STALLED_MS 2000u
#define LINE_MAX_BYTES 512u

struct line {
	char text[LINE_MAX_BYTES];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line,
						      const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line->text + line->len, sizeof(line->text) - line->len,
		      format, args);
	va_end(args);
	if (n > 0)
		line->len += (size_t)n;
	if (line->len >= sizeof(line->text))
		line->len = sizeof(line->text) - 1;
}

void prefetch_show_begin(struct prefetch_show *show)
{
	show->is_terminal = can_redraw();
	show->started_ms = now_ms();
	show->next_line_ms = show->started_ms + LINE_EVERY_MS;
}

/* "https://mirror-a.example/m" is mirror-a.example to those who watch. */
static void add_origin(struct line *line, const char *name, unsigned percent)
{
	const char *host = strstr(name, "://");
	const char *start = host ? host + 3 : name;
	size_t len = host ? strcspn(start, "/") : strlen(start);

	if (len == 0) /* file:///... */
		len = strlen(start);
	add(line, "  %.*s %u %%", (int)len, start, percent);
}

static void add_origins(struct line *line, const struct prefetch_info *info)
{
	for (unsigned i = 0; i < info->origin_count; i++) {
		uint64_t bytes = info->origins[i].wire_bytes;

		if (bytes > 0)
			add_origin(line, info->origins[i].name,
				   (unsigned)((double)bytes * 100 /
						      (double)info->wire_bytes +
					      0.5));
	}
}

static uint64_t whole_seconds(double ms)
{
	return ((uint64_t)ms + 999) / 1000 * 1000;
}

static void add_pace(struct line *line, const struct prefetch_show *show,
		     const struct prefetch_info *info)
{
	double speed = show->rate.bytes_per_ms;
	uint64_t left = info->bytes - info->bytes_done;
	char rate[FORMAT_MAX], time[FORMAT_MAX];

	if (info->stalled_ms >= STALLED_MS) {
		add(line, "  stalled %s: %s",
		    format_duration(info->stalled_ms / 1000 * 1000, time),
		    info->reason[0] ? info->reason : "waiting for readers");
		return;
	}
	if (speed <= 0)
		return;
	add(line, "  %s/s", format_size((uint64_t)(speed * 1000), rate));
	if (left > 0)
		add(line, "  %s left",
		    format_duration(whole_seconds((double)left / speed), time));
	add_origins(line, info);
}

static void describe(const struct prefetch_show *show,
		     const struct prefetch_info *info, struct line *line)
{
	char done[FORMAT_MAX], bytes[FORMAT_MAX], files_done[FORMAT_MAX],
		files[FORMAT_MAX], failed[FORMAT_MAX];
	unsigned percent = 100;

	line->len = 0;
	if (info->state == PREFETCH_LISTING) {
		add(line, "listing  %s files, %s",
		    format_count(info->files, files),
		    format_size(info->bytes, bytes));
		if (info->reason[0])
			add(line, "  %s", info->reason);
		return;
	}
	if (info->bytes > 0)
		percent = (unsigned)((double)info->bytes_done * 100 /
				     (double)info->bytes);
	add(line, "%3u %%  %s of %s  %s of %s files", percent,
	    format_size(info->bytes_done, done),
	    format_size(info->bytes, bytes),
	    format_count(info->files_done, files_done),
	    format_count(info->files, files));
	if (info->files_failed)
		add(line, "  %s failed",
		    format_count(info->files_failed, failed));
	if (info->state == PREFETCH_COUNTING)
		add(line, "  looking at what is here");
	else
		add_pace(line, show, info);
}

void prefetch_show_progress(struct prefetch_show *show,
			    const struct prefetch_info *info)
{
	uint64_t now = now_ms();
	struct line line;

	if (info->state >= PREFETCH_FETCHING)
		progress_rate_add(&show->rate, now - show->started_ms,
				  info->bytes_done);
	if (!show->is_terminal && now < show->next_line_ms)
		return;
	describe(show, info, &line);
	if (show->is_terminal) {
		redraw(line.text);
		return;
	}
	fprintf(stderr, "%s\n", line.text);
	show->next_line_ms = now + LINE_EVERY_MS;
}

void prefetch_show_end(struct prefetch_show *show)
{
	if (show->is_terminal)
		redraw("");
}

static const char *word_of(const struct prefetch_show *show,
			   const struct prefetch_info *info)
{
	if (show->is_dry_run)
		return info->result < 0 ? "refused" : "fits";
	return info->result < 0 ? "incomplete" : "complete";
}

static void print_json_origins(const struct prefetch_info *info)
{
	printf("\"origins\": [");
	for (unsigned i = 0; i < info->origin_count; i++) {
		printf("%s{", i ? ", " : "");
		print_json_member("name", info->origins[i].name);
		printf(", \"wire_bytes\": %" PRIu64 "}",
		       info->origins[i].wire_bytes);
	}
	printf("]");
}

static void print_json(const struct prefetch_show *show,
		       const struct prefetch_info *info, const char *source)
{
	printf("{\"format\": 1, \"result\": \"%s\", ", word_of(show, info));
	print_json_member("source", source);
	printf(", \"dry_run\": %s, \"pinned\": %s, \"files\": %" PRIu64
	       ", \"files_here\": %" PRIu64 ", \"files_failed\": %" PRIu64
	       ", \"bytes\": %" PRIu64 ", \"bytes_here\": %" PRIu64
	       ", \"bytes_at_start\": %" PRIu64 ", \"bytes_missing\": %" PRIu64
	       ", \"room_bytes\": %" PRIu64 ", \"wire_bytes\": %" PRIu64
	       ", \"elapsed_ms\": %" PRIu64 ", ",
	       show->is_dry_run ? "true" : "false",
	       show->is_pinned ? "true" : "false", info->files,
	       info->files_done, info->files_failed, info->bytes,
	       info->bytes_done, info->bytes_at_start,
	       info->bytes - info->bytes_done, info->room_bytes,
	       info->wire_bytes, now_ms() - show->started_ms);
	print_json_origins(info);
	if (info->result < 0) {
		printf(", ");
		print_json_member("error", info->err.text);
	}
	printf("}\n");
}

static void print_dry_run(const struct prefetch_info *info, const char *source)
{
	char missing[FORMAT_MAX], bytes[FORMAT_MAX], files[FORMAT_MAX],
		room[FORMAT_MAX];

	printf("would fetch %s of %s, %s file%s of %s\n",
	       format_size(info->bytes - info->bytes_done, missing),
	       format_size(info->bytes, bytes),
	       format_count(info->files, files), info->files == 1 ? "" : "s",
	       source);
	if (info->result < 0)
		return;
	if (info->bytes_done < info->bytes)
		printf("  it fits: the cache has room for %s\n",
		       format_size(info->room_bytes, room));
	else
		printf("  all of it is here\n");
}

void prefetch_show_result(const struct prefetch_show *show,
			  const struct prefetch_info *info, const char *source)
{
	char bytes[FORMAT_MAX], files[FORMAT_MAX], wire[FORMAT_MAX],
		time[FORMAT_MAX], rate[FORMAT_MAX];
	uint64_t fetched = info->bytes_done - info->bytes_at_start;
	uint64_t ms = now_ms() - show->started_ms;

	if (show->is_json) {
		print_json(show, info, source);
		return;
	}
	if (show->is_dry_run) {
		print_dry_run(info, source);
		return;
	}
	if (info->result < 0)
		return;
	printf("complete: %s in %s file%s of %s%s\n",
	       format_size(info->bytes, bytes),
	       format_count(info->files, files), info->files == 1 ? "" : "s",
	       source, show->is_pinned ? ", pinned" : "");
	if (fetched > 0)
		printf("  %s fetched, as %s, in %s, %s/s\n",
		       format_size(fetched, bytes),
		       format_size(info->wire_bytes, wire),
		       format_duration(ms, time),
		       format_size((uint64_t)((double)fetched * 1000 /
					      (double)(ms ? ms : 1)),
				   rate));
	else
		printf("  all of it was here\n");
}
