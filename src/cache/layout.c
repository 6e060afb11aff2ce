/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache directory: who may use it, what must be in it. A directory that
 * holds other things is refused rather than adopted, so that a mistyped path
 * never becomes something eviction works on.
 */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "base/io.h"
#include "base/text.h"
#include "cache/files.h"
#include "cache/layout.h"

static const struct {
	uint32_t f_type;
	const char *name;
} refused[] = {
	{ 0x0000517b, "SMB" },      { 0x0000564c, "NCP" },
	{ 0x00006969, "NFS" },      { 0x00c36400, "CephFS" },
	{ 0x01021997, "9p" },       { 0x01161970, "GFS2" },
	{ 0x0bd00bd0, "Lustre" },   { 0x19830326, "BeeGFS" },
	{ 0x20030528, "OrangeFS" }, { 0x47504653, "GPFS" },
	{ 0x5346414f, "AFS" },      { 0x61636673, "ACFS" },
	{ 0x65735546, "FUSE" },     { 0x6b414653, "AFS" },
	{ 0x73757245, "Coda" },     { 0x7461636f, "OCFS2" },
	{ 0x786f4256, "vboxsf" },  
	{ 0xaad7aaea, "PanFS" },    { 0xbacbacbc, "vmhgfs" },
	{ 0xbeefdead, "StorNext" }, { 0xfe534d42, "SMB" },
	{ 0xff534d42, "SMB" },
};

const char *layout_refused_filesystem(uint64_t f_type)
{
	/* f_type is signed and sign-extended on some architectures. */
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].f_type == (uint32_t)f_type)
			return refused[i].name;
	return NULL;
}

static const char *const directories[] = {
	"blobs", "heads", "index", "locks", "objects", "pins", NULL,
};

static bool is_our_name(const char *name)
{
	static const char *const files[] = {
		".", "..", "lost+found", "larder-cache", "CACHEDIR.TAG",
		"ballast", NULL,
	};

	for (int i = 0; files[i]; i++)
		if (!strcmp(name, files[i]))
			return true;
	for (int i = 0; directories[i]; i++)
		if (!strcmp(name, directories[i]))
			return true;
	return starts_with(name, ".tmp-");
}

/* 1: a name that is not ours is in it. */
static int holds_other_things(int dirfd)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	int r = directory_open(dirfd, ".", 0, &dir);

	if (r < 0)
		return r;
	while ((entry = readdir(dir)))
		if (!is_our_name(entry->d_name))
			return 1;
	return 0;
}

static int check_place(const char *dir, int fd, struct err *err)
{
	struct stat st;
	struct statfs fs;
	const char *name;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_set(err, errno, "cannot use cache directory '%s'",
			       dir);
	name = layout_refused_filesystem((uint64_t)fs.f_type);
	if (name)
		return err_set(err, EOPNOTSUPP, "cannot use cache directory "
			       "'%s': it is on a network or FUSE filesystem "
			       "(%s); choose one on a local disk", dir, name);
	if (st.st_uid != geteuid())
		return err_set(err, EPERM, "cannot use cache directory '%s': "
			       "it belongs to user %u, not %u; run as its owner "
			       "or choose another", dir, (unsigned)st.st_uid,
			       (unsigned)geteuid());
	if (st.st_mode & S_IWOTH)
		return err_set(err, EPERM, "cannot use cache directory '%s': "
			       "everybody can write to it; run chmod o-w", dir);
	return 0;
}

/* 1 right version, 0 no version file, or an empty one: some filesystems leave
 * that after a power cut. */
