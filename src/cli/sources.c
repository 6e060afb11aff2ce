/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what a user typed to a dataset: names of the configuration, MIRROR#NAME,
 * and SOURCE:PATH for looking inside. A mirror's path may have '#' and ':' in
 * it, a dataset's name neither, so SOURCE:PATH is cut at the first '#' that
 * leaves a valid name.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "format/head.h"
#include "source/source.h"

#define ROOT_CACHE "/var/cache/larder"
#define SILENCE_MS 2000u    /* a terminal is told why nothing comes */
#define USER_CACHE "larder" /* below XDG_CACHE_HOME or ~/.cache */

char *cli_redact(const char *source)
{
	const char *host = strstr(source, "://");
	const char *path = host ? strchr(host + 3, '/') : NULL;
	char *text = NULL;

	if (!host)
		return strdup(source);
	host += 3;
	size_t host_len = path ? (size_t)(path - host) : strlen(host);
	const char *user_end = memrchr(host, '@', host_len);
	const char *rest = user_end ? user_end + 1 : host;
	const char *query = strchr(rest, '?');
	const char *name = strchr(rest, '#');

	if (query && (!name || query < name)) {
		if (asprintf(&text, "%.*s%.*s%s", (int)(host - source), source,
			     (int)(query - rest), rest, name ?: "") < 0)
			return NULL;
		return text;
	}
	if (asprintf(&text, "%.*s%s", (int)(host - source), source, rest) < 0)
		return NULL;
	return text;
}

/* ---- the cache directory */

static char *user_cache(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int r = -1;

	if (cache && cache[0] == '/')
		r = asprintf(&path, "%s/" USER_CACHE, cache);
	else if (home && home[0] == '/')
		r = asprintf(&path, "%s/.cache/" USER_CACHE, home);
	return r < 0 ? NULL : path;
}

/* A cache belongs to one user: an ordinary user's commands do not use the
 * system's, though the system's configuration names it. */
static bool is_somebody_elses(const char *path)
{
	struct stat st;

	return geteuid() != 0 && stat(path, &st) == 0 && st.st_uid != geteuid();
}

static bool is_set_here(const struct cli *cli, const char *name)
{
	for (size_t i = 0; i < cli->options.slots.count; i++) {
		const struct option_slot *slot = &cli->options.slots.items[i];

		if (slot->def->name && !strcmp(slot->def->name, name))
			return slot->place == OPTION_ARGV ||
			       slot->place == OPTION_LISTED;
	}
	return false;
}

static const char *cache_directory(struct cli *cli)
{
	const char *set = cli->settings.cache;
	char *user = NULL;

	if (set && (is_set_here(cli, "cache") || !is_somebody_elses(set)))
		return cli_absolute(cli, set);
	if (geteuid() != 0)
		user = user_cache();
	return user ? cli_keep(cli, user) : ROOT_CACHE;
}

