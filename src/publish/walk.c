/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree in stable order.
 *
 * The names of one directory are held in memory and sorted, since a
 * catalog needs them in order; nothing else of the tree is held. Directories
 * deeper than OPEN_LEVELS are closed while their subdirectories are walked
 * and opened again by path, so a deep tree does not need a descriptor a
 * level.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/vec.h"
#include "format/catalog-writer.h"
#include "format/limits.h"
#include "publish/walk.h"

/* Far below the usual limit of 1024 descriptors, deeper than most trees. */
#define OPEN_LEVELS 128u

/* The longest path a tree within LIMIT_PATH_DEPTH can have. */
#define PATH_LIMIT ((size_t)(LIMIT_PATH_DEPTH + 1) * (LIMIT_NAME_BYTES + 1) + 1)

struct walker {
	int root_fd;
	const struct walk_options *options;
	const struct walk_ops *ops;
	void *arg;
	struct walk_counts *counts;
	struct err *err;
	struct buf path; /* NUL-terminated; len without the NUL */
	struct buf xattrs;
	struct buf xattr_names;
	char *xattr_value;
	bool has_no_xattrs; /* the filesystem xattr_dev has none */
	dev_t xattr_dev;
	char target[LIMIT_SYMLINK_BYTES + 2];
};

/* The names of one directory: offsets into one block of text. */
struct names {
	struct buf text;
	VEC(char *) sorted;
};

static int walk_directory(struct walker *walker, int *parent_fd,
			  const char *name, const struct stat *st,
			  unsigned int depth);

static const char *shown_path(const struct walker *walker)
{
	return walker->path.len ? path_tail((const char *)walker->path.data) :
				  ".";
}

static int fail(struct walker *walker, int errnum, const char *what)
{
	return err_set(walker->err, errnum, "cannot %s '%s': %s", what,
		       shown_path(walker), strerror(errnum));
}

static int fail_vanished(struct walker *walker)
{
	return err_set(walker->err, ESTALE,
		       "'%s' vanished or changed while the tree was read",
		       shown_path(walker));
}

static int path_push(struct walker *walker, const char *name)
{
	struct buf *path = &walker->path;
	int r = path->len ? buf_append(path, "/", 1) : 0;

	if (r == 0)
		r = buf_append(path, name, strlen(name) + 1);
	if (r < 0)
		return err_set(walker->err, -r, "path below '%s' is too long",
			       shown_path(walker));
	path->len--;
	return 0;
}

