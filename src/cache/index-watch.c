/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noticing that somebody else has written to the index. The size and the time
 * of the file are kept after each commit, for all processes, and a file that
 * looks different before the next one, or when it is opened, is given up. Where
 * nothing is known of it, because nobody had the cache open, or who did was
 * killed, all of it is checked.
 */
#include <config.h>

#include <inttypes.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/io.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/index-private.h"
#include "cache/internal.h"

/* In the file of the gates, behind the holder: state, inode, size, time. */
#define WATCH_OFFSET 96
#define WATCH_BYTES 32
#define STATE_UNKNOWN 0u
#define STATE_KNOWN 1u

struct look {
	uint64_t state, inode, size, mtime_ns;
};

static int store(int gate_fd, const struct look *look)
{
	uint8_t bytes[WATCH_BYTES];

	store_le64(bytes, look->state);
	store_le64(bytes + 8, look->inode);
	store_le64(bytes + 16, look->size);
	store_le64(bytes + 24, look->mtime_ns);
	return pwrite_full(gate_fd, bytes, sizeof(bytes), WATCH_OFFSET);
}

static struct look load(int gate_fd)
{
	uint8_t bytes[WATCH_BYTES] = {0};

	(void)pread_full(gate_fd, bytes, sizeof(bytes), WATCH_OFFSET);
	return (struct look){
		.state = load_le64(bytes),
		.inode = load_le64(bytes + 8),
		.size = load_le64(bytes + 16),
		.mtime_ns = load_le64(bytes + 24),
	};
}

static struct look look_at(struct index *index)
{
	struct look look = {0};
	struct stat st;
	int fd;

	if (mdb_env_get_fd(index->env, &fd) != 0 || fstat(fd, &st) < 0)
		return look;
	look.state = STATE_KNOWN;
	look.inode = st.st_ino;
	look.size = (uint64_t)st.st_size;
	look.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u +
			(uint64_t)st.st_mtim.tv_nsec;
	return look;
}

int index_watch_reset(int gate_fd)
{
	static const struct look unknown;

	return gate_fd < 0 ? 0 : store(gate_fd, &unknown);
}

int index_watch_begin(struct index *index, int gate_fd)
{
	struct look then = load(gate_fd), now = look_at(index);

	if (then.state == STATE_KNOWN && now.state == STATE_KNOWN &&
	    then.inode == now.inode &&
	    (then.size != now.size || then.mtime_ns != now.mtime_ns)) {
		log_warning("index was written by somebody else: dir=%s",
			    index->path);
		return index_error(index, MDB_CORRUPTED);
	}
	if (then.state != STATE_KNOWN || then.inode != now.inode) {
		int rc = index_check(index);

		if (rc)
			return index_error(index, rc);
	}
	/* Whoever is killed before the end leaves this. On a full disk, who
	 * cannot leave it must not write: it would look like somebody else. */
	return index_watch_reset(gate_fd);
}

void index_watch_end(struct index *index, int gate_fd)
{
	struct look now = look_at(index);

	(void)store(gate_fd, &now);
}
