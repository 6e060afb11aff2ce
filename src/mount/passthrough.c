/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that never reach us. The kernel's words for it are written down here,
 * since the headers of older systems lack them. libfuse before 3.17 has no
 * interface for it: INIT's reply is completed on its way out, and an open's
 * reply is made here.
 *
 * Rules of the kernel (tried on 6.18): an inode's first open decides, later
 * ones must follow, with the same backing id, until all are released; a broken
 * rule is EIO for the program. So opens are counted (opened.h) as soon as
 * the kernel was asked, also the ordinary ones. A stacked filesystem or an
 * unprivileged process is told by the first try, on a file nobody reads.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#define LOG_MODULE "mount"
#include "base/log.h"
#include "mount/early.h"
#include "mount/opened.h"
#include "mount/passthrough.h"

/* ---- uapi: linux/fuse.h of Linux 6.9 */

#define ABI_INIT_EXT (1u << 30)	       /* flags: flags2 counts */
#define ABI_PASSTHROUGH2 (1u << 5)     /* flags2: FUSE_PASSTHROUGH >> 32 */
#define ABI_OPEN_NOFLUSH (1u << 5)     /* FOPEN_NOFLUSH */
#define ABI_OPEN_PASSTHROUGH (1u << 7) /* FOPEN_PASSTHROUGH */

struct abi_in_header {
	uint32_t len, opcode;
	uint64_t unique, nodeid;
	uint32_t uid, gid, pid, padding;
};

struct abi_init_in {
	uint32_t major, minor, max_readahead, flags, flags2;
};

struct abi_init_out {
	uint32_t major, minor, max_readahead, flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write, time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2, max_stack_depth;
	uint32_t unused[6];
};

struct abi_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};

struct abi_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};

#define ABI_BACKING_OPEN _IOW(229, 1, struct abi_backing_map)
#define ABI_BACKING_CLOSE _IOW(229, 2, uint32_t)

/* Of our own filesystem: one more may be stacked on it (overlayfs). */
#define STACK_DEPTH 1

_Static_assert(sizeof(struct abi_init_out) == PASSTHROUGH_ROOM, "uapi");

/* ---- on or off */

void passthrough_init(struct passthrough *passthrough, bool is_wanted)
{
	struct err err = {0};

	*passthrough = (struct passthrough){.fd = -1, .is_wanted = is_wanted};
	pthread_mutex_init(&passthrough->lock, NULL);
	snprintf(passthrough->why, sizeof(passthrough->why), "%s",
		 is_wanted ? "this kernel has no passthrough" :
			     "nopassthrough");
	/* a limit on the size of files, perhaps */
	if (opened_new(&passthrough->opened, &err) < 0)
		snprintf(passthrough->why, sizeof(passthrough->why), "%.*s",
			 (int)sizeof(passthrough->why) - 1, err.text);
}

/* The kernel forgets the ids with the session. */
void passthrough_release(struct passthrough *passthrough)
{
	struct open_way way;

	while (passthrough->opened &&
	       opened_take(passthrough->opened, &way) == 1)
		snapshot_backing_release(way.held);
	opened_free(steal_ptr(passthrough->opened));
	pthread_mutex_destroy(&passthrough->lock);
}

#ifdef HAVE_STRUCT_FUSE_FILE_INFO_BACKING_ID
void passthrough_ask(struct passthrough *passthrough,
		     struct fuse_conn_info *conn)
{
	if (!passthrough->opened || !passthrough->is_wanted ||
	    !(conn->capable & FUSE_CAP_PASSTHROUGH))
		return;
	conn->want |= FUSE_CAP_PASSTHROUGH;
	/* libfuse does not count our own layer, the kernel does */
	conn->max_backing_stack_depth = STACK_DEPTH - 1;
	atomic_store(&passthrough->is_asked, true);
}

void passthrough_complete(struct passthrough *passthrough, const void *request,
			  size_t request_len, struct iovec *body,
			  char room[PASSTHROUGH_ROOM])
{
	(void)passthrough;
	(void)request;
	(void)request_len;
	(void)body;
	(void)room;
}
#else
void passthrough_ask(struct passthrough *passthrough,
		     struct fuse_conn_info *conn)
{
	(void)passthrough;
	(void)conn;
}

void passthrough_complete(struct passthrough *passthrough, const void *request,
			  size_t request_len, struct iovec *body,
			  char room[PASSTHROUGH_ROOM])
{
	struct abi_init_out out;
	struct abi_init_in in;

	if (!passthrough->opened || !passthrough->is_wanted ||
	    request_len < sizeof(struct abi_in_header) + sizeof(in) ||
	    body->iov_len != sizeof(out))
		return;
	memcpy(&in, (const char *)request + sizeof(struct abi_in_header),
	       sizeof(in));
	if (!(in.flags & ABI_INIT_EXT) || !(in.flags2 & ABI_PASSTHROUGH2))
		return;
	memcpy(&out, body->iov_base, sizeof(out));
	out.flags |= ABI_INIT_EXT;
	out.flags2 |= ABI_PASSTHROUGH2;
	out.max_stack_depth = STACK_DEPTH;
	memcpy(room, &out, sizeof(out));
	body->iov_base = room;
	atomic_store(&passthrough->is_asked, true);
}
#endif

/* The backing id, or a negative errno. */
static int backing_open(const struct passthrough *passthrough, int fd)
{
	struct abi_backing_map map = {.fd = fd};
	int id = ioctl(passthrough->fd, ABI_BACKING_OPEN, &map);

	return id < 0 ? -errno : id;
}

