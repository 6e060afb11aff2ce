/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back for those who may not unmount by themselves: fusermount3 is
 * setuid and knows whose mount it is. What it says is read rather than
 * shown, since only "busy" is worth another try.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "mount/internal.h"

extern char **environ;

#define LINE_BYTES 256u /* of what it says; the rest is cut */

/* Its first line on standard error, which goes to `said`. */
static int run_fusermount(char *const argv[], char *said, size_t size,
			  int *ret_status)
{
	posix_spawn_file_actions_t actions;
	int pipe_fds[2], r;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	_cleanup_close_ int from = pipe_fds[0];
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = posix_spawn_file_actions_adddup2(&actions, pipe_fds[1],
						     STDERR_FILENO);
		if (r == 0)
			r = posix_spawnp(&pid, argv[0], &actions, NULL, argv,
					 environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(pipe_fds[1]);
	if (r)
		return -r;
	ssize_t len = read_full(from, said, size - 1);
	said[len > 0 ? len : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int fusermount_unmount(const char *path, bool is_lazy, struct err *err)
{
	char *argv[] = {"fusermount3", "-u", "--", (char *)path, NULL, NULL};
	char said[LINE_BYTES] = "";
	int status = 0, r;

	if (is_lazy) {
		argv[2] = "-z";
		argv[3] = "--";
		argv[4] = (char *)path;
	}
	r = run_fusermount(argv, said, sizeof(said), &status);
	if (r < 0)
		return err_set(err, -r, "cannot run fusermount3: %s%s",
			       strerror(-r),
			       r == -ENOENT ? " (package fuse3)" : "");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (strstr(said, strerror(EBUSY)))
		return err_set(err, EBUSY, "%s", strerror(EBUSY));
	return err_set(err, EPERM, "%s",
		       said[0] ? said : "fusermount3 failed without a word");
}
