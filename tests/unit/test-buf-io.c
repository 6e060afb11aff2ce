/* SPDX-License-Identifier: Apache-2.0 */
#undef NDEBUG
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/vec.h"

#include "scratch.h"

static char directory[64];
static int dirfd_of_test = -1;

static int make_directory(void **state)
{
	scratch_directory_at(directory, sizeof(directory));
	dirfd_of_test = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_of_test < 0;
}

static int remove_directory(void **state)
{
	close(dirfd_of_test);
	return remove_tree(AT_FDCWD, directory);
}

static void buf_never_passes_its_limit(void **state)
{
	struct buf buf;
	size_t len;
	uint8_t *data;

	buf_init(&buf, 1000);
	assert_int_equal(buf_append(&buf, "abc", 3), 0);
	assert_int_equal(buf_append_zeros(&buf, 997), 0);
	assert_int_equal(buf.len, 1000);
	assert_int_equal(buf_append(&buf, "x", 1), -EFBIG);
	assert_int_equal(buf_append(&buf, "x", SIZE_MAX), -EFBIG);
	assert_int_equal(buf_append(&buf, NULL, 0), 0);
	assert_int_equal(buf_printf(&buf, "%d", 1), -EFBIG);
	assert_int_equal(buf_reserve(&buf, 1001), -EFBIG);
	assert_int_equal(buf.len, 1000);
	assert_memory_equal(buf.data, "abc\0", 4);
	assert_true(buf.capacity <= 1000);
	buf_clear(&buf);
	assert_int_equal(buf_printf(&buf, "%0500d|", 7), 0);
	assert_int_equal(buf.len, 501);
	assert_int_equal(buf.data[499], '7');
	data = buf_steal(&buf, &len);
	assert_int_equal(len, 501);
	free(data);
	assert_int_equal(buf.limit, 1000);
	assert_null(buf.data);
	buf_release(&buf);
	buf_release(&buf);
}

