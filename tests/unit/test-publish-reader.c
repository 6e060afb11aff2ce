/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files into chunks: holes are zeros, and a file that changes is
 * noticed whenever it does. */
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
#include "publish/blob.h"
#include "publish/reader.h"

#include "publish-env.h"

static const struct chunker_params chunker = {
	.min_bytes = 4096,
	.average_bytes = 16384,
	.max_bytes = 65536,
	.normalisation = 2,
};

struct sink {
	const struct publish_env *env;
	struct buf plain;   /* what came, zeros written out */
	struct buf lengths; /* of chunks */
	uint64_t chunks, holes;
	bool is_last;
	unsigned int segments; /* in use */
	void (*at_chunk)(struct sink *sink, uint64_t chunk);
};

static struct segment *sink_get(void *arg)
{
	struct sink *sink = arg;
	struct segment *segment = calloc(1, sizeof(*segment));

	segment->data = malloc(SEGMENT_BYTES);
	segment->uses = 1;
	sink->segments++;
	return segment;
}

static void sink_put(void *arg, struct segment *segment)
{
	struct sink *sink = arg;

	free(segment->data);
	free(segment);
	sink->segments--;
}

static int sink_chunk(void *arg, struct segment *segment, const uint8_t *data,
		      uint32_t length, bool is_last)
{
	struct sink *sink = arg;

	(void)segment;
	assert_false(sink->is_last);
	assert_in_range(length, 1, chunker.max_bytes);
	sink->is_last = is_last;
	if (data)
		buf_append(&sink->plain, data, length);
	else
		buf_append_zeros(&sink->plain, length);
	sink->holes += !data;
	buf_append(&sink->lengths, &length, sizeof(length));
	if (sink->at_chunk)
		sink->at_chunk(sink, sink->chunks);
	sink->chunks++;
	return 0;
}

static const struct reader_ops ops = {
	.get = sink_get,
	.put = sink_put,
	.chunk = sink_chunk,
};

static void sink_init(struct sink *sink, const struct publish_env *env)
{
	*sink = (struct sink){.env = env};
	buf_init(&sink->plain, 64 << 20);
	buf_init(&sink->lengths, 1 << 20);
}

static void sink_release(struct sink *sink)
{
	assert_int_equal(sink->segments, 0);
	buf_release(&sink->plain);
	buf_release(&sink->lengths);
}

static struct blob_job *make_job(const struct publish_env *env,
				 const char *const *paths, size_t count)
{
	struct blob_job *job = blob_job_new(blob_handle_new());

	for (size_t i = 0; i < count; i++) {
		struct stat st;

		assert_int_equal(fstatat(env->tree_fd, paths[i], &st, 0), 0);
		assert_int_equal(blob_job_add(job, paths[i], &st), 0);
	}
	return job;
}

static int run(struct sink *sink, struct blob_job *job, struct err *err)
{
	struct reader reader;
	int r;

	reader_init(&reader, sink->env->tree_fd, &chunker, &ops, sink);
	r = reader_run(&reader, job, err);
	reader_release(&reader);
	blob_handle_free(job->blob);
	blob_job_free(job);
	return r;
}

/* Files of a shared blob come one after another. */
static void test_files_are_joined(void **state)
{
	static const char *const paths[] = {"a", "d/b", "c"};
	const struct publish_env *env = *state;
	struct buf expected;
	struct sink sink;

	put_random(env, "a", 100000, 1);
	put_file(env, "d/b", "x", 1);
	put_random(env, "c", 77777, 2);
	buf_init(&expected, 1 << 20);
	for (size_t i = 0; i < 3; i++)
		file_read(env->tree_fd, paths[i], &expected);
	sink_init(&sink, env);
	assert_int_equal(run(&sink, make_job(env, paths, 3), NULL), 0);
	assert_true(sink.is_last);
	assert_int_equal(sink.plain.len, expected.len);
	assert_memory_equal(sink.plain.data, expected.data, expected.len);
	buf_release(&expected);
	sink_release(&sink);
}

/* More than a segment: cuts do not depend on where segments end. */
static void test_cuts_are_those_of_the_chunker(void **state)
{
	static const char *const paths[] = {"large"};
	const struct publish_env *env = *state;
	struct sink sink;
	size_t at = 0;

	put_random(env, "large", 3 * SEGMENT_BYTES + 12345, 3);
	sink_init(&sink, env);
	assert_int_equal(run(&sink, make_job(env, paths, 1), NULL), 0);
	for (uint64_t i = 0; i < sink.chunks; i++) {
		uint32_t length;

		memcpy(&length, sink.lengths.data + 4 * i, 4);
		assert_int_equal(length,
				 chunker_cut(&chunker, sink.plain.data + at,
					     sink.plain.len - at, true));
		at += length;
	}
	assert_int_equal(at, sink.plain.len);
	sink_release(&sink);
}

#define SPARSE_BYTES (12 << 20)

/* 1 MiB of data, then pages of data with holes of many lengths between them,
 * a hole to the end; and the same with the zeros written. */
