/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands on a mirror have in common: parsing, keys, signals,
 * the line of progress and heads in JSON.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/mirror-command.h"

#define KEY_FILE_LIMIT 65536u
#define COLUMNS_DEFAULT 80
#define LINE_MAX_BYTES 512

volatile sig_atomic_t stop_signal;

static void set_access(struct mirror_reach *reach)
{
	reach->origin = (struct origin_options){
		.s3_endpoint = reach->s3.endpoint,
		.s3_region = reach->s3.region,
		.s3_credentials = reach->s3.credentials,
		.s3_profile = reach->s3.profile,
		.s3_path_style = (enum s3_path_style)reach->s3.path_style,
	};
	reach->access = (struct mirror_access){
		.origin = &reach->origin,
		.proxy = reach->network.proxy,
		.ca_file = reach->network.ca,
		.cert_file = reach->network.cert,
		.cert_key_file = reach->network.cert_key,
		.stop = &stop_signal,
	};
}

static int add_reach(struct options *options, struct mirror_reach *reach,
		     struct err *err)
{
	static const struct option_def heading[] = {
		{.type = OPTION_HEADING, .help = "Mirrors in buckets:"},
		{0},
	};
	int r = options_add(options, heading, reach, err);

	if (r == 0)
		r = options_add(options, cli_s3_options, &reach->s3, err);
	if (r == 0)
		r = options_add(options, cli_network_options, &reach->network,
				err);
	return r;
}

static int finish_parsing(struct options *options,
			  const struct mirror_command *command)
{
	size_t count = options->operands.count;

	if (count < command->operands_min)
		return CLI_EXIT(cli_usage(command->name,
					  "too few arguments: %s",
					  command->usage));
	if (count > command->operands_max)
		return CLI_EXIT(cli_usage(
			command->name, "unexpected argument '%s'",
			options->operands.items[command->operands_max]));
	return 0;
}

int mirror_command_begin(struct options *options,
			 const struct mirror_command *command, int argc,
			 char **argv)
{
	static const struct option_def help_options[] = {
		{.name = "help",
		 .letter = 'h',
		 .type = OPTION_BOOL,
		 .places = OPTION_ARGV,
		 .ends_parsing = true,
		 .help = "print this text"},
		{0},
	};
	struct err err = {0};
	bool want_help = false;
	int r = 0;

	options_init(options);
	if (command->options)
		r = options_add(options, command->options, command->target,
				&err);
	if (r == 0)
		r = options_add(options, help_options, &want_help, &err);
	if (r == 0 && command->reach)
		r = add_reach(options, command->reach, &err);
	if (r == 0)
		r = options_parse(options, argc, argv, &err);
	if (r < 0)
		return CLI_EXIT(
			cli_usage(command->name, "%s", err_text(&err, r)));
	if (want_help) {
		printf("usage: %s\n%s\n\n", command->usage, command->summary);
		(void)options_print_help(options, stdout, false);
		return CLI_EXIT(CLI_DONE);
	}
	if (command->reach)
		set_access(command->reach);
	return finish_parsing(options, command);
}

int mirror_command_run(const struct mirror_command *command, int argc,
		       char **argv,
		       int (*run)(const struct mirror_command *command,
				  const struct options *options))
{
	struct options options;
	int r = mirror_command_begin(&options, command, argc, argv);

	r = r ? r - 1 : run(command, &options);
	options_release(&options);
	return r;
}

int load_secret_key(const char *path, struct secret_key *ret,
		    const struct secret_key **ret_key, struct err *err)
{
	struct buf text;
	int r;

	*ret_key = NULL;
	if (!path)
		return 0;
	buf_init(&text, KEY_FILE_LIMIT);
	r = file_read(AT_FDCWD, path, &text);
	if (r < 0) {
		err_set(err, -r, "cannot read key '%s': %s", path,
			strerror(-r));
	} else {
		r = secret_key_parse(text.data, text.len, ret, err);
		if (r < 0)
			err_prefix(err, r, "key '%s'", path);
		explicit_bzero(text.data, text.len);
	}
	buf_release(&text);
	if (r == 0)
		*ret_key = ret;
	return r;
}

int mirror_command_sign(const struct mirror_command *command,
			const char *const *operands, const char *key_file,
			head_fn *make, const char *done)
{
	char digest[DIGEST_TEXT_MAX];
	const struct secret_key *used;
	struct secret_key key;
	struct head head;
	struct err err = {0};
	int r = load_secret_key(key_file, &key, &used, &err);

	if (r == 0)
		r = make(command, operands, used, &head, &err);
	secret_key_wipe(&key);
	if (r < 0)
		return cli_fail(command->name, r, &err);
	printf("%s %s%s%s serial %" PRIu64 " %s\n", done, head.dataset,
	       head.tag[0] ? "@" : "", head.tag, head.serial,
	       digest_text(&head.catalog, digest));
	return CLI_DONE;
}

static void on_signal(int number)
{
	stop_signal = number;
}

void stop_on_signals(void)
{
	struct sigaction action = {
		.sa_handler = on_signal,
		.sa_flags = (int)SA_RESETHAND | SA_RESTART,
	};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool can_redraw(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb") != 0);
}

void redraw(const char *line)
{
	struct winsize size;
	int columns = COLUMNS_DEFAULT;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
		columns = size.ws_col;
	/* Not into the last column, or some terminals move on. */
	fprintf(stderr, "\r%.*s\033[K", columns - 1, line);
	fflush(stderr);
}

void progress_rate_add(struct progress_rate *rate, uint64_t ms, uint64_t bytes)
{
	const double weight = 0.1; /* of the newest fifth of a second */
	double now;

	if (ms <= rate->last_ms)
		return;
	now = (double)(bytes - rate->last_bytes) / (double)(ms - rate->last_ms);
	if (rate->last_ms)
		rate->bytes_per_ms = rate->bytes_per_ms == 0 ?
					     now :
					     rate->bytes_per_ms * (1 - weight) +
						     now * weight;
	rate->last_ms = ms;
	rate->last_bytes = bytes;
}

void print_json_member(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	cli_print_json(text, strlen(text));
}

static void print_json_signatures(const struct head *head)
{
	printf(", \"signatures\": [");
	for (uint32_t i = 0; i < head->signature_count; i++) {
		char id[2 * sizeof(head->signatures[i].key_id) + 1];

		hex_encode(head->signatures[i].key_id,
			   sizeof(head->signatures[i].key_id), id);
		printf("%s\"%s\"", i ? ", " : "", id);
	}
	printf("]");
}

void print_json_head(const struct head *head)
{
	char text[DIGEST_TEXT_MAX], time[FORMAT_MAX];

	print_json_member("dataset", head->dataset);
	if (head->tag[0]) {
		printf(", ");
		print_json_member("tag", head->tag);
	}
	printf(", \"serial\": %" PRIu64 ", \"snapshot\": \"%s\"", head->serial,
	       digest_text(&head->catalog, text));
	printf(", \"time\": \"%s\"", format_time(head->time, time));
	if (head->expires)
		printf(", \"expires\": \"%s\"",
		       format_time(head->expires, time));
	printf(", \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64,
	       head->entry_count, head->total_bytes);
	print_json_signatures(head);
}

const char *describe_signature(const struct head *head, char *ret_text,
			       size_t size)
{
	char id[2 * sizeof(head->signatures[0].key_id) + 1];

	if (head->signature_count == 0)
		return "unsigned";
	hex_encode(head->signatures[0].key_id,
		   sizeof(head->signatures[0].key_id), id);
	snprintf(ret_text, size, "signed by %s", id);
	return ret_text;
}
