/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of ioctl.c: a prefetch, or a look for new snapshots, in the
 * process that serves a mount.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mount/larder-ioctl.h"
#include "mount/mount.h"

/* The kernel may believe in a name for a second (TIMEOUT_CURRENT). */
#define NAMES_MS 1100u

struct mount_prefetch {
	int fd;
	uint64_t job;
	struct larder_prefetch_state state; /* as it was last told */
};

static int put_globs(struct larder_prefetch *request, const char *const *globs,
		     size_t count, struct err *err)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		size_t size = strlen(globs[i]) + 1;

		if (size == 1)
			return err_set(err, EINVAL, "a pattern is empty");
		if (size > sizeof(request->globs) - at)
			return err_set(
				err, E2BIG,
				"the patterns are too long for somebody else's mount");
		memcpy(request->globs + at, globs[i], size);
		at += size;
	}
	request->glob_count = (uint32_t)count;
	return 0;
}

static int explain(const char *path, int errnum, struct err *err)
{
	switch (errnum) {
	case EAGAIN:
		return err_set(
			err, EAGAIN,
			"too many prefetches are queued on this mount; wait for some to end");
	case ENOTTY:
		return err_set(err, ENOTTY,
			       "'%s' is not on a mount that takes prefetches",
			       path);
	case EINVAL:
		return err_set(
			err, EINVAL,
			"'%s' is in no dataset, or there are too many patterns",
			path);
	default:
		return err_set(
			err, errnum,
			"cannot prefetch '%s': %s (larder status may tell why)",
			path, strerror(errnum));
	}
}

int mount_prefetch_start(const char *path, const char *const *globs,
			 size_t glob_count, uint64_t limit_rate,
			 bool is_dry_run, struct mount_prefetch **ret,
			 struct err *err)
{
	_cleanup_free_ struct larder_prefetch *request =
		calloc(1, sizeof(*request));
	struct mount_prefetch *prefetch = calloc(1, sizeof(*prefetch));
	int r = -ENOMEM;

	if (request && prefetch) {
		request->limit_rate = limit_rate;
		request->flags = is_dry_run ? LARDER_PREFETCH_DRY_RUN : 0;
		r = put_globs(request, globs, glob_count, err);
	}
	if (r < 0) {
		free(prefetch);
		return r;
	}
	prefetch->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (prefetch->fd < 0 ||
	    ioctl(prefetch->fd, LARDER_IOC_PREFETCH, request) < 0) {
		r = explain(path, errno, err);
		mount_prefetch_free(prefetch);
		return r;
	}
	prefetch->job = request->job;
	*ret = prefetch;
	return 0;
}

static void copy_state(const struct larder_prefetch_state *state,
		       struct prefetch_info *ret)
{
	*ret = (struct prefetch_info){
		.state = state->state == LARDER_PREFETCH_QUEUED ?
				 PREFETCH_LISTING :
				 (enum prefetch_state)(state->state -
						       LARDER_PREFETCH_LISTING),
		.result = state->result,
		.files = state->files,
		.files_done = state->files_done,
		.files_failed = state->files_failed,
		.bytes = state->bytes,
		.bytes_done = state->bytes_done,
		.bytes_at_start = state->bytes_at_start,
		.wire_bytes = state->wire_bytes,
		.room_bytes = state->room_bytes,
		.stalled_ms = state->stalled_ms,
		.origin_count = state->origin_count,
	};
	snprintf(ret->reason, sizeof(ret->reason), "%s",
		 state->state == LARDER_PREFETCH_QUEUED ?
			 "queued behind others" :
			 state->reason);
	snprintf(ret->err.text, sizeof(ret->err.text), "%s", state->error);
	for (unsigned i = 0; i < ret->origin_count; i++) {
		ret->origins[i].name = state->origins[i].name;
		ret->origins[i].wire_bytes = state->origins[i].wire_bytes;
	}
}

int mount_prefetch_look(struct mount_prefetch *prefetch,
			struct prefetch_info *ret, struct err *err)
{
	prefetch->state = (struct larder_prefetch_state){.job = prefetch->job};
	if (ioctl(prefetch->fd, LARDER_IOC_PREFETCH_STATE, &prefetch->state) <
		    0 ||
	    prefetch->state.origin_count > LARDER_PREFETCH_ORIGINS)
		return err_set(err, errno, "the mount went away: %s",
			       strerror(errno));
	copy_state(&prefetch->state, ret);
	return 0;
}

void mount_prefetch_stop(struct mount_prefetch *prefetch)
{
	struct larder_prefetch_stop stop = {.job = prefetch->job};

	(void)ioctl(prefetch->fd, LARDER_IOC_PREFETCH_STOP, &stop);
}

void mount_prefetch_free(struct mount_prefetch *prefetch)
{
	if (!prefetch)
		return;
	if (prefetch->fd >= 0)
		close(prefetch->fd);
	free(prefetch);
}

/* ---- refresh */

static int explain_refresh(const char *path, int errnum, struct err *err)
{
	switch (errnum) {
	case EPERM:
		return err_set(err, EPERM,
			       "'%s' is on somebody else's mount: only that "
			       "user and root may refresh it",
			       path);
	case ENOTTY:
		return err_set(err, ENOTTY,
			       "'%s' is not on a larder mount", path);
	case EINVAL:
		return err_set(err, EINVAL,
			       "'%s' is a commit, which never changes: name "
			       "models/ORG/NAME",
			       path);
	default:
		return err_set(err, errnum, "cannot refresh '%s': %s", path,
			       strerror(errnum));
	}
}

int mount_refresh(const char *path, struct mount_refreshed *ret,
		  struct err *err)
{
	const struct timespec pause = {.tv_sec = NAMES_MS / 1000,
				       .tv_nsec = NAMES_MS % 1000 * 1000000};
	struct larder_refresh answer = {0};
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, LARDER_IOC_REFRESH, &answer) < 0)
		return explain_refresh(path, errno, err);
	*ret = (struct mount_refreshed){
		.count = answer.count,
		.changed = answer.changed,
		.failed = answer.failed,
	};
	snprintf(ret->error, sizeof(ret->error), "%s", answer.error);
	if (answer.changed > 0)
		nanosleep(&pause, NULL);
	return 0;
}
