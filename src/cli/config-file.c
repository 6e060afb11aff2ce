/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: larder.conf and the files of datasets.d beside it, whose
 * sections are datasets.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/settings.h"
#include "format/head.h"

#define DATASETS_DIRECTORY "datasets.d"
#define SECTIONS_MAX 65536 /* a loop in a generator */

struct cli_dataset *cli_dataset_new(struct cli *cli, const char *name,
				    struct err *err)
{
	struct cli_dataset *dataset = calloc(1, sizeof(*dataset));
	struct cli_dataset **listed = dataset ? vec_push(&cli->datasets) : NULL;

	if (!listed) {
		free(dataset);
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	*listed = dataset;
	options_init(&dataset->options);
	dataset->name = strdup(name);
	if (!dataset->name ||
	    options_add(&dataset->options, cli_section_table, dataset, err) <
		    0 ||
	    options_add(&dataset->options, cli_s3_options, &dataset->s3, err) <
		    0)
		return NULL;
	return dataset;
}

static struct options *on_section(void *context, const char *name,
				  const char *where, struct err *err)
{
	struct cli *cli = context;

	if (!dataset_name_valid(name)) {
		err_set(err, EINVAL, "'%s' cannot be the name of a dataset",
			name);
		return NULL;
	}
	for (size_t i = 0; i < cli->datasets.count; i++) {
		if (strcmp(cli->datasets.items[i]->name, name) == 0) {
			err_set(err, EINVAL, "there is another section [%s]",
				name);
			return NULL;
		}
	}
	if (cli->datasets.count >= SECTIONS_MAX) {
		err_set(err, E2BIG, "too many sections");
		return NULL;
	}
	struct cli_dataset *dataset = cli_dataset_new(cli, name, err);
	if (!dataset)
		return NULL;
	/* in errors of this function the parser names it */
	dataset->where = cli_keep(cli, strdup(where));
	return &dataset->options;
}

static int is_conf(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && ends_with(entry->d_name, ".conf");
}

/* datasets.d beside the file; no such directory is fine. */
static int read_directory(struct cli *cli, const char *file, struct err *err)
{
	const char *slash = strrchr(file, '/');
	_cleanup_free_ char *directory = NULL;
	struct dirent **names;
	int r = 0;

	if (asprintf(&directory, "%.*s" DATASETS_DIRECTORY,
		     slash ? (int)(slash - file + 1) : 0, file) < 0)
		return err_set(err, ENOMEM, "out of memory");
	int count = scandir(directory, &names, is_conf, alphasort);
	if (count < 0)
		return errno == ENOENT ?
			       0 :
			       err_set(err, errno, "cannot read '%s': %s",
				       directory, strerror(errno));
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;

		if (r == 0)
			r = asprintf(&path, "%s/%s", directory,
				     names[i]->d_name) < 0 ?
				    err_set(err, ENOMEM, "out of memory") :
				    config_read(path, &cli->options, on_section,
						cli, err);
		free(names[i]);
	}
	free(names);
	return r;
}

int cli_read_config(struct cli *cli, const char *path, struct err *err)
{
	int r;

	path = path ?: CLI_CONFIG;
	r = config_read(path, &cli->options, on_section, cli, err);

	/* only a file that was asked for must be there */
	if (r == -ENOENT && !cli->settings.config) {
		if (err)
			err->text[0] = '\0';
		r = 0;
	}
	return r < 0 ? r : read_directory(cli, path, err);
}
