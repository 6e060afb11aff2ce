/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file, read with inih under guard. Debian's build of
 * inih cuts lines at 199 bytes and section names at 49 and reports neither,
 * takes an indented line for more of the value above it, and goes on after
 * a broken section header with the old section. So it is given one checked
 * line at a time, headers are kept here, and the first fault ends the file.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <ini.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/options.h"

/* Far more than thousands of datasets need. */
#define CONFIG_MAX_BYTES (4 << 20)
/* inih's buffer; the line, its newline and a NUL must fit. */
#define LINE_BYTES 200

struct config {
	const char *next; /* what is not read yet */
	const char *end;
	const char *path;
	unsigned int line;
	char where[PATH_MAX + 32]; /* FILE:LINE */
	struct options *global;
	struct options *current; /* of the section */
	config_section_fn *section;
	void *context;
	struct err *err;
	int r;
};

static int fail(struct config *config, const char *reason)
{
	if (config->r == 0)
		config->r = err_set(config->err, EINVAL, "%s: %s",
				    config->where, reason);
	return config->r;
}

static void skip_blanks(const char **text)
{
	while (**text == ' ' || **text == '\t')
		(*text)++;
}

/* "[name]", then nothing but a comment. */
static int begin_section(struct config *config, char *line)
{
	char *end = strchr(line, ']');
	const char *rest = end ? end + 1 : NULL;

	if (!end || end == line + 1)
		return fail(config, "bad section header, want '[NAME]'");
	skip_blanks(&rest);
	if (*rest && *rest != ';' && *rest != '#')
		return fail(config, "text after a section header");
	*end = '\0';
	if (!strcmp(line + 1, "larder")) {
		config->current = config->global;
	} else if (!config->section) {
		return fail(config, "only the section [larder] is allowed");
	} else {
		struct err err = { 0 };

		config->current = config->section(config->context, line + 1,
						  config->where, &err);
		if (!config->current)
			return fail(config, err_text(&err, -EINVAL));
	}
	*end = ']';
	return 0;
}

/* The next line without indentation in ret, or NULL with r set. */
static int next_line(struct config *config, char *ret, size_t size)
{
	size_t left = (size_t)(config->end - config->next);
	const char *newline = memchr(config->next, '\n', left);
	size_t len = newline ? (size_t)(newline - config->next) : left;
	const char *text = config->next;

	snprintf(config->where, sizeof(config->where), "%s:%u", config->path,
		 ++config->line);
	config->next = newline ? newline + 1 : config->end;
	if (memchr(text, '\0', len))
		return fail(config, "the line has a NUL byte");
	if (len && text[len - 1] == '\r')
		len--;
	while (len && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	if (len + 2 > size)
		return fail(config, "the line is longer than 198 bytes");
	memcpy(ret, text, len);
	ret[len] = '\n';
	ret[len + 1] = '\0';
	return 0;
}

/* inih's reader: fgets() with the guard. */
static char *read_line(char *line, int size, void *stream)
{
	struct config *config = stream;

	if (config->r < 0 || config->next == config->end)
		return NULL;
	if (size > LINE_BYTES)
		size = LINE_BYTES;
	if (next_line(config, line, (size_t)size) < 0)
		return NULL;
	if (line[0] == '[') {
		line[strlen(line) - 1] = '\0';
		if (begin_section(config, line) < 0)
			return NULL;
		/* inih is not told: it would cut the name. */
		line[0] = '\0';
	}
	return line;
}

static int set_key(void *user, const char *section, const char *name,
		   const char *value)
{
	struct config *config = user;

	(void)section;
	if (config->r < 0)
		return 0;
	if (!value)
		value = "";
	config->r = options_set(config->current, OPTION_FILE, config->where,
				name, value, config->err);
	if (config->r < 0 && config->current != config->global &&
	    !options_has(config->current, OPTION_FILE, name) &&
	    options_has(config->global, OPTION_FILE, name))
		err_set(config->err, EINVAL,
			"%s: '%s' is for all: it stands before the first "
			"section, or in [larder]",
			config->where, name);
	return config->r == 0;
}

int config_parse(const void *data, size_t len, const char *path,
		 struct options *global, config_section_fn *section,
		 void *context, struct err *err)
{
	struct config config = {
		.next = data,
		.end = (const char *)data + len,
		.path = path,
		.global = global,
		.current = global,
		.section = section,
		.context = context,
		.err = err,
	};
	int line;

	/* A byte order mark hides the first line's indentation. */
	if (len >= 3 && !memcmp(data, "\xef\xbb\xbf", 3))
		config.next += 3;
	if (len == 0)
		return 0;
	line = ini_parse_stream(read_line, &config, set_key, &config);
	if (config.r < 0)
		return config.r;
	if (line != 0)
		return err_set(err, EINVAL, "%s:%d: want 'KEY = VALUE'", path,
			       line);
	return 0;
}

int config_read(const char *path, struct options *global,
		config_section_fn *section, void *context, struct err *err)
{
	struct buf buf;
	int r;

	buf_init(&buf, CONFIG_MAX_BYTES);
	r = file_read(AT_FDCWD, path, &buf);
	if (r == -EINVAL)
		err_set(err, EINVAL, "cannot read '%s': not a regular file",
			path);
	else if (r < 0)
		err_set(err, -r, "cannot read '%s': %s", path,
			err_text(NULL, r));
	else
		r = config_parse(buf.data, buf.len, path, global, section,
				 context, err);
	buf_release(&buf);
	return r;
}
