/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a tree: the order, what is left out, what is refused. */
#include <config.h>

#undef NDEBUG
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/limits.h"
#include "publish/walk.h"

#include "publish-env.h"

struct trace {
	struct buf text; /* "+dir file -" ... */
	const char *fail_at;
	size_t xattrs_len;
};

static int trace_enter(void *arg, const struct walk_entry *entry,
		       struct err *err)
{
	struct trace *trace = arg;

	(void)err;
	return buf_printf(&trace->text, "+%s ", entry->path);
}

static int trace_leave(void *arg, struct err *err)
{
	struct trace *trace = arg;

	(void)err;
	return buf_printf(&trace->text, "- ");
}

static int trace_entry(void *arg, const struct walk_entry *entry,
		       struct err *err)
{
	struct trace *trace = arg;

	if (trace->fail_at && !strcmp(trace->fail_at, entry->path))
		return err_set(err, EINTR, "enough");
	trace->xattrs_len += entry->xattrs_len;
	return buf_printf(&trace->text, "%s%s%s ", entry->path,
			  entry->target ? ">" : "",
			  entry->target ? entry->target : "");
}

static const struct walk_ops trace_ops = {
	.enter = trace_enter,
	.leave = trace_leave,
	.entry = trace_entry,
};

static int walk(const struct publish_env *env,
		const struct walk_options *options, struct trace *trace,
		struct walk_counts *counts, struct err *err)
{
	buf_init(&trace->text, 1 << 20);
	return walk_tree(env->tree_fd, options, &trace_ops, trace, counts, err);
}

static void expect_walk(const struct publish_env *env,
			const struct walk_options *options,
			const char *expected, struct walk_counts *counts)
{
	struct trace trace = {0};

	assert_int_equal(walk(env, options, &trace, counts, NULL), 0);
	buf_append(&trace.text, "", 1);
	assert_string_equal((char *)trace.text.data, expected);
	buf_release(&trace.text);
}

/* Bytes decide, not the locale: "B" < "a" < "a.txt" < "a/x". */
static void test_order_is_by_bytes(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {0};
	struct walk_counts counts;

	put_file(env, "b", "1", 1);
	put_file(env, "a/x", "22", 2);
	put_file(env, "a/\xff", "", 0);
	put_file(env, "a.txt", "333", 3);
	put_file(env, "B", "", 0);
	expect_walk(env, &options, "+ B +a a/x a/\xff - a.txt b - ", &counts);
	assert_int_equal(counts.files, 5);
	assert_int_equal(counts.directories, 2);
	assert_int_equal(counts.bytes, 6);
}

static void test_symlinks_are_not_followed(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {0};

	put_file(env, "d/f", "1", 1);
	assert_int_equal(symlinkat("d", env->tree_fd, "link"), 0);
	assert_int_equal(symlinkat("/nowhere", env->tree_fd, "dangling"), 0);
	expect_walk(env, &options, "+ +d d/f - dangling>/nowhere link>d - ",
		    NULL);
}

static void test_special_files_are_counted(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {0};
	struct walk_counts counts;

	assert_int_equal(mkfifoat(env->tree_fd, "fifo", 0600), 0);
	put_file(env, "f", "1", 1);
	expect_walk(env, &options, "+ f - ", &counts);
	assert_int_equal(counts.skipped, 1);
}

static void test_patterns_exclude(void **state)
{
	const char *const patterns[] = {"*.tmp", "/a/b", "c/**/x"};
	const struct publish_env *env = *state;
	const struct walk_options options = {
		.excludes = patterns,
		.exclude_count = 3,
	};
	struct walk_counts counts;

	put_file(env, "a/b/lost", "1", 1);
	put_file(env, "a/deep/b", "1", 1);
	put_file(env, "a/y.tmp", "1", 1);
	put_file(env, "c/1/2/x", "1", 1);
	put_file(env, "z.tmp", "1", 1);
	expect_walk(env, &options,
		    "+ +a +a/deep a/deep/b - - +c +c/1 +c/1/2 - - - - ",
		    &counts);
	assert_int_equal(counts.excluded, 4);
}

