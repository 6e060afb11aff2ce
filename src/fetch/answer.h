/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_FETCH_ANSWER_H
#define LARDER_FETCH_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h"

/* All header lines of one answer; servers themselves stop at 8 to 32 KiB. */
#define ANSWER_HEADER_BYTES_MAX (64u << 10)
/* As much of a Location as servers accept in a request line. */
#define ANSWER_LOCATION_MAX 8192
/* A whole body instead of a range is taken up to here: two packs of the
 * largest size. */
#define ANSWER_WHOLE_BYTES_MAX (UINT64_C(512) << 20)

/* "bytes FIRST-LAST/TOTAL"; '*' as total is has_total = false. */
struct content_range {
	uint64_t first, last, total;
	bool has_total;
};
int content_range_parse(const char *text, size_t len,
			struct content_range *ret);

/* What the header lines of an answer said. Starts as {0}. */
struct answer {
	unsigned status;  /* 0: none yet */
	bool is_complete; /* the blank line of a final answer has come */
	bool is_broken;	  /* a line that counts was wrong or came twice */
	bool has_range, has_length, is_encoded, is_html;
	struct content_range range;
	uint64_t length;
	size_t header_bytes;
	char etag[FETCH_ETAG_MAX];
	char region[64]; /* S3: where the bucket is */
	char date[48], modified[48];
	char location[ANSWER_LOCATION_MAX];
};

/* One header line with its line end, as it came. Interim answers (1xx) are
 * forgotten, lines after the final one ignored (trailers). -EFBIG past the
 * maximum. */
int answer_line(struct answer *answer, const char *line, size_t len);

/* What was asked, as far as the answer is judged by it. */
struct asked {
	bool has_range, is_conditional, is_write;
	uint64_t offset, length;
	uint64_t expected_total; /* 0: unknown */
	uint64_t limit_bytes;	 /* without range */
};

enum answer_action {
	ANSWER_TAKE,
	ANSWER_REDIRECT,
	ANSWER_NOT_MODIFIED,
	ANSWER_FAIL,
};

struct judgement {
	enum answer_action action;
	enum fetch_class class; /* of ANSWER_FAIL, with err */
	/* of ANSWER_TAKE: the body is skip bytes, then what is wanted */
	uint64_t skip;
	bool has_want;
	uint64_t want;	     /* exactly, if has_want */
	uint64_t body_max;   /* a byte more is wrong */
	bool has_body_bytes; /* body_max is what must come, to the byte */
	uint64_t total;	     /* size of the whole thing; 0: unknown */
};

/* Pure; the answer is complete. */
void answer_judge(const struct answer *answer, const struct asked *asked,
		  struct judgement *ret, struct err *err);

#endif
