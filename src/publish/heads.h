/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_HEADS_H
#define LARDER_PUBLISH_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "format/head.h"

struct mirror;

/*
 * The heads of a mirror:
 *
 *   heads/NAME             the current one
 *   heads/NAME@TAG         tagged ones
 *   history/NAME@SERIAL    every head that was ever current, until gc
 *
 * The history is written first, so a head that a reader has seen is in it.
 */
enum head_kind { HEAD_CURRENT, HEAD_TAGGED, HEAD_HISTORY };

struct stored_head {
	struct head head;
	enum head_kind kind;
	char *path;	    /* below the mirror */
	struct digest text; /* SHA-256 of the file */
	int result; /* negative: unreadable, err says why; head is empty */
	struct err err;
};

struct stored_heads {
	VEC(struct stored_head) list; /* by name, kind, serial */
};

/* All of them; dataset NULL: of all datasets. Unreadable ones are in the
 * list. */
int heads_list(const struct mirror *mirror, const char *dataset,
	       struct stored_heads *ret, struct err *err);
void stored_heads_release(struct stored_heads *heads);

/* The current head, or a tagged one. -ENOENT if there is none. ret_text, if
 * not NULL, is its digest. */
int head_load(const struct mirror *mirror, const char *dataset, const char *tag,
	      struct head *ret, struct digest *ret_text, struct err *err);

/*
 * Complete and store a head: signed when key is not NULL, the history
 * first, a tagged head (head->tag not empty) without one. The head then says
 * what is stored, with its signatures.
 */
int head_store(const struct mirror *mirror, struct head *head,
	       const struct secret_key *key, struct err *err);

/*
 * A head signed before must be signed again, or every reader that asks for a
 * key would be locked out. -EKEYREJECTED.
 */
int head_check_key(const struct mirror *mirror, const struct head *current,
		   const struct secret_key *key, struct err *err);

/*
 * The serial of the head after one of serial `current` (0: there is none).
 * Readers may have seen what the history goes to; of one more only, a publish
 * ended before its head was there.
 */
int head_next_serial(const struct mirror *mirror, const char *dataset,
		     uint64_t current, uint64_t *ret, struct err *err);
/* The history shows that `current` is not the last head that was current. */
static inline bool head_is_behind(uint64_t current, uint64_t newest)
{
	return newest > current && newest - current > 1;
}

char *history_path(const char *dataset, uint64_t serial, char *ret_path,
		   size_t size);

#endif