static void test_user_xattrs_in_order(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {.want_xattrs = true};
	struct trace trace = {0};
	char path[128];

	put_file(env, "f", "1", 1);
	snprintf(path, sizeof(path), "%s/f", env->tree);
	if (setxattr(path, "user.b", "2", 1, 0) < 0)
		skip();
	assert_int_equal(setxattr(path, "user.a", "11", 2, 0), 0);
	assert_int_equal(setxattr(path, "user.larder.state", "x", 1, 0), 0);
	assert_int_equal(walk(env, &options, &trace, NULL, NULL), 0);
	assert_true(trace.xattrs_len > 0);
	assert_true(trace.xattrs_len < 40); /* without user.larder.* */
	buf_release(&trace.text);
}

/* Longer than PATH_MAX, and deeper than descriptors are held. */
static void test_deep_trees(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {0};
	struct trace trace = {0};
	struct walk_counts counts;
	char name[201], path[30 * 201];
	int fd = dup(env->tree_fd), child;
	size_t len = 0;

	memset(name, 'n', 200);
	name[200] = '\0';
	for (int i = 0; i < 200; i++) {
		const char *part = i < 25 ? name : "d";

		assert_int_equal(mkdirat(fd, part, 0755), 0);
		child = openat(fd, part, O_RDONLY | O_DIRECTORY);
		assert_true(child >= 0);
		close(fd);
		fd = child;
		len += (size_t)snprintf(path + len, sizeof(path) - len, "%s/",
					part);
	}
	assert_int_equal(file_write(fd, "last", "x", 1, 0644, 0), 0);
	close(fd);
	buf_init(&trace.text, 1 << 24);
	assert_int_equal(walk_tree(env->tree_fd, &options, &trace_ops, &trace,
				   &counts, NULL),
			 0);
	assert_int_equal(counts.directories, 201);
	assert_int_equal(counts.files, 1);
	buf_release(&trace.text);
	snprintf(path + len, sizeof(path) - len, "last");
	fd = open_below(env->tree_fd, path, O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
}

#define DEEP 140

/* The way down is another directory when the deepest is left. */
static int swap_and_leave(void *arg, struct err *err)
{
	int *fd = arg;

	(void)err;
	if (*fd < 0)
		return 0;
	assert_int_equal(renameat(*fd, "d", *fd, "old"), 0);
	assert_int_equal(mkdirat(*fd, "d", 0755), 0);
	assert_int_equal(file_write(*fd, "d/z", "other", 5, 0644, 0), 0);
	close(*fd);
	*fd = -1;
	return 0;
}

static int ignore_entry(void *arg, const struct walk_entry *entry,
			struct err *err)
{
	(void)arg;
	(void)entry;
	(void)err;
	return 0;
}

static void test_another_directory_is_not_gone_on_with(void **state)
{
	static const struct walk_ops ops = {
		.enter = ignore_entry,
		.leave = swap_and_leave,
		.entry = ignore_entry,
	};
	const struct publish_env *env = *state;
	const struct walk_options options = {0};
	int fd = dup(env->tree_fd), above = -1;
	struct err err;

	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		if (above >= 0)
			close(above);
		above = fd;
		fd = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		assert_true(fd >= 0);
		if (i == DEEP - 2)
			assert_int_equal(file_write(fd, "z", "x", 1, 0644, 0),
					 0);
	}
	close(fd);
	/* of the last but one, whose parent changes */
	fd = openat(above, "..", O_RDONLY | O_DIRECTORY);
	close(above);
	assert_int_equal(
		walk_tree(env->tree_fd, &options, &ops, &fd, NULL, &err),
		-ESTALE);
	assert_non_null(strstr(err.text, "vanished or changed"));
}

static void test_too_deep_is_refused(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {0};
	struct trace trace = {0};
	struct err err;
	int fd = dup(env->tree_fd), child;

	for (unsigned int i = 0; i <= LIMIT_PATH_DEPTH; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		child = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = child;
	}
	close(fd);
	buf_init(&trace.text, 1 << 26);
	assert_int_equal(walk_tree(env->tree_fd, &options, &trace_ops, &trace,
				   NULL, &err),
			 -ELOOP);
	assert_non_null(strstr(err.text, "deeper than 1024"));
	buf_release(&trace.text);
}

