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
#include <stdio.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "mount/internal.h"

/* Below PIPE_BUF: written at once or not at all. */
struct answer {
	int64_t result;
	struct mount_dataset_state state;
};

/* 0 and what ask() answered, or -ETIMEDOUT. */
static int ask_bounded(void (*ask)(const char *path, struct answer *answer),
		       const char *path, uint32_t limit_ms, struct answer *ret)
{
	struct answer answer = {0};
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	fflush(NULL); /* what the caller buffered must not come out twice */
	pid_t child = fork();
	if (child == 0) {
		ask(path, &answer);
		_exit(write(pipe_fds[1], &answer, sizeof(answer)) !=
		      sizeof(answer));
	}
	close(pipe_fds[1]);
	_cleanup_close_ int from_child = pipe_fds[0];
	if (child < 0)
		return -EAGAIN;
	struct pollfd wait = {.fd = from_child, .events = POLLIN};
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
	bool is_answered = read_full(from_child, &answer, sizeof(answer)) ==
			   sizeof(answer);
	waitpid(child, NULL, 0);
	if (!is_answered)
		return -EIO;
	*ret = answer;
	return 0;
}

static void ask_statfs(const char *path, struct answer *answer)
{
	struct statfs statfs_buf;

	answer->result = statfs(path, &statfs_buf) < 0 ? -errno : 0;
}

static void ask_pid(const char *path, struct answer *answer)
{
	char text[24];
	uint64_t pid;
	ssize_t len = getxattr(path, MOUNT_PID_XATTR, text, sizeof(text) - 1);

	answer->result = -ESRCH;
	if (len <= 0)
		return;
	text[len] = '\0';
	if (parse_u64(text, &pid) == 0 && pid <= INT32_MAX)
		answer->result = (int64_t)pid;
}

static void get_text(const char *path, const char *name, char *ret, size_t size)
{
	ssize_t len = getxattr(path, name, ret, size - 1);

	ret[len > 0 ? len : 0] = '\0';
}

static void ask_state(const char *path, struct answer *answer)
{
	get_text(path, MOUNT_STATE_XATTR, answer->state.state,
		 sizeof(answer->state.state));
	get_text(path, MOUNT_ERROR_XATTR, answer->state.reason,
		 sizeof(answer->state.reason));
}

enum mount_health mount_probe(const char *path, uint32_t limit_ms)
{
	struct answer answer = {0};

	if (ask_bounded(ask_statfs, path, limit_ms, &answer) == -ETIMEDOUT)
		return MOUNT_SILENT;
	if (answer.result == -ENOTCONN || answer.result == -ECONNABORTED)
		return MOUNT_DEAD;
	return MOUNT_ANSWERS;
}

pid_t mount_pid(const char *path, uint32_t limit_ms)
{
	struct answer answer;

	if (ask_bounded(ask_pid, path, limit_ms, &answer) < 0 ||
	    answer.result <= 0)
		return -1;
	return (pid_t)answer.result;
}

void mount_dataset_state(const char *mountpoint, const char *name,
			 struct mount_dataset_state *ret)
{
	struct answer answer = {.state.state = "silent"};
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", mountpoint, name) >= 0)
		ask_bounded(ask_state, path, MOUNT_LOOK_MS, &answer);
	*ret = answer.state;
	if (!ret->state[0])
		snprintf(ret->state, sizeof(ret->state), "absent");
}