static void files_appear_whole(void **state)
{
	enum file_write_flags all = FILE_WRITE_SYNC | FILE_WRITE_MKDIR;
	struct buf buf;
	struct stat st;
	mode_t mask = umask(027);

	buf_init(&buf, 100);
	assert_int_equal(file_write(dirfd_of_test, "a/b/file", "one", 3, 0666,
				    FILE_WRITE_SYNC), -ENOENT);
	assert_int_equal(file_write(dirfd_of_test, "a/b/file", "one", 3, 0666,
				    all), 0);
	assert_int_equal(file_write(dirfd_of_test, "a/b/file", "two!", 4, 0666,
				    all), 0);
	assert_int_equal(file_write(dirfd_of_test, "a/b/file", "three", 5,
				    0666, FILE_WRITE_EXCLUSIVE), -EEXIST);
	assert_int_equal(file_write(dirfd_of_test, "a/b/new", "three", 5, 0600,
				    FILE_WRITE_EXCLUSIVE), 0);
	assert_int_equal(fstatat(dirfd_of_test, "a/b/file", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(fstatat(dirfd_of_test, "a/b", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0750);
	umask(mask);
	assert_int_equal(file_read(dirfd_of_test, "a/b/file", &buf), 0);
	assert_int_equal(file_read(dirfd_of_test, "a/b/new", &buf), 0);
	assert_int_equal(buf.len, 9);
	assert_memory_equal(buf.data, "two!three", 9);
	/* Nothing temporary is left: the directory is empty after both. */
	assert_int_equal(unlinkat(dirfd_of_test, "a/b/file", 0), 0);
	assert_int_equal(unlinkat(dirfd_of_test, "a/b/new", 0), 0);
	assert_int_equal(unlinkat(dirfd_of_test, "a/b", AT_REMOVEDIR), 0);
	assert_int_equal(file_write(dirfd_of_test, "a/", "", 0, 0600, 0),
			 -EINVAL);
	assert_int_equal(file_write(dirfd_of_test, "", "", 0, 0600, 0),
			 -EINVAL);
	buf_release(&buf);
}

/* Only a name in use is worth another try; the rest is what it is. */
static void a_write_says_what_failed(void **state)
{
	int gone;

	assert_int_equal(mkdirat(dirfd_of_test, "gone", 0700), 0);
	gone = openat(dirfd_of_test, "gone", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(gone >= 0);
	assert_int_equal(unlinkat(dirfd_of_test, "gone", AT_REMOVEDIR), 0);
	assert_int_equal(file_write(gone, "x", "", 0, 0600, 0), -ENOENT);
	close(gone);
}

static void only_regular_files_are_read(void **state)
{
	struct buf buf;

	buf_init(&buf, 8);
	assert_int_equal(buf_append(&buf, "keep", 4), 0);
	assert_int_equal(mkfifoat(dirfd_of_test, "fifo", 0600), 0);
	assert_int_equal(file_read(dirfd_of_test, "fifo", &buf), -EINVAL);
	assert_int_equal(file_read(dirfd_of_test, ".", &buf), -EINVAL);
	assert_int_equal(file_read(AT_FDCWD, "/dev/zero", &buf), -EINVAL);
	assert_int_equal(file_read(dirfd_of_test, "absent", &buf), -ENOENT);
	assert_int_equal(file_write(dirfd_of_test, "five", "12345", 5, 0600,
				    0), 0);
	assert_int_equal(file_read(dirfd_of_test, "five", &buf), -EFBIG);
	/* Its size is not known before it is read. */
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", &buf), -EFBIG);
	assert_int_equal(buf.len, 4);
	assert_int_equal(file_write(dirfd_of_test, "four", "1234", 4, 0600, 0),
			 0);
	assert_int_equal(file_read(dirfd_of_test, "four", &buf), 0);
	assert_memory_equal(buf.data, "keep1234", 8);
	buf_release(&buf);
	buf_init(&buf, 1 << 20);
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", &buf), 0);
	assert_true(buf.len > 100);
	buf_release(&buf);
}

static void reads_and_writes_are_full(void **state)
{
	int pipes[2];
	char data[8];

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(write_full(pipes[1], "abcd", 4), 0);
	close(pipes[1]);
	assert_int_equal(read_full(pipes[0], data, 8), 4);
	close(pipes[0]);
	assert_int_equal(read_full(-1, data, 1), -EBADF);
	assert_int_equal(pread_full(0, data, 2, INT64_MAX), -EINVAL);
	assert_int_equal(pwrite_full(0, data, 2, INT64_MAX), -EFBIG);
}

static void trees_go_and_links_stay(void **state)
{
	struct stat st;

	assert_int_equal(mkdir_parents(dirfd_of_test, "t/a/b/c", 0700), 0);
	assert_int_equal(mkdir_parents(dirfd_of_test, "t/a/b/c/", 0700), 0);
	assert_int_equal(mkdir_parents(dirfd_of_test, "t//d/./e", 0700), 0);
	assert_int_equal(file_write(dirfd_of_test, "t/a/f", "", 0, 0600, 0),
			 0);
	assert_int_equal(mkdir_parents(dirfd_of_test, "t/a/f", 0700),
			 -ENOTDIR);
	assert_int_equal(mkdir_parents(dirfd_of_test, "t/a/f/g", 0700),
			 -ENOTDIR);
	assert_int_equal(mkdirat(dirfd_of_test, "kept", 0700), 0);
	assert_int_equal(symlinkat("../kept", dirfd_of_test, "t/link"), 0);
	assert_int_equal(file_write(dirfd_of_test, "kept/f", "", 0, 0600, 0),
			 0);
	assert_int_equal(remove_tree(dirfd_of_test, "t"), 0);
	assert_int_equal(remove_tree(dirfd_of_test, "t"), 0);
	assert_int_equal(fstatat(dirfd_of_test, "t", &st, 0), -1);
	assert_int_equal(fstatat(dirfd_of_test, "kept/f", &st, 0), 0);
	assert_int_equal(symlinkat("kept", dirfd_of_test, "link"), 0);
	assert_int_equal(remove_tree(dirfd_of_test, "link"), 0);
	assert_int_equal(fstatat(dirfd_of_test, "kept/f", &st, 0), 0);
	/* A path through a file does not exist, and is no success. */
	assert_int_equal(remove_tree(dirfd_of_test, "kept/f/x"), -ENOTDIR);
}

static void errors_carry_words(void **state)
{
	struct err err = { 0 };
	char long_text[600];

	assert_int_equal(err_set(&err, EIO, "cannot read '%s'", "x"), -EIO);
	assert_string_equal(err.text, "cannot read 'x'");
	assert_int_equal(err_prefix(&err, -EIO, "chunk %d", 3), -EIO);
	assert_string_equal(err.text, "chunk 3: cannot read 'x'");
	err_set(&err, EIO, "again: %s", err.text);
	assert_string_equal(err.text, "again: chunk 3: cannot read 'x'");
	assert_int_equal(err_set(NULL, EIO, "x"), -EIO);
	assert_int_equal(err_prefix(NULL, -EIO, "x"), -EIO);
	assert_string_equal(err_text(NULL, -ENOENT),
			    "No such file or directory");
	err = (struct err){ 0 };
	err_prefix(&err, -ENOENT, "key");
	assert_string_equal(err.text, "key: No such file or directory");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	err_set(&err, EIO, "%s", long_text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	err_prefix(&err, -EIO, "%s", long_text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void bytes_and_arithmetic(void **state)
{
	uint8_t bytes[8];
	uint64_t value = 5;

	store_le64(bytes, 0x0102030405060708);
	assert_memory_equal(bytes, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
	assert_int_equal(load_le64(bytes), 0x0102030405060708);
	assert_int_equal(load_le32(bytes + 1), 0x04050607);
	assert_int_equal(load_le16(bytes + 6), 0x0102);
	store_le32(bytes, 0xfffefdfc);
	assert_int_equal(load_le32(bytes), 0xfffefdfc);
	assert_false(add_checked(UINT64_MAX, 1, &value));
	assert_false(mul_checked(1ULL << 32, 1ULL << 32, &value));
	assert_int_equal(value, 5);
	assert_true(add_checked(UINT64_MAX, 0, &value));
	assert_true(mul_checked(1ULL << 32, 1ULL << 31, &value));
	assert_int_equal(value, 1ULL << 63);
}

static void vectors_grow(void **state)
{
	VEC(int) numbers = { 0 };

	for (int i = 0; i < 1000; i++) {
		int *slot = vec_push(&numbers);

		assert_non_null(slot);
		assert_int_equal(*slot, 0);
		*slot = i;
	}
	assert_int_equal(numbers.count, 1000);
	assert_int_equal(numbers.items[777], 777);
	vec_release(&numbers);
	assert_null(numbers.items);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(buf_never_passes_its_limit),
		cmocka_unit_test(files_appear_whole),
		cmocka_unit_test(a_write_says_what_failed),
		cmocka_unit_test(only_regular_files_are_read),
		cmocka_unit_test(reads_and_writes_are_full),
		cmocka_unit_test(trees_go_and_links_stay),
		cmocka_unit_test(errors_carry_words),
		cmocka_unit_test(bytes_and_arithmetic),
		cmocka_unit_test(vectors_grow),
	};

	return cmocka_run_group_tests(tests, make_directory,
				      remove_directory);
}
