/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a pin: written as text that people can read, and read line by
 * line, since one may name millions of blobs.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/files.h"
#include "cache/pin-file.h"

/* Paths may hold any byte: control bytes and backslashes as \xNN. */
int pin_file_put_text(struct buf *buf, const char *key, const char *value)
{
	int r = buf_printf(buf, "%s ", key);

	for (; *value && r == 0; value++) {
		unsigned char c = (unsigned char)*value;

		if (c < 0x20 || c == 0x7f || c == '\\')
			r = buf_printf(buf, "\\x%02x", c);
		else
			r = buf_append(buf, value, 1);
	}
	return r == 0 ? buf_append(buf, "\n", 1) : r;
}

static int put_digests(struct buf *buf, const char *key,
		       const struct digest *digests, size_t count)
{
	char text[DIGEST_TEXT_MAX];
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = buf_printf(buf, "%s %s\n", key,
			       digest_text(&digests[i], text));
	return r;
}

int pin_file_encode(struct buf *buf, const struct cache_pin *pin)
{
	char text[DIGEST_TEXT_MAX], made[FORMAT_MAX];
	int r = buf_printf(buf, PIN_FIRST_LINE "\n");

	if (r == 0)
		r = pin_file_put_text(buf, "source", pin->source);
	if (r == 0)
		r = pin_file_put_text(buf, "path", pin->path);
	for (size_t i = 0; i < pin->glob_count && r == 0; i++)
		r = pin_file_put_text(buf, "glob", pin->globs[i]);
	if (r == 0)
		r = buf_printf(buf, "snapshot %s\nmade %s\nbytes %" PRIu64 "\n",
			       digest_text(&pin->snapshot, text),
			       format_time(pin->made_s, made), pin->bytes);
	if (r == 0)
		r = put_digests(buf, "object", pin->objects, pin->object_count);
	if (r == 0)
		r = put_digests(buf, "blob", pin->blobs, pin->blob_count);
	return r;
}

void pin_file_unescape(char *text)
{
	char *to = text;

	while (*text) {
		uint8_t byte;
		char hex[3];

		if (text[0] == '\\' && text[1] == 'x' && text[2] && text[3]) {
			memcpy(hex, text + 2, 2);
			hex[2] = '\0';
			if (hex_decode(hex, &byte, 1) == 0 && byte) {
				*to++ = (char)byte;
				text += 4;
				continue;
			}
		}
		*to++ = *text++;
	}
	*to = '\0';
}

int pin_file_read(int dirfd, const char *name, pin_line_fn *each, void *arg)
{
	int fd = open_regular(dirfd, name, O_RDONLY, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0, total = 0;
	ssize_t n;
	int r = 0;

	if (!file)
		return fd < 0 ? fd : -errno;
	while ((n = getline(&line, &size, file)) > 0) {
		char *value;

		total += (size_t)n;
		if (total > PIN_BYTES_MAX) {
			r = -EFBIG;
			break;
		}
		line[strcspn(line, "\n")] = '\0';
		value = strchr(line, ' ');
		if (!value)
			continue;
		*value++ = '\0';
		each(arg, line, value);
	}
	if (ferror(file))
		r = -EIO;
	fclose(file);
	return r;
}

static bool is_pin_name(const char *name)
{
	uint8_t bytes[DIGEST_BYTES];

	return strlen(name) == 2 * DIGEST_BYTES &&
	       hex_decode(name, bytes, DIGEST_BYTES) == 0;
}

int pin_file_each(int dirfd,
		  int (*each)(void *arg, int dirfd, const char *name),
		  void *arg)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int r = directory_open(dirfd, ".", 0, &dir);

	if (r < 0)
		return r;
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (is_pin_name(entry->d_name))
			r = each(arg, dirfd, entry->d_name);
	return r < 0 ? r : -errno;
}
