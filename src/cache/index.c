/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index in LMDB: opening, closing, dead or alive. LMDB's own locks wait
 * without bound and lie in a mapped file that every look-up writes to: one
 * stopped process would stop all, one stray byte in it hang one for ever, and a
 * disk at its quota fail underneath. So they are not used. Writers exclude each
 * other by a gate that is tried for a bounded time, and readers look whether
 * they were overtaken. Only one environment per directory may exist in a
 * process, hence the list of open ones. Look-ups:
 * index-look-up.c; write transactions: index-write.c; damage: index-check.c.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <lmdb.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#define LOG_MODULE "cache"
#include "base/log.h"
#include "cache/fault.h"
#include "cache/index-private.h"

/* Address space, not memory; smaller ones where it is limited (ulimit -v,
 * valgrind). */
static const size_t map_sizes[] = {
	(size_t)(UINT64_C(64) << 30), (size_t)1 << 30, (size_t)256 << 20,
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct index *open_indexes; /* guarded by open_lock */

/* Several may be lost in one second. */
static _Atomic unsigned int aside_count;

static const char *reason(int rc)
{
	switch (rc) {
	case -EFAULT:
		return "it failed underneath";
	case MDB_VERSION_MISMATCH:
		return "another version of larder made it";
	default:
		return mdb_strerror(rc);
	}
}

/* Out of the way of the next to open it; who has it open is not disturbed. */
static int move_aside(struct index *index, int rc)
{
	_cleanup_free_ char *aside = NULL;
	struct stat st;

	/* Not one that somebody else has put in its place already. */
	if (index->inode && (stat(index->path, &st) < 0 ||
			     st.st_ino != index->inode ||
			     st.st_dev != index->device))
		return 0;
	if (asprintf(&aside, "%s.bad-%" PRId64 "-%ld-%u", index->path,
		     wall_seconds(), (long)getpid(),
		     atomic_fetch_add(&aside_count, 1)) < 0)
		return -ENOMEM;
	if (rename(index->path, aside) < 0)
		return -errno;
	crash_point("renew-moved");
	log_warning("index %s, moved aside: dir=%s kept=%s reason=%s",
		    rc == MDB_VERSION_MISMATCH ? "not ours" : "damaged",
		    index->path, aside, reason(rc));
	return mkdir(index->path, 0700) < 0 ? -errno : 0;
}

int index_error(struct index *index, int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return 0;
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_MAP_FULL:
	case ENOSPC:
	case EDQUOT:
		return -ENOSPC;
	case ENOMEM:
		return -ENOMEM;
	case EIO:
		return -EIO;
	case EAGAIN: /* somebody else is writing */
		return -EAGAIN;
	default:
		break;
	}
	/* Damaged pages, a panic of the library, a fault in the mapping. */
	if (atomic_exchange(&index->is_dead, true))
		return -EIO;
	/* A commit that the disk refused half-way: the file is as good as after
	 * a power cut. */
	if (rc == MDB_PANIC) {
		log_warning("disk refused a commit, opening the index again: "
			    "dir=%s", index->path);
		return -EIO;
	}
	log_warning("index lost, going on without recording: dir=%s reason=%s",
		    index->path, reason(rc));
	if (!index->must_exist)
		(void)move_aside(index, rc);
	return -EIO;
}

bool index_is_dead(const struct index *index)
{
	return atomic_load(&index->is_dead);
}

int64_t index_old_data_s(const struct index *index)
{
	return index->old_data_s;
}

uint64_t index_bytes(const struct index *index)
{
	struct stat st;
	int fd;

	return mdb_env_get_fd(index->env, &fd) == 0 && fstat(fd, &st) == 0 ?
		       (uint64_t)st.st_size : 0;
}

bool index_is_current(struct index *index)
{
	_cleanup_free_ char *path = NULL;
	struct stat opened, named;
	mdb_filehandle_t fd;

	if (index_is_dead(index))
		return false;
	if (asprintf(&path, "%s/data.mdb", index->path) < 0) {
		path = NULL;
		return true;
	}
	if (mdb_env_get_fd(index->env, &fd) == 0 && fstat(fd, &opened) == 0 &&
	    stat(path, &named) == 0 && named.st_ino == opened.st_ino &&
	    named.st_dev == opened.st_dev)
		return true;
	if (atomic_exchange(&index->is_dead, true))
		return false;
	log_warning("index was taken away: dir=%s", index->path);
	/* With what is left of it: its locks must not meet a new one's. */
	if (!index->must_exist)
		(void)move_aside(index, MDB_INVALID);
	return false;
}

static void index_assert(MDB_env *env, const char *message)
{
	(void)env;
	(void)message;
	/* A damaged page; without the jump the library aborts the process. */
	fault_raise();
}

