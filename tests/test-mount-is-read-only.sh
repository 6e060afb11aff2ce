#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every call that would change something fails with EROFS, whoever makes it and
# whether the name exists or not; what does not fit a file fails as on a disk.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3

mkdir tree tree/dir
echo data > tree/file
ln -s file tree/link
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt

cat > ops.py <<'PY'
import errno, fcntl, os, socket, sys
bad = []
def check(name, want, call):
    try:
        call()
        got = 0
    except OSError as error:
        got = error.errno
    if got not in want:
        bad.append('%s: %s' % (name, errno.errorcode.get(got, got)))
RO = [errno.EROFS]
os.chdir(sys.argv[1])
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC,
              os.O_WRONLY | os.O_APPEND):
    check('open %o' % flags, RO, lambda: os.open('file', flags))
check('creat', RO, lambda: os.open('new', os.O_CREAT | os.O_WRONLY))
check('creat excl', RO + [errno.EEXIST],
      lambda: os.open('file', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
check('tmpfile', RO + [errno.EOPNOTSUPP],
      lambda: os.open('dir', os.O_TMPFILE | os.O_WRONLY))
check('mkdir', RO, lambda: os.mkdir('new'))
check('mkdir again', RO + [errno.EEXIST], lambda: os.mkdir('dir'))
check('rmdir', RO, lambda: os.rmdir('dir'))
check('unlink', RO, lambda: os.unlink('file'))
check('unlink link', RO, lambda: os.unlink('link'))
check('rename', RO, lambda: os.rename('file', 'new'))
check('rename over', RO, lambda: os.rename('file', 'link'))
check('link', RO, lambda: os.link('file', 'new'))
check('symlink', RO, lambda: os.symlink('x', 'new'))
check('mknod', RO, lambda: os.mknod('new'))
check('mkfifo', RO, lambda: os.mkfifo('new'))
check('chmod', RO, lambda: os.chmod('file', 0o600))
check('chown', RO, lambda: os.chown('file', 1, 1))
check('lchown', RO, lambda: os.lchown('link', 1, 1))
check('utime', RO, lambda: os.utime('file'))
check('truncate', RO, lambda: os.truncate('file', 1))
check('setxattr', RO, lambda: os.setxattr('file', 'user.x', b'y'))
check('removexattr', RO, lambda: os.removexattr('file', 'user.x'))
fd = os.open('file', os.O_RDONLY)
check('write', [errno.EBADF], lambda: os.write(fd, b'x'))
check('ftruncate', [errno.EINVAL, errno.EBADF], lambda: os.ftruncate(fd, 1))
check('fallocate', [errno.EBADF], lambda: os.posix_fallocate(fd, 0, 1))
check('fchmod', RO, lambda: os.fchmod(fd, 0o600))
check('fsetxattr', RO, lambda: os.setxattr(fd, 'user.x', b'y'))
check('ioctl', [errno.ENOTTY], lambda: fcntl.ioctl(fd, 0x5401, b'\0' * 64))
check('flags', [errno.ENOTTY, errno.EOPNOTSUPP],
      lambda: fcntl.ioctl(fd, 0x80086601, b'\0' * 8))
check('bind', RO + [errno.EINVAL],
      lambda: socket.socket(socket.AF_UNIX).bind('new'))
# and as on a disk
check('absent', [errno.ENOENT], lambda: os.stat('absent'))
check('file as directory', [errno.ENOTDIR], lambda: os.stat('file/x'))
check('read a directory', [errno.EISDIR],
      lambda: os.read(os.open('dir', os.O_RDONLY), 1))
check('list a file', [errno.ENOTDIR], lambda: os.listdir('file'))
check('readlink a file', [errno.EINVAL], lambda: os.readlink('file'))
check('nofollow', [errno.ELOOP],
      lambda: os.open('link', os.O_RDONLY | os.O_NOFOLLOW))
check('long name', [errno.ENAMETOOLONG], lambda: os.stat('n' * 256))
check('exec', [errno.EACCES], lambda: os.execv('file', ['file']))
check('read', [0], lambda: os.pread(fd, 10, 0))
check('shared lock', [0], lambda: fcntl.flock(fd, fcntl.LOCK_SH))
check('fsync', [0], lambda: os.fsync(fd))
if os.pread(fd, 10, 3) != b'a\n' or os.pread(fd, 10, 5) or os.pread(fd, 10, 99):
    bad.append('pread')
for line in bad:
    print(line)
sys.exit(bool(bad))
PY
python3 ops.py mnt
chmod 755 "$T"
! setpriv --reuid 65534 --regid 65534 --clear-groups true 2> /dev/null ||
	setpriv --reuid 65534 --regid 65534 --clear-groups cat mnt/file > /dev/null

# a remount for writing changes nothing that matters
mount -o remount,rw "$T/mnt" 2> /dev/null || true
! touch mnt/new 2> /dev/null || fail "wrote after remount,rw"
[ "$(cat mnt/file)" = data ]
