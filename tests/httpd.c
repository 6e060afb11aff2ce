/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server that serves a directory by ranges and fails on demand.
 *
 *   httpd [OPTION...] ROOT
 *     --port-file FILE     the port goes there once it listens (port 0)
 *     --port N             listen there instead
 *     --log FILE           one JSON line for each request
 *     --rule QUERY         like /_control?QUERY, from the start
 *     --fail-first N       503 for the first N requests
 *     --status-every N     503 for every Nth request
 *     --stall-after BYTES  of a body, then silence
 *     --truncate-at BYTES  of a body, then the connection is closed
 *     --corrupt-at OFFSET  that byte of each file is flipped
 *     --slow BYTES         a second
 *
 * Faults are rules: GET /_control?add=FAULT&path=GLOB&n=N&target=T&times=K&
 * from=K&every=K adds one (n, target: see the table; the rule fires at most
 * `times` times, from its `from`th match on, at every `every`th);
 * /_control?clear forgets them all; /_control?sync waits until all requests
 * are in the log. Requests for /_control are not logged.
 *
 * A thread for each connection; no TLS, no HTTP/2 (nginx has those).
 */
#include <config.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"

#define REQUEST_MAX 16384
#define RULES_MAX 64
#define PIECE 65536

enum fault {
	IGNORE_RANGE, /* 200 and the whole file */
	BAD_RANGE,    /* Content-Range is n bytes further (default 1) */
	BAD_TOTAL,    /* total of Content-Range n larger (default 1) */
	SHORT_BODY,   /* the answer ends well, n bytes long */
	LONG_BODY,    /* n bytes more than promised (default 1), chunked */
	DROP_AFTER,   /* connection closed after n bytes of the body */
	STALL_AFTER,  /* silence after n bytes of the body */
	TRICKLE,      /* n bytes a second */
	STATUS,	      /* status n */
	HTML200,      /* a login page */
	REDIRECT,     /* to target; n is the status (default 302) */
	FLIP,	      /* the byte at file offset n */
	SWAP,	      /* the file target (below ROOT) instead */
	GZIP,	      /* Content-Encoding: gzip; n 0: if the client takes it */
	CHUNKED,      /* no Content-Length */
	STRIP,	      /* without header target */
	ENDLESS,      /* a body that never ends */
	SILENT,	      /* no answer */
	DELAY,	      /* n milliseconds before the answer */
	CLOSE,	      /* connection closed before the answer */
	GARBAGE,      /* not HTTP */
	LONG_HEADER,  /* a header line of n bytes */
	RETRY_AFTER,  /* Retry-After: n, with another fault's status */
	NO_KEEPALIVE, /* Connection: close */
	FAULTS,
};

static const char *const fault_names[FAULTS] = {
	"ignore_range", "bad_content_range",
	"bad_total",	"short_body",
	"long_body",	"drop_after",
	"stall_after",	"trickle",
	"status",	"html200",
	"redirect",	"flip",
	"swap",		"gzip",
	"chunked",	"strip",
	"endless",	"silent",
	"delay",	"close",
	"garbage",	"long_header",
	"retry_after",	"no_keepalive",
};

struct rule {
	enum fault fault;
	char path[256]; /* glob; empty: every path */
	char target[1024];
	uint64_t n, times, from, every; /* times 0: no limit */
	uint64_t matched, fired;
};

/* What holds for one request. */
struct plan {
	bool is_on[FAULTS];
	uint64_t n[FAULTS];
	char target[FAULTS][1024];
};

struct request {
	char method[16], path[2048], query[2048];
	char host[256], range[128], if_none_match[256], if_range[256];
	char if_match[256], accept_encoding[128], cache_control[128];
	bool has_authorization, is_close;
};

struct connection {
	int fd;
	char buf[REQUEST_MAX];
	size_t len;
	uint64_t sent; /* bytes of the body */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX]; /* guarded by lock */
static size_t rule_count;
static _Atomic unsigned in_flight; /* requests not logged yet */
static int log_fd = -1;
static int root_fd = -1;

/* ---- rules */

