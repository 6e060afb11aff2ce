/* SPDX-License-Identifier: Apache-2.0 */
/* tests/httpd as a child of a unit test, and files whose bytes say where they
 * belong. */
#include <config.h>

#undef NDEBUG
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/text.h"

#include "origin-server.h"
#include "scratch.h"

static bool find_httpd(char path[512])
{
	const char *given = getenv("HTTPD");
	const char *build = getenv("top_builddir");

	if (given)
		snprintf(path, 512, "%s", given);
	else
		snprintf(path, 512, "%s/tests/httpd", build ? build : ".");
	return access(path, X_OK) == 0;
}

static unsigned wait_for_port(const char *path)
{
	uint64_t port = 0;
	struct buf text;

	buf_init(&text, 64);
	for (int i = 0; i < 1000; i++) {
		if (file_read(AT_FDCWD, path, &text) == 0)
			break;
		usleep(10000);
	}
	assert(text.len > 1 && text.data[text.len - 1] == '\n');
	text.data[text.len - 1] = '\0';
	assert(parse_u64((char *)text.data, &port) == 0);
	buf_release(&text);
	return (unsigned)port;
}

bool origin_server_start(struct origin_server *server)
{
	char httpd[512], port_file[96], log[96];

	memset(server, 0, sizeof(*server));
	if (!find_httpd(httpd))
		return false;
	scratch_directory_at(server->dir, sizeof(server->dir));
	snprintf(server->root, sizeof(server->root), "%s/root", server->dir);
	snprintf(port_file, sizeof(port_file), "%s/port", server->dir);
	snprintf(log, sizeof(log), "%s/log", server->dir);
	assert(mkdir(server->root, 0777) == 0);
	server->pid = fork();
	assert(server->pid >= 0);
	if (server->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(httpd, "httpd", "--port-file", port_file, "--log", log,
		      server->root, (char *)NULL);
		_exit(127);
	}
	server->port = wait_for_port(port_file);
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u",
		 server->port);
	return true;
}

void origin_server_stop(struct origin_server *server)
{
	if (server->pid > 0) {
		kill(server->pid, SIGKILL);
		waitpid(server->pid, NULL, 0);
	}
	server->pid = 0;
	if (server->dir[0])
		remove_tree(AT_FDCWD, server->dir);
}

void origin_server_control(const struct origin_server *server,
			   const char *query)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)server->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[2048];
	ssize_t n;

	assert(fd >= 0);
	assert(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	snprintf(text, sizeof(text),
		 "GET /_control?%s HTTP/1.1\r\n"
		 "Host: x\r\nConnection: close\r\n\r\n",
		 query);
	assert(write_full(fd, text, strlen(text)) == 0);
	n = read_full(fd, text, sizeof(text) - 1);
	assert(n > 12 && !strncmp(text, "HTTP/1.1 200", 12));
	close(fd);
}

static char *read_log(const struct origin_server *server, char path[96])
{
	struct buf text;

	snprintf(path, 96, "%s/log", server->dir);
	buf_init(&text, 64 << 20);
	assert(file_read(AT_FDCWD, path, &text) == 0);
	assert(buf_append(&text, "", 1) == 0);
	return (char *)buf_steal(&text, NULL);
}

char *origin_server_log(const struct origin_server *server)
{
	char path[96], *text;

	origin_server_control(server, "sync");
	text = read_log(server, path);
	assert(truncate(path, 0) == 0);
	return text;
}

size_t origin_server_asked(const struct origin_server *server)
{
	char path[96], *text = read_log(server, path);
	size_t count = log_count(text, "\n");

	free(text);
	return count;
}

size_t log_count(const char *log, const char *text)
{
	size_t count = 0;

	for (; (log = strstr(log, text)); log += strlen(text))
		count++;
	return count;
}

uint64_t log_bytes(const char *log)
{
	static const char key[] = "\"bytes\":";
	uint64_t sum = 0;

	while ((log = strstr(log, key))) {
		uint64_t n = 0;

		for (log += strlen(key); *log >= '0' && *log <= '9'; log++)
			n = n * 10 + (uint64_t)(*log - '0');
		sum += n;
	}
	return sum;
}

/* The byte at an offset. */
static uint8_t stamp(uint64_t tag, uint64_t offset)
{
	uint64_t cell = offset & ~UINT64_C(15);
	unsigned i = (unsigned)(offset & 15);
	uint64_t value = i < 8 ? tag : cell;

	return (uint8_t)(value >> (56 - 8 * (i & 7)));
}

void stamp_file(const char *dir, const char *name, uint64_t tag, uint64_t size)
{
	static char buffer[1 << 16];
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "we");
	assert(file);
	for (uint64_t at = 0; at < size;) {
		uint64_t n =
			size - at < sizeof(buffer) ? size - at : sizeof(buffer);

		for (uint64_t i = 0; i < n; i++)
			buffer[i] = (char)stamp(tag, at + i);
		assert(fwrite(buffer, 1, n, file) == n);
		at += n;
	}
	assert(fclose(file) == 0);
}

bool stamps_right(const void *data, size_t len, uint64_t tag, uint64_t offset)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++)
		if (bytes[i] != stamp(tag, offset + i))
			return false;
	return true;
}
