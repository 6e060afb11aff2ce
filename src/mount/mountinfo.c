/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's list of mounts. Only this text is read to find our mounts:
 * it never touches a filesystem, so it cannot hang on a dead one.
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
#include "base/text.h"
#include "mount/internal.h"

/* A node with 10,000 containers has about 4 MiB of it. */
#define MOUNTINFO_LIMIT_BYTES (64u << 20)

static char *next_field(char **line)
{
	char *field = *line, *end = strchr(field, ' ');

	if (end) {
		*end = '\0';
		*line = end + 1;
	} else {
		*line = field + strlen(field);
	}
	return field;
}

/* Of a FUSE mount's "rw,user_id=0,...". */
static uid_t user_id(char *options)
{
	uint64_t id;
	char *value = strstr(options, "user_id=");

	if (!value)
		return (uid_t)-1;
	value += strlen("user_id=");
	value[strcspn(value, ",")] = '\0';
	return parse_u64(value, &id) < 0 || id > UINT32_MAX ? (uid_t)-1 :
							      (uid_t)id;
}

/* "36 35 98:0 /root /point rw,opts shared:1 - type source super": the
 * optional fields before "-" are any number. */
static bool line_parse(char *line, struct mount_entry *ret)
{
	char *field;

	next_field(&line); /* id */
	next_field(&line); /* parent */
	field = next_field(&line);
	if (sscanf(field, "%u:%u", &ret->major_number, &ret->minor_number) != 2)
		return false;
	next_field(&line); /* root */
	ret->mountpoint = next_field(&line);
	while (*line && strcmp(next_field(&line), "-"))
		;
	if (!*line)
		return false;
	ret->type = next_field(&line);
	ret->source = next_field(&line);
	ret->user_id = user_id(next_field(&line));
	mountinfo_unescape(ret->mountpoint);
	mountinfo_unescape(ret->source);
	return ret->mountpoint[0] == '/';
}

bool mountinfo_next(char **cursor, struct mount_entry *ret)
{
	while (**cursor) {
		char *line = *cursor, *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		*cursor = end ? end + 1 : line + strlen(line);
		if (line_parse(line, ret))
			return true;
	}
	return false;
}

int mountinfo_read(char **ret_text, struct err *err)
{
	struct buf buf;
	int r;

	buf_init(&buf, MOUNTINFO_LIMIT_BYTES);
	_cleanup_close_ int fd =
		open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno,
			       "cannot open '/proc/self/mountinfo': %s",
			       strerror(errno));
	for (;;) {
		r = buf_reserve(&buf, buf.len + 65536);
		if (r < 0)
			break;
		ssize_t n = read_full(fd, buf.data + buf.len, 65536);
		if (n <= 0) {
			r = (int)n;
			break;
		}
		buf.len += (size_t)n;
	}
	if (r == 0)
		r = buf_append(&buf, "", 1);
	if (r < 0) {
		buf_release(&buf);
		return err_set(err, -r,
			       "cannot read '/proc/self/mountinfo': %s",
			       strerror(-r));
	}
	*ret_text = (char *)buf_steal(&buf, NULL);
	return 0;
}

bool mount_entry_is_ours(const struct mount_entry *entry)
{
	return strcmp(entry->type, "fuse.larder") == 0;
}

int mount_list(void (*each)(void *arg, const struct mount_entry *entry),
	       void *arg, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	struct mount_entry entry;
	int r = mountinfo_read(&text, err);

	if (r < 0)
		return r;
	for (char *cursor = text; mountinfo_next(&cursor, &entry);) {
		if (mount_entry_is_ours(&entry))
			each(arg, &entry);
	}
	return 0;
}

int mountinfo_find(const char *mountpoint, bool *ret_ours, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	struct mount_entry entry;
	int found = 0, r = mountinfo_read(&text, err);

	if (r < 0)
		return r;
	/* the last one at a path is the one that is seen */
	for (char *cursor = text; mountinfo_next(&cursor, &entry);) {
		if (strcmp(entry.mountpoint, mountpoint) == 0) {
			found = 1;
			*ret_ours = mount_entry_is_ours(&entry);
		}
	}
	return found;
}

uid_t mountinfo_owner(const char *mountpoint)
{
	_cleanup_free_ char *text = NULL;
	struct mount_entry entry;
	uid_t owner = (uid_t)-1;

	if (mountinfo_read(&text, NULL) < 0)
		return owner;
	for (char *cursor = text; mountinfo_next(&cursor, &entry);) {
		if (strcmp(entry.mountpoint, mountpoint) == 0)
			owner = entry.user_id;
	}
	return owner;
}

char *mountinfo_below(const char *mountpoint)
{
	_cleanup_free_ char *text = NULL;
	size_t len = strlen(mountpoint);
	struct mount_entry entry;

	if (mountinfo_read(&text, NULL) < 0)
		return NULL;
	for (char *cursor = text; mountinfo_next(&cursor, &entry);) {
		if (strncmp(entry.mountpoint, mountpoint, len) == 0 &&
		    entry.mountpoint[len] == '/')
			return strdup(entry.mountpoint);
	}
	return NULL;
}