static void path_cut(struct walker *walker, size_t len)
{
	walker->path.len = len;
	walker->path.data[len] = '\0';
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_release(struct names *names)
{
	buf_release(&names->text);
	vec_release(&names->sorted);
}

static int names_sort(struct names *names, size_t count)
{
	char *name = (char *)names->text.data;

	for (size_t i = 0; i < count; i++) {
		char **slot = vec_push(&names->sorted);

		if (!slot)
			return -ENOMEM;
		*slot = name;
		name += strlen(name) + 1;
	}
	if (count > 0)
		qsort(names->sorted.items, count, sizeof(char *),
		      compare_names);
	return 0;
}

/* Reads through a descriptor of its own, so that dir_fd stays usable. */
static int names_read(int dir_fd, struct names *names)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	size_t count = 0;
	int r = directory_open(dir_fd, ".", 0, &dir);

	if (r < 0)
		return r;
	while ((errno = 0, entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		r = buf_append(&names->text, name, strlen(name) + 1);
		if (r < 0)
			return r;
		count++;
	}
	if (errno)
		return -errno;
	return names_sort(names, count);
}

static bool is_wanted_xattr(const char *name)
{
	/* user.larder.* is what a mount of ours answers: not data. */
	return starts_with(name, "user.") && !starts_with(name, "user.larder.");
}

static int add_xattr(struct walker *walker, const char *proc_path,
		     const char *name)
{
	ssize_t n;
	int r;

	if (!walker->xattr_value)
		walker->xattr_value = malloc(LIMIT_XATTR_VALUE_BYTES);
	if (!walker->xattr_value)
		return -ENOMEM;
	n = lgetxattr(proc_path, name, walker->xattr_value,
		      LIMIT_XATTR_VALUE_BYTES);
	if (n < 0 && errno == ENODATA)
		return fail_vanished(walker);
	if (n < 0)
		return fail(walker, errno, "read extended attributes of");
	r = catalog_xattrs_add(&walker->xattrs, name, walker->xattr_value,
			       (size_t)n);
	if (r == -EFBIG || walker->xattrs.len > LIMIT_XATTRS_BYTES)
		return err_set(
			walker->err, EFBIG,
			"extended attributes of '%s' are larger than %u bytes",
			shown_path(walker), LIMIT_XATTRS_BYTES);
	return r;
}

/* All wanted names in ascending order, into walker->xattrs. */
static int add_xattrs(struct walker *walker, const char *proc_path,
		      size_t list_len)
{
	VEC(char *) names = {0};
	int r = 0;

	for (size_t i = 0; i < list_len && r == 0;) {
		char *name = (char *)walker->xattr_names.data + i;
		char **slot;

		i += strlen(name) + 1;
		if (!is_wanted_xattr(name))
			continue;
		slot = vec_push(&names);
		if (slot)
			*slot = name;
		else
			r = -ENOMEM;
	}
	if (r == 0 && names.count > 1)
		qsort(names.items, names.count, sizeof(char *), compare_names);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = add_xattr(walker, proc_path, names.items[i]);
	vec_release(&names);
	return r;
}

/*
 * There is no llistxattrat: the directory is named through /proc. name ""
 * is the directory itself.
 */
static int read_xattrs(struct walker *walker, int dir_fd, const char *name,
		       dev_t dev)
{
	char proc_path[64 + LIMIT_NAME_BYTES];
	ssize_t n;
	int r;

	buf_clear(&walker->xattrs);
	if (!walker->options->want_xattrs ||
	    (walker->has_no_xattrs && walker->xattr_dev == dev))
		return 0;
	/* The trailing "/." makes the kernel follow the magic link. */
	snprintf(proc_path, sizeof(proc_path), "/proc/self/fd/%d/%s", dir_fd,
		 *name ? name : ".");
	n = llistxattr(proc_path, NULL, 0);
	if (n > 0) {
		r = buf_reserve(&walker->xattr_names, (size_t)n);
		if (r < 0)
			return r;
		n = llistxattr(proc_path, (char *)walker->xattr_names.data,
			       walker->xattr_names.capacity);
	}
	if (n < 0 && errno == EOPNOTSUPP) {
		walker->has_no_xattrs = true;
		walker->xattr_dev = dev;
		return 0;
	}
	if (n < 0 && errno == ENOENT && access("/proc/self/fd", F_OK) < 0)
		return err_set(
			walker->err, ENOENT,
			"cannot read extended attributes of '%s': /proc is not mounted",
			shown_path(walker));
	if (n < 0 && errno == ENOENT)
		return fail_vanished(walker);
	if (n < 0)
		return fail(walker, errno, "list extended attributes of");
	return n == 0 ? 0 : add_xattrs(walker, proc_path, (size_t)n);
}

static void fill_entry(const struct walker *walker, const char *name,
		       const struct stat *st, struct walk_entry *ret)
{
	*ret = (struct walk_entry){
		.name = name,
		.path = (const char *)walker->path.data,
		.st = *st,
		.xattrs = walker->xattrs.len ? walker->xattrs.data : NULL,
		.xattrs_len = walker->xattrs.len,
	};
}

static int walk_symlink(struct walker *walker, int dir_fd, const char *name,
			const struct stat *st)
{
	struct walk_entry entry;
	ssize_t n = readlinkat(dir_fd, name, walker->target,
			       sizeof(walker->target));

	if (n < 0 && (errno == ENOENT || errno == EINVAL))
		return fail_vanished(walker);
	if (n < 0)
		return fail(walker, errno, "read symlink");
	if (n == 0 || (size_t)n > LIMIT_SYMLINK_BYTES)
		return err_set(walker->err, ENAMETOOLONG,
			       "target of symlink '%s' is longer than %u bytes",
			       shown_path(walker), LIMIT_SYMLINK_BYTES);
	walker->target[n] = '\0';
	buf_clear(&walker->xattrs); /* user.* exists on files and directories */
	walker->counts->symlinks++;
	fill_entry(walker, name, st, &entry);
	entry.target = walker->target;
	entry.target_len = (size_t)n;
	return walker->ops->entry(walker->arg, &entry, walker->err);
}

static int walk_file(struct walker *walker, int dir_fd, const char *name,
		     const struct stat *st)
{
	struct walk_entry entry;
	int r = read_xattrs(walker, dir_fd, name, st->st_dev);

	if (r < 0)
		return r;
	walker->counts->files++;
	walker->counts->bytes += (uint64_t)st->st_size;
	fill_entry(walker, name, st, &entry);
	return walker->ops->entry(walker->arg, &entry, walker->err);
}

static int walk_name(struct walker *walker, int *dir_fd, const char *name,
		     unsigned int depth)
{
	const struct walk_options *options = walker->options;
	struct stat st;

	if (pattern_list_matches(options->excludes, options->exclude_count,
				 (const char *)walker->path.data)) {
		walker->counts->excluded++;
		return 0;
	}
	if (strlen(name) > LIMIT_NAME_BYTES)
		return err_set(walker->err, ENAMETOOLONG,
			       "name of '%s' is longer than %u bytes",
			       shown_path(walker), LIMIT_NAME_BYTES);
	if (fstatat(*dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? fail_vanished(walker) :
					 fail(walker, errno, "look at");
	if (S_ISREG(st.st_mode))
		return walk_file(walker, *dir_fd, name, &st);
	if (S_ISLNK(st.st_mode))
		return walk_symlink(walker, *dir_fd, name, &st);
	if (S_ISDIR(st.st_mode))
		return walk_directory(walker, dir_fd, name, &st, depth + 1);
	walker->counts->skipped++;
	return 0;
}

/* Open again a directory that was closed while we were below it. */
static int reopen(struct walker *walker, const struct stat *st)
{
	struct stat now;
	int fd = open_below(walker->root_fd, (const char *)walker->path.data,
			    O_RDONLY | O_DIRECTORY);

	if (fd < 0 && fd != -ENOENT && fd != -ELOOP && fd != -ENOTDIR)
		return fail(walker, -fd, "open directory");
	if (fd < 0)
		return fail_vanished(walker);
	if (fstat(fd, &now) < 0 || now.st_dev != st->st_dev ||
	    now.st_ino != st->st_ino) {
		close(fd);
		return fail_vanished(walker);
	}
	return fd;
}

static int walk_names(struct walker *walker, int *dir_fd,
		      const struct names *names, const struct stat *st,
		      unsigned int depth)
{
	size_t len = walker->path.len;

	for (size_t i = 0; i < names->sorted.count; i++) {
		const char *name = names->sorted.items[i];
		int r;

		if (*dir_fd < 0)
			*dir_fd = reopen(walker, st);
		if (*dir_fd < 0)
			return *dir_fd;
		r = path_push(walker, name);
		if (r == 0)
			r = walk_name(walker, dir_fd, name, depth);
		if (r < 0)
			return r;
		path_cut(walker, len);
	}
	return 0;
}

static int check_directory(struct walker *walker, int fd,
			   const struct stat *expected, unsigned int depth)
{
	const struct walk_options *options = walker->options;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(walker, errno, "look at");
	if (st.st_dev != expected->st_dev || st.st_ino != expected->st_ino)
		return fail_vanished(walker);
	if (depth > LIMIT_PATH_DEPTH)
		return err_set(walker->err, ELOOP,
			       "directory '%s' is deeper than %u levels",
			       shown_path(walker), LIMIT_PATH_DEPTH);
	if (options->has_forbidden && st.st_dev == options->forbidden_dev &&
	    st.st_ino == options->forbidden_ino)
		return err_set(
			walker->err, EINVAL,
			"the mirror lies inside the tree, at '%s': move it or exclude it",
			shown_path(walker));
	return 0;
}

/* Closes *parent_fd (and sets it to -1) when the tree is deep. */
static int walk_directory(struct walker *walker, int *parent_fd,
			  const char *name, const struct stat *st,
			  unsigned int depth)
{
	_cleanup_close_ int fd = -1;
	_cleanup_(names_release) struct names names = {0};
	struct walk_entry entry;
	int r;

	buf_init(&names.text, SIZE_MAX / 2);
	fd = openat(*parent_fd, *name ? name : ".",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return fail(walker, errno, "open directory");
	if (depth > OPEN_LEVELS)
		close(steal_fd(parent_fd));
	r = check_directory(walker, fd, st, depth);
	if (r == 0)
		r = read_xattrs(walker, fd, "", st->st_dev);
	if (r < 0)
		return r;
	walker->counts->directories++;
	fill_entry(walker, name, st, &entry);
	r = walker->ops->enter(walker->arg, &entry, walker->err);
	if (r < 0)
		return r;
	r = names_read(fd, &names);
	if (r < 0)
		return fail(walker, -r, "read directory");
	r = walk_names(walker, &fd, &names, st, depth);
	if (r < 0)
		return r;
	return walker->ops->leave(walker->arg, walker->err);
}

int walk_tree(int root_fd, const struct walk_options *options,
	      const struct walk_ops *ops, void *arg,
	      struct walk_counts *ret_counts, struct err *err)
{
	struct walk_counts counts = {0};
	struct walker walker = {
		.root_fd = root_fd,
		.options = options,
		.ops = ops,
		.arg = arg,
		.counts = ret_counts ? ret_counts : &counts,
		.err = err,
	};
	struct stat st;
	int fd = root_fd, r;

	*walker.counts = counts;
	buf_init(&walker.path, PATH_LIMIT);
	buf_init(&walker.xattrs, 2 * LIMIT_XATTRS_BYTES);
	buf_init(&walker.xattr_names, LIMIT_XATTRS_BYTES);
	r = buf_append(&walker.path, "", 1);
	if (r == 0) {
		walker.path.len = 0;
		if (fstat(root_fd, &st) < 0)
			r = err_set(err, errno, "cannot look at the tree: %s",
				    strerror(errno));
	}
	if (r == 0)
		r = walk_directory(&walker, &fd, "", &st, 0);
	if (r == -ENOMEM)
		r = err_set(err, ENOMEM, "out of memory");
	buf_release(&walker.path);
	buf_release(&walker.xattrs);
	buf_release(&walker.xattr_names);
	free(walker.xattr_value);
	return r;
}
