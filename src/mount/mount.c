/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mount's life, in the order that keeps promises: everything that may fail
 * first, then the mount, then "ready" once the kernel has been answered. A
 * single dataset must have a head before it is mounted; several are opened at
 * their first use, so a dead mirror never holds up the others.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "mount"
#include "base/log.h"
#include "base/text.h"
#include "mount/datasets.h"
#include "mount/early.h"
#include "mount/internal.h"
#include "mount/passthrough.h"
#include "mount/prefetches.h"
#include "mount/session.h"
#include "mount/views.h"

#define INIT_LIMIT_MS 5000u /* the kernel sends INIT by itself */
#define TICK_MS 1000
#define TICK_WATCHED_MS 500 /* while killed readers may be waiting */
/* Measured with reads of MOUNT_READ_BYTES, warm, one reader: 128 KiB 2.3 GB/s,
 * 1 MiB 3.3, 4 MiB 3.4, 16 MiB 3.7; more of it costs a random mmap too much. */
#define READ_AHEAD_BYTES (4u << 20)
#define LINE_BYTES 512u
/* malloc arenas: RSS of many threads that allocate little */
#define ARENAS_MAX 2
#define DESCRIPTORS_WANTED 65536u

/* The first head may take as long as the mirror is given; a signal ends the
 * wait, and then the waiter stays parked until the node closes. */
struct opening {
	struct waiter waiter; /* first: on_opening_wake finds the rest by it */
	int event_fd;
	bool is_parked;
};

static void on_opening_wake(struct waiter *waiter)
{
	struct opening *opening = (struct opening *)waiter;
	uint64_t one = 1;

	(void)!write(opening->event_fd, &one, sizeof(one));
}

static int open_single(struct fs *fs, struct opening *opening, int signal_fd,
		       struct err *err)
{
	struct pollfd waits[] = {
		{.fd = opening->event_fd, .events = POLLIN},
		{.fd = signal_fd, .events = POLLIN},
	};
	struct slot *slot;
	uint64_t drained;

	for (;;) {
		int r = tree_current(&fs->tree, tree_get(&fs->tree, 0),
				     &opening->waiter, &slot, err);

		if (r != DATASET_PARKED)
			return r;
		opening->is_parked = true;
		while (poll(waits, 2, -1) < 0 && errno == EINTR)
			;
		if (!waits[0].revents)
			return err_set(err, EINTR, "interrupted");
		(void)!read(opening->event_fd, &drained, sizeof(drained));
		opening->is_parked = false;
	}
}

static void ready_line(struct fs *fs, char *line, size_t size)
{
	const struct mount_options *options = fs->options;
	char bytes[FORMAT_MAX], count[FORMAT_MAX];

	if (options->is_single) {
		struct slot *slot = tree_slot(&fs->tree, 1);

		uint64_t entries = snapshot_entry_count(slot->snapshot);

		snprintf(line, size, "%s: %s in %s %s at %s",
			 dataset_name(tree_get(&fs->tree, 0)->dataset),
			 format_size(snapshot_total_bytes(slot->snapshot),
				     bytes),
			 format_count(entries, count),
			 entries == 1 ? "entry" : "entries",
			 options->mountpoint);
	} else if (fs->views && options->dataset_count == 1) {
		snprintf(line, size, "%s at %s", options->source,
			 options->mountpoint);
	} else {
		snprintf(line, size, "%zu dataset%s at %s",
			 options->dataset_count, plural(options->dataset_count),
			 options->mountpoint);
	}
}

static void status_line(struct fs *fs, char *line, size_t size)
{
	size_t failed = 0, stale = 0, total = 0;

	struct tree_dir *dir;

	for (size_t i = 0; (dir = tree_get(&fs->tree, i)); i++) {
		struct dataset_info info;

		total += tree_is_dataset(dir);
		failed += dir->fault != NULL;
		if (!dir->dataset)
			continue;
		dataset_info(dir->dataset, &info);
		failed += info.state == DATASET_FAILED;
		stale += info.state == DATASET_STALE;
	}
	snprintf(line, size, "%zu dataset%s, %zu stale, %zu failed", total,
		 plural(total), stale, failed);
}

/* The kernel's own default window of 128 KiB keeps one request in flight. Only
 * root may change it, and only once INIT has been answered. */
static void set_read_ahead(const struct session *session, uint64_t bytes)
{
	_cleanup_free_ char *text = NULL;
	struct mount_entry entry;
	char path[64], value[24];

	if (!session->mountpoint || geteuid() != 0 ||
	    mountinfo_read(&text, NULL) < 0)
		return;
	for (char *cursor = text; mountinfo_next(&cursor, &entry);) {
		if (strcmp(entry.mountpoint, session->mountpoint) ||
		    !mount_entry_is_ours(&entry))
			continue;
		snprintf(path, sizeof(path),
			 "/sys/class/bdi/%u:%u/read_ahead_kb",
			 entry.major_number, entry.minor_number);
		snprintf(value, sizeof(value), "%llu",
			 (unsigned long long)bytes / 1024);
		_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, value, strlen(value)) < 0)
			log_debug("cannot set '%s': %s", path, strerror(errno));
	}
}

