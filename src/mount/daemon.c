/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving the terminal without losing the error. The child does everything that
 * may fail (LMDB and threads do not survive a fork) and says through a pipe
 * that it serves, or why it cannot; the parent exits with that. Readiness for
 * systemd is one datagram, so no library is needed for it.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text.h"
#include "mount/mount.h"

#define LINE_MAX_BYTES 1024u
#define SILENCE_MS 2000u   /* a terminal is told why nothing comes */
#define END_GRACE_MS 2000u /* between SIGTERM and SIGKILL of a late child */

struct daemon {
	int to_parent; /* -1 in the foreground */
	bool is_ready;
	int notify_fd; /* -1: nobody asked */
	uint64_t watchdog_ms, next_ping_ms;
	char status[LINE_MAX_BYTES];
};

/* What the child tells the parent. */
struct message {
	int result; /* 0: ready, text is the line; negative errno: the reason */
	char text[LINE_MAX_BYTES];
};

static void notify_open(struct daemon *daemon)
{
	const char *path = getenv("NOTIFY_SOCKET"),
		   *usec = getenv("WATCHDOG_USEC");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t watchdog_us = 0;

	daemon->notify_fd = -1;
	if (!path || (path[0] != '/' && path[0] != '@') ||
	    strlen(path) >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				    strlen(path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) < 0)
		return;
	if (usec && parse_u64(usec, &watchdog_us) == 0)
		daemon->watchdog_ms = watchdog_us / 1000;
	daemon->notify_fd = steal_fd(&fd);
}

static void notify(struct daemon *daemon, const char *text)
{
	/* nothing useful can be done when it fails */
	if (daemon->notify_fd >= 0)
		(void)!send(daemon->notify_fd, text, strlen(text),
			    MSG_NOSIGNAL);
}

static int message_send(int fd, int result, const char *text)
{
	struct message message = {.result = result};

	snprintf(message.text, sizeof(message.text), "%s", text);
	return write_full(fd, &message, sizeof(message));
}

static void redirect_to_null(int target)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		dup2(fd, target);
		close(fd);
	}
}

void daemon_ready(struct daemon *daemon, const char *line)
{
	char text[LINE_MAX_BYTES + 32];
	struct stat st;

	if (daemon->is_ready)
		return;
	daemon->is_ready = true;
	snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", line);
	notify(daemon, text);
	if (daemon->to_parent < 0) {
		printf("%s\n", line);
		fflush(stdout);
		return;
	}
	log_to_syslog("larder");
	/* whoever asked gave up (^C): nobody wants this mount */
	if (message_send(daemon->to_parent, 0, line) < 0)
		kill(getpid(), SIGTERM);
	close(daemon->to_parent);
	/* A pipe's reader would wait for us; in a file, what a library says
	 * before it aborts is kept. */
	if (fstat(STDERR_FILENO, &st) < 0 || !S_ISREG(st.st_mode))
		redirect_to_null(STDERR_FILENO);
}

void daemon_tick(struct daemon *daemon, const char *line)
{
	char text[LINE_MAX_BYTES + 32];
	uint64_t now = now_ms();

	if (daemon->notify_fd < 0)
		return;
	if (daemon->watchdog_ms && now >= daemon->next_ping_ms) {
		daemon->next_ping_ms = now + daemon->watchdog_ms / 3;
		notify(daemon, "WATCHDOG=1");
	}
	if (line && strncmp(line, daemon->status, sizeof(daemon->status) - 1)) {
		snprintf(daemon->status, sizeof(daemon->status), "%s", line);
		snprintf(text, sizeof(text), "STATUS=%s", daemon->status);
		notify(daemon, text);
	}
}

static int serve_here(struct daemon *daemon,
		      int (*serve)(void *arg, struct daemon *daemon,
				   struct err *err),
		      void *arg, struct err *err)
{
	notify_open(daemon);
	int r = serve(arg, daemon, err);

	notify(daemon, "STOPPING=1");
	if (daemon->notify_fd >= 0)
		close(daemon->notify_fd);
	return r;
}

/* What the caller had open, a lock perhaps, must not stay open as long as the
 * mount lives. */