/* ---- opening */

/* Files of blobs that were there before the index are candidates. */
static int note_old_data(struct index *index, MDB_txn *txn)
{
	MDB_val key = index_meta_key("older"), value;
	uint8_t since[8];

	if (!index->has_old_data)
		return 0;
	index->old_data_s = wall_seconds();
	store_le64(since, (uint64_t)index->old_data_s);
	value = (MDB_val){ sizeof(since), since };
	return index_row_put(txn, index->meta, &key, &value);
}

static void find_old_data(struct index *index, MDB_txn *txn)
{
	MDB_val key = index_meta_key("older"), value;

	if (index_row_get(txn, index->meta, &key, &value) == 0 &&
	    value.mv_size == 8)
		index->old_data_s = (int64_t)load_le64(value.mv_data);
}

static int make_meta(struct index *index, MDB_txn *txn)
{
	MDB_val key = index_meta_key("format"), value;
	uint8_t format[4];
	int rc;

	store_le32(format, INDEX_FORMAT);
	value = (MDB_val){ sizeof(format), format };
	rc = index_row_put(txn, index->meta, &key, &value);
	return rc ? rc : note_old_data(index, txn);
}

static int check_format(struct index *index, MDB_txn *txn)
{
	MDB_val key = index_meta_key("format"), value;
	int rc = mdb_get(txn, index->meta, &key, &value);

	if (rc)
		return rc;
	/* Older ones have it without a checksum. */
	if (value.mv_size != 4 + ROW_CHECK_BYTES ||
	    load_le32(value.mv_data) != INDEX_FORMAT)
		return MDB_VERSION_MISMATCH;
	find_old_data(index, txn);
	return 0;
}

static int open_tables(struct index *index, bool may_create)
{
	unsigned int flags = may_create ? MDB_CREATE : 0;
	MDB_txn *txn;
	int rc;

	rc = mdb_txn_begin(index->env, NULL, may_create ? 0 : MDB_RDONLY,
			   &index->opening);
	if (rc)
		return rc;
	txn = index->opening;
	rc = mdb_dbi_open(txn, "meta", flags, &index->meta);
	if (!rc)
		rc = mdb_dbi_open(txn, "blobs", flags, &index->blobs);
	if (!rc)
		rc = mdb_dbi_open(txn, "units", flags, &index->units);
	if (!rc)
		rc = mdb_dbi_open(txn, "chunks", flags, &index->chunks);
	if (!rc)
		rc = check_format(index, txn);
	if (rc == MDB_NOTFOUND && may_create)
		rc = make_meta(index, txn);
	/* A writer that we do not exclude: try again some other time. */
	if (!may_create && index_is_overtaken(index, txn))
		rc = EBUSY;
	crash_point("open-tables");
	if (!rc)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

static int open_readers(struct index *index)
{
	for (int i = 0; i < INDEX_READERS; i++) {
		struct index_reader *reader = &index->readers[i];
		int rc = mdb_txn_begin(index->env, NULL, MDB_RDONLY,
				       &reader->txn);

		if (!rc)
			rc = mdb_cursor_open(reader->txn, index->blobs,
					     &reader->scan);
		if (rc)
			return rc;
		mdb_txn_reset(reader->txn);
	}
	return 0;
}

static int check_header(struct index *index)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/data.mdb", index->path) < 0) {
		path = NULL;
		return ENOMEM;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : errno;
	return index_check_header(fd);
}

static int open_environment(void *arg)
{
	struct index *index = arg;
	unsigned int flags = MDB_NOLOCK | MDB_NOTLS | MDB_NOMETASYNC |
			     MDB_NORDAHEAD;
	int rc = check_header(index);

	if (rc)
		return rc;
	if (index->is_readonly)
		flags |= MDB_RDONLY;
	for (size_t i = 0; i < sizeof(map_sizes) / sizeof(*map_sizes); i++) {
		rc = mdb_env_create(&index->env);
		if (rc)
			return rc;
		mdb_env_set_maxdbs(index->env, 8);
		mdb_env_set_assert(index->env, index_assert);
		mdb_env_set_mapsize(index->env, map_sizes[i]);
		rc = mdb_env_open(index->env, index->path, flags, 0600);
		if (rc != ENOMEM && rc != EINVAL) /* valgrind says EINVAL */
			break;
		mdb_env_close(index->env);
		index->env = NULL;
	}
	if (rc)
		return rc;
	crash_point("open-environment");
	rc = open_tables(index, false);
	if (rc == MDB_NOTFOUND && !index->must_exist)
		rc = open_tables(index, true);
	return rc ? rc : open_readers(index);
}

