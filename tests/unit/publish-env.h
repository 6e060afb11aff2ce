/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_PUBLISH_ENV_H
#define LARDER_TESTS_PUBLISH_ENV_H

/* A directory of its own for each test of publish/; include after cmocka.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

#include "scratch.h"

struct publish_env {
	char dir[64];
	char tree[80], mirror[80];
	int tree_fd;
};

static int publish_env_setup(void **state)
{
	struct publish_env *env = calloc(1, sizeof(*env));

	scratch_directory_at(env->dir, sizeof(env->dir));
	snprintf(env->tree, sizeof(env->tree), "%s/tree", env->dir);
	snprintf(env->mirror, sizeof(env->mirror), "%s/mirror", env->dir);
	assert_int_equal(mkdir(env->tree, 0755), 0);
	env->tree_fd = open(env->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(env->tree_fd >= 0);
	*state = env;
	return 0;
}

static int publish_env_teardown(void **state)
{
	struct publish_env *env = *state;

	close(env->tree_fd);
	assert_int_equal(remove_tree(AT_FDCWD, env->dir), 0);
	free(env);
	return 0;
}

static inline void put_file(const struct publish_env *env, const char *path,
			    const void *data, size_t len)
{
	assert_int_equal(file_write(env->tree_fd, path, data, len, 0644,
				    FILE_WRITE_MKDIR),
			 0);
}

/* len bytes that do not compress, the same for the same seed. */
static inline void put_random(const struct publish_env *env, const char *path,
			      size_t len, uint64_t seed)
{
	uint64_t *data = calloc(len / 8 + 1, 8);

	for (size_t i = 0; i <= len / 8; i++) {
		uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		data[i] = z ^ z >> 31;
	}
	put_file(env, path, data, len);
	free(data);
}

#endif