static void close_inherited(int to_parent, int kept)
{
	int low = kept < to_parent ? kept : to_parent;
	int high = kept < to_parent ? to_parent : kept;

	if (low > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, (unsigned)low - 1, 0);
	if (low < STDERR_FILENO)
		low = STDERR_FILENO;
	if (high > low + 1)
		close_range((unsigned)low + 1, (unsigned)high - 1, 0);
	close_range((unsigned)high + 1, ~0u, 0);
}

static void serve_in_child(int to_parent, int kept,
			   int (*serve)(void *arg, struct daemon *daemon,
					struct err *err),
			   void *arg)
{
	struct daemon daemon = {.to_parent = to_parent};
	struct err err = {0};

	setsid();
	close_inherited(to_parent, kept);
	signal(SIGPIPE, SIG_IGN);
	redirect_to_null(STDIN_FILENO);
	redirect_to_null(STDOUT_FILENO);
	(void)!chdir("/"); /* keep nobody's directory busy */
	int r = serve_here(&daemon, serve, arg, &err);
	if (!daemon.is_ready)
		(void)message_send(to_parent, r < 0 ? r : -EIO,
				   r < 0 ? err_text(&err, r) :
					   "ended before it served");
	else if (r < 0)
		log_write(LOG_LEVEL_ERROR, "mount", "%s", err_text(&err, r));
	/* no atexit handlers: they belong to the parent */
	_exit(r < 0);
}

static void end_child(pid_t child)
{
	uint64_t end = now_ms() + END_GRACE_MS;

	kill(child, SIGTERM);
	while (now_ms() < end) {
		if (waitpid(child, NULL, WNOHANG) != 0)
			return;
		poll(NULL, 0, 20);
	}
	kill(child, SIGKILL);
}

static int wait_for_message(pid_t child, int from_child, uint64_t limit_ms,
			    struct err *err)
{
	struct pollfd wait = {.fd = from_child, .events = POLLIN};
	uint64_t start = now_ms(), end = start + limit_ms;
	uint64_t until = isatty(STDERR_FILENO) && SILENCE_MS < limit_ms ?
				 start + SILENCE_MS :
				 end;
	struct message message;

	for (;;) {
		uint64_t now = now_ms();
		int n = poll(&wait, 1, now < until ? (int)(until - now) : 0);

		if (n > 0)
			break;
		if (n == 0 && until < end) {
			fputs("larder mount: no answer yet, waiting\n", stderr);
			until = end;
		} else if (n == 0) {
			end_child(child);
			return err_set(err, ETIMEDOUT,
				       "the mount did not answer within %llu s",
				       (unsigned long long)limit_ms / 1000);
		}
	}
	if (read_full(from_child, &message, sizeof(message)) != sizeof(message))
		return err_set(err, EIO,
			       "the serving process ended without a word");
	message.text[sizeof(message.text) - 1] = '\0';
	if (message.result < 0) {
		waitpid(child, NULL, 0);
		return err_set(err, -message.result, "%s", message.text);
	}
	/* it is mounted, whoever hears of it: no failure */
	if (printf("%s\n", message.text) < 0 || fflush(stdout) != 0) {
		log_write(
			LOG_LEVEL_WARNING, "mount",
			"mounted, but cannot write that to standard output: %s",
			strerror(errno));
		clearerr(stdout);
	}
	return 0;
}

int daemon_run(bool is_foreground, int kept_fd, uint64_t limit_ms,
	       int (*serve)(void *arg, struct daemon *daemon, struct err *err),
	       void *arg, struct err *err)
{
	struct daemon here = {.to_parent = -1};
	int pipe_fds[2];

	if (is_foreground)
		return serve_here(&here, serve, arg, err);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "cannot make a pipe: %s",
			       strerror(errno));
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		close(pipe_fds[0]);
		serve_in_child(pipe_fds[1], kept_fd, serve, arg);
	}
	close(pipe_fds[1]);
	_cleanup_close_ int from_child = pipe_fds[0];
	if (child < 0)
		return err_set(err, EAGAIN, "cannot fork");
	return wait_for_message(child, from_child, limit_ms, err);
}
