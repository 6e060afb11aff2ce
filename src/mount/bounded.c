/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a mount that may never answer, each by a child (base/question.h).
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/question.h"
#include "base/text.h"
#include "mount/internal.h"

#define NAME_BYTES 1024 /* of a dataset, several directories deep */
/* Figures are counted when they are asked for: so long is waited for them, of
 * the time a look may take. */
#define FIGURES_MS 1000u
#define FIGURES_POLL_MS 20u

struct told {
	char name[NAME_BYTES];
	struct mount_dataset_state state;
};

/* One number: 0 and the number, -ETIMEDOUT or another negative errno. */
static int ask_bounded(question_fn *ask, const char *path, uint32_t limit_ms,
		       int64_t *ret)
{
	struct question question;
	int r = question_begin(&question, ask, path, limit_ms);

	if (r < 0)
		return r;
	r = question_read(&question, ret, sizeof(*ret));
	question_end(&question, r);
	return r < 0 ? r : r == 0 ? -EIO : 0;
}

static void tell_number(int to_parent, int64_t number)
{
	(void)write_full(to_parent, &number, sizeof(number));
}

static void ask_statfs(const void *path, int to_parent)
{
	struct statfs statfs_buf;

	tell_number(to_parent, statfs(path, &statfs_buf) < 0 ? -errno : 0);
}

static void ask_pid(const void *path, int to_parent)
{
	char text[24];
	uint64_t pid;
	ssize_t len = getxattr(path, MOUNT_PID_XATTR, text, sizeof(text) - 1);

	text[len > 0 ? len : 0] = '\0';
	if (parse_u64(text, &pid) < 0 || pid > INT32_MAX)
		pid = 0;
	tell_number(to_parent, (int64_t)pid);
}

static void get_text(const char *path, const char *name, char *ret, size_t size)
{
	ssize_t len = getxattr(path, name, ret, size - 1);

	ret[len > 0 ? len : 0] = '\0';
}

const char *mount_figure(const char *figures, const char *key, size_t *ret_len)
{
	size_t len = strlen(key);

	while (*figures) {
		size_t line = strcspn(figures, "\n");

		if (line > len && strncmp(figures, key, len) == 0 &&
		    figures[len] == ' ') {
			*ret_len = line - len - 1;
			return figures + len + 1;
		}
		figures += line + (figures[line] == '\n');
	}
	return NULL;
}

/* Fresh ones, if they come in time. */
static void get_figures(const char *path, uint64_t end_ms, char *ret,
			size_t size)
{
	const struct timespec pause = {.tv_nsec = FIGURES_POLL_MS * 1000000};
	const char *fresh;
	size_t len;

	for (;;) {
		get_text(path, MOUNT_FIGURES_XATTR, ret, size);
		fresh = mount_figure(ret, "fresh", &len);
		if (!fresh || *fresh == '1' || now_ms() >= end_ms)
			return;
		nanosleep(&pause, NULL);
	}
}

static void tell(struct told *told, const char *name, int to_parent)
{
	snprintf(told->name, sizeof(told->name), "%s",
		 name[0] == '/' ? name + 1 : name);
	(void)write_full(to_parent, told, sizeof(*told));
}

static unsigned tell_datasets(char *path, size_t root_len, uint64_t end_ms,
			      int to_parent);

/* Of a directory that leads to datasets, or to none yet where it has views. */
static unsigned tell_below(char *path, size_t root_len, uint64_t end_ms,
			   int to_parent)
{
	struct told cold = {.state.state = "cold"};
	size_t len = strlen(path);
	struct dirent *entry;
	bool has_view = false;
	unsigned count = 0;

	DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || entry->d_type != DT_DIR)
			continue;
		if ((size_t)snprintf(path + len, PATH_MAX - len, "/%s",
				     entry->d_name) < PATH_MAX - len) {
			if (getxattr(path, MOUNT_VIEW_XATTR, NULL, 0) >= 0)
				has_view = true;
			else
				count += tell_datasets(path, root_len, end_ms,
						       to_parent);
		}
		path[len] = '\0';
	}
	if (dir)
		closedir(dir);
	if (!has_view || count > 0 || !path[root_len])
		return count;
	tell(&cold, path + root_len, to_parent);
	return 1;
}

/* A directory that has a state is a dataset. Returns how many were told of.
 * path has room for PATH_MAX bytes. Nothing of a dataset is opened. */
static unsigned tell_datasets(char *path, size_t root_len, uint64_t end_ms,
			      int to_parent)
{
	struct told told = {0};

	get_text(path, MOUNT_STATE_XATTR, told.state.state,
		 sizeof(told.state.state));
	if (!told.state.state[0])
		return tell_below(path, root_len, end_ms, to_parent);
	get_text(path, MOUNT_ERROR_XATTR, told.state.reason,
		 sizeof(told.state.reason));
	get_figures(path, end_ms, told.state.figures,
		    sizeof(told.state.figures));
	tell(&told, path + root_len, to_parent);
	return 1;
}

