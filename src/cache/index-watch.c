/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noticing that somebody else has written to the index. LMDB trusts its pages:
 * what a look-up makes of damaged ones is an error or a row that proves wrong,
 * but a write transaction would copy by their numbers, into memory of ours. So
 * the size and the time of the file are kept after each commit, for all
 * processes, and a file that looks different before the next one is given
 * up. Only while some process has the cache open: what a power cut or a
 * restored backup makes of the two files means nothing.
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

static void store(int gate_fd, const struct look *look)
{
	uint8_t bytes[WATCH_BYTES];

	store_le64(bytes, look->state);
	store_le64(bytes + 8, look->inode);
	store_le64(bytes + 16, look->size);
	store_le64(bytes + 24, look->mtime_ns);
	(void)pwrite_full(gate_fd, bytes, sizeof(bytes), WATCH_OFFSET);
}

static struct look load(int gate_fd)
{
	uint8_t bytes[WATCH_BYTES] = { 0 };

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
	struct look look = { 0 };
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

void index_watch_reset(int gate_fd)
{
	static const struct look unknown;

	if (gate_fd >= 0)
		store(gate_fd, &unknown);
}

bool index_watch_begin(struct index *index, int gate_fd)
{
	struct look then = load(gate_fd), now = look_at(index);

	if (then.state == STATE_KNOWN && now.state == STATE_KNOWN &&
	    then.inode == now.inode &&
	    (then.size != now.size || then.mtime_ns != now.mtime_ns)) {
		log_warning("index was written by somebody else: dir=%s",
			    index->path);
		(void)index_error(index, MDB_CORRUPTED);
		return false;
	}
	/* Whoever is killed before the end leaves this. */
	index_watch_reset(gate_fd);
	return true;
}

void index_watch_end(struct index *index, int gate_fd)
{
	struct look now = look_at(index);

	store(gate_fd, &now);
}
