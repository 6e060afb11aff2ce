/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the disk of a cache answers, before anything of it is opened: the
 * watcher (disk.c) comes later than the directory's first calls. The question
 * is put by a child, which does what an opening begins with, since a thread
 * that is stuck with the disk would keep a command from ending. Nothing is
 * synced: behind other people's writes that takes long on a disk that is merely
 * slow.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/question.h"
#include "cache/cache.h"
#include "cache/disk.h"
#include "cache/layout.h"

/* As long as a sync may take before a disk counts as one that hangs. */
#define ANSWER_MS DISK_SYNC_BOUND_MS
#define BLOCK_BYTES 4096

/* In the child, which may be that of a process with threads: calls and nothing
 * else. Whatever fails, the opening says it better. */
static void touch(const void *arg, int to_parent)
{
	static alignas(BLOCK_BYTES) char block[BLOCK_BYTES];
	const unsigned int own = (unsigned int)to_parent;
	int dirfd, fd;

	/* Should it be stuck, nobody waits for the end of these. */
	if (own > 0)
		close_range(0, own - 1, 0);
	close_range(own + 1, ~0u, 0);
	dirfd = open(arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0 && errno == ENOENT && mkdir(arg, 0700) == 0)
		dirfd = open(arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Past the page cache: a disk that hangs may have it all in memory. */
	fd = openat(dirfd, LAYOUT_VERSION_FILE,
		    O_RDONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		(void)!read(fd, block, sizeof(block));
	/* A write that leaves nothing. */
	(void)openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	(void)!write(to_parent, "", 1);
}

int cache_answers(const char *dir, struct err *err)
{
	struct question question;
	char answer;
	int r = question_begin(&question, touch, dir, ANSWER_MS);

	if (r < 0)
		return 0; /* then we go and see */
	r = question_read(&question, &answer, sizeof(answer));
	question_end(&question, r);
	if (r != -ETIMEDOUT)
		return 0;
	return err_set(err, ETIMEDOUT,
		       "cannot use cache directory '%s': its "
		       "disk does not answer within %u s; see the kernel's log "
		       "(-o cache=DIR takes another)",
		       dir, ANSWER_MS / 1000);
}
