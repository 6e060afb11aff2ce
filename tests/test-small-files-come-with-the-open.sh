#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What is here of a small file comes into the page cache with its open, so that
# reads need nobody: after a new mount, and while the tree is copied for the
# first time. Many who open, read and forget the same files never wait for each
# other, and every byte is right.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3 getfattr

mkdir -p tree/d
for size in 1 4095 4096 4097 70000 131072; do
	random_file $size tree/d/$size
done
for i in $(seq 200); do random_file $((i * 37)) tree/d/of-$i; done
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt
compare_trees tree mnt
umount_dataset mnt
mount_dataset "$T/mirror#d" mnt nopassthrough

cat > alone.py <<'PY'
import os, signal, sys
larder = int(sys.argv[1])
names = sorted(os.listdir("tree/d"))
files = [(os.open("mnt/d/" + n, os.O_RDONLY), open("tree/d/" + n, "rb").read()) for n in names]
os.kill(larder, signal.SIGSTOP)
signal.alarm(60)
try:
    for fd, right in files:
        assert os.pread(fd, 1 << 18, 0) == right
        assert os.pread(fd, 4096, len(right)) == b""
finally:
    os.kill(larder, signal.SIGCONT)
for fd, right in files:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert os.pread(fd, 1 << 18, 0) == right
    os.close(fd)
PY
pid=$(getfattr --only-values -n user.larder.pid mnt)
python3 alone.py "$pid"
# the page cache has lost them, and reads said so: they are given once more
python3 alone.py "$pid"

cat > race.py <<'PY'
import os, random, sys
choose = random.Random(int(sys.argv[1]))
names = sorted(os.listdir("tree/d"))
right = {n: open("tree/d/" + n, "rb").read() for n in names}
for _ in range(1500):
    name = choose.choice(names[:12])
    fd = os.open("mnt/d/" + name, os.O_RDONLY)
    if choose.random() < 0.5:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert os.pread(fd, 1 << 18, 0) == right[name], name
    os.close(fd)
PY
racers=()
for i in $(seq 16); do
	timeout 300 python3 race.py "$i" &
	racers+=($!)
done
for racer in "${racers[@]}"; do
	wait "$racer" || fail "a racer got wrong bytes or hangs"
done
