/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_DATA_H
#define LARDER_TESTS_DATA_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

/* Golden and must-refuse files; `make check` sets srcdir. */

static inline void data_path(const char *name, char *ret_path, size_t size)
{
	const char *srcdir = getenv("srcdir");

	snprintf(ret_path, size, "%s/tests/data/%s", srcdir ? srcdir : ".",
		 name);
}

/* Heap memory of exactly the file's size, so that ASan sees every overrun. */
static inline void *data_read_path(const char *path, size_t *ret_len)
{
	struct buf buf;
	void *data;

	buf_init(&buf, 1 << 20);
	if (file_read(AT_FDCWD, path, &buf) < 0) {
		fprintf(stderr, "cannot read '%s'\n", path);
		abort();
	}
	data = malloc(buf.len ? buf.len : 1);
	if (!data)
		abort();
	if (buf.len)
		memcpy(data, buf.data, buf.len);
	*ret_len = buf.len;
	buf_release(&buf);
	return data;
}

static inline void *data_read(const char *name, size_t *ret_len)
{
	char path[1024];

	data_path(name, path, sizeof(path));
	return data_read_path(path, ret_len);
}

/* Calls each() for every file that matches; the count. */
static inline size_t data_each(const char *pattern,
			       void (*each)(const char *path, const void *data,
					    size_t len))
{
	char path[1024];
	glob_t found;
	size_t count;

	data_path(pattern, path, sizeof(path));
	if (glob(path, 0, NULL, &found) != 0)
		return 0;
	count = found.gl_pathc;
	for (size_t i = 0; i < count; i++) {
		size_t len;
		void *data = data_read_path(found.gl_pathv[i], &len);

		each(found.gl_pathv[i], data, len);
		free(data);
	}
	globfree(&found);
	return count;
}

/* What a parser said of a file that must be refused. */
static inline void assert_refused(const char *path, int r,
				  const struct err *err)
{
	if (r != -EBADMSG && r != -EPROTONOSUPPORT)
		fail_msg("%s: %d", path, r);
	if (err->text[0] == '\0')
		fail_msg("%s: refused without a word", path);
}

#endif
