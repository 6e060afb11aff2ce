/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor, the mount(2), and the workers. Root mounts by itself: no
 * setuid program is needed and AppArmor's profile of fusermount3 does not
 * apply. The workers are ours and fixed in number: since no request waits for
 * the network in one, a few are enough, and none is ever started or ended on
 * the way. As many as there are processors take requests in turn, which is
 * best for what is in memory; one that may sleep for the disk gives its turn to
 * another, so that as many reads as the disk likes are under way. clone_fd is
 * off: a request taken through a clone dies with the process.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#define LOG_MODULE "mount"
#include "base/log.h"
#include "mount/internal.h"
#include "mount/passthrough.h"
#include "mount/session.h"

#define WAKE_SIGNAL SIGUSR1 /* makes a worker leave its read */
#define JOIN_STEP_NS 20000000
#define TURNS_MIN 2
#define OPTIONS_BYTES_MAX 65536u
/* Longer than a program takes from one file to the next. */
#define AWAIT_NS 60000u
/* uapi, linux/fuse.h */
#define FUSE_OPCODE_READ 15u
#define FUSE_OPCODE_INIT 26u
#define FUSE_OPCODE_NONE 0u
#define FUSE_PARALLEL_DIROPS (1u << 18)
#define INIT_IN_FLAGS (40u + 12u) /* fuse_in_header, then fuse_init_in */
#define INIT_OUT_FLAGS 12u

static struct session *session_of(void *userdata)
{
	struct fs *fs = userdata;

	return fs->session;
}

static _Thread_local uint64_t last_unique;

uint64_t session_unique(void)
{
	return last_unique;
}

/*
 * Who goes through many files asks again within microseconds, and a processor
 * that went to sleep meanwhile is slow to wake, in a virtual machine slower
 * than the answer to an open took: a third of the time of a cold cp -r. So one
 * thread looks for the next request for a moment before it sleeps, behind
 * whoever else wants the processor. Reads that stream are queued as it is.
 */
static void await_next(struct session *session, int fd)
{
	struct pollfd next = {.fd = fd, .events = POLLIN};
	uint64_t until;

	if (session->processors < 2 ||
	    atomic_exchange(&session->is_awaiting, true))
		return;
	until = now_ns() + AWAIT_NS;
	while (poll(&next, 1, 0) == 0 && now_ns() < until)
		sched_yield();
	atomic_store(&session->is_awaiting, false);
}

static ssize_t session_read(int fd, void *buf, size_t size, void *userdata)
{
	static _Thread_local uint32_t opcode = FUSE_OPCODE_NONE;
	struct session *session = session_of(userdata);
	ssize_t n;

	if (opcode != FUSE_OPCODE_NONE && opcode != FUSE_OPCODE_READ)
		await_next(session, fd);
	opcode = FUSE_OPCODE_NONE;
	n = read(fd, buf, size);
	/* fuse_in_header: length, opcode, unique */
	if (n < 16)
		return n;
	memcpy(&last_unique, (uint8_t *)buf + 8, sizeof(last_unique));
	memcpy(&opcode, (uint8_t *)buf + 4, sizeof(opcode));
	if (atomic_load_explicit(&session->has_init, memory_order_relaxed))
		return n;
	if (opcode == FUSE_OPCODE_INIT && n <= SESSION_INIT_BYTES) {
		memcpy(session->init, buf, (size_t)n);
		session->init_len = (size_t)n;
		atomic_store(&session->has_init, true);
	}
	return n;
}

/* libfuse before 3.17 takes the wish for FUSE_CAP_PARALLEL_DIROPS and does not
 * pass it on; then one look-up that waits for a mirror would hold up all
 * others in its directory. */
static void allow_parallel_lookups(const struct session *session,
				   struct iovec *body)
{
	uint32_t offered, flags;

	if (session->init_len < INIT_IN_FLAGS + sizeof(offered) ||
	    body->iov_len < INIT_OUT_FLAGS + sizeof(flags))
		return;
	memcpy(&offered, session->init + INIT_IN_FLAGS, sizeof(offered));
	memcpy(&flags, (uint8_t *)body->iov_base + INIT_OUT_FLAGS,
	       sizeof(flags));
	flags |= offered & FUSE_PARALLEL_DIROPS;
	memcpy((uint8_t *)body->iov_base + INIT_OUT_FLAGS, &flags,
	       sizeof(flags));
}

static ssize_t session_writev(int fd, struct iovec *iov, int count,
			      void *userdata)
{
	const struct fs *fs = userdata;
	struct session *session = fs->session;
	char room[PASSTHROUGH_ROOM];

	if (atomic_load_explicit(&session->has_answered, memory_order_acquire))
		return writev(fd, iov, count);
	/* Nothing else is asked before INIT is answered. fuse_out_header:
	 * length, error, unique. */
	if (memcmp((uint8_t *)iov[0].iov_base + 8, session->init + 8, 8))
		return writev(fd, iov, count);
	if (count == 2) {
		allow_parallel_lookups(session, &iov[1]);
		passthrough_complete(fs->passthrough, session->init,
				     session->init_len, &iov[1], room);
	}
	ssize_t n = writev(fd, iov, count);
	atomic_store(&session->has_answered, true);
	return n;
}

