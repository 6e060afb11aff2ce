/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an answer of a bucket, as its error, and as a file of keys. */
#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fetch/s3.h"
#include "source/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_answer(const uint8_t *data, size_t len)
{
	struct s3_answer answer;
	struct err err;

	if (s3_answer_parse(data, len, &answer, &err) < 0)
		return;
	for (size_t i = 0; i < answer.items.count; i++)
		assert(answer.items.items[i].key);
	assert(!answer.is_truncated || answer.next);
	s3_answer_release(&answer);
}

static void try_error(const uint8_t *data, size_t len)
{
	struct s3 s3 = {
		.bucket = (char[]){"b"},
		.region = (char[]){"r"},
		.keys = {.id = "i"},
	};
	unsigned status = len > 0 ? 300 + data[0] : 404;
	enum fetch_class class;
	struct err err = {0};

	s3_judge(&s3, status, "", (const char *)data, len, &class, &err);
	assert(class != FETCH_OK && err.text[0]);
	for (const char *c = err.text; *c; c++)
		assert(*c >= 0x20 && *c < 0x7f);
}

static void try_keys(const uint8_t *data, size_t len)
{
	char *text = malloc(len + 1);
	struct s3_keys *keys = malloc(sizeof(*keys));
	struct err err;

	assert(text && keys);
	memcpy(text, data, len);
	text[len] = '\0';
	if (s3_keys_parse(text, "default", keys, &err) == 0)
		assert(keys->id[0] && keys->secret[0]);
	free(keys);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	try_answer(data, len);
	try_error(data, len);
	try_keys(data, len);
	return 0;
}
