/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a mount that may never answer. A thread stuck in the kernel cannot
 * be given up and keeps its process from ending, so the question is put by a
 * short-lived child that is killed and left to init when time is over.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "mount/internal.h"

/* Answers of ask(): its result, or -ETIMEDOUT. */
static int64_t ask_bounded(int64_t (*ask)(const char *path), const char *path,
			   uint32_t limit_ms)
{
	int64_t answer = -EIO;
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	pid_t child = fork();
	if (child == 0) {
		answer = ask(path);
		_exit(write(pipe_fds[1], &answer, sizeof(answer)) !=
		      sizeof(answer));
	}
	close(pipe_fds[1]);
	_cleanup_close_ int from_child = pipe_fds[0];
	if (child < 0)
		return -EAGAIN;
	struct pollfd wait = { .fd = from_child, .events = POLLIN };
	uint64_t end = now_ms() + limit_ms;
	for (;;) {
		uint64_t now = now_ms();
		int n = poll(&wait, 1, now < end ? (int)(end - now) : 0);

		if (n == 0) {
			/* stuck in the kernel: not waited for */
			kill(child, SIGKILL);
			waitpid(child, NULL, WNOHANG);
			return -ETIMEDOUT;
		}
		if (n > 0)
			break;
	}
	if (read_full(from_child, &answer, sizeof(answer)) != sizeof(answer))
		answer = -EIO;
	waitpid(child, NULL, 0);
	return answer;
}

static int64_t ask_statfs(const char *path)
{
	struct statfs statfs_buf;

	return statfs(path, &statfs_buf) < 0 ? -errno : 0;
}

static int64_t ask_pid(const char *path)
{
	char text[24];
	uint64_t pid;
	ssize_t len = getxattr(path, MOUNT_PID_XATTR, text, sizeof(text) - 1);

	if (len < 0)
		return -errno;
	text[len] = '\0';
	return parse_u64(text, &pid) < 0 || pid > INT32_MAX ? -ESRCH :
							       (int64_t)pid;
}

enum mount_health mount_probe(const char *path, uint32_t limit_ms)
{
	switch (ask_bounded(ask_statfs, path, limit_ms)) {
	case -ETIMEDOUT:
		return MOUNT_SILENT;
	case -ENOTCONN:
	case -ECONNABORTED:
		return MOUNT_DEAD;
	default:
		return MOUNT_ANSWERS;
	}
}

pid_t mount_pid(const char *path, uint32_t limit_ms)
{
	int64_t answer = ask_bounded(ask_pid, path, limit_ms);

	return answer > 0 ? (pid_t)answer : -1;
}
