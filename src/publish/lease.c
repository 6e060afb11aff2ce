/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease of a mirror.
 *
 * The file appears whole (an exclusive rename), so nobody reads half of it.
 * Its age is its mtime compared with that of a file made just now, both
 * stamped by the same filesystem, so clocks of different hosts do not
 * matter. A process that died on this very machine is recognised by boot
 * id, pid namespace, pid and start time; its lease is taken at once, which
 * makes a publish that was killed resumable without a wait.
 *
 * A stale lease is replaced by rename. Two that do so at the same moment are
 * told apart by the inode at the next look (renewal, or before the head):
 * the loser stops. Until then both only add immutable files.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "publish/lease.h"
#include "publish/mirror-store.h"

#define TAKE_TRIES 4 /* it may vanish or appear between two looks */

struct holder {
	char host[65];
	char boot[40];
	char pid_namespace[40];
	char what[32];
	char since[FORMAT_MAX];
	uint64_t pid, start;
};

/* The start time of a process in clock ticks, 0 if there is no such one. */
static uint64_t start_of_process(uint64_t pid)
{
	char path[64];
	struct buf stat;
	uint64_t start = 0;
	char *at;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	buf_init(&stat, LEASE_LIMIT);
	if (file_read(AT_FDCWD, path, &stat) == 0 &&
	    buf_append(&stat, "", 1) == 0) {
		/* The name in parentheses may hold spaces; field 22. */
		at = strrchr((char *)stat.data, ')');
		for (int field = 2; at && field < 22; field++)
			at = strchr(at + 1, ' ');
		if (at)
			at[1 + strcspn(at + 1, " ")] = '\0';
		if (!at || parse_u64(at + 1, &start) < 0)
			start = 0;
	}
	buf_release(&stat);
	return start;
}

static void read_line(const char *path, char *ret, size_t size)
{
	struct buf text;

	ret[0] = '\0';
	buf_init(&text, LEASE_LIMIT);
	if (file_read(AT_FDCWD, path, &text) == 0 &&
	    buf_append(&text, "", 1) == 0)
		snprintf(ret, size, "%.*s",
			 (int)strcspn((char *)text.data, "\n"),
			 (char *)text.data);
	buf_release(&text);
}

static void this_process(const char *what, struct holder *ret)
{
	ssize_t n;

	*ret = (struct holder){.pid = (uint64_t)getpid()};
	if (gethostname(ret->host, sizeof(ret->host) - 1) < 0)
		snprintf(ret->host, sizeof(ret->host), "unknown");
	read_line("/proc/sys/kernel/random/boot_id", ret->boot,
		  sizeof(ret->boot));
	n = readlink("/proc/self/ns/pid", ret->pid_namespace,
		     sizeof(ret->pid_namespace) - 1);
	if (n < 0)
		n = 0;
	ret->pid_namespace[n] = '\0';
	snprintf(ret->what, sizeof(ret->what), "%s", what);
	format_time(wall_seconds(), ret->since);
	ret->start = start_of_process(ret->pid);
}

static int holder_print(const struct holder *holder, struct buf *text)
{
	return buf_printf(text,
			  "larder lease 1\nhost: %s\nboot: %s\n"
			  "pid-namespace: %s\npid: %" PRIu64 "\nstart: %" PRIu64
			  "\ncommand: %s\nsince: %s\n",
			  holder->host, holder->boot, holder->pid_namespace,
			  holder->pid, holder->start, holder->what,
			  holder->since);
}

static void set_field(struct holder *holder, const char *key, const char *value)
{
	const struct {
		const char *key;
		char *to;
		size_t size;
	} texts[] = {
		{"host", holder->host, sizeof(holder->host)},
		{"boot", holder->boot, sizeof(holder->boot)},
		{"pid-namespace", holder->pid_namespace,
		 sizeof(holder->pid_namespace)},
		{"command", holder->what, sizeof(holder->what)},
		{"since", holder->since, sizeof(holder->since)},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(key, texts[i].key))
			snprintf(texts[i].to, texts[i].size, "%s", value);
	if (!strcmp(key, "pid"))
		(void)parse_u64(value, &holder->pid);
	if (!strcmp(key, "start"))
		(void)parse_u64(value, &holder->start);
}