static void ask_datasets(const void *path, int to_parent)
{
	static char figures[MOUNT_FIGURES_BYTES];
	char at[PATH_MAX];

	uint64_t end_ms = now_ms() + FIGURES_MS;

	get_figures(path, end_ms, figures, sizeof(figures));
	(void)write_full(to_parent, figures, sizeof(figures));
	if ((size_t)snprintf(at, sizeof(at), "%s", (const char *)path) <
	    sizeof(at))
		tell_datasets(at, strlen(at), end_ms, to_parent);
}

/* ---- the options of the dataset a path is in */

struct place_head {
	int64_t result;
	uint64_t path_len, root_len, options_len;
	char why[256]; /* of a failure, as the mount says; or empty */
};

/* The nearest directory that there is may know why the rest cannot be had. */
static void get_why(const char *path, char *ret, size_t size)
{
	char dir[PATH_MAX], *slash;

	if ((size_t)snprintf(dir, sizeof(dir), "%s", path) >= sizeof(dir))
		return;
	while ((slash = strrchr(dir, '/')) && slash > dir) {
		*slash = '\0';
		if (access(dir, F_OK) == 0) {
			get_text(dir, MOUNT_ERROR_XATTR, ret, size);
			return;
		}
	}
}

static void ask_options(const void *path, int to_parent)
{
	static char resolved[PATH_MAX], options[65536];
	struct place_head head = {0};
	ssize_t n = -1;

	if (!realpath(path, resolved)) {
		head.result = -errno;
		get_why(path, head.why, sizeof(head.why));
		(void)write_full(to_parent, &head, sizeof(head));
		return;
	}
	head.path_len = strlen(resolved);
	/* The dataset's directory is one of those the path leads through. */
	for (size_t at = 1; n < 0 && at <= head.path_len; at++) {
		char end = resolved[at];

		if (end != '/' && end != '\0')
			continue;
		resolved[at] = '\0';
		n = getxattr(resolved, MOUNT_OPTIONS_XATTR, options,
			     sizeof(options));
		resolved[at] = end;
		head.root_len = at;
	}
	head.options_len = n < 0 ? 0 : (uint64_t)n;
	(void)write_full(to_parent, &head, sizeof(head));
	(void)write_full(to_parent, resolved, head.path_len + 1);
	(void)write_full(to_parent, options, head.options_len);
}

static int read_place(struct question *question, char **ret, size_t *ret_len,
		      size_t *ret_root, struct err *err)
{
	struct place_head head;
	int r = question_read(question, &head, sizeof(head));

	if (r <= 0)
		return r < 0 ? r : -EIO;
	if (head.result < 0)
		return err_set(err, -(int)head.result, "%s",
			       head.why[0] ? head.why :
					     strerror(-(int)head.result));
	size_t len = head.path_len + 1 + head.options_len;
	char *text = calloc(1, len + 1);
	if (!text)
		return -ENOMEM;
	r = question_read(question, text, len);
	if (r <= 0) {
		free(text);
		return r < 0 ? r : -EIO;
	}
	*ret = text;
	*ret_len = len;
	*ret_root = head.root_len;
	return 0;
}

int reopen_ask(const char *path, char **ret, size_t *ret_len, size_t *ret_root,
	       struct err *err)
{
	struct question question;
	int r = question_begin(&question, ask_options, path, MOUNT_LOOK_MS);

	if (r < 0)
		return r;
	r = read_place(&question, ret, ret_len, ret_root, err);
	question_end(&question, r);
	return r;
}

enum mount_health mount_probe(const char *path, uint32_t limit_ms)
{
	int64_t result = 0;

	if (ask_bounded(ask_statfs, path, limit_ms, &result) == -ETIMEDOUT)
		return MOUNT_SILENT;
	if (result == -ENOTCONN || result == -ECONNABORTED)
		return MOUNT_DEAD;
	return MOUNT_ANSWERS;
}

pid_t mount_pid(const char *path, uint32_t limit_ms)
{
	int64_t pid;

	return ask_bounded(ask_pid, path, limit_ms, &pid) < 0 || pid <= 0 ?
		       -1 :
		       (pid_t)pid;
}

int mount_datasets(const char *mountpoint,
		   char ret_figures[MOUNT_FIGURES_BYTES],
		   void (*each)(void *arg, const char *name,
				const struct mount_dataset_state *state),
		   void *arg)
{
	struct question question;
	struct told told;
	int r = question_begin(&question, ask_datasets, mountpoint,
			       MOUNT_LOOK_MS);

	if (r < 0)
		return r;
	r = question_read(&question, ret_figures, MOUNT_FIGURES_BYTES);
	if (r <= 0)
		ret_figures[0] = '\0';
	while (r > 0 && (r = question_read(&question, &told, sizeof(told))) > 0)
		each(arg, told.name, &told.state);
	question_end(&question, r);
	return r;
}
