/* SPDX-License-Identifier: Apache-2.0 */
/* Places: round trips over page edges, and nothing leads outside a pack. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/limits.h"
#include "format/places.h"

#include "data.h"

static const struct places_pack packs[2] = {
	{{.type = DIGEST_SHA256, .bytes = {1}}, 100u << 20},
	{{.type = DIGEST_SHA256, .bytes = {2}}, 200u << 20},
};

static struct place synthetic_place(uint64_t i)
{
	if (i % 5 == 4)
		return (struct place){.pack = PLACE_ZERO};
	return (struct place){
		.pack = i % 2,
		.stored_bytes = 1000 + (uint32_t)(i * 7919 % 5000),
		.offset = i * 1234,
	};
}

static struct place *synthetic_places(uint64_t count)
{
	struct place *places = calloc(count, sizeof(*places));

	for (uint64_t i = 0; i < count; i++)
		places[i] = synthetic_place(i);
	return places;
}

static void check_page(const struct places_head *head, uint32_t page,
		       const uint8_t *file, uint64_t *position)
{
	struct place *places;
	uint32_t count;

	assert_int_equal(places_page_parse(head, page,
					   file + head->pages[page].offset,
					   head->pages[page].stored_bytes,
					   &places, &count, NULL),
			 0);
	for (uint32_t i = 0; i < count; i++) {
		struct place expected = synthetic_place((*position)++);

		assert_int_equal(places[i].pack, expected.pack);
		assert_int_equal(places[i].stored_bytes, expected.stored_bytes);
		assert_true(places[i].offset == expected.offset);
	}
	free(places);
}

static void test_round_trips(void **state)
{
	static const uint64_t counts[] = {1, 4095, 4096, 4097, 10000};

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct place *places = synthetic_places(counts[i]);
		struct places_head *head;
		uint64_t head_bytes, position = 0;
		struct buf file;

		buf_init(&file, 1 << 20);
		buf_append(&file, "before", 6); /* offsets count from there */
		assert_int_equal(
			places_write(packs, 2, places, counts[i], &file), 0);
		assert_int_equal(places_head_size(file.data + 6,
						  PLACES_FIXED_BYTES,
						  &head_bytes, NULL),
				 0);
		assert_int_equal(places_head_parse(file.data + 6, head_bytes,
						   &head, NULL),
				 0);
		assert_int_equal(head->chunk_count, counts[i]);
		assert_int_equal(head->file_bytes, file.len - 6);
		assert_int_equal(head->pack_count, 2);
		assert_true(head->packs[1].size == packs[1].size);
		assert_true(digest_equal(&head->packs[1].id, &packs[1].id));
		for (uint32_t page = 0; page < head->page_count; page++)
			check_page(head, page, file.data + 6, &position);
		assert_int_equal(position, counts[i]);
		places_head_free(head);
		free(places);
		buf_release(&file);
	}
	places_head_free(NULL);
}

/* A whole file, as check and the fuzzer read it. */
static int parse_file(const uint8_t *data, size_t len, struct err *err)
{
	struct places_head *head;
	int r = places_head_parse(data, len, &head, err);

	if (r < 0)
		return r;
	if (head->file_bytes != len)
		r = err_set(err, EBADMSG, "places file is cut short");
	for (uint32_t page = 0; r == 0 && page < head->page_count; page++) {
		struct place *places;
		uint32_t count;

		r = places_page_parse(
			head, page, data + head->pages[page].offset,
			head->pages[page].stored_bytes, &places, &count, err);
		if (r == 0)
			free(places);
	}
	places_head_free(head);
	return r;
}

static void test_golden_file(void **state)
{
	struct places_head *head;
	struct place *places;
	uint32_t count;
	size_t len;
	uint8_t *data = data_read("good/places", &len);

	(void)state;
	assert_int_equal(parse_file(data, len, NULL), 0);
	assert_int_equal(places_head_parse(data, len, &head, NULL), 0);
	assert_int_equal(places_page_parse(head, 0,
					   data + head->pages[0].offset,
					   head->pages[0].stored_bytes, &places,
					   &count, NULL),
			 0);
	assert_int_equal(count, 3);
	assert_int_equal(places[1].pack, PLACE_ZERO);
	assert_int_equal(places[2].offset, places[0].stored_bytes);
	free(places);
	places_head_free(head);
	free(data);
}

static void refuse(const char *path, const void *data, size_t len)
{
	struct err err = {""};
	int r = parse_file(data, len, &err);

	assert_refused(path, r, &err);
}

static void test_refuses_bad_files(void **state)
{
	(void)state;
	assert_true(data_each("bad-places-*", refuse) >= 30);
}

/* Pages that end before the file does are seen in the head already. */
static void test_pages_fill_the_file(void **state)
{
	struct places_head *head;
	size_t len;
	uint8_t *data = data_read("bad-places-file-bytes", &len);

	(void)state;
	assert_int_equal(places_head_parse(data, len, &head, NULL), -EBADMSG);
	free(data);
}

static void test_write_refuses(void **state)
{
	static const struct place bad[] = {
		{.pack = 2, .stored_bytes = 1},
		{.pack = 0, .stored_bytes = 0},
		{.pack = 0, .stored_bytes = LIMIT_FRAME_BYTES + 1},
		{.pack = 0, .stored_bytes = 2, .offset = (100u << 20) - 1},
		{.pack = 0, .stored_bytes = 2, .offset = UINT64_MAX},
		{.pack = PLACE_ZERO, .stored_bytes = 1},
	};
	struct place last = {
		.pack = 0, .stored_bytes = 2, .offset = (100u << 20) - 2};
	struct places_pack huge = packs[0];
	struct buf file;

	(void)state;
	buf_init(&file, 1 << 20);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(places_write(packs, 2, &bad[i], 1, &file),
				 -EINVAL);
	assert_int_equal(places_write(packs, 2, NULL, 0, &file), -EINVAL);
	huge.size = LIMIT_PACK_BYTES + 1;
	assert_int_equal(places_write(&huge, 1, &last, 1, &file), -EINVAL);
	assert_int_equal(file.len, 0);
	assert_int_equal(places_write(packs, 2, &last, 1, &file), 0);
	buf_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_golden_file),
		cmocka_unit_test(test_refuses_bad_files),
		cmocka_unit_test(test_pages_fill_the_file),
		cmocka_unit_test(test_write_refuses),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