static void url_decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		unsigned byte;

		if (*text == '%' && isxdigit((unsigned char)text[1]) &&
		    isxdigit((unsigned char)text[2]) &&
		    sscanf(text + 1, "%2x", &byte) == 1) {
			*to++ = (char)byte;
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static bool fault_find(const char *name, enum fault *ret)
{
	for (int i = 0; i < FAULTS; i++)
		if (!strcmp(fault_names[i], name)) {
			*ret = (enum fault)i;
			return true;
		}
	return false;
}

static bool rule_set(struct rule *rule, const char *key, const char *value)
{
	if (!strcmp(key, "add"))
		return fault_find(value, &rule->fault);
	if (!strcmp(key, "path"))
		snprintf(rule->path, sizeof(rule->path), "%s", value);
	else if (!strcmp(key, "target"))
		snprintf(rule->target, sizeof(rule->target), "%s", value);
	else if (!strcmp(key, "n"))
		return parse_u64(value, &rule->n) == 0;
	else if (!strcmp(key, "times"))
		return parse_u64(value, &rule->times) == 0;
	else if (!strcmp(key, "from"))
		return parse_u64(value, &rule->from) == 0;
	else if (!strcmp(key, "every"))
		return parse_u64(value, &rule->every) == 0;
	else
		return false;
	return true;
}

static bool control(const char *query)
{
	struct rule rule = {.fault = FAULTS};
	char copy[2048], *rest = copy, *pair;
	bool is_clear = false;

	snprintf(copy, sizeof(copy), "%s", query);
	while ((pair = strsep(&rest, "&"))) {
		char *value = strchr(pair, '=');

		if (!strcmp(pair, "clear")) {
			is_clear = true;
			continue;
		}
		if (!value)
			return false;
		*value++ = '\0';
		url_decode(value);
		if (!rule_set(&rule, pair, value))
			return false;
	}
	pthread_mutex_lock(&lock);
	if (is_clear)
		rule_count = 0;
	if (rule.fault != FAULTS && rule_count < RULES_MAX)
		rules[rule_count++] = rule;
	pthread_mutex_unlock(&lock);
	return is_clear || rule.fault != FAULTS;
}

static bool rule_fires(struct rule *rule, const char *path)
{
	if (rule->path[0] && fnmatch(rule->path, path, 0))
		return false;
	rule->matched++;
	if (rule->matched < rule->from ||
	    (rule->times && rule->fired >= rule->times) ||
	    (rule->every && rule->matched % rule->every))
		return false;
	rule->fired++;
	return true;
}

static void make_plan(const char *path, struct plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < rule_count; i++) {
		enum fault fault = rules[i].fault;

		if (!rule_fires(&rules[i], path))
			continue;
		plan->is_on[fault] = true;
		plan->n[fault] = rules[i].n;
		snprintf(plan->target[fault], sizeof(plan->target[fault]), "%s",
			 rules[i].target);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- the log */

static void json_text(FILE *out, const char *name, const char *text)
{
	fprintf(out, ",\"%s\":", name);
	if (!text[0]) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void log_request(const struct request *request, unsigned status,
			uint64_t bytes)
{
	struct timespec now;
	char *line = NULL;
	size_t len = 0;
	FILE *out;

	if (log_fd < 0)
		return;
	out = open_memstream(&line, &len);
	if (!out)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, "{\"time\":%lld.%06ld,\"status\":%u,\"bytes\":%llu",
		(long long)now.tv_sec, now.tv_nsec / 1000, status,
		(unsigned long long)bytes);
	json_text(out, "method", request->method);
	json_text(out, "host", request->host);
	json_text(out, "path", request->path);
	json_text(out, "range", request->range);
	json_text(out, "if_none_match", request->if_none_match);
	json_text(out, "if_match", request->if_match);
	json_text(out, "if_range", request->if_range);
	json_text(out, "accept_encoding", request->accept_encoding);
	json_text(out, "cache_control", request->cache_control);
	fprintf(out, ",\"authorization\":%s}\n",
		request->has_authorization ? "true" : "false");
	fclose(out);
	/* One write with O_APPEND: lines of threads do not mix. */
	(void)write_full(log_fd, line, len);
	free(line);
}

/* A client has its last byte before the line is written. */
static void wait_for_log(void)
{
	for (int i = 0; in_flight > 0 && i < 200; i++)
		usleep(10000);
}

/* ---- reading a request */

static bool read_request(struct connection *c, char **ret_end)
{
	for (;;) {
		ssize_t n;
		char *end;

		c->buf[c->len] = '\0';
		end = strstr(c->buf, "\r\n\r\n");
		if (end) {
			*ret_end = end + 4;
			return true;
		}
		if (c->len >= sizeof(c->buf) - 1)
			return false;
		n = read(c->fd, c->buf + c->len, sizeof(c->buf) - 1 - c->len);
		if (n <= 0)
			return false;
		c->len += (size_t)n;
	}
}

static void set_field(struct request *request, const char *name,
		      const char *value)
{
	struct {
		const char *name;
		char *to;
		size_t size;
	} fields[] = {
		{"host", request->host, sizeof(request->host)},
		{"range", request->range, sizeof(request->range)},
		{"if-none-match", request->if_none_match,
		 sizeof(request->if_none_match)},
		{"if-match", request->if_match, sizeof(request->if_match)},
		{"if-range", request->if_range, sizeof(request->if_range)},
		{"accept-encoding", request->accept_encoding,
		 sizeof(request->accept_encoding)},
		{"cache-control", request->cache_control,
		 sizeof(request->cache_control)},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcasecmp(fields[i].name, name))
			snprintf(fields[i].to, fields[i].size, "%s", value);
	if (!strcasecmp(name, "authorization"))
		request->has_authorization = true;
	if (!strcasecmp(name, "connection") && !strcasecmp(value, "close"))
		request->is_close = true;
}

static bool parse_request(char *text, struct request *request)
{
	char *line = strsep(&text, "\n"), *target, *query;

	memset(request, 0, sizeof(*request));
	snprintf(request->method, sizeof(request->method), "%s",
		 strsep(&line, " "));
	target = line ? strsep(&line, " ") : NULL;
	if (!target)
		return false;
	/* A proxy's request line: http://host/path */
	if (!strncmp(target, "http://", 7)) {
		target = strchr(target + 7, '/');
		if (!target)
			return false;
	}
	query = strchr(target, '?');
	if (query)
		*query++ = '\0';
	snprintf(request->query, sizeof(request->query), "%s",
		 query ? query : "");
	snprintf(request->path, sizeof(request->path), "%s", target);
	while ((line = strsep(&text, "\n"))) {
		char *value = strchr(line, ':');

		line[strcspn(line, "\r")] = '\0';
		if (!value)
			continue;
		*value++ = '\0';
		set_field(request, line, value + strspn(value, " "));
	}
	return true;
}

/* ---- answering */

static bool send_all(struct connection *c, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(c->fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* Until the client goes away. */
static void stall(struct connection *c)
{
	struct pollfd fd = {.fd = c->fd, .events = POLLRDHUP};

	while (poll(&fd, 1, 1000) == 0)
		;
}

static bool send_piece(struct connection *c, const struct plan *plan,
		       const char *data, size_t len)
{
	char size[32];

	if (!plan->is_on[CHUNKED])
		return send_all(c, data, len);
	snprintf(size, sizeof(size), "%zx\r\n", len);
	return send_all(c, size, strlen(size)) && send_all(c, data, len) &&
	       send_all(c, "\r\n", 2);
}

/* How much may be sent at once here; 0: the connection is to be closed. */
static size_t next_piece(struct connection *c, const struct plan *plan,
			 uint64_t left)
{
	uint64_t len = left < PIECE ? left : PIECE;

	for (int i = 0; i < 2; i++) {
		enum fault fault = i ? STALL_AFTER : DROP_AFTER;

		if (!plan->is_on[fault])
			continue;
		if (c->sent >= plan->n[fault]) {
			if (fault == STALL_AFTER)
				stall(c);
			return 0;
		}
		if (len > plan->n[fault] - c->sent)
			len = plan->n[fault] - c->sent;
	}
	if (plan->is_on[TRICKLE]) {
		uint64_t rate = plan->n[TRICKLE] ? plan->n[TRICKLE] : 1;
		uint64_t part = rate >= 20 ? rate / 20 : 1;

		if (len > part)
			len = part;
		usleep((useconds_t)(len * 1000000 / rate));
	}
	return (size_t)len;
}

/* len bytes of the file (zeros behind its end) from offset. */
static bool send_body(struct connection *c, const struct plan *plan, int fd,
		      uint64_t offset, uint64_t len)
{
	static __thread char piece[PIECE];

	while (len > 0 || plan->is_on[ENDLESS]) {
		size_t n = next_piece(c, plan, len ? len : PIECE);
		ssize_t got;

		if (n == 0)
			return false;
		got = fd >= 0 ? pread_full(fd, piece, n, offset) : 0;
		if (got < 0)
			return false;
		memset(piece + got, 0, n - (size_t)got);
		if (plan->is_on[FLIP] && plan->n[FLIP] >= offset &&
		    plan->n[FLIP] < offset + n)
			piece[plan->n[FLIP] - offset] ^= (char)0xff;
		if (!send_piece(c, plan, piece, n))
			return false;
		c->sent += n;
		offset += n;
		len = len > n ? len - n : 0;
	}
	if (plan->is_on[CHUNKED])
		return send_all(c, "0\r\n\r\n", 5);
	return true;
}

static const char *reason(unsigned status)
{
	switch (status) {
	case 200:
		return "OK";
	case 206:
		return "Partial Content";
	case 302:
		return "Found";
	case 304:
		return "Not Modified";
	case 404:
		return "Not Found";
	case 416:
		return "Range Not Satisfiable";
	case 503:
		return "Service Unavailable";
	}
	return "Status";
}

struct head {
	FILE *out;
	const struct plan *plan;
	char *text;
	size_t len;
};

static void head_add(struct head *head, const char *name, const char *format,
		     ...) __attribute__((format(printf, 3, 4)));
static void head_add(struct head *head, const char *name, const char *format,
		     ...)
{
	va_list args;

	if (head->plan->is_on[STRIP] &&
	    !strcasecmp(head->plan->target[STRIP], name))
		return;
	fprintf(head->out, "%s: ", name);
	va_start(args, format);
	vfprintf(head->out, format, args);
	va_end(args);
	fputs("\r\n", head->out);
}

static bool head_begin(struct head *head, const struct plan *plan,
		       unsigned status)
{
	*head = (struct head){.plan = plan};
	head->out = open_memstream(&head->text, &head->len);
	if (!head->out)
		return false;
	fprintf(head->out, "HTTP/1.1 %u %s\r\n", status, reason(status));
	if (plan->is_on[RETRY_AFTER])
		head_add(head, "Retry-After", "%llu",
			 (unsigned long long)plan->n[RETRY_AFTER]);
	if (plan->is_on[LONG_HEADER]) {
		fputs("X-Long: ", head->out);
		for (uint64_t i = 0; i < plan->n[LONG_HEADER]; i++)
			fputc('x', head->out);
		fputs("\r\n", head->out);
	}
	if (plan->is_on[CHUNKED])
		head_add(head, "Transfer-Encoding", "chunked");
	if (plan->is_on[NO_KEEPALIVE])
		head_add(head, "Connection", "close");
	return true;
}

static bool head_send(struct head *head, struct connection *c)
{
	bool is_sent;

	fputs("\r\n", head->out);
	fclose(head->out);
	is_sent = send_all(c, head->text, head->len);
	free(head->text);
	return is_sent;
}

/* An answer with a short text; true: the connection may go on. */
static bool answer_text(struct connection *c, const struct request *request,
			const struct plan *plan, unsigned status,
			const char *type, const char *text)
{
	bool has_body = status != 204 && status != 304;
	struct plan plain = *plan;
	struct head head;

	plain.is_on[CHUNKED] = false;
	if (!head_begin(&head, &plain, status))
		return false;
	if (plan->is_on[REDIRECT])
		head_add(&head, "Location", "%s", plan->target[REDIRECT]);
	head_add(&head, "Content-Type", "%s", type);
	if (has_body)
		head_add(&head, "Content-Length", "%zu", strlen(text));
	log_request(request, status, strlen(text));
	return head_send(&head, c) &&
	       (!has_body || send_all(c, text, strlen(text)));
}

/* bytes=A-B, A- or -N of a file of this size. */
static bool parse_range(const char *text, uint64_t size, uint64_t *ret_first,
			uint64_t *ret_len)
{
	char copy[128], *dash;
	uint64_t first = 0, last = size - 1;

	if (strncmp(text, "bytes=", 6))
		return false;
	snprintf(copy, sizeof(copy), "%.100s", text + 6);
	dash = strchr(copy, '-');
	if (!dash)
		return false;
	*dash++ = '\0';
	if (copy[0] && parse_u64(copy, &first) < 0)
		return false;
	if (dash[0] && parse_u64(dash, &last) < 0)
		return false;
	if (!copy[0]) { /* the last N */
		first = last < size ? size - last : 0;
		last = size - 1;
	}
	if (last > size - 1)
		last = size - 1;
	if (size == 0 || first > last)
		return false;
	*ret_first = first;
	*ret_len = last - first + 1;
	return true;
}

static void make_etag(const struct stat *st, char ret[64])
{
	snprintf(ret, 64, "\"%llx-%llx\"", (unsigned long long)st->st_size,
		 (unsigned long long)st->st_mtim.tv_nsec);
}

static bool answer_file(struct connection *c, const struct request *request,
			const struct plan *given, int fd, const struct stat *st)
{
	struct plan plan = *given;
	uint64_t size = (uint64_t)st->st_size, first = 0, len = size, body;
	uint64_t shift = plan.is_on[BAD_RANGE] ?
				 (plan.n[BAD_RANGE] ? plan.n[BAD_RANGE] : 1) :
				 0;
	uint64_t more = plan.is_on[BAD_TOTAL] ?
				(plan.n[BAD_TOTAL] ? plan.n[BAD_TOTAL] : 1) :
				0;
	bool is_part = request->range[0] && !plan.is_on[IGNORE_RANGE];
	struct head head;
	char etag[64];
	bool is_fine;

	make_etag(st, etag);
	if (request->if_range[0] && strcmp(request->if_range, etag))
		is_part = false;
	if (is_part && !parse_range(request->range, size, &first, &len))
		return answer_text(c, request, &plan, 416, "text/plain", "");
	body = len;
	if (plan.is_on[SHORT_BODY] && body > plan.n[SHORT_BODY])
		body = plan.n[SHORT_BODY];
	if (plan.is_on[LONG_BODY])
		body += plan.n[LONG_BODY] ? plan.n[LONG_BODY] : 1;
	if (plan.is_on[LONG_BODY] || plan.is_on[ENDLESS] ||
	    plan.is_on[SHORT_BODY])
		plan.is_on[CHUNKED] = true;
	if (!head_begin(&head, &plan, is_part ? 206 : 200))
		return false;
	if (is_part)
		head_add(&head, "Content-Range", "bytes %llu-%llu/%llu",
			 (unsigned long long)(first + shift),
			 (unsigned long long)(first + shift + len - 1),
			 (unsigned long long)(size + more));
	if (!plan.is_on[CHUNKED])
		head_add(&head, "Content-Length", "%llu",
			 (unsigned long long)body);
	if (plan.is_on[GZIP] &&
	    (plan.n[GZIP] || strstr(request->accept_encoding, "gzip")))
		head_add(&head, "Content-Encoding", "gzip");
	head_add(&head, "ETag", "%s", etag);
	head_add(&head, "Accept-Ranges", "bytes");
	is_fine = head_send(&head, c);
	if (is_fine && strcmp(request->method, "HEAD"))
		is_fine = send_body(c, &plan, fd, first, body);
	log_request(request, is_part ? 206 : 200, c->sent);
	return is_fine && !plan.is_on[NO_KEEPALIVE];
}

static bool is_unchanged(const struct request *request, const struct stat *st)
{
	char etag[64];

	make_etag(st, etag);
	return !strcmp(request->if_none_match, etag);
}

static bool answer_path(struct connection *c, const struct request *request,
			const struct plan *plan)
{
	char path[2048];
	struct stat st;
	bool is_fine;
	int fd;

	snprintf(path, sizeof(path), "%s",
		 plan->is_on[SWAP] ? plan->target[SWAP] : request->path + 1);
	url_decode(path);
	if (strstr(path, "..") || path[0] == '/')
		return answer_text(c, request, plan, 403, "text/plain", "no\n");
	fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		return answer_text(c, request, plan, 404, "text/plain",
				   "not here\n");
	}
	if (is_unchanged(request, &st))
		is_fine = answer_text(c, request, plan, 304, "text/plain", "");
	else
		is_fine = answer_file(c, request, plan, fd, &st);
	close(fd);
	return is_fine;
}

static bool answer_control(struct connection *c, const struct request *request)
{
	static const char fine[] = "HTTP/1.1 200 OK\r\n"
				   "Content-Length: 3\r\n\r\nok\n";
	static const char bad[] = "HTTP/1.1 400 Bad Request\r\n"
				  "Content-Length: 0\r\n\r\n";
	bool is_fine = true;

	if (!strcmp(request->query, "sync"))
		wait_for_log();
	else
		is_fine = control(request->query);
	return is_fine ? send_all(c, fine, sizeof(fine) - 1) :
			 send_all(c, bad, sizeof(bad) - 1);
}

static bool answer(struct connection *c, const struct request *request)
{
	static __thread struct plan plan;

	c->sent = 0;
	if (!strcmp(request->path, "/_control"))
		return answer_control(c, request);
	make_plan(request->path, &plan);
	if (plan.is_on[DELAY])
		usleep((useconds_t)plan.n[DELAY] * 1000);
	if (plan.is_on[SILENT] || plan.is_on[CLOSE]) {
		log_request(request, 0, 0);
		if (plan.is_on[SILENT])
			stall(c);
		return false;
	}
	if (plan.is_on[GARBAGE]) {
		log_request(request, 0, 0);
		send_all(c, "SSH-2.0-hello\r\n\r\n", 17);
		return false;
	}
	if (plan.is_on[STATUS])
		return answer_text(c, request, &plan, (unsigned)plan.n[STATUS],
				   "text/plain", "as you wished\n");
	if (plan.is_on[REDIRECT])
		return answer_text(
			c, request, &plan,
			plan.n[REDIRECT] ? (unsigned)plan.n[REDIRECT] : 302,
			"text/plain", "over there\n");
	if (plan.is_on[HTML200])
		return answer_text(c, request, &plan, 200, "text/html",
				   "<html><body>Please log in</body></html>\n");
	return answer_path(c, request, &plan);
}

static bool answer_counted(struct connection *c, const struct request *request)
{
	bool is_counted = strcmp(request->path, "/_control") != 0, is_fine;

	in_flight += is_counted;
	is_fine = answer(c, request);
	in_flight -= is_counted;
	return is_fine && !request->is_close;
}

static void *serve(void *arg)
{
	struct connection *c = arg;
	struct request request;
	char *end;

	while (read_request(c, &end)) {
		size_t used = (size_t)(end - c->buf);
		char first;
		bool is_parsed;

		first = *end;
		*end = '\0';
		is_parsed = parse_request(c->buf, &request);
		*end = first;
		if (!is_parsed || !answer_counted(c, &request))
			break;
		c->len -= used;
		memmove(c->buf, end, c->len);
	}
	close(c->fd);
	free(c);
	return NULL;
}

/* ---- starting */

static int listen_at(uint16_t port, uint16_t *ret_port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&address, len) < 0 ||
	    listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	*ret_port = ntohs(address.sin_port);
	return fd;
}

static void accept_all(int listener)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
		struct connection *c;
		pthread_t thread;

		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		c = calloc(1, sizeof(*c));
		if (c)
			c->fd = fd;
		if (!c || pthread_create(&thread, &attr, serve, c)) {
			close(fd);
			free(c);
		}
	}
}

