/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_TESTS_ORIGIN_SERVER_H
#define LARDER_TESTS_ORIGIN_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* tests/httpd as a child, over a new directory of stamped files. */
struct origin_server {
	pid_t pid;
	unsigned port;
	char dir[64]; /* served: dir/root; also dir/log */
	char root[96];
	char url[64];
};

/* False: there is no httpd here (the test is skipped). */
bool origin_server_start(struct origin_server *server);
void origin_server_stop(struct origin_server *server);
/* The query of a /_control request, for example "add=silent&path=/a". */
void origin_server_control(const struct origin_server *server,
			   const char *query);
/* What httpd has logged so far, for the caller to free; and then forget it. */
char *origin_server_log(const struct origin_server *server);
/* How many requests it holds so far, which stay there; hung ones too. */
size_t origin_server_asked(const struct origin_server *server);
size_t log_count(const char *log, const char *text);
uint64_t log_bytes(const char *log); /* sum of "bytes" */

/*
 * Stamped content: every cell of 16 bytes is a tag of 8 and its own offset,
 * so that a check of any range says whether it is shifted, mixed or zeros.
 */
void stamp_file(const char *dir, const char *name, uint64_t tag, uint64_t size);
bool stamps_right(const void *data, size_t len, uint64_t tag, uint64_t offset);

#endif
