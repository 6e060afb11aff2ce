#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Published user attributes are there, larder's own answer by name and are not
# listed, probes of other classes find nothing, and a copy with all attributes equals the source.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 rsync

mkdir tree tree/dir
echo data > tree/file
ln -s file tree/link
: > tree/empty
setfattr -n user.comment -v hello tree/file 2> /dev/null || skip "no user attributes in $T"
setfattr -n user.binary -v 0x000102ff00 tree/file
setfattr -n user.empty tree/file
setfattr -n user.of-dir -v x tree/dir
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt

cat > attributes.py <<'PY'
import errno, os, time
def error(call):
    try:
        call()
        return 0
    except OSError as e:
        return e.errno
assert sorted(os.listxattr('mnt/file')) == ['user.binary', 'user.comment', 'user.empty']
assert os.getxattr('mnt/file', 'user.comment') == b'hello'
assert os.getxattr('mnt/file', 'user.binary') == b'\0\1\2\xff\0'
assert os.getxattr('mnt/file', 'user.empty') == b''
assert os.listxattr('mnt/dir') == ['user.of-dir']
assert os.listxattr('mnt') == [] and os.listxattr('mnt/empty') == []
assert os.listxattr('mnt/link', follow_symlinks=False) == []
for name in ('user.absent', 'security.selinux', 'security.capability', 'trusted.overlay.opaque'):
    assert error(lambda: os.getxattr('mnt/file', name)) == errno.ENODATA, name
for name in ('system.posix_acl_access', 'system.posix_acl_default'):
    assert error(lambda: os.getxattr('mnt/dir', name)) in (errno.ENODATA, errno.EOPNOTSUPP)
for path in ('mnt', 'mnt/file', 'mnt/dir', 'mnt/empty'):
    assert os.getxattr(path, 'user.larder.snapshot').startswith(b'sha256:'), path
    assert os.getxattr(path, 'user.larder.source').endswith(b'/mirror'), path
assert os.getxattr('mnt', 'user.larder.state') == b'ok'
assert os.getxattr('mnt/file', 'user.larder.state') == b'cold'
assert os.getxattr('mnt/file', 'user.larder.cached') == b'0'
open('mnt/file').read()
# Readers are answered before the cache file is written.
end = time.monotonic() + 20
while os.getxattr('mnt/file', 'user.larder.state') != b'complete':
    assert time.monotonic() < end, 'still ' + os.getxattr('mnt/file', 'user.larder.state').decode()
    time.sleep(0.05)
assert os.getxattr('mnt/file', 'user.larder.cached') == b'5'
assert os.path.exists('/proc/%s' % os.getxattr('mnt', 'user.larder.pid').decode())
PY
python3 attributes.py
cp -a mnt copied
rsync -aX mnt/ synced/
for copy in copied synced; do
	[ "$(cd tree && getfattr -hRd -m - . | sort)" = \
		"$(cd $copy && getfattr -hRd -m - . | sort)" ] || fail "$copy differs"
done
