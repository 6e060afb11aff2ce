/* SPDX-License-Identifier: Apache-2.0 */
/* Pack tables: golden bytes, zstd's own tool accepts a pack, lies are refused.
 */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "format/codec.h"
#include "format/limits.h"
#include "format/pack.h"

#include "data.h"
#include "scratch.h"

#define GOLDEN_ID                                                              \
	"f2f5c71449c6da3d13113c264e09c0fae970bcac0c395fd45f30cd1540c53a6c"

/* What a reader does with a pack of which it knows the size. */
static int parse_pack(const uint8_t *data, size_t len, struct pack_record **ret,
		      uint32_t *ret_count, struct digest *ret_id,
		      struct err *err)
{
	uint64_t offset, bytes;
	int r;

	if (len < PACK_TRAILER_BYTES)
		return err_set(err, EBADMSG, "too short for a trailer");
	r = pack_trailer_parse(data + len - PACK_TRAILER_BYTES, len, &offset,
			       &bytes, err);
	if (r < 0)
		return r;
	assert_true(offset + bytes == len);
	return pack_table_parse(data + offset, bytes, offset, ret, ret_count,
				ret_id, err);
}

static void test_golden_file(void **state)
{
	struct pack_record *records;
	char hex[DIGEST_HEX_MAX];
	struct digest id, again;
	struct buf tail;
	uint32_t count;
	size_t len;
	uint8_t *data = data_read("good/pack", &len);

	(void)state;
	assert_int_equal(parse_pack(data, len, &records, &count, &id, NULL), 0);
	assert_string_equal(digest_hex(&id, hex), GOLDEN_ID);
	assert_int_equal(count, 2);
	assert_int_equal(records[1].offset, 69);
	assert_int_equal(records[1].stored_bytes, 81);
	assert_int_equal(records[1].plain_bytes, 72);
	buf_init(&tail, 4096);
	assert_int_equal(
		pack_table_write(records, count, 69 + 81, &tail, &again), 0);
	assert_true(digest_equal(&id, &again));
	assert_int_equal(tail.len, len - 69 - 81);
	assert_memory_equal(tail.data, data + 69 + 81, tail.len);
	buf_release(&tail);
	free(records);
	free(data);
}

/* Frames of real chunks, raw and compressed, and a table. */
static void make_pack(struct buf *pack, uint32_t count)
{
	struct pack_record *records = calloc(count, sizeof(*records));
	struct codec *codec = codec_new();
	uint8_t chunk[4000], frame[8192];
	struct digest id;
	uint32_t seed = 1;

	for (uint32_t i = 0; i < count; i++) {
		long len;

		for (size_t j = 0; j < sizeof(chunk); j++) {
			seed = seed * 1664525u + 1013904223u;
			chunk[j] = i % 2 ? (uint8_t)(seed >> 24) : 'a' + i % 26;
		}
		len = codec_compress(codec, chunk, sizeof(chunk), 3, frame,
				     sizeof(frame));
		assert_true(len > 0);
		digest_sha256(chunk, sizeof(chunk), &records[i].digest);
		records[i].offset = pack->len;
		records[i].stored_bytes = (uint32_t)len;
		records[i].plain_bytes = sizeof(chunk);
		buf_append(pack, frame, (size_t)len);
	}
	assert_int_equal(pack_table_write(records, count, pack->len, pack, &id),
			 0);
	codec_free(codec);
	free(records);
}

static void test_zstd_tool_accepts_a_pack(void **state)
{
	char dir[64], path[80], command[128];
	struct buf pack;
	int fd, r;

	(void)state;
	if (system("zstd --version >/dev/null 2>&1") != 0)
		skip();
	buf_init(&pack, 1 << 20);
	make_pack(&pack, 100);
	scratch_directory_at(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/pack", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write_full(fd, pack.data, pack.len), 0);
	close(fd);
	snprintf(command, sizeof(command), "zstd -q -t %s", path);
	r = system(command);
	unlink(path);
	rmdir(dir);
	assert_int_equal(r, 0);
	buf_release(&pack);
}

static void test_round_trip(void **state)
{
	struct pack_record *records;
	struct digest id;
	struct buf pack;
	uint32_t count;

	(void)state;
	buf_init(&pack, 1 << 20);
	make_pack(&pack, 100);
	assert_int_equal(
		parse_pack(pack.data, pack.len, &records, &count, &id, NULL),
		0);
	assert_int_equal(count, 100);
	free(records);
	buf_release(&pack);
}

static void refuse(const char *path, const void *data, size_t len)
{
	struct err err = {""};
	struct pack_record *records;
	struct digest id;
	uint32_t count;
	int r = parse_pack(data, len, &records, &count, &id, &err);

	assert_refused(path, r, &err);
}

static void test_refuses_bad_files(void **state)
{
	(void)state;
	assert_true(data_each("bad-pack-*", refuse) >= 20);
}

/* A trailer that speaks of another table than the one at hand. */
static void test_table_must_be_the_trailers(void **state)
{
	struct pack_record *records;
	struct digest id;
	uint32_t count;
	size_t len;
	uint8_t *data = data_read("good/pack", &len);

	(void)state;
	store_le64(data + len - 24, 150 + 48);
	store_le64(data + len - 16, len - 150 - 48);
	assert_int_equal(pack_table_parse(data + 150, len - 150, 150, &records,
					  &count, &id, NULL),
			 -EBADMSG);
	free(data);
}

static void test_write_refuses(void **state)
{
	struct pack_record good[2] = {
		{{.type = DIGEST_SHA256}, 0, 10, 20},
		{{.type = DIGEST_SHA256}, 10, 10, 20},
	};
	struct pack_record bad[2];
	struct digest id;
	struct buf tail;

	(void)state;
	buf_init(&tail, 4096);
	assert_int_equal(pack_table_write(good, 2, 20, &tail, &id), 0);
	tail.len = 0;
	assert_int_equal(pack_table_write(good, 0, 0, &tail, &id), -EINVAL);
	assert_int_equal(pack_table_write(good, 2, 21, &tail, &id), -EINVAL);
	assert_int_equal(
		pack_table_write(good, 2, LIMIT_PACK_BYTES, &tail, &id),
		-EFBIG);
	assert_int_equal(
		pack_table_write(good, LIMIT_PACK_RECORDS + 1, 20, &tail, &id),
		-EFBIG);
	memcpy(bad, good, sizeof(bad));
	bad[1].offset = 9;
	assert_int_equal(pack_table_write(bad, 2, 20, &tail, &id), -EINVAL);
	memcpy(bad, good, sizeof(bad));
	bad[0].digest.type = DIGEST_NONE;
	assert_int_equal(pack_table_write(bad, 2, 20, &tail, &id), -EINVAL);
	assert_int_equal(tail.len, 0);
	buf_release(&tail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_file),
		cmocka_unit_test(test_zstd_tool_accepts_a_pack),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_refuses_bad_files),
		cmocka_unit_test(test_table_must_be_the_trailers),
		cmocka_unit_test(test_write_refuses),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
