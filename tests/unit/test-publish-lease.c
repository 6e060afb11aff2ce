/* SPDX-License-Identifier: Apache-2.0 */
/* The lease: one writer; a dead or silent one is replaced, and notices. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>

#include <cmocka.h>

#include "base/err.h"
#include "publish/lease.h"
#include "publish/mirror-store.h"

#include "publish-env.h"

static struct mirror *open_mirror(void **state)
{
	const struct publish_env *env = *state;
	struct mirror *mirror;

	assert_int_equal(
		mirror_open(env->mirror, NULL, MIRROR_OPEN_CREATE, &mirror, NULL), 0);
	return mirror;
}

/* The file's mtime so many seconds ago. */
static void age_lease(const struct mirror *mirror, int seconds)
{
	struct timespec times[2] = {{.tv_sec = wall_seconds() - seconds},
				    {.tv_sec = wall_seconds() - seconds}};

	assert_int_equal(utimensat(mirror->fd, "lease", times, 0), 0);
}

static void test_one_at_a_time(void **state)
{
	struct mirror *mirror = open_mirror(state);
	struct lease *lease, *other;
	struct err err;

	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), 0);
	assert_int_equal(lease_take(mirror, "gc", &other, &err), -EBUSY);
	assert_non_null(strstr(err.text, "in use: larder publish on host"));
	assert_int_equal(lease_renew(lease, NULL), 0);
	lease_release(lease);
	assert_int_equal(lease_take(mirror, "gc", &other, NULL), 0);
	lease_release(other);
	assert_int_equal(faccessat(mirror->fd, "lease", F_OK, 0), -1);
	mirror_close(mirror);
}

static void test_a_silent_holder_is_replaced(void **state)
{
	struct mirror *mirror = open_mirror(state);
	struct lease *lease, *other;
	struct err err;

	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), 0);
	age_lease(mirror, LEASE_STALE_S - 10);
	assert_int_equal(lease_take(mirror, "gc", &other, NULL), -EBUSY);
	age_lease(mirror, LEASE_STALE_S + 10);
	assert_int_equal(lease_take(mirror, "gc", &other, NULL), 0);
	assert_int_equal(lease_renew(lease, &err), -ESTALE);
	assert_non_null(strstr(err.text, "took it over"));
	lease_release(lease); /* must not remove the other's */
	assert_int_equal(lease_renew(other, NULL), 0);
	lease_release(other);
	mirror_close(mirror);
}

static void test_renewing_keeps_it(void **state)
{
	struct mirror *mirror = open_mirror(state);
	struct lease *lease, *other;

	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), 0);
	age_lease(mirror, LEASE_STALE_S + 10);
	assert_int_equal(lease_renew(lease, NULL), 0);
	assert_int_equal(lease_take(mirror, "gc", &other, NULL), -EBUSY);
	lease_release(lease);
	mirror_close(mirror);
}

static void test_a_dead_holder_is_replaced_at_once(void **state)
{
	struct mirror *mirror = open_mirror(state);
	struct lease *lease;
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0)
		_exit(lease_take(mirror, "publish", &lease, NULL) == 0 ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(faccessat(mirror->fd, "lease", F_OK, 0), 0);
	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), 0);
	lease_release(lease);
	mirror_close(mirror);
}

/* Of another host nothing is known but the time. */
static void test_another_host(void **state)
{
	static const char text[] =
		"larder lease 1\nhost: elsewhere\nboot: x\npid-namespace: y\n"
		"pid: 1\nstart: 1\ncommand: publish\nsince: then\n";
	struct mirror *mirror = open_mirror(state);
	struct lease *lease;
	struct err err;

	assert_int_equal(
		file_write(mirror->fd, "lease", text, strlen(text), 0644, 0),
		0);
	assert_int_equal(lease_take(mirror, "publish", &lease, &err), -EBUSY);
	assert_non_null(strstr(err.text, "on host 'elsewhere', process 1"));
	age_lease(mirror, LEASE_STALE_S + 10);
	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), 0);
	lease_release(lease);
	mirror_close(mirror);
}

static void test_garbage(void **state)
{
	struct mirror *mirror = open_mirror(state);
	struct lease *lease;

	assert_int_equal(file_write(mirror->fd, "lease", "\0\xff:", 3, 0644, 0),
			 0);
	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), -EBUSY);
	age_lease(mirror, LEASE_STALE_S + 10);
	assert_int_equal(lease_take(mirror, "publish", &lease, NULL), 0);
	lease_release(lease);
	mirror_close(mirror);
}

#define TEST(function)                                                         \
	cmocka_unit_test_setup_teardown(function, publish_env_setup,           \
					publish_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_at_a_time),
		TEST(test_a_silent_holder_is_replaced),
		TEST(test_renewing_keeps_it),
		TEST(test_a_dead_holder_is_replaced_at_once),
		TEST(test_another_host),
		TEST(test_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
