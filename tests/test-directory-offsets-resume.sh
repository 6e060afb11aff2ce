#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# A directory of 30,000 names lists each once, with small and large
# buffers, by many processes; an offset got from telldir can be taken up again in
# any order; types and inode numbers agree with stat.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3

cat > dir.py <<'PY'
import ctypes, os, random, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
path, count = sys.argv[1], int(sys.argv[2])
def entries(fd, size):
    buffer = ctypes.create_string_buffer(size)
    while True:
        n = libc.syscall(217, fd, buffer, size) # getdents64
        assert n >= 0, os.strerror(ctypes.get_errno())
        if n == 0:
            return
        at = 0
        while at < n:
            ino, off, length, kind = struct.unpack_from('<QqHB', buffer.raw, at)
            name = buffer.raw[at + 19:at + length].split(b'\0')[0]
            yield name, ino, off, kind
            at += length
want = {b'%06d' % i for i in range(count)} | {b'.', b'..', b'sub', b'link'}
for size in (512, 4096, 65536, 1 << 20):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    found = list(entries(fd, size))
    os.close(fd)
    names = [e[0] for e in found]
    assert len(names) == len(set(names)), 'a name comes twice'
    assert set(names) == want, 'names are missing'
    assert len({e[2] for e in found}) == len(found), 'offsets are not unique'
    for name, ino, off, kind in found[:50] + found[-50:]:
        if name == b'..':
            continue
        st = os.lstat(os.path.join(os.fsencode(path), name))
        assert st.st_ino == ino, name
        assert kind == st.st_mode >> 12, name
# seekdir in random order, also on another descriptor
order = list(range(0, len(found) - 1, max(1, len(found) // 10)))
random.seed(7)
random.shuffle(order)
for fd in (os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)):
    for i in order:
        os.lseek(fd, found[i][2], os.SEEK_SET)
        rest = [e[0] for e in entries(fd, 4096)]
        assert rest == names[i + 1:], 'resumed at %d' % i
    os.lseek(fd, 0, os.SEEK_SET)
    assert [e[0] for e in entries(fd, 32768)] == names
    os.lseek(fd, found[-1][2], os.SEEK_SET)
    assert not list(entries(fd, 4096)), 'names after the end'
PY
mkdir tree tree/sub
(cd tree && seq -f %06g 0 29999 | xargs touch && ln -s x link)
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt
for i in 1 2; do
	python3 dir.py mnt 30000 &
	pids[i]=$!
done
for pid in "${pids[@]}"; do wait "$pid"; done
umount_dataset mnt

# the same below a directory, and through the kernel's own copy
mkdir outer && mv tree outer/many
publish_tree outer mirror outer
mount_dataset "$T/mirror#outer" mnt
python3 dir.py mnt/many 30000
python3 dir.py mnt/many 30000
[ "$(find mnt | wc -l)" = 30004 ]