static void test_a_symlink_in_the_way_is_refused(void **state)
{
	const struct publish_env *env = *state;

	put_file(env, "real/f", "1", 1);
	assert_int_equal(symlinkat("real", env->tree_fd, "link"), 0);
	assert_true(open_below(env->tree_fd, "link/f", O_RDONLY) < 0);
	assert_true(open_below(env->tree_fd, "link", O_RDONLY) < 0);
	assert_true(open_below(env->tree_fd, "../tree/real/f", O_RDONLY) < 0);
}

/* An old kernel, or a sandbox that knows no openat2. */
static void forbid_openat2(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
			 0);
	assert_int_equal(syscall(SYS_openat2, 0, "", NULL, 0), -1);
	assert_int_equal(errno, ENOSYS);
}

static int is_refused_without_openat2(const struct publish_env *env)
{
	char long_name[3 * NAME_MAX];
	int fd;

	forbid_openat2();
	fd = open_below(env->tree_fd, "real/f", O_RDONLY);
	if (fd < 0 || close(fd) < 0)
		return 1;
	memset(long_name, 'n', sizeof(long_name));
	memcpy(long_name + sizeof(long_name) - 3, "/f", 3);
	if (open_below(env->tree_fd, long_name, O_RDONLY) != -ENAMETOOLONG)
		return 1;
	return open_below(env->tree_fd, "link/f", O_RDONLY) != -ENOTDIR ||
	       open_below(env->tree_fd, "link", O_RDONLY) != -ELOOP ||
	       open_below(env->tree_fd, "real/../link", O_RDONLY) != -EXDEV ||
	       open_below(env->tree_fd, "/etc/passwd", O_RDONLY) != -EXDEV;
}

static void test_a_symlink_is_refused_without_openat2(void **state)
{
	const struct publish_env *env = *state;
	int status;
	pid_t pid;

	put_file(env, "real/f", "1", 1);
	assert_int_equal(symlinkat("real", env->tree_fd, "link"), 0);
	pid = fork();
	if (pid == 0)
		_exit(is_refused_without_openat2(env));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_the_mirror_inside_is_refused(void **state)
{
	const struct publish_env *env = *state;
	struct walk_options options = {.has_forbidden = true};
	struct trace trace = {0};
	struct err err;
	struct stat st;

	put_file(env, "a/mirror/f", "1", 1);
	assert_int_equal(fstatat(env->tree_fd, "a/mirror", &st, 0), 0);
	options.forbidden_dev = st.st_dev;
	options.forbidden_ino = st.st_ino;
	assert_int_equal(walk(env, &options, &trace, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a/mirror"));
	buf_release(&trace.text);
}

static void test_a_failure_ends_the_walk(void **state)
{
	const struct publish_env *env = *state;
	const struct walk_options options = {0};
	struct trace trace = {.fail_at = "b"};
	struct err err;

	put_file(env, "a", "1", 1);
	put_file(env, "b", "1", 1);
	put_file(env, "c", "1", 1);
	assert_int_equal(walk(env, &options, &trace, NULL, &err), -EINTR);
	assert_string_equal(err.text, "enough");
	buf_append(&trace.text, "", 1);
	assert_string_equal((char *)trace.text.data, "+ a ");
	buf_release(&trace.text);
}

#define TEST(function)                                                         \
	cmocka_unit_test_setup_teardown(function, publish_env_setup,           \
					publish_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order_is_by_bytes),
		TEST(test_symlinks_are_not_followed),
		TEST(test_special_files_are_counted),
		TEST(test_patterns_exclude),
		TEST(test_user_xattrs_in_order),
		TEST(test_deep_trees),
		TEST(test_another_directory_is_not_gone_on_with),
		TEST(test_too_deep_is_refused),
		TEST(test_a_symlink_in_the_way_is_refused),
		TEST(test_a_symlink_is_refused_without_openat2),
		TEST(test_the_mirror_inside_is_refused),
		TEST(test_a_failure_ends_the_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
