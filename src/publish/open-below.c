/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths below a directory: opening them without following a symlink. A tree may
 * be changed by its users while it is published: a directory replaced by a
 * symlink must not make us read /etc. openat2 says so in one call; where
 * it does not exist or is forbidden, each part is opened by itself.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "publish/walk.h"

static int open_step(int dir_fd, const char *name, int flags)
{
	int fd;

	if (strcmp(name, "..") == 0)
		return -EXDEV;
	fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static int open_stepwise(int dir_fd, const char *path, int flags)
{
	_cleanup_close_ int held = -1;
	char name[NAME_MAX + 1];
	size_t len;

	while (path[len = strcspn(path, "/")] == '/') {
		int fd;

		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		path += len + 1;
		if (len == 0)
			return -EXDEV;
		fd = open_step(dir_fd, name, O_PATH | O_DIRECTORY);
		if (fd < 0)
			return fd;
		if (held >= 0)
			close(held);
		held = dir_fd = fd;
	}
	return open_step(dir_fd, path, flags);
}

static int open_part(int dir_fd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH |
			   RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_stepwise(dir_fd, path, flags);
	return fd < 0 ? -errno : (int)fd;
}

/* The longest prefix below PATH_MAX that ends before a slash. */
static size_t prefix_length(const char *path)
{
	size_t len = PATH_MAX - 1;

	while (len > 0 && path[len] != '/')
		len--;
	return len;
}

int open_below(int root_fd, const char *path, int flags)
{
	_cleanup_close_ int held = -1;
	int dir_fd = root_fd;

	while (strlen(path) >= PATH_MAX) {
		char prefix[PATH_MAX];
		size_t len = prefix_length(path);
		int fd;

		if (len == 0)
			return -ENAMETOOLONG;
		memcpy(prefix, path, len);
		prefix[len] = '\0';
		fd = open_part(dir_fd, prefix, O_PATH | O_DIRECTORY);
		if (fd < 0)
			return fd;
		if (held >= 0)
			close(held);
		held = dir_fd = fd;
		path += len + 1;
	}
	return open_part(dir_fd, *path ? path : ".", flags);
}

const char *path_tail(const char *path)
{
	const size_t enough = 150;
	size_t len = strlen(path);
	const char *slash;

	if (len <= enough)
		return path;
	path += len - enough;
	slash = strchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}