/* Whatever it says; unknown and malformed lines are passed over. */
static void holder_parse(char *text, struct holder *ret)
{
	*ret = (struct holder){.host = "unknown", .what = "?", .since = "?"};
	while (*text) {
		char *next = text + strcspn(text, "\n");
		char *colon;

		if (*next)
			*next++ = '\0';
		colon = strstr(text, ": ");
		if (colon) {
			*colon = '\0';
			set_field(ret, text, colon + 2);
		}
		text = next;
	}
}

static bool is_dead(const struct holder *holder)
{
	struct holder self;

	this_process("", &self);
	if (!self.boot[0] || !self.pid_namespace[0] || !self.start ||
	    !holder->pid || !holder->start ||
	    strcmp(self.boot, holder->boot) != 0 ||
	    strcmp(self.pid_namespace, holder->pid_namespace) != 0)
		return false;
	return start_of_process(holder->pid) != holder->start;
}

/* 0: may be taken over; -EBUSY: no; -ENOENT: it is gone. */
static int judge(struct lease *lease, struct err *err)
{
	const struct mirror *mirror = lease->mirror;
	struct err why = {0};
	struct holder holder;
	struct buf text;
	int64_t age_s;
	int r;

	buf_init(&text, LEASE_LIMIT);
	r = mirror->ops->lease_read(lease, &text, &age_s, &why);
	if (r == 0)
		r = buf_append(&text, "", 1);
	if (r == 0)
		holder_parse((char *)text.data, &holder);
	buf_release(&text);
	if (r == -ENOENT)
		return r;
	if (r < 0)
		return err_set(err, -r, "cannot read '%s/%s': %s", mirror->path,
			       LEASE_NAME, err_text(&why, r));
	if (is_dead(&holder) || age_s > LEASE_STALE_S)
		return 0;
	return err_set(
		err, EBUSY,
		"mirror '%s' is in use: larder %s on host '%s', process %" PRIu64
		", since %s",
		mirror->path, holder.what, holder.host, holder.pid,
		holder.since);
}

static int write_lease(struct lease *lease, const char *what, bool is_new,
		       struct err *why)
{
	struct holder self;
	struct buf text;
	int r;

	this_process(what, &self);
	buf_init(&text, LEASE_LIMIT);
	r = holder_print(&self, &text);
	if (r == 0)
		r = lease->mirror->ops->lease_write(lease, &text, is_new, why);
	buf_release(&text);
	return r;
}

static int try_take(struct lease *lease, const char *what, struct err *err)
{
	struct err why = {0};
	int r = write_lease(lease, what, true, &why);

	if (r == -EEXIST) {
		r = judge(lease, err);
		if (r < 0)
			return r;
		r = write_lease(lease, what, false, &why);
	}
	if (r < 0 && r != -ENOENT)
		err_set(err, -r, "cannot write to mirror '%s': %s",
			lease->mirror->path, err_text(&why, r));
	return r;
}

int lease_take(const struct mirror *mirror, const char *what,
	       struct lease **ret, struct err *err)
{
	struct lease *lease = calloc(1, sizeof(*lease));
	int r = -ENOENT;

	if (!lease)
		return err_set(err, ENOMEM, "out of memory");
	lease->mirror = mirror;
	lease->fd = -1;
	for (int i = 0; i < TAKE_TRIES && r == -ENOENT; i++)
		r = try_take(lease, what, err);
	if (r == -ENOENT)
		r = err_set(err, EBUSY, "mirror '%s' is in use", mirror->path);
	if (r < 0) {
		free(lease);
		return r;
	}
	*ret = lease;
	return 0;
}

int lease_renew(struct lease *lease, struct err *err)
{
	struct err why = {0};
	int r = lease->mirror->ops->lease_renew(lease, &why);

	if (r == -ESTALE)
		return err_set(
			err, ESTALE,
			"lost the lease of mirror '%s': another process took it over",
			lease->mirror->path);
	if (r < 0)
		return err_set(err, -r,
			       "cannot renew the lease of mirror '%s': %s",
			       lease->mirror->path, err_text(&why, r));
	return 0;
}

void lease_release(struct lease *lease)
{
	if (!lease)
		return;
	lease->mirror->ops->lease_remove(lease);
	if (lease->fd >= 0)
		close(lease->fd);
	free(lease);
}
