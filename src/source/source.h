/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_SOURCE_SOURCE_H
#define LARDER_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "fetch/fetch.h" /* struct origin_options */
#include "format/digest.h"
#include "source/hub.h"

/*
 * What a kind of origin means: where things lie below it. Describes
 * requests, performs none.
 */

/* SOURCE as typed: MIRROR#NAME[@TAG], split at the last '#'. */
struct source_name {
	char *mirror; /* path or URL, as typed */
	char *dataset;
	char *tag;    /* NULL: the current head */
};
int source_parse(const char *text, struct source_name *ret, struct err *err);
void source_name_release(struct source_name *name);

/* Paths below a mirror. ret_path has SOURCE_PATH_MAX bytes. */
#define SOURCE_PATH_MAX 600
#define MIRROR_MARKER "larder-mirror"
char *mirror_head_path(const char *dataset, const char *tag, char ret_path[SOURCE_PATH_MAX]);
char *mirror_object_path(const struct digest *digest, char ret_path[SOURCE_PATH_MAX]);
char *mirror_places_path(const struct digest *digest, char ret_path[SOURCE_PATH_MAX]);
char *mirror_pack_path(const struct digest *id, char ret_path[SOURCE_PATH_MAX]);
/* MIRROR/larder-mirror: "larder mirror 1\ncreated: TIME\n". */
struct buf;
int mirror_marker_print(int64_t created, struct buf *ret);
int mirror_marker_check(const void *text, size_t len, struct err *err);

/*
 * What is asked of a bucket besides its objects, and what it answers.
 * Queries are as fetch/ wants them: escaped and sorted. -ENOMEM.
 */
#define S3_PART_BYTES_MIN (UINT64_C(5) << 20) /* but for the last part */
#define S3_PARTS_MAX 10000u

/* Keys that start with prefix; after: where the answer before ended. */
int s3_list_query(const char *prefix, const char *after, struct buf *ret);
/* Uploads in parts that were begun; key and id: as before, or NULL. */
int s3_uploads_query(const char *prefix, const char *key, const char *id,
		     struct buf *ret);
int s3_part_query(const char *upload_id, unsigned number, struct buf *ret);
int s3_upload_query(const char *upload_id, struct buf *ret);
/* The body that ends an upload: the parts' ETags in order. */
int s3_complete_body(const char *const *etags, size_t count, struct buf *ret);

/* Keys that are deleted together, and the most that servers take. */
#define S3_DELETE_MAX 1000u
int s3_delete_body(const char *prefix, const char *const *paths, size_t count,
		   struct buf *ret);

struct s3_item {
	char *key;
	char *upload_id; /* of uploads */
	char *code;	 /* why it was not deleted; NULL: it was */
	uint64_t size;	 /* of objects */
	int64_t mtime;
};
struct s3_answer {
	VEC(struct s3_item) items;
	bool is_truncated;
	char *next, *next_id; /* where to go on, if it is */
	char *upload_id;      /* of an upload that begins */
	char *code;	      /* an error instead of all that */
};
/* Any of those answers. -EBADMSG: none of S3. */
int s3_answer_parse(const void *xml, size_t len, struct s3_answer *ret,
		    struct err *err);
void s3_answer_release(struct s3_answer *answer);

#endif