static void make_sparse(const struct publish_env *env, const char *path,
			bool has_holes)
{
	char *zeros = calloc(1, SPARSE_BYTES);
	int fd;

	put_random(env, path, 1 << 20, 4);
	fd = openat(env->tree_fd, path, O_RDWR);
	if (!has_holes) {
		pwrite_full(fd, zeros, SPARSE_BYTES - (1 << 20), 1 << 20);
	}
	/* every page of a chunk of 64 KiB is hit */
	for (uint64_t i = 0; i < 40; i++)
		pwrite_full(fd, "data", 4, (1 << 20) + i * 204 * 1024);
	assert_int_equal(ftruncate(fd, SPARSE_BYTES), 0);
	close(fd);
	free(zeros);
}

static void test_holes_are_cut_like_zeros(void **state)
{
	static const char *const sparse[] = {"sparse"}, *const full[] = {
								"full"};
	const struct publish_env *env = *state;
	struct sink a, b;

	make_sparse(env, "sparse", true);
	make_sparse(env, "full", false);
	sink_init(&a, env);
	sink_init(&b, env);
	assert_int_equal(run(&a, make_job(env, sparse, 1), NULL), 0);
	assert_int_equal(run(&b, make_job(env, full, 1), NULL), 0);
	assert_int_equal(b.holes, 0);
	assert_true(a.holes > 30);
	assert_int_equal(a.plain.len, SPARSE_BYTES);
	assert_memory_equal(a.plain.data, b.plain.data, SPARSE_BYTES);
	assert_int_equal(a.lengths.len, b.lengths.len);
	assert_memory_equal(a.lengths.data, b.lengths.data, a.lengths.len);
	sink_release(&a);
	sink_release(&b);
}

static void test_a_hole_only(void **state)
{
	static const char *const paths[] = {"hole"};
	const struct publish_env *env = *state;
	struct sink sink;
	int fd;

	put_file(env, "hole", "", 0);
	fd = openat(env->tree_fd, "hole", O_RDWR);
	assert_int_equal(ftruncate(fd, (10 << 20) + 1), 0);
	close(fd);
	sink_init(&sink, env);
	assert_int_equal(run(&sink, make_job(env, paths, 1), NULL), 0);
	assert_int_equal(sink.holes, sink.chunks);
	assert_int_equal(sink.plain.len, (10 << 20) + 1);
	sink_release(&sink);
}

/* Changes: each must be refused, and the file named. */

static void expect_change(struct sink *sink, struct blob_job *job)
{
	struct err err = {0};

	assert_int_equal(run(sink, job, &err), -ESTALE);
	assert_non_null(strstr(err.text, "'victim' was changed"));
	sink_release(sink);
}

static void test_a_change_before_reading(void **state)
{
	static const char *const paths[] = {"first", "victim"};
	const struct publish_env *env = *state;
	struct blob_job *job;
	struct sink sink;

	put_random(env, "first", 10, 5);
	put_random(env, "victim", 10, 6);
	job = make_job(env, paths, 2);
	put_random(env, "victim", 10, 7); /* same size, another inode */
	sink_init(&sink, env);
	expect_change(&sink, job);
}

static void append_byte(struct sink *sink, uint64_t chunk)
{
	int fd = openat(sink->env->tree_fd, "victim", O_WRONLY | O_APPEND);

	if (chunk == 1)
		assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

static void cut_short(struct sink *sink, uint64_t chunk)
{
	int fd = openat(sink->env->tree_fd, "victim", O_WRONLY);

	if (chunk == 1)
		assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
}

/* Size and mtime as before: ctime gives it away. */
static void rewrite_byte(struct sink *sink, uint64_t chunk)
{
	struct timespec times[2];
	struct stat st;
	int fd = openat(sink->env->tree_fd, "victim", O_WRONLY);

	if (chunk == 1) {
		fstat(fd, &st);
		times[0] = st.st_atim;
		times[1] = st.st_mtim;
		usleep(20000); /* a tick of the kernel's clock */
		assert_int_equal(pwrite(fd, "x", 1, 5), 1);
		assert_int_equal(futimens(fd, times), 0);
	}
	close(fd);
}

static void test_changes_while_reading(void **state)
{
	void (*const changes[])(struct sink *, uint64_t) = {
		append_byte,
		cut_short,
		rewrite_byte,
	};
	static const char *const paths[] = {"victim"};
	const struct publish_env *env = *state;

	for (size_t i = 0; i < 3; i++) {
		struct sink sink;

		put_random(env, "victim", 3 * SEGMENT_BYTES, 8);
		sink_init(&sink, env);
		sink.at_chunk = changes[i];
		expect_change(&sink, make_job(env, paths, 1));
	}
}

static void test_a_removed_file(void **state)
{
	static const char *const paths[] = {"victim"};
	const struct publish_env *env = *state;
	struct blob_job *job;
	struct sink sink;

	put_random(env, "victim", 10, 6);
	job = make_job(env, paths, 1);
	unlinkat(env->tree_fd, "victim", 0);
	sink_init(&sink, env);
	expect_change(&sink, job);
}

#define TEST(function)                                                         \
	cmocka_unit_test_setup_teardown(function, publish_env_setup,           \
					publish_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_files_are_joined),
		TEST(test_cuts_are_those_of_the_chunker),
		TEST(test_holes_are_cut_like_zeros),
		TEST(test_a_hole_only),
		TEST(test_a_change_before_reading),
		TEST(test_changes_while_reading),
		TEST(test_a_removed_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