static int check_version(const char *dir, int dirfd, struct err *err)
{
	char text[64] = "";
	_cleanup_close_ int fd = open_regular(dirfd, LAYOUT_VERSION_FILE,
					      O_RDONLY, 0);
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	n = fd < 0 ? fd : read_full(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_set(err, (int)-n, "cannot read '%s/%s'", dir,
			       LAYOUT_VERSION_FILE);
	if (n == 0)
		return 0;
	if (strcmp(text, LAYOUT_VERSION_TEXT) == 0)
		return 1;
	text[strcspn(text, "\n")] = '\0';
	return err_set(err, EPROTONOSUPPORT, "cannot use cache directory '%s': "
		       "its format is '%.40s', this larder knows "
		       "'larder-cache 1'; choose another directory or remove "
		       "this one", dir, text);
}

/* Its contents reach the disk before its name: what a power cut leaves is
 * never a directory that the next start refuses. */
static int write_once(int dirfd, const char *name, const char *text)
{
	struct stat st;
	int flags = FILE_WRITE_SYNC;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		flags |= FILE_WRITE_EXCLUSIVE;
	else if (st.st_size > 0)
		return 0;
	return file_write(dirfd, name, text, strlen(text), 0600, flags);
}

static int populate(int dirfd)
{
	static const char tag[] =
		"Signature: 8a477f597d28d172789f06886806bc55\n"
		"# This file marks a cache directory made by larder.\n"
		"# See https://bford.info/cachedir/\n";
	int r;

	r = write_once(dirfd, LAYOUT_VERSION_FILE, LAYOUT_VERSION_TEXT);
	crash_point("layout-begun");
	if (r == 0 || r == -EEXIST)
		r = write_once(dirfd, "CACHEDIR.TAG", tag);
	if (r < 0 && r != -EEXIST)
		return r;
	for (int i = 0; directories[i]; i++)
		if (mkdirat(dirfd, directories[i], 0700) < 0 && errno != EEXIST)
			return -errno;
	return 0;
}

static bool means_readonly(int r)
{
	return r == -EROFS || r == -EACCES || r == -EPERM;
}

static int open_directory(const char *dir, struct err *err)
{
	int r = mkdir_parents(AT_FDCWD, dir, 0700);
	int fd;

	if (r == -ENOTDIR || r == -EEXIST)
		return err_set(err, ENOTDIR, "cannot use cache directory '%s': "
			       "it is not a directory; choose another path",
			       dir);
	if (r < 0)
		return err_set(err, -r, "cannot make cache directory '%s': %s "
			       "(-o cache=DIR takes another)",
			       dir, strerror(-r));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "cannot open cache directory '%s': "
			       "%s (-o cache=DIR takes another)",
			       dir, strerror(errno));
	return fd;
}

int layout_open(const char *dir, char **ret_dir, int *ret_fd,
		bool *ret_is_readonly, struct err *err)
{
	_cleanup_close_ int fd = open_directory(dir, err);
	_cleanup_free_ char *absolute = NULL;
	bool is_readonly;
	int r;

	if (fd < 0)
		return fd;
	absolute = realpath(dir, NULL);
	if (!absolute)
		return err_set(err, errno, "cannot resolve '%s'", dir);
	r = check_place(absolute, fd, err);
	if (r == 0)
		r = check_version(absolute, fd, err);
	if (r < 0)
		return r;
	if (r == 0 && holds_other_things(fd) != 0)
		return err_set(err, ENOTEMPTY, "cannot use cache directory "
			       "'%s': it holds other things and no '%s' file; "
			       "choose an empty directory", absolute,
			       LAYOUT_VERSION_FILE);
	is_readonly = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0 &&
		      means_readonly(-errno);
	r = is_readonly ? 0 : populate(fd);
	if (means_readonly(r))
		is_readonly = true;
	else if (r < 0 && r != -ENOSPC && r != -EDQUOT)
		return err_set(err, -r, "cannot prepare cache directory '%s': "
			       "%s", absolute, strerror(-r));
	*ret_dir = steal_ptr(absolute);
	*ret_fd = steal_fd(&fd);
	*ret_is_readonly = is_readonly;
	return 0;
}

void layout_ballast_make(int dirfd)
{
	_cleanup_close_ int fd = open_regular(dirfd, LAYOUT_BALLAST,
					      O_RDWR | O_CREAT, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 ||
	    st.st_size >= (off_t)LAYOUT_BALLAST_BYTES)
		return;
	/* Without fallocate there is no promise to be had: go without. */
	if (fallocate(fd, 0, 0, LAYOUT_BALLAST_BYTES) < 0)
		unlinkat(dirfd, LAYOUT_BALLAST, 0);
}

bool layout_ballast_drop(int dirfd)
{
	return unlinkat(dirfd, LAYOUT_BALLAST, 0) == 0;
}
