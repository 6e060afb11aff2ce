#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A new head is seen without a remount, alone and under a mount of several; open
# files and listings that began before stay on their snapshot.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3

mkdir tree tree/sub tree/many
(cd tree/many && seq -f %05g 0 4999 | xargs touch)
seq -f v1-%05g 0 999 | (cd tree && xargs touch)
echo one > tree/file
echo one > tree/sub/file
publish_tree tree mirror d
cat > larder.conf <<CONF
[larder]
cache = $T/cache
key = $T/test.key.pub
refresh = 500ms
[d]
mirror = $T/mirror
CONF
mkdir whole single
larder mount -c larder.conf whole
larder mount -c larder.conf d single
[ "$(cat whole/d/file single/file | tr -d '\n')" = oneone ]
# the name leads to the snapshot now, no longer to an unopened dataset
is_open() {
	[ "$(stat -c %i whole/d)" -gt 1000000 ]
}
wait_for 60 is_open

exec 5< whole/d/file 6< single/sub/file
cat > list.py <<'PY'
# begins listings, waits for the second snapshot, goes on
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
def some(fd, size):
    buffer = ctypes.create_string_buffer(size)
    n = libc.syscall(217, fd, buffer, size)
    assert n >= 0
    at = 0
    while at < n:
        length = struct.unpack_from('<H', buffer.raw, at + 16)[0]
        yield buffer.raw[at + 19:at + length].split(b'\0')[0].decode()
        at += length
fds = {path: os.open(path, os.O_RDONLY) for path in ('whole/d', 'single')}
names = {path: list(some(fd, 1024)) for path, fd in fds.items()}
open('begun', 'w').close()
while not os.path.exists('switched'):
    time.sleep(0.05)
for path, fd in fds.items():
    while True:
        more = list(some(fd, 4096))
        if not more:
            break
        names[path] += more
    got = [n for n in names[path] if n.startswith('v')]
    assert len(names[path]) == len(set(names[path])), path
    assert got == ['v1-%05d' % i for i in range(1000)], (path, len(got))
PY
python3 list.py &
lister=$!
wait_for 60 test -e begun

echo two! > tree/file
echo two! > tree/sub/file
(cd tree && rm v1-*)
seq -f v2-%05g 0 9 | (cd tree && xargs touch)
publish_tree tree mirror d
sees_two() {
	[ "$(cat "$1/file")" = 'two!' ] && [ "$(cat "$1/sub/file")" = 'two!' ] &&
		[ "$(find "$1" -maxdepth 1 -name 'v*' | wc -l)" = 10 ]
}
wait_for 60 sees_two whole/d
wait_for 60 sees_two single
touch switched
wait "$lister"
[ "$(cat <&5)" = one ] || fail "an open file changed"
[ "$(cat <&6)" = one ] || fail "an open file changed"
exec 5<&- 6<&-
[ "$(stat -c %i whole/d/many/00001)" = "$(find whole/d/many -name 00001 -printf %i)" ]
larder umount whole single
