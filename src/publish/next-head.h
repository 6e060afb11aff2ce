/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_PUBLISH_NEXT_HEAD_H
#define LARDER_PUBLISH_NEXT_HEAD_H

#include "publish/heads.h"
#include "publish/publish.h"
#include "publish/tree-writer.h"

/* The current head of the mirror; zero where there is none. */
struct head_before {
	bool is_there;
	struct head head;
	struct digest text; /* of its file */
};

/* The head after it, not signed. -EFBIG */
int next_head_make(const struct mirror *mirror,
		   const struct publish_options *options,
		   const struct head_before *before,
		   const struct snapshot_totals *totals, struct head *ret,
		   struct err *err);
/* A head that would say nothing new is not written. */
bool next_head_is_needed(const struct publish_options *options,
			 const struct head_before *before,
			 const struct head *head);
/* Readers that know the key of before only will not believe it. */
bool next_head_has_other_key(const struct publish_options *options,
			     const struct head_before *before);
/* A mirror copied without its history: keeps the head that is replaced. */
int head_before_keep(const struct mirror *mirror, const char *name,
		     const struct head_before *before, struct err *err);
/* A tag stays on its snapshot unless told otherwise. -EEXIST */
int next_head_check_tag(const struct mirror *mirror,
			const struct publish_options *options,
			const struct head *head, struct err *err);
int next_head_write_tag(const struct mirror *mirror,
			const struct publish_options *options,
			const struct head *head, struct err *err);

#endif
