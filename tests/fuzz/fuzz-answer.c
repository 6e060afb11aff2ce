/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the header of an HTTP answer. Whatever a server says, a range
 * is taken only with its exact Content-Range, and never more than asked.
 */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "fetch/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(const struct answer *answer, const struct asked *asked)
{
	struct err err = {0};
	struct judgement judgement;

	answer_judge(answer, asked, &judgement, &err);
	assert((judgement.action == ANSWER_FAIL) == (err.text[0] != '\0'));
	if (judgement.action != ANSWER_TAKE)
		return;
	assert(answer->status == 200 || answer->status == 206);
	assert(!answer->is_encoded && !answer->is_broken);
	if (!asked->has_range) {
		assert(judgement.skip == 0);
		assert(judgement.body_max <= asked->limit_bytes);
		return;
	}
	assert(judgement.has_want && judgement.want == asked->length);
	if (answer->status == 206) {
		assert(answer->range.first == asked->offset &&
		       answer->range.last == asked->offset + asked->length - 1);
		assert(judgement.body_max == asked->length);
	} else {
		assert(judgement.skip == asked->offset);
		assert(judgement.body_max <= ANSWER_WHOLE_BYTES_MAX &&
		       judgement.body_max >= asked->offset + asked->length);
	}
	if (asked->expected_total && judgement.total)
		assert(judgement.total == asked->expected_total);
}

/* Lines as libcurl hands them over; false: refused. */
static bool read_lines(const uint8_t *data, size_t len, struct answer *answer)
{
	while (len > 0) {
		const uint8_t *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) + 1 : len;

		if (answer_line(answer, (const char *)data, n) < 0)
			return false;
		data += n;
		len -= n;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct asked asked[] = {
		{.has_range = true, .offset = 1000, .length = 100},
		{.has_range = true,
		 .offset = 1000,
		 .length = 100,
		 .expected_total = 5000},
		{.has_range = true, .offset = 0, .length = 1},
		{.limit_bytes = 5000},
		{.limit_bytes = 5000,
		 .expected_total = 1,
		 .is_conditional = true},
	};
	struct answer answer = {0};
	struct content_range range;

	if (content_range_parse((const char *)data, len, &range) == 0)
		assert(range.first <= range.last &&
		       (!range.has_total || range.last < range.total));
	if (!read_lines(data, len, &answer))
		return 0;
	assert(answer.header_bytes <= ANSWER_HEADER_BYTES_MAX);
	assert(memchr(answer.etag, 0, sizeof(answer.etag)) &&
	       memchr(answer.location, 0, sizeof(answer.location)));
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		check(&answer, &asked[i]);
	return 0;
}
