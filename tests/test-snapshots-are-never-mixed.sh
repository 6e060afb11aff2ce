#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
#
# 32 readers open and read the same files again and again while new snapshots
# are published: what one of them reads between open and close is of one version
# alone, never of an older one than it has seen before, and never an error.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3

size=2000000
mkdir tree
version() {
	for name in a b c; do stamped write "$1" $size tree/$name; done
	publish_tree tree mirror mixed
}
version 1
start_httpd mirror
mount_dataset "$httpd_url#mixed" mnt refresh=300ms

cat > reader.py <<'PYTHON'
import os, random, struct, sys, time
size, seed = int(sys.argv[1]), int(sys.argv[2])
rand, newest = random.Random(seed), {}
while not os.path.exists("stop"):
    name = rand.choice("abc")
    fd = os.open("mnt/" + name, os.O_RDONLY)
    at, seen = 0, set()
    if rand.random() < 0.3:
        at = rand.randrange(size // 16) * 16
    while at < size:
        data = os.pread(fd, min(262144, size - at), at)
        assert data, "early end of %s at %d" % (name, at)
        cells = struct.unpack(">%dQ" % (len(data) // 16 * 2),
                              data[:len(data) // 16 * 16])
        assert cells[1::2] == tuple(range(at, at + len(cells) * 8, 16))
        seen.update(cells[0::2])
        at += len(data)
    os.close(fd)
    assert len(seen) == 1, "%s is mixed: %s" % (name, ["%x" % t for t in seen])
    tag = seen.pop()
    assert tag >= newest.get(name, tag), "%s went back" % name
    newest[name] = tag
    open("seen.%d" % seed, "w").write("%016x" % tag)
    time.sleep(0.2 * rand.random())
PYTHON
readers=()
for i in $(seq 32); do
	python3 reader.py $size "$i" &
	readers+=($!)
done
all_have() { # all readers have read this version
	[ "$(cat seen.* 2> /dev/null | tr -s '\n' | fold -w 16 | sort -u)" = "$1" ] &&
		[ "$(cat seen.* | wc -c)" -eq $((32 * 16)) ]
}
tag() { head -c 8 tree/a | od -An -tx1 | tr -d ' \n'; }
for v in 1 2 3; do
	[ $v -eq 1 ] || version $v
	wait_for 90 all_have "$(tag)"
done
touch stop
for pid in "${readers[@]}"; do
	wait "$pid" || fail "a reader failed"
done
