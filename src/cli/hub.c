/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf:// sources: what larder's options and the variables that every program
 * around the Hub knows mean together. The variables are those of the process
 * that mounts; options come before them.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#define LOG_MODULE "hub"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "source/source.h"

#define ENDPOINT "https://huggingface.co"

static bool is_true(const char *name)
{
	static const char *const words[] = {"1", "on", "yes", "true"};
	const char *value = getenv(name);

	for (size_t i = 0; value && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

static const char *set_variable(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] ? value : NULL;
}

/* A path from a variable, "~/" resolved; rest is appended. */
static const char *path_from(struct cli *cli, const char *path,
			     const char *rest)
{
	const char *home = set_variable("HOME");
	char *text;

	if (starts_with(path, "~/") && home) {
		if (asprintf(&text, "%s%s%s", home, path + 1, rest) < 0)
			return NULL;
	} else if (asprintf(&text, "%s%s", path, rest) < 0) {
		return NULL;
	}
	return cli_absolute(cli, cli_keep(cli, text));
}

static const char *token_path(struct cli *cli)
{
	const char *path = set_variable("HF_TOKEN_PATH");

	if (path)
		return path_from(cli, path, "");
	path = set_variable("HF_HOME");
	if (path)
		return path_from(cli, path, "/token");
	path = set_variable("XDG_CACHE_HOME");
	if (path)
		return path_from(cli, path, "/huggingface/token");
	return set_variable("HOME") ?
		       path_from(cli, "~/.cache/huggingface/token", "") :
		       NULL;
}

static void choose_token(struct cli *cli, const struct cli_dataset *dataset,
			 struct hub_options *ret)
{
	const char *file = dataset->token_file ?: cli->settings.token_file;

	if (file) {
		ret->token_file = cli_absolute(cli, file);
		/* a mount tells its own, which may be where tokens are kept */
		if ((dataset->where || !dataset->token_file) &&
		    access(ret->token_file, R_OK) < 0)
			log_warning("cannot read token file '%s': %s; the Hub "
				    "is asked without",
				    ret->token_file, strerror(errno));
		return;
	}
	if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
		return;
	ret->token = set_variable("HF_TOKEN");
	if (!ret->token)
		ret->token = set_variable("HUGGING_FACE_HUB_TOKEN");
	if (!ret->token)
		ret->token_file = token_path(cli);
}

/* A section's list counts before the general one. */
static void choose_rules(struct cli *cli, const struct cli_dataset *dataset,
			 struct hub_options *ret)
{
	const struct option_list *allow =
		dataset->allow.count ? &dataset->allow : &cli->settings.allow;
	const struct option_list *deny =
		dataset->deny.count ? &dataset->deny : &cli->settings.deny;

	ret->allow = (const char *const *)allow->items;
	ret->allow_count = allow->count;
	ret->deny = (const char *const *)deny->items;
	ret->deny_count = deny->count;
}

int cli_hub_options(struct cli *cli, const struct cli_dataset *dataset,
		    const struct hub_options **ret, struct err *err)
{
	struct hub_options *options = calloc(1, sizeof(*options));
	struct hub_repo repo = {0};
	int r = 0;

	if (!cli_keep(cli, (char *)options))
		return err_set(err, ENOMEM, "out of memory");
	if (dataset->mirrors.count > 0)
		return err_set(err, EINVAL,
			       "dataset '%s' has both a source and a mirror",
			       dataset->name);
	if (!hub_is_source(dataset->source))
		return err_set(err, EINVAL,
			       "'%s' is no source (write hf://ORG/NAME; a "
			       "mirror is given by mirror=)",
			       dataset->source);
	options->is_whole = hub_is_whole(dataset->source);
	if (!options->is_whole)
		r = hub_parse(dataset->source, &repo, err);
	if (r < 0)
		return r;
	hub_repo_release(&repo);
	options->source = dataset->source;
	choose_rules(cli, dataset, options);
	options->endpoint = set_variable("HF_ENDPOINT") ?: ENDPOINT;
	options->is_offline =
		is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
	options->is_followed = options_is_set(&cli->options, "refresh");
	choose_token(cli, dataset, options);
	*ret = options;
	return 0;
}

int cli_hub_named(struct cli *cli, const char *source, struct cli_dataset **ret,
		  struct err *err)
{
	struct hub_repo repo = {0};
	bool is_whole = hub_is_whole(source);
	int r = is_whole ? 0 : hub_parse(source, &repo, err);

	if (r < 0)
		return r;
	*ret = cli_dataset_new(cli, is_whole ? "hf" : repo.id, err);
	hub_repo_release(&repo);
	if (!*ret)
		return -ENOMEM;
	return options_set(&(*ret)->options, OPTION_FILE, "SOURCE", "source",
			   source, err);
}
