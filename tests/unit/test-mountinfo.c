/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/self/mountinfo, as kernels print them and as none should. */
#include <config.h>
#undef NDEBUG

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mount/mount.h"

struct expected {
	const char *mountpoint, *type, *source;
	unsigned major_number, minor_number;
};

static void check(const char *text, const struct expected *expected,
		  size_t count)
{
	char *copy = strdup(text), *cursor = copy;
	struct mount_entry entry;
	size_t found = 0;

	assert_non_null(copy);
	while (mountinfo_next(&cursor, &entry)) {
		assert_true(found < count);
		assert_string_equal(entry.mountpoint,
				    expected[found].mountpoint);
		assert_string_equal(entry.type, expected[found].type);
		assert_string_equal(entry.source, expected[found].source);
		assert_int_equal(entry.major_number,
				 expected[found].major_number);
		assert_int_equal(entry.minor_number,
				 expected[found].minor_number);
		found++;
	}
	assert_int_equal(found, count);
	free(copy);
}

static void test_ordinary_lines(void **state)
{
	static const struct expected expected[] = {
		{"/", "ext4", "/dev/vda", 254, 0},
		{"/datasets", "fuse.larder", "larder", 0, 45},
		{"/mnt", "fuse.larder", "https://h/m#pile", 0, 46},
	};

	check("21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
	      "99 21 0:45 / /datasets ro,nosuid,nodev shared:7 master:1 - "
	      "fuse.larder larder ro,user_id=0\n"
	      "100 21 0:46 / /mnt ro - fuse.larder https://h/m\\043pile ro",
	      expected, 3);
}

static void test_escapes(void **state)
{
	static const struct expected expected[] = {
		{"/a b\tc\nd\\e", "fuse.larder", "x y#1", 0, 1},
		{"/\\999", "fuse.larder", "a\\", 0, 2},
	};

	check("1 2 0:1 / /a\\040b\\011c\\012d\\134e ro - fuse.larder x\\040y\\0431 ro\n"
	      "1 2 0:2 / /\\999 ro - fuse.larder a\\134 ro\n",
	      expected, 2);
}

static void test_broken_lines_are_skipped(void **state)
{
	static const struct expected expected[] = {
		{"/good", "tmpfs", "t", 0, 9},
	};

	check("\n"
	      "nonsense\n"
	      "1 2 3 / /x ro - t s ro\n"
	      "1 2 0:3 / relative ro - t s ro\n"
	      "1 2 0:3 / /no-dash ro shared:1\n"
	      "1 2 0:3\n"
	      "1 2 0:9 / /good ro - tmpfs t rw\n"
	      "1 2 0:3 / /cut ro -",
	      expected, 1);
	check("", NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ordinary_lines),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_broken_lines_are_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