static const struct option options[] = {
	{"port-file", required_argument, NULL, 'p'},
	{"port", required_argument, NULL, 'P'},
	{"log", required_argument, NULL, 'l'},
	{"rule", required_argument, NULL, 'r'},
	{"fail-first", required_argument, NULL, 1},
	{"status-every", required_argument, NULL, 2},
	{"stall-after", required_argument, NULL, 3},
	{"truncate-at", required_argument, NULL, 4},
	{"corrupt-at", required_argument, NULL, 5},
	{"slow", required_argument, NULL, 6},
	{NULL, 0, NULL, 0},
};

/* The named options are short for rules. */
static const char *const shorthand[] = {
	NULL,
	"add=status&n=503&times=",
	"add=status&n=503&every=",
	"add=stall_after&n=",
	"add=drop_after&n=",
	"add=flip&n=",
	"add=trickle&n=",
};

static int usage(void)
{
	fputs("usage: httpd [OPTION...] ROOT (see the source)\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	const char *port_file = NULL;
	uint64_t port = 0;
	uint16_t bound = 0;
	char text[64], query[2048];
	int c, fd;

	signal(SIGPIPE, SIG_IGN);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		bool is_fine = true;

		if (c == 'p')
			port_file = optarg;
		else if (c == 'P')
			is_fine = parse_u64(optarg, &port) == 0;
		else if (c == 'l')
			log_fd = open(optarg,
				      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
				      0666);
		else if (c == 'r')
			is_fine = control(optarg);
		else if (c >= 1 && c <= 6) {
			snprintf(query, sizeof(query), "%s%s", shorthand[c],
				 optarg);
			is_fine = control(query);
		} else
			is_fine = false;
		if (!is_fine)
			return usage();
	}
	if (optind + 1 != argc)
		return usage();
	root_fd = open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0) {
		perror(argv[optind]);
		return 1;
	}
	fd = listen_at((uint16_t)port, &bound);
	if (fd < 0) {
		fprintf(stderr, "httpd: cannot listen: %s\n", strerror(-fd));
		return 1;
	}
	snprintf(text, sizeof(text), "%u\n", bound);
	if (port_file &&
	    file_write(AT_FDCWD, port_file, text, strlen(text), 0666, 0) < 0) {
		perror(port_file);
		return 1;
	}
	accept_all(fd);
	return 0;
}