static int close_guarded(void *arg)
{
	struct index *index = arg;

	for (int i = 0; i < INDEX_READERS; i++) {
		mdb_cursor_close(index->readers[i].scan);
		mdb_txn_abort(index->readers[i].txn);
	}
	mdb_env_close(index->env);
	return 0;
}

/*
 * After a fault the library's state is unknown, locks of its may be held:
 * what it has is never touched nor freed again.
 */
static void abandon_environment(const struct index *index)
{
	static struct index *abandoned; /* guarded by open_lock */
	struct index *grave = malloc(sizeof(*grave));

	if (!grave)
		return;
	memcpy(grave, index, sizeof(*grave));
	grave->next = abandoned;
	abandoned = grave;
}

static void close_environment(struct index *index)
{
	if (!index->env)
		return;
	if (index_is_dead(index) || fault_guard(close_guarded, index) < 0)
		abandon_environment(index);
	index->env = NULL;
}

static bool means_damaged(int rc)
{
	switch (rc) {
	case -EFAULT: /* truncated */
	case MDB_BAD_DBI:
	case MDB_BAD_TXN:
	case MDB_BAD_VALSIZE:
	case MDB_CORRUPTED:
	case MDB_INCOMPATIBLE:
	case MDB_INVALID:
	case MDB_PAGE_NOTFOUND:
	case MDB_VERSION_MISMATCH:
		return true;
	default:
		return false;
	}
}

static struct index *index_new(const char *path, int flags)
{
	struct index *index = calloc(1, sizeof(*index));

	if (!index)
		return NULL;
	index->path = strdup(path);
	index->is_readonly = flags & INDEX_OPEN_READONLY;
	index->has_old_data = flags & INDEX_OPEN_OLD_DATA;
	index->must_exist = flags & (INDEX_OPEN_READONLY | INDEX_OPEN_EXISTING);
	for (int i = 0; i < INDEX_READERS; i++)
		pthread_mutex_init(&index->readers[i].lock, NULL);
	pthread_mutex_init(&index->write_lock, NULL);
	if (index->path)
		return index;
	free(index);
	return NULL;
}

static void index_free(struct index *index)
{
	close_environment(index);
	for (int i = 0; i < INDEX_READERS; i++)
		pthread_mutex_destroy(&index->readers[i].lock);
	pthread_mutex_destroy(&index->write_lock);
	free(index->path);
	free(index);
}

static int index_start(struct index *index, struct err *err)
{
	int rc = fault_guard(open_environment, index);

	if (!rc)
		return 0;
	if (index->must_exist || !means_damaged(rc))
		return err_set(err, rc > 0 ? rc : EIO,
			       "cannot open the index '%s': %s", index->path,
			       rc == -EFAULT ? "read error" : mdb_strerror(rc));
	atomic_store(&index->is_dead, rc == -EFAULT);
	close_environment(index);
	atomic_store(&index->is_dead, false);
	memset(index->readers, 0, sizeof(index->readers));
	for (int i = 0; i < INDEX_READERS; i++)
		pthread_mutex_init(&index->readers[i].lock, NULL);
	rc = move_aside(index, rc);
	if (rc < 0)
		return err_set(err, -rc, "cannot move the damaged index '%s' "
			       "aside", index->path);
	rc = fault_guard(open_environment, index);
	if (rc)
		return err_set(err, rc > 0 ? rc : EIO,
			       "cannot make the index '%s': %s", index->path,
			       mdb_strerror(rc));
	return 0;
}

int index_open(const char *path, enum index_open_flags flags,
	       struct index **ret, struct err *err)
{
	struct index *index;
	struct stat st;
	int r;

	fault_install();
	scoped_lock(&open_lock);
	if (stat(path, &st) < 0)
		return err_set(err, errno, "cannot open the index '%s'", path);
	for (index = open_indexes; index; index = index->next) {
		if (index->device != st.st_dev || index->inode != st.st_ino ||
		    index_is_dead(index))
			continue;
		index->refs++;
		*ret = index;
		return 0;
	}
	index = index_new(path, (int)flags);
	if (!index)
		return -ENOMEM;
	r = index_start(index, err);
	if (r < 0 || stat(path, &st) < 0) {
		r = r < 0 ? r : -errno;
		index_free(index);
		return r;
	}
	index->device = st.st_dev;
	index->inode = st.st_ino;
	index->refs = 1;
	index->next = open_indexes;
	open_indexes = index;
	*ret = index;
	return 0;
}

void index_close(struct index *index)
{
	struct index **at = &open_indexes;

	if (!index)
		return;
	scoped_lock(&open_lock);
	if (--index->refs > 0)
		return;
	while (*at != index)
		at = &(*at)->next;
	*at = index->next;
	index_free(index);
}
