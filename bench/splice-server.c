/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FUSE filesystem of one file, "data", that does nothing but splice it from
 * FILE: what the kernel's half of an answer costs, which no server that leaves
 * pages in the page cache can save.
 *
 *	splice-server FILE MOUNTPOINT	until it is unmounted
 */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (512u << 10) /* as larder's */
#define FOREVER 1e6
#define FILE_INO 2

static int fd;
static off_t size;

static struct stat attr_of(fuse_ino_t ino)
{
	if (ino == FILE_INO)
		return (struct stat){.st_ino = ino,
				     .st_mode = S_IFREG | 0444,
				     .st_nlink = 1,
				     .st_size = size};
	return (struct stat){
		.st_ino = ino, .st_mode = S_IFDIR | 0555, .st_nlink = 2};
}

static void op_init(void *data, struct fuse_conn_info *conn)
{
	(void)data;
	conn->max_read = READ_BYTES;
	conn->max_background = 16384;
	conn->congestion_threshold = 12288;
	conn->want |= conn->capable & FUSE_CAP_SPLICE_WRITE;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {
		.ino = FILE_INO,
		.attr = attr_of(FILE_INO),
		.attr_timeout = FOREVER,
		.entry_timeout = FOREVER,
	};

	(void)parent;
	if (strcmp(name, "data") != 0)
		fuse_reply_err(req, ENOENT);
	else
		fuse_reply_entry(req, &entry);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *file)
{
	struct stat st = attr_of(ino);

	(void)file;
	fuse_reply_attr(req, &st, FOREVER);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t offset,
		    struct fuse_file_info *file)
{
	size_t left = offset < size ? (size_t)(size - offset) : 0;
	struct fuse_bufvec bufs = FUSE_BUFVEC_INIT(left < len ? left : len);

	(void)ino;
	(void)file;
	bufs.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	bufs.buf[0].fd = fd;
	bufs.buf[0].pos = offset;
	fuse_reply_data(req, &bufs, 0);
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.read = op_read,
};

int main(int argc, char **argv)
{
	char *words[] = {argv[0], "-o", "ro,max_read=524288"};
	struct fuse_args args = FUSE_ARGS_INIT(3, words);
	struct fuse_session *session;
	struct stat st;

	if (argc != 3 || (fd = open(argv[1], O_RDONLY)) < 0 ||
	    fstat(fd, &st) < 0)
		return 1;
	size = st.st_size;
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!session || fuse_session_mount(session, argv[2]) < 0)
		return 1;
	int r = fuse_session_loop_mt(session, NULL);
	fuse_session_unmount(session);
	fuse_session_destroy(session);
	return r != 0;
}
