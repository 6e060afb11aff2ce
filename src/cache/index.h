/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_CACHE_INDEX_H
#define LARDER_CACHE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/rows.h"
#include "format/digest.h"

struct err;

/*
 * The index: which units of which blob generation are here, their
 * checksums, totals. One struct per directory and process however often it
 * is opened. Look-ups are thread-safe and never wait for another process.
 * A failure of the disk or a damaged index marks it dead: from then on every
 * call returns -EIO at once.
 */
struct index;

enum index_open_flags {
	INDEX_OPEN_READONLY = 1 << 0,
	INDEX_OPEN_EXISTING = 1 << 1, /* neither make nor replace it */
	INDEX_OPEN_OLD_DATA = 1 << 2, /* one that is made is younger than blobs */
};

/*
 * Opens or makes it. The caller holds the writer's gate (recorder.h), unless
 * INDEX_OPEN_EXISTING. A damaged index is moved to index.bad-TIME and a new one
 * made, if that can be seen without reading all of it (index_watch_begin does).
 * path is absolute.
 */
int index_open(const char *path, enum index_open_flags flags,
	       struct index **ret, struct err *err);
void index_close(struct index *index);
bool index_is_dead(const struct index *index);
/* False, and dead: what its path leads to is not this one any more, somebody
 * has moved or removed it. Costs two look-ups of names. */
bool index_is_current(struct index *index);
uint64_t index_bytes(const struct index *index); /* of its file; 0 on errors */
/* Since when it is there, in seconds since 1970, if blob files were there
 * before it; 0: there were none. */
int64_t index_old_data_s(const struct index *index);

/* 1 and the row, 0 not there, negative errno. */
int index_blob(struct index *index, const struct digest *id,
	       struct blob_row *ret);
/* 1 and the row when unit is present in generation gen, 0, errno. */
int index_unit(struct index *index, const struct digest *id, uint64_t gen,
	       uint64_t unit, struct unit_row *ret);
/* Row number `number` of a blob's units: 1, 0 none of that generation, errno.
 * unit_count: the blob's. */
int index_units(struct index *index, const struct digest *id, uint64_t gen,
		uint64_t unit_count, uint32_t number, struct units_row *ret);
/* 1 and where the chunk was put last, 0, errno. The row may be of a file that
 * is gone: index_blob's generation tells. */
int index_chunk(struct index *index, const struct digest *chunk,
		struct chunk_row *ret);
uint64_t index_blob_count(struct index *index); /* 0 on errors */
/* Bytes on disk of all blobs and of what else lies in the directories: objects,
 * and files that no row speaks of. */
#define INDEX_DIRECTORIES 256u
int index_used(struct index *index, uint64_t *ret_bytes);

/*
 * Calls each for the blobs whose id is greater than *after (DIGEST_NONE:
 * from the start), at most max of them in one read transaction; each must
 * not call the index. Returns the number seen and moves *after.
 */
int index_scan(struct index *index, struct digest *after, unsigned int max,
	       void (*each)(void *arg, const struct digest *id,
			    const struct blob_row *row),
	       void *arg);

enum index_op_kind {
	INDEX_NOTHING,   /* only to have a callback called in order */
	INDEX_RECORD,    /* unit is present; makes the blob's row */
	INDEX_CHUNK,     /* a unit that is present holds chunk */
	INDEX_DROP_CHUNK, /* if it is said to lie in that generation */
	INDEX_DROP_UNIT,
	INDEX_DROP_BLOB, /* result 1: call again, rows are left */
	INDEX_DROP_RANGE, /* units in [offset, offset + delta); result as above */
	INDEX_TOUCH,     /* last use */
	INDEX_MARK,      /* complete, if all units are present */
	INDEX_UNMARK,
	INDEX_MEASURE,   /* disk_bytes of the blob, as found on the disk */
	INDEX_ADD_OTHER, /* delta to what directory `unit` holds besides blobs */
	INDEX_SET_OTHER, /* that is disk_bytes, as found on the disk */
};

struct index_op {
	enum index_op_kind kind;
	bool may_create;         /* RECORD: a blob that has no row gets one */
	bool is_certain;         /* DROP_UNIT: whatever its checksum says */
	uint32_t length;         /* bytes of the unit */
	struct digest id;
	uint64_t gen;            /* every change applies to this one only */
	uint64_t unit, checksum;
	struct digest chunk;     /* CHUNK, DROP_CHUNK */
	uint64_t offset;         /* RECORD, CHUNK: of the unit in the blob */
	uint64_t blob_bytes, unit_count, segment_bytes;
	bool is_by_content;
	uint64_t disk_bytes;     /* of the file now; 0: take present_bytes */
	int64_t last_use;
	int64_t delta;
	struct file_mark mark;   /* MARK; UNMARK: only this one */
	bool is_complete;        /* RECORD, set: all are present, no mark yet */
	int result;              /* 0, -ESTALE: another generation is current */
};

/* The most one write transaction may change, so that it stays short. */
#define INDEX_OPS_MAX 4096

/*
 * One write transaction. The caller holds the writer's gate: two at the same
 * time would destroy the index, so -EAGAIN if another process that does not
 * have the same gate is in one. *ret_used is the new total. 0, -ENOSPC (map or
 * disk full; nothing changed), or another negative errno.
 */
int index_write(struct index *index, struct index_op *ops, size_t count,
		uint64_t *ret_used);

#endif
