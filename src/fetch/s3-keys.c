/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of S3: from the environment, or from a file in AWS's format.
 *
 * A file is looked at again before requests, since session tokens live for
 * hours and mounts for months; while a new one is half written, the keys
 * before stay in use. Other keys of the file, such as programs to call, are
 * not followed: they are passed over.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "fetch"
#include "base/log.h"
#include "fetch/s3.h"

#define FILE_BYTES_MAX (256u << 10)
#define LOOK_EVERY_MS 1000
#define PROFILE_DEFAULT "default"

static char *trim(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	len = strlen(text);
	while (len > 0 && strchr(" \t\r", text[len - 1]))
		text[--len] = '\0';
	return text;
}

/* They go into header lines. */
static int copy_key(const char *name, const char *value, char *to, size_t size,
		    struct err *err)
{
	if (strlen(value) >= size)
		return err_set(err, EACCES, "'%s' is too long for a key", name);
	for (const char *c = value; *c; c++)
		if (*c <= 0x20 || *c >= 0x7f)
			return err_set(err, EACCES,
				       "'%s' holds what no key has", name);
	snprintf(to, size, "%s", value);
	return 0;
}

static int take_line(char *line, struct s3_keys *keys, struct err *err)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} fields[] = {
		{"aws_access_key_id", keys->id, sizeof(keys->id)},
		{"aws_secret_access_key", keys->secret, sizeof(keys->secret)},
		{"aws_session_token", keys->token, sizeof(keys->token)},
	};
	char *value = strchr(line, '=');
	char *name;

	if (!value)
		return 0;
	*value++ = '\0';
	name = trim(line);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(name, fields[i].name))
			return copy_key(name, trim(value), fields[i].to,
					fields[i].size, err);
	return 0;
}

int s3_keys_parse(char *text, const char *profile, struct s3_keys *ret,
		  struct err *err)
{
	_cleanup_free_ struct s3_keys *keys = calloc(1, sizeof(*keys));
	bool is_ours = false, is_found = false;
	int r = keys ? 0 : -ENOMEM;

	for (char *next; r == 0 && *text; text = next) {
		char *line;

		next = text + strcspn(text, "\n");
		if (*next)
			*next++ = '\0';
		line = trim(text);
		if (line[0] == '[') {
			line[strcspn(line, "]")] = '\0';
			is_ours = !strcmp(trim(line + 1), profile);
			is_found |= is_ours;
		} else if (is_ours && line[0] != '#' && line[0] != ';') {
			r = take_line(line, keys, err);
		}
	}
	if (r == 0 && !is_found)
		r = err_set(err, ENOENT, "has no profile [%s]", profile);
	else if (r == 0 && (!keys->id[0] || !keys->secret[0]))
		r = err_set(
			err, EACCES,
			"has no aws_access_key_id and aws_secret_access_key in [%s]",
			profile);
	if (r == 0)
		*ret = *keys;
	if (keys)
		explicit_bzero(keys, sizeof(*keys));
	return r;
}

static int read_file(struct s3 *s3, struct err *err)
{
	const struct s3_source *source = &s3->source;
	struct buf text;
	int r;

	buf_init(&text, FILE_BYTES_MAX);
	r = file_read(AT_FDCWD, source->file, &text);
	if (r == 0)
		r = buf_append(&text, "", 1);
	if (r == 0)
		r = s3_keys_parse((char *)text.data, source->profile, &s3->keys,
				  err);
	else
		err_set(err, -r, "%s", strerror(-r));
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_release(&text);
	if (r < 0) {
		err_prefix(err, r, "credentials '%s'", source->file);
		return -EACCES;
	}
	return 0;
}

static bool is_unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int look(struct s3 *s3, struct err *err)
{
	struct s3_source *source = &s3->source;
	struct stat now;
	int r;

	if (stat(source->file, &now) < 0) {
		if (source->is_optional && errno == ENOENT) {
			explicit_bzero(&s3->keys, sizeof(s3->keys));
			return 0;
		}
		err_set(err, EACCES, "credentials '%s': %s", source->file,
			strerror(errno));
		r = -EACCES;
	} else if (is_unchanged(&now, &source->seen)) {
		return source->result;
	} else {
		source->seen = now;
		r = read_file(s3, err);
	}
	if (r < 0 && s3->keys.id[0]) {
		log_warning("keeping the keys as they were: %s",
			    err_text(err, r));
		r = 0;
	}
	return r;
}

int s3_keys_refresh(struct s3 *s3, uint64_t now_ms, struct err *err)
{
	struct s3_source *source = &s3->source;

	if (!source->file)
		return 0;
	if (!source->looked_ms || now_ms - source->looked_ms >= LOOK_EVERY_MS) {
		source->looked_ms = now_ms;
		source->result = look(s3, &source->err);
	}
	if (source->result < 0)
		*err = source->err;
	return source->result;
}

/* ---- where to look */

static int take_environment(struct s3_keys *keys, struct err *err)
{
	const char *id = getenv("AWS_ACCESS_KEY_ID");
	const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
	const char *token = getenv("AWS_SESSION_TOKEN");
	int r;

	if (!id || !id[0] || !secret || !secret[0])
		return -ENOENT;
	r = copy_key("AWS_ACCESS_KEY_ID", id, keys->id, sizeof(keys->id), err);
	if (r == 0)
		r = copy_key("AWS_SECRET_ACCESS_KEY", secret, keys->secret,
			     sizeof(keys->secret), err);
	if (r == 0 && token)
		r = copy_key("AWS_SESSION_TOKEN", token, keys->token,
			     sizeof(keys->token), err);
	return r;
}

static int set_file(struct s3_source *source, const char *file,
		    const char *profile, struct err *err)
{
	const char *home = getenv("HOME");

	if (!profile || !profile[0])
		profile = getenv("AWS_PROFILE");
	if (!profile || !profile[0])
		profile = PROFILE_DEFAULT;
	source->profile = strdup(profile);
	if (file)
		source->file = strdup(file);
	else if (home && home[0] == '/' &&
		 asprintf(&source->file, "%s/.aws/credentials", home) < 0)
		source->file = NULL;
	else if (!source->file)
		return source->profile ? 0 : -ENOMEM;
	if (!source->file || !source->profile)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

int s3_keys_open(struct s3 *s3, const struct origin_options *options,
		 struct err *err)
{
	const char *file = options->s3_credentials;
	const char *profile = options->s3_profile;
	int r;

	if (file && !strcmp(file, "none"))
		return 0;
	if ((!file || !file[0]) && (!profile || !profile[0])) {
		r = take_environment(&s3->keys, err);
		if (r != -ENOENT)
			return r;
	}
	if (!file || !file[0])
		file = getenv("AWS_SHARED_CREDENTIALS_FILE");
	if (file && !file[0])
		file = NULL;
	s3->source.is_optional = !file && (!profile || !profile[0]);
	r = set_file(&s3->source, file, profile, err);
	return r < 0 ? r : s3_keys_refresh(s3, now_ms(), err);
}
