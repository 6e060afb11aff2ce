/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_SCRATCH_H
#define LARDER_TESTS_SCRATCH_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* A new directory below TMPDIR, which tests/run-test makes and removes, also
 * when the program aborts. malloc */
static inline char *scratch_directory(void)
{
	const char *parent = getenv("TMPDIR");
	char *dir = NULL;

	assert(asprintf(&dir, "%s/larder-test-XXXXXX", parent ?: "/tmp") > 0);
	assert(mkdtemp(dir));
	return dir;
}

/* The same in an array. */
static inline void scratch_directory_at(char *ret, size_t size)
{
	_cleanup_free_ char *dir = scratch_directory();

	assert((size_t)snprintf(ret, size, "%s", dir) < size);
}

#endif