static ssize_t session_splice_send(int from, off_t *from_offset, int to,
				   off_t *to_offset, size_t len,
				   unsigned int flags, void *userdata)
{
	(void)userdata;
	return splice(from, from_offset, to, to_offset, len, flags);
}

static const struct fuse_custom_io session_io = {
	.writev = session_writev,
	.read = session_read,
	.splice_send = session_splice_send,
};

/* An option's value for libfuse and fusermount3: ',' and '\' escaped. */
static int append_escaped(struct buf *buf, const char *text)
{
	int r = 0;

	for (; *text && r == 0; text++) {
		if (*text == ',' || *text == '\\')
			r = buf_append(buf, "\\", 1);
		if (r == 0)
			r = buf_append(buf, text, 1);
	}
	return r;
}

/* For fusermount3 only; mount(2) gets its own below. */
static char *helper_options(const struct mount_options *options)
{
	struct buf buf;

	buf_init(&buf, OPTIONS_BYTES_MAX);
	int r = buf_printf(
		&buf,
		"ro,nosuid,nodev,default_permissions,subtype=larder,max_read=%u%s%s%s,fsname=",
		MOUNT_READ_BYTES, options->noexec ? ",noexec" : "",
		options->allow_other ? ",allow_other" : "",
		options->allow_root ? ",allow_root" : "");
	if (r == 0)
		r = append_escaped(&buf, options->source);
	if (r == 0)
		r = buf_append(&buf, "", 1);
	if (r < 0) {
		buf_release(&buf);
		return NULL;
	}
	return (char *)buf_steal(&buf, NULL);
}

int session_open(struct session *session, struct fs *fs, struct err *err)
{
	_cleanup_free_ char *options = helper_options(fs->options);
	char *argv[] = {"larder", "-o", options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);

	*session = (struct session){
		.fd = -1, .end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	pthread_mutex_init(&session->turns_lock, NULL);
	pthread_cond_init(&session->turn_is_free, NULL);
	if (!options || session->end_fd < 0)
		return err_set(err, ENOMEM, "out of memory");
	fs->session = session;
	session->fuse =
		fuse_session_new(&args, &mount_ops, sizeof(mount_ops), fs);
	fuse_opt_free_args(&args);
	if (!session->fuse)
		return err_set(err, EINVAL,
			       "libfuse refused the mount options");
	return 0;
}

static int mount_by_call(struct session *session,
			 const struct mount_options *options, const char *path,
			 struct err *err)
{
	unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV |
			      (options->noexec ? MS_NOEXEC : 0);
	_cleanup_free_ char *data = NULL;
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, errno, "cannot open '/dev/fuse': %s%s",
			       strerror(errno),
			       errno == ENOENT || errno == ENXIO ||
					       errno == ENODEV ?
				       " (load the module: modprobe fuse)" :
				       "");
	if (asprintf(
		    &data,
		    "fd=%d,rootmode=40000,max_read=%u,user_id=%u,group_id=%u,default_permissions%s%s%s",
		    fd, MOUNT_READ_BYTES, (unsigned)geteuid(),
		    (unsigned)getegid(),
		    options->allow_other || options->allow_root ?
			    ",allow_other" :
			    "",
		    options->context ? "," : "",
		    options->context ? options->context : "") < 0)
		return err_set(err, ENOMEM, "out of memory");
	if (mount(options->source, path, "fuse.larder", flags, data) < 0)
		return err_set(err, errno, "cannot mount at '%s': %s", path,
			       strerror(errno));
	session->fd = steal_fd(&fd);
	return 0;
}

/* fusermount3 has said on standard error what it had against it. */
static int helper_failed(const struct mount_options *options, const char *path,
			 struct err *err)
{
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		return err_set(
			err, EPERM,
			"cannot mount at '%s': /dev/fuse: %s; have root %s",
			path, strerror(errno),
			errno == EACCES ? "give it mode 0666" :
					  "load the module fuse");
	return err_set(
		err, EPERM,
		"fusermount3 could not mount at '%s': it must be installed (package fuse3) and the directory yours%s%s",
		path,
		access("/sys/module/apparmor", F_OK) == 0 ?
			" and allowed by AppArmor (/etc/apparmor.d/local/fusermount3)" :
			"",
		options->allow_other || options->allow_root ?
			"; allow_other and allow_root need user_allow_other in /etc/fuse.conf" :
			"");
}

static int mount_by_helper(struct session *session,
			   const struct mount_options *options,
			   const char *path, struct err *err)
{
	if (fuse_session_mount(session->fuse, path) < 0)
		return helper_failed(options, path, err);
	session->fd = fuse_session_fd(session->fuse);
	session->is_by_helper = true;
	return 0;
}