/* Size of the filesystem a path is on or will be on. */
static uint64_t disk_bytes(const char *path)
{
	_cleanup_free_ char *now = strdup(path);
	struct statvfs st;

	while (now && *now) {
		if (statvfs(now, &st) == 0)
			return (uint64_t)st.f_blocks * st.f_frsize;
		char *slash = strrchr(now, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	return statvfs("/", &st) == 0 ? (uint64_t)st.f_blocks * st.f_frsize : 0;
}

static int check_readable(const char *what, const char *path, struct err *err)
{
	if (!path || access(path, R_OK) == 0)
		return 0;
	return err_set(err, errno, "cannot read %s '%s': %s", what, path,
		       strerror(errno));
}

/* None at all is one byte: 0 means the default below. */
static uint64_t min_free_bytes(const struct cli *cli, uint64_t disk)
{
	uint64_t bytes = option_space_bytes(&cli->settings.min_free, disk);

	return bytes == 0 && options_is_set(&cli->options, "min-free") ? 1 :
									 bytes;
}

int cli_node_options(struct cli *cli, struct node_options *ret, struct err *err)
{
	const struct settings *settings = &cli->settings;
	const char *dir = cache_directory(cli);

	if (!dir)
		return err_set(err, ENOMEM, "out of memory");
	uint64_t disk = settings->size.percent || settings->min_free.percent ?
				disk_bytes(dir) :
				0;
	const char *ca = cli_absolute(cli, settings->network.ca);
	const char *cert = cli_absolute(cli, settings->network.cert);
	const char *cert_key = cli_absolute(cli, settings->network.cert_key);
	if (check_readable("certificates", ca, err) < 0 ||
	    check_readable("client certificate", cert, err) < 0 ||
	    check_readable("key of the client certificate", cert_key, err) < 0)
		return -EACCES;
	*ret = (struct node_options){
		.cache_dir = dir,
		.cache_limit_bytes = option_space_bytes(&settings->size, disk),
		.cache_min_free_bytes = min_free_bytes(cli, disk),
		.buffer_bytes = settings->buffer_bytes,
		.timeout_ms = (uint32_t)settings->timeout_ms,
		.refresh_ms = settings->refresh_ms > UINT32_MAX ?
				      UINT32_MAX :
				      (uint32_t)settings->refresh_ms,
		.connections = (uint32_t)settings->connections,
		.total_connections = (uint32_t)settings->total_connections,
		.proxy = settings->network.proxy,
		.ca_file = ca,
		.cert_file = cert,
		.cert_key_file = cert_key,
	};
	return 0;
}

/* ---- datasets */

static const char *const *absolute_list(struct cli *cli,
					const struct option_list *list)
{
	const char **paths = calloc(list->count + 1, sizeof(*paths));

	if (!cli_keep(cli, (char *)paths))
		return NULL;
	for (size_t i = 0; i < list->count; i++)
		paths[i] = cli_absolute(cli, list->items[i]);
	return paths;
}

/* A section's word counts before the general one. */
static void set_origin(struct cli *cli, struct cli_dataset *dataset)
{
	const struct cli_s3 *own = &dataset->s3, *all = &cli->settings.s3;
	const char *file = own->credentials ?: all->credentials;

	dataset->origin = (struct origin_options){
		.s3_endpoint = own->endpoint ?: all->endpoint,
		.s3_region = own->region ?: all->region,
		.s3_credentials = file && strcmp(file, "none") ?
					  cli_absolute(cli, file) :
					  file,
		.s3_profile = own->profile ?: all->profile,
		.s3_path_style = (enum s3_path_style)(
			options_is_set(&dataset->options, "s3-path-style") ?
				own->path_style :
				all->path_style),
	};
}

int cli_dataset_options(struct cli *cli, struct cli_dataset *dataset,
			struct dataset_options *ret, struct err *err)
{
	const struct option_list *keys =
		dataset->keys.count ? &dataset->keys : &cli->settings.keys;

	set_origin(cli, dataset);
	*ret = (struct dataset_options){
		.name = dataset->name,
		.remote_name = dataset->remote_name,
		.tag = dataset->tag,
		.mirrors = absolute_list(cli, &dataset->mirrors),
		.mirror_count = dataset->mirrors.count,
		.origin = &dataset->origin,
		.key_files = absolute_list(cli, keys),
		.key_count = keys->count,
		.insecure = options_is_set(&dataset->options, "insecure") ?
				    dataset->insecure :
				    cli->settings.insecure,
		.refuse_expired = options_is_set(&dataset->options, "expired") ?
					  dataset->expired :
					  cli->settings.expired,
	};
	if (!ret->mirrors || !ret->key_files)
		return err_set(err, ENOMEM, "out of memory");
	return dataset->source ?
		       cli_hub_options(cli, dataset, &ret->hub, err) :
		       0;
}

static struct cli_dataset *configured(struct cli *cli, const char *name)
{
	for (size_t i = 0; i < cli->datasets.count; i++) {
		if (strcmp(cli->datasets.items[i]->name, name) == 0)
			return cli->datasets.items[i];
	}
	return NULL;
}

/* A dataset like a section's, from MIRROR#NAME[@TAG]. */
static int dataset_named(struct cli *cli, const char *source,
			 struct cli_dataset **ret, struct err *err)
{
	struct source_name name;
	int r = source_parse(source, &name, err);

	if (r < 0)
		return r;
	*ret = cli_dataset_new(cli, name.dataset, err);
	r = *ret ? 0 : -ENOMEM;
	if (r == 0)
		r = options_set(&(*ret)->options, OPTION_FILE, "SOURCE",
				"mirror", name.mirror, err);
	if (r == 0 && name.tag)
		r = options_set(&(*ret)->options, OPTION_FILE, "SOURCE", "tag",
				name.tag, err);
	source_name_release(&name);
	return r;
}

static const char *nearest_dataset(struct cli *cli, const char *name)
{
	_cleanup_free_ const char **names =
		calloc(cli->datasets.count + 1, sizeof(*names));

	for (size_t i = 0; names && i < cli->datasets.count; i++)
		names[i] = cli->datasets.items[i]->name;
	return names ? nearest_word(name, names) : NULL;
}

/* What was meant can only be guessed: say what is missing of it. */
static int no_source(const char *source, struct err *err)
{
	_cleanup_free_ char *shown = cli_redact(source);
	struct stat st;

	if (!shown)
		return -ENOMEM;
	if (strstr(source, "://"))
		return err_set(err, EINVAL,
			       "'%s' names a mirror and no dataset of it: write "
			       "'%s#NAME'",
			       shown, shown);
	if (stat(source, &st) < 0 && errno == ENOENT && strchr(source, '/'))
		return err_set(err, EINVAL,
			       "'%s' is neither a path that exists nor a "
			       "configured dataset (others: MIRROR#NAME, "
			       "hf://ORG/NAME)",
			       source);
	if (stat(source, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, EINVAL,
			       "'%s' is a directory and is not on a larder "
			       "mount: if it is a mirror write '%s#NAME' "
			       "(larder log '%s' lists the names)",
			       source, source, source);
	return err_set(err, EINVAL,
		       "'%s' is neither a configured dataset nor MIRROR#NAME "
		       "nor hf://ORG/NAME",
		       source);
}

int cli_dataset_find(struct cli *cli, const char *source,
		     struct cli_dataset **ret, struct err *err)
{
	*ret = configured(cli, source);
	if (*ret)
		return 0;
	if (hub_is_source(source))
		return cli_hub_named(cli, source, ret, err);
	if (strchr(source, '#'))
		return dataset_named(cli, source, ret, err);
	const char *nearest = nearest_dataset(cli, source);
	if (nearest)
		return err_set(
			err, EINVAL,
			"no dataset '%s' is configured (did you mean '%s'?)",
			source, nearest);
	return no_source(source, err);
}

/* ---- SOURCE:PATH */

/* Where the dataset's name ends: at ':' or the end, or NULL if it is no name.
 */
static const char *name_end(const char *name)
{
	size_t len = strcspn(name, ":");
	_cleanup_free_ char *copy = strndup(name, len);
	char *tag = copy ? strchr(copy, '@') : NULL;

	if (!copy)
		return NULL;
	if (tag)
		*tag++ = '\0';
	return dataset_name_valid(copy) && (!tag || tag_name_valid(tag)) ?
		       name + len :
		       NULL;
}

static int split_path(const char *text, char **ret_source, char **ret_path)
{
	const char *end = NULL;

	/* A repository's id has no ':', its revisions neither. */
	if (hub_is_source(text))
		end = strchrnul(text + strlen("hf://"), ':');
	for (const char *mark = strchr(text, '#'); mark && !end;
	     mark = strchr(mark + 1, '#'))
		end = name_end(mark + 1);
	if (!end)
		end = strchr(text, '#') ? text + strlen(text) :
					  strchrnul(text, ':');
	*ret_source = strndup(text, (size_t)(end - text));
	*ret_path = strdup(*end ? end + 1 : "");
	return *ret_source && *ret_path ? 0 : -ENOMEM;
}

/* Who sits before it learns that it is the source that takes so long. */
static int wait_for_current(const struct cli *cli, struct cli_source *source,
			    struct err *err)
{
	bool is_told = !isatty(STDERR_FILENO);
	int r;

	while ((r = dataset_current(source->dataset, CLI_WAITER(source),
				    &source->snapshot, err)) ==
	       DATASET_PARKED) {
		if (!is_told &&
		    !waiter_block_for(source->waiter, SILENCE_MS)) {
			is_told = true;
			fprintf(stderr, "larder %s: no answer yet, waiting\n",
				cli->command);
			waiter_block(source->waiter);
		} else if (is_told) {
			waiter_block(source->waiter);
		}
	}
	return r;
}

static int open_snapshot(struct cli *cli, struct cli_source *source,
			 const struct dataset_options *options, struct err *err)
{
	struct node_options node_options;
	int r = cli_node_options(cli, &node_options, err);

	if (r == 0)
		r = node_open(&node_options, &source->node, err);
	if (r < 0)
		return r;
	source->waiter = blocking_waiter_new();
	if (!source->waiter)
		return err_set(err, ENOMEM, "out of memory");
	r = dataset_add(source->node, options, &source->dataset, err);
	if (r == 0)
		r = wait_for_current(cli, source, err);
	if (r == 0)
		r = CLI_WAIT(source,
			     snapshot_resolve(source->snapshot, source->path,
					      CLI_WAITER(source), &source->attr,
					      err));
	if (r < 0 && source->snapshot)
		return err_prefix(err, r, "'%s'", source->path);
	return r;
}

static int name_source(struct cli_source *source,
		       const struct dataset_options *options, struct err *err)
{
	_cleanup_free_ char *mirror = NULL;

	if (options->hub) {
		source->name = strdup(options->hub->source);
		return source->name ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	if (options->mirror_count)
		mirror = cli_redact(options->mirrors[0]);
	if (!mirror ||
	    asprintf(&source->name, "%s#%s%s%s", mirror,
		     options->remote_name ?: options->name,
		     options->tag ? "@" : "", options->tag ?: "") < 0) {
		source->name = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

int cli_source_open_dataset(struct cli *cli, struct cli_dataset *dataset,
			    const char *path, struct cli_source *ret,
			    struct err *err)
{
	struct dataset_options options;
	int r = cli_dataset_options(cli, dataset, &options, err);

	*ret = (struct cli_source){.path = strdup(path)};
	if (r == 0 && !ret->path)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = open_snapshot(cli, ret, &options, err);
	if (r == 0)
		r = name_source(ret, &options, err);
	if (r < 0)
		cli_source_close(ret);
	return r;
}

int cli_source_open(struct cli *cli, const char *text, struct cli_source *ret,
		    struct err *err)
{
	_cleanup_free_ char *name = NULL, *path = NULL;
	struct cli_dataset *dataset;

	*ret = (struct cli_source){0};
	if (split_path(text, &name, &path) < 0)
		return err_set(err, ENOMEM, "out of memory");
	int r = cli_dataset_find(cli, name, &dataset, err);
	return r < 0 ? r :
		       cli_source_open_dataset(cli, dataset, path, ret, err);
}

void cli_source_close(struct cli_source *source)
{
	snapshot_unref(source->snapshot);
	blocking_waiter_free(source->waiter);
	if (source->node)
		node_close(source->node);
	free(source->path);
	free(source->name);
	*source = (struct cli_source){0};
}
