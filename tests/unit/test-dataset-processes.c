/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share a cache directory: nothing is fetched twice, also
 * when one of them is killed, or stopped in the middle. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/io.h"
#include "origin-server.h"
#include "small-mirror.h"

static struct small_mirror *mirror;
static struct origin_server server;
static bool has_server;
static char url[128];

/* Reads everything; tells what it fetched through fd. */
static void read_all(const char *cache_dir, const char *from, int fd)
{
	const char *mirrors[] = {from};
	struct node *node = small_node(cache_dir, 30000);
	struct dataset *dataset = small_dataset(node, mirror, mirrors, 1);
	struct snapshot *snapshot = small_snapshot(dataset);
	struct node_stats stats;

	small_check_all(snapshot, mirror);
	snapshot_unref(snapshot);
	node_stats(node, &stats);
	node_close(node);
	assert(write_full(fd, &stats, sizeof(stats)) == 0);
}

static pid_t start_reader(const char *cache_dir, const char *from, int *ret_fd)
{
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		read_all(cache_dir, from, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

static struct node_stats end_reader(pid_t pid, int fd)
{
	struct node_stats stats;
	int status;

	assert_int_equal(read_full(fd, &stats, sizeof(stats)), sizeof(stats));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
	return stats;
}

static void nothing_is_fetched_twice(void **state)
{
	char *dir = scratch_directory();
	uint64_t fetched = 0, overtaken = 0;
	pid_t pids[4];
	int fds[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		pids[i] = start_reader(dir, mirror->dir, &fds[i]);
	for (int i = 0; i < 4; i++) {
		struct node_stats stats = end_reader(pids[i], fds[i]);

		fetched += stats.fetched_plain_bytes;
		overtaken += stats.flights_overtaken;
	}
	assert_int_equal(overtaken, 0);
	assert_int_equal(fetched, mirror->chunk_bytes);
	small_directory_remove(dir);
}

/* It hangs in its first packs, with its claims. */
static pid_t start_hanging(const char *dir, int *ret_fd)
{
	pid_t pid;

	origin_server_control(&server, "add=silent&path=*packs*&times=4");
	pid = start_reader(dir, url, ret_fd);
	usleep(1000000);
	return pid;
}

static void end_hanging(char *dir, pid_t pid, int fd)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	origin_server_control(&server, "clear");
	small_directory_remove(dir);
}

static void a_killed_reader_is_taken_over(void **state)
{
	char *dir = scratch_directory();
	pid_t killed, other;
	uint64_t start;
	int fds[2];

	(void)state;
	if (!has_server) {
		small_directory_remove(dir);
		skip();
	}
	killed = start_hanging(dir, &fds[0]);
	other = start_reader(dir, mirror->dir, &fds[1]);
	usleep(500000);
	start = now_ms();
	kill(killed, SIGKILL);
	end_reader(other, fds[1]);
	assert_true(now_ms() - start < 20000);
	end_hanging(dir, killed, fds[0]);
}

static void a_silent_one_is_overtaken(void **state)
{
	char *dir = scratch_directory();
	struct node_stats stats;
	pid_t stopped, other;
	uint64_t start;
	int fds[2];

	(void)state;
	if (!has_server) {
		small_directory_remove(dir);
		skip();
	}
	stopped = start_hanging(dir, &fds[0]);
	kill(stopped, SIGSTOP);
	start = now_ms();
	other = start_reader(dir, mirror->dir, &fds[1]);
	stats = end_reader(other, fds[1]);
	assert_true(stats.flights_overtaken > 0);
	assert_true(now_ms() - start < 40000);
	end_hanging(dir, stopped, fds[0]);
}

static int setup(void **state)
{
	char served[200];

	(void)state;
	mirror = small_mirror_new(40, 1, SMALL_PLAIN, NULL);
	has_server = origin_server_start(&server);
	if (!has_server)
		return 0;
	/* The mirror stays where it is; the server sees it by a link. */
	snprintf(served, sizeof(served), "%s/m", server.root);
	assert_int_equal(symlink(mirror->dir, served), 0);
	snprintf(url, sizeof(url), "%s/m", server.url);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (has_server)
		origin_server_stop(&server);
	small_mirror_free(mirror);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_fetched_twice),
		cmocka_unit_test(a_killed_reader_is_taken_over),
		cmocka_unit_test(a_silent_one_is_overtaken),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
