/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question and the child that puts it. Answers have fixed sizes and are read
 * from a pipe, because nothing else of a child that hangs can be relied on.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/question.h"

int question_begin(struct question *question, question_fn *ask, const void *arg,
		   uint32_t limit_ms)
{
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	fflush(NULL); /* what the caller buffered must not come out twice */
	pid_t child = fork();
	if (child == 0) {
		close(pipe_fds[0]);
		ask(arg, pipe_fds[1]);
		_exit(0);
	}
	close(pipe_fds[1]);
	if (child < 0) {
		close(pipe_fds[0]);
		return -EAGAIN;
	}
	*question = (struct question){.child = child,
				      .from_child = pipe_fds[0],
				      .end_ms = now_ms() + limit_ms};
	return 0;
}

int question_read(struct question *question, void *ret, size_t size)
{
	struct pollfd wait = {.fd = question->from_child, .events = POLLIN};

	for (size_t done = 0; done < size;) {
		uint64_t now = now_ms(), end = question->end_ms;
		int n = poll(&wait, 1, now < end ? (int)(end - now) : 0);

		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		ssize_t got = read(question->from_child, (char *)ret + done,
				   size - done);
		if (got <= 0)
			return 0;
		done += (size_t)got;
	}
	return 1;
}

void question_end(struct question *question, int r)
{
	bool is_stuck = r == -ETIMEDOUT;

	close(question->from_child);
	if (is_stuck) /* in the kernel perhaps: not waited for */
		kill(question->child, SIGKILL);
	waitpid(question->child, NULL, is_stuck ? WNOHANG : 0);
}