static int wait_for_init(const struct session *session, struct err *err)
{
	uint64_t end = now_ms() + INIT_LIMIT_MS;

	while (!atomic_load(&session->has_answered)) {
		if (atomic_load(&session->ended_count) || now_ms() >= end)
			return err_set(err, EIO,
				       "the kernel did not begin the session");
		poll(NULL, 0, 1);
	}
	return 0;
}

static void serve(struct fs *fs, struct session *session, int signal_fd,
		  const struct mount_status *status)
{
	struct pollfd waits[] = {
		{.fd = signal_fd, .events = POLLIN},
		{.fd = session->end_fd, .events = POLLIN},
		{.fd = fs->parking.event_fd, .events = POLLIN},
	};
	char line[LINE_BYTES];
	bool is_watching = false;

	for (;;) {
		struct signalfd_siginfo info;

		poll(waits, 3, is_watching ? TICK_WATCHED_MS : TICK_MS);
		if (waits[1].revents)
			return;
		if (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo != SIGHUP)
				return;
			datasets_reload(fs, status);
		}
		is_watching = parking_give_up_killed(&fs->parking);
		if (status->tick) {
			status_line(fs, line, sizeof(line));
			status->tick(status->arg, line);
		}
	}
}

static void begin_passthrough(struct fs *fs, const struct session *session)
{
	_cleanup_close_ int probe_fd = node_probe_fd(fs->node);

	passthrough_begin(fs->passthrough, session->fd, probe_fd);
}

static int signals_open(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	/* before any thread is started: they inherit it */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A descriptor for each blob file in use. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur >= DESCRIPTORS_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ?
				 limit.rlim_max :
				 DESCRIPTORS_WANTED;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void on_fuse_log(enum fuse_log_level level, const char *format,
			va_list args) __attribute__((format(printf, 2, 0)));
static void on_fuse_log(enum fuse_log_level level, const char *format,
			va_list args)
{
	char text[LINE_BYTES];

	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	if (level <= FUSE_LOG_WARNING)
		log_warning("libfuse: %s", text);
	else
		log_debug("libfuse: %s", text);
}

static int run(struct fs *fs, struct session *session, struct opening *opening,
	       const struct mount_status *status, struct err *err)
{
	char line[LINE_BYTES];
	_cleanup_close_ int signal_fd = signals_open();

	if (signal_fd < 0)
		return err_set(err, errno, "cannot open a signalfd: %s",
			       strerror(errno));
	int r = session_open(session, fs, err);
	if (r == 0)
		r = node_open(&fs->options->node, &fs->node, err);
	if (r == 0)
		r = datasets_build(fs, err);
	if (r == 0 && fs->options->is_single)
		r = open_single(fs, opening, signal_fd, err);
	if (r == 0)
		r = session_mount(session, fs->options, err);
	if (r == 0)
		r = session_start(session, err);
	if (r == 0)
		r = wait_for_init(session, err);
	if (r < 0)
		return r;
	begin_passthrough(fs, session);
	datasets_watch(fs);
	set_read_ahead(session, fs->options->read_ahead_bytes ?
					fs->options->read_ahead_bytes :
					READ_AHEAD_BYTES);
	ready_line(fs, line, sizeof(line));
	if (status->ready)
		status->ready(status->arg, line);
	node_serves(fs->node);
	serve(fs, session, signal_fd, status);
	return 0;
}

/* Nothing of ours is used by any thread afterwards but what the node wakes. */
static void close_gate(struct fs *fs)
{
	atomic_store(&fs->is_closing, true);
	while (atomic_load(&fs->running_count))
		poll(NULL, 0, 1);
}

static const mode_t restricted_masks[] = {
	[MOUNT_FOR_OWNER] = 0700,
	[MOUNT_FOR_GROUP] = 0770,
	[MOUNT_FOR_EVERYONE] = 0777,
};

int mount_run(const struct mount_options *options,
	      const struct mount_status *status, struct err *err)
{
	struct session session = {.fd = -1, .end_fd = -1};
	struct passthrough passthrough;
	struct early early = {0};
	struct opening opening = {
		.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct fs fs = {
		.options = options,
		.passthrough = &passthrough,
		.early = &early,
		.uid = geteuid(),
		.gid = getegid(),
		.start_s = wall_seconds(),
	};

	mallopt(M_ARENA_MAX, ARENAS_MAX);
	raise_descriptor_limit();
	fuse_set_log_func(on_fuse_log);
	waiter_init(&opening.waiter, on_opening_wake);
	passthrough_init(&passthrough, !options->nopassthrough);
	refusals_init(&fs.refusals);
	int r = parking_init(&fs.parking, err);
	if (r == 0)
		r = tree_init(&fs.tree, err);
	fs.tree.restricted_mask = restricted_masks[options->restricted];
	if (r == 0)
		r = prefetches_new(fs.uid, &fs.prefetches);
	if (r == 0)
		r = run(&fs, &session, &opening, status, err);
	session_stop(&session);
	close_gate(&fs);
	if (!opening.is_parked)
		waiter_release(&opening.waiter);
	passthrough_release(&passthrough);
	prefetches_close(fs.prefetches);
	views_close(&fs);
	tree_release(&fs.tree);
	/* wakes what still waits, which is answered without being run again */
	if (fs.node)
		node_close(fs.node);
	prefetches_free(fs.prefetches);
	views_free(&fs);
	session_close(&session);
	parking_release(&fs.parking);
	refusals_release(&fs.refusals);
	close(opening.event_fd);
	return r;
}