static void backing_close(const struct passthrough *passthrough, int id)
{
	uint32_t number = (uint32_t)id;

	if (id > 0 && ioctl(passthrough->fd, ABI_BACKING_CLOSE, &number) < 0)
		log_debug("cannot close a backing id: %s", strerror(errno));
}

static void turn_off(struct passthrough *passthrough, int r)
{
	scoped_lock(&passthrough->lock);

	atomic_store(&passthrough->is_on, false);
	snprintf(passthrough->why, sizeof(passthrough->why), "%s",
		 r == -EPERM ? "only root's mounts have it" :
		 r == -ELOOP ? "the cache is on a stacked filesystem" :
			       strerror(-r));
}

void passthrough_begin(struct passthrough *passthrough, int session_fd,
		       int probe_fd)
{
	char text[PASSTHROUGH_TEXT];
	int id = probe_fd;

	passthrough->fd = session_fd;
	if (atomic_load(&passthrough->is_asked)) {
		if (probe_fd >= 0)
			id = backing_open(passthrough, probe_fd);
		if (id > 0) {
			backing_close(passthrough, id);
			atomic_store(&passthrough->is_on, true);
		} else {
			turn_off(passthrough, id ?: -EINVAL);
		}
	}
	passthrough_text(passthrough, text);
	log_debug("passthrough: %s", text);
}

/* ---- opens */

/* Way of an open of this file that nobody has open. The backing is given up
 * where the kernel does not take it. */
static void choose_way(struct passthrough *passthrough,
		       struct cache_blob *backing, int fd, struct open_way *ret)
{
	int id = backing_open(passthrough, fd);

	close(fd);
	if (id > 0) {
		*ret = (struct open_way){.mode = OPEN_PASSTHROUGH,
					 .backing_id = id,
					 .held = backing};
		return;
	}
	snapshot_backing_release(backing);
	log_limited(60000, log_info("a file is not passed through: %s",
				    strerror(-id)));
}

static void end_way(const struct passthrough *passthrough,
		    const struct open_way *way)
{
	backing_close(passthrough, way->backing_id);
	snapshot_backing_release(way->held);
}

/* keep_cache must not be set with passthrough. */
static int send_reply(struct op *op, const struct open_way *way)
{
	if (way->mode != OPEN_PASSTHROUGH)
		return fuse_reply_open(op->req, &op->file);
#ifdef HAVE_STRUCT_FUSE_FILE_INFO_BACKING_ID
	op->file.keep_cache = 0;
	op->file.backing_id = way->backing_id;
	return fuse_reply_open(op->req, &op->file);
#else
	struct abi_open_out out = {
		.fh = op->file.fh,
		.open_flags = ABI_OPEN_PASSTHROUGH | ABI_OPEN_NOFLUSH,
		.backing_id = way->backing_id,
	};

	return fuse_reply_buf(op->req, (const char *)&out, sizeof(out));
#endif
}

static int answer(struct passthrough *passthrough, struct op *op,
		  const struct open_way *way, uint64_t handle)
{
	op->file.fh = handle;
	/* nobody waits for it any more: there will be no release */
	if (send_reply(op, way) < 0)
		passthrough_closed(passthrough, handle);
	return 0;
}

int passthrough_open(struct passthrough *passthrough, struct op *op,
		     const struct target *target, uint64_t early_bytes,
		     struct err *err)
{
	struct open_way way = {.mode = OPEN_CACHED}, agreed;
	struct cache_blob *backing;
	uint64_t handle;
	int fd, r;

	if (!passthrough->opened) {
		fuse_reply_open(op->req, &op->file);
		return 0;
	}
	r = opened_join(passthrough->opened, op->ino, op->unique, &agreed,
			&handle);
	if (r == 1)
		return answer(passthrough, op, &agreed, handle);
	if (r == 0 && atomic_load(&passthrough->is_on))
		r = snapshot_backing(target->slot->snapshot, target->number,
				     &op->waiter, &backing, &fd, err);
	if (r < 0 || r == DATASET_PARKED)
		return r;
	if (r == SNAPSHOT_BACKED)
		choose_way(passthrough, backing, fd, &way);
	r = opened_add(passthrough->opened, op->ino, op->unique, &way, &agreed,
		       &handle);
	if (r != 1)
		end_way(passthrough, &way);
	else if (early_bytes && way.mode == OPEN_CACHED)
		early_give(op, target, early_bytes);
	return r < 0 ? r : answer(passthrough, op, &agreed, handle);
}

void passthrough_closed(struct passthrough *passthrough, uint64_t handle)
{
	struct open_way way;

	if (handle && opened_remove(passthrough->opened, handle, &way) == 1)
		end_way(passthrough, &way);
}

/* ---- what is told of it */

bool passthrough_has(struct passthrough *passthrough, uint64_t ino)
{
	return passthrough->opened &&
	       opened_mode(passthrough->opened, ino) == OPEN_PASSTHROUGH;
}

void passthrough_text(struct passthrough *passthrough,
		      char ret[PASSTHROUGH_TEXT])
{
	scoped_lock(&passthrough->lock);

	if (atomic_load(&passthrough->is_on)) {
		unsigned long long count =
			opened_passed_count(passthrough->opened);

		snprintf(ret, PASSTHROUGH_TEXT, "on, %llu file%s", count,
			 count == 1 ? "" : "s");
	} else {
		snprintf(ret, PASSTHROUGH_TEXT, "off: %.88s", passthrough->why);
	}
}
