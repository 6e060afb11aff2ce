/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over its corpus without a fuzzer, for `make check`.
 * Without arguments the corpus is found by the program's name: fuzz-NAME
 * reads tests/fuzz/corpus/NAME, and tests/data, where every golden and every
 * must-refuse file is one more input. Each input lies in memory of exactly
 * its size, so that a sanitizer sees the first byte read too far.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"

/* A larger corpus file is a mistake. */
#define INPUT_MAX (16 << 20)
#define PATH_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned int inputs;

static void run(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact)
		abort();
	if (size)
		memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	inputs++;
}

static int replay_file(int dirfd, const char *path)
{
	struct buf buf;
	int r;

	buf_init(&buf, INPUT_MAX);
	r = file_read(dirfd, path, &buf);
	if (r == 0)
		run(buf.data, buf.len);
	else
		fprintf(stderr, "cannot read '%s': %s\n", path, strerror(-r));
	buf_release(&buf);
	return r;
}

/* Every file below path; a missing directory is an error. */
static int replay(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	struct dirent *entry;
	int r = 0;

	if (!dir && errno == ENOTDIR)
		return replay_file(AT_FDCWD, path);
	if (!dir) {
		r = -errno;
		fprintf(stderr, "cannot open '%s': %s\n", path, strerror(-r));
		return r;
	}
	while (r == 0 && (entry = readdir(dir))) {
		char child[PATH_BYTES];

		if (entry->d_name[0] == '.')
			continue;
		if (snprintf(child, sizeof(child), "%s/%s", path,
			     entry->d_name) >= (int)sizeof(child))
			return -ENAMETOOLONG;
		r = replay(child);
	}
	return r;
}

static int replay_corpus(const char *program)
{
	const char *srcdir = getenv("top_srcdir");
	const char *name = strrchr(program, '/');
	char path[PATH_BYTES];
	int r;

	name = name ? name + 1 : program;
	if (starts_with(name, "fuzz-"))
		name += 5;
	srcdir = srcdir ? srcdir : ".";
	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s", srcdir, name);
	r = replay(path);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/tests/data", srcdir);
	return replay(path);
}

int main(int argc, char **argv)
{
	int r = 0;

	run((const uint8_t *)"", 0);
	if (argc < 2)
		r = replay_corpus(argv[0]);
	for (int i = 1; i < argc && r == 0; i++)
		r = replay(argv[i]);
	printf("%u inputs\n", inputs);
	return r < 0;
}