int session_mount(struct session *session, const struct mount_options *options,
		  struct err *err)
{
	int given = mountpoint_fd(options->mountpoint), r = 0;

	if (given >= 0) {
		session->fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
		if (session->fd < 0)
			return err_set(err, errno, "'%s' is no open descriptor",
				       options->mountpoint);
	} else {
		r = mountpoint_resolve(options->mountpoint,
				       &session->mountpoint, err);
		if (r < 0)
			return r;
		r = geteuid() == 0 ? mount_by_call(session, options,
						   session->mountpoint, err) :
				     -EPERM;
		if (r == -EPERM)
			r = mount_by_helper(session, options,
					    session->mountpoint, err);
		if (r < 0) {
			free(steal_ptr(session->mountpoint));
			return r;
		}
	}
	r = fuse_session_custom_io(session->fuse, &session_io, session->fd);
	return r < 0 ? err_set(err, EIO, "libfuse refused the descriptor") : 0;
}

static _Thread_local bool has_turn;

/* False at the end. */
static bool take_turn(struct session *session)
{
	if (has_turn)
		return !fuse_session_exited(session->fuse);
	scoped_lock(&session->turns_lock);
	while (!session->turns && !fuse_session_exited(session->fuse))
		pthread_cond_wait(&session->turn_is_free, &session->turns_lock);
	if (fuse_session_exited(session->fuse))
		return false;
	session->turns--;
	has_turn = true;
	return true;
}

void session_may_sleep(struct session *session)
{
	if (!has_turn)
		return;
	has_turn = false;
	scoped_lock(&session->turns_lock);
	session->turns++;
	pthread_cond_signal(&session->turn_is_free);
}

static void end_turns(struct session *session)
{
	scoped_lock(&session->turns_lock);
	fuse_session_exit(session->fuse);
	pthread_cond_broadcast(&session->turn_is_free);
}

static void *work(void *arg)
{
	struct session *session = arg;
	struct fuse_buf buf = {0};
	uint64_t one = 1;

	while (take_turn(session)) {
		int n = fuse_session_receive_buf(session->fuse, &buf);

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			break;
		fuse_session_process_buf(session->fuse, &buf);
	}
	free(buf.mem);
	atomic_fetch_add(&session->ended_count, 1);
	(void)!write(session->end_fd, &one, sizeof(one));
	return NULL;
}

static void on_wake_signal(int number)
{
	(void)number;
}

int session_start(struct session *session, struct err *err)
{
	struct sigaction action = {.sa_handler =
					   on_wake_signal}; /* no SA_RESTART */
	sigset_t wake, old;
	unsigned turns;
	int r = 0;

	session->processors = (unsigned)get_nprocs();
	turns = session->processors < TURNS_MIN ? TURNS_MIN :
						  session->processors;
	session->turns = turns > SESSION_TURNS_MAX ? SESSION_TURNS_MAX : turns;
	sigaction(WAKE_SIGNAL, &action, NULL);
	sigemptyset(&wake);
	sigaddset(&wake, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &wake, &old);
	while (r == 0 && session->thread_count < SESSION_THREADS) {
		r = pthread_create(&session->threads[session->thread_count],
				   NULL, work, session);
		if (r == 0)
			session->thread_count++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return session->thread_count ?
		       0 :
		       err_set(err, r, "cannot start threads: %s", strerror(r));
}

/* A worker may sit in its read, or be about to: it is woken until it is gone.
 */
static void join(pthread_t thread)
{
	struct timespec until;

	do {
		pthread_kill(thread, WAKE_SIGNAL);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += JOIN_STEP_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(thread, NULL, &until) == ETIMEDOUT);
}

/* What the kernel still waits for, nobody will answer: let it go now, also the
 * lock that an invalidation under way may want. The number stays taken, so
 * that late answers go nowhere. */
static void hang_up(struct session *session)
{
	_cleanup_close_ int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nowhere >= 0 && session->mountpoint && session->fd >= 0)
		dup3(nowhere, session->fd, O_CLOEXEC);
}

void session_stop(struct session *session)
{
	/* gone already when an unmount is why we stop */
	bool is_gone = atomic_load(&session->ended_count) > 0;

	if (!session->fuse)
		return;
	end_turns(session);
	if (session->mountpoint && !session->is_by_helper && !is_gone) {
		bool is_ours = false;

		if (mountinfo_find(session->mountpoint, &is_ours, NULL) > 0 &&
		    is_ours)
			umount2(session->mountpoint,
				MNT_DETACH | UMOUNT_NOFOLLOW);
	}
	while (session->thread_count)
		join(session->threads[--session->thread_count]);
	if (session->is_by_helper)
		fuse_session_unmount(session->fuse);
	else
		hang_up(session);
}

void session_close(struct session *session)
{
	if (session->fuse)
		fuse_session_destroy(session->fuse);
	if (session->end_fd >= 0)
		close(session->end_fd);
	free(session->mountpoint);
	*session = (struct session){.fd = -1, .end_fd = -1};
}
