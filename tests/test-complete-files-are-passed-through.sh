#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A complete file is read by the kernel without larder: also while larder is stopped,
# by read, mmap and O_DIRECT, with holes. The first open decides until the last close,
# nopassthrough never does it, and an open file outlives larder.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root python3 getfattr

state() { getfattr --only-values -n user.larder.state "$1"; }
passed() { # FILE: opened now, it is passed through
	local fd said
	exec {fd}< "$1"
	said=$(state "$1")
	exec {fd}<&-
	[ "$said" = passthrough ]
}

mkdir tree
head -c 5000001 /dev/urandom > tree/big
head -c 3000000 /dev/urandom > tree/other
truncate -s 6M tree/sparse
printf middle | dd of=tree/sparse bs=1 seek=3M conv=notrunc status=none
echo few > tree/small
echo more > tree/small2
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt
said=$(getfattr --only-values -n user.larder.passthrough mnt)
case $said in
on*) ;;
off*kernel*) skip "$said" ;;
*) fail "'$said'" ;;
esac

# cold: opened before it is complete, it stays as it was opened
exec 5< mnt/big
[ "$(state mnt/big)" = cold ]
for name in big other sparse small small2; do
	cmp "mnt/$name" "tree/$name"
done
mount_dataset "$T/mirror#d" mnt2
wait_for 60 passed mnt2/big
! passed mnt/big || fail "two ways at a time"
[ "$(state mnt/big)" = complete ]
cmp tree/big <&5
exec 5<&-
wait_for 60 passed mnt/big
for name in other sparse; do
	wait_for 60 passed "mnt/$name"
done
! passed mnt/small || fail "a part of a file is passed through"
wait_for 60 eval '[ "$(getfattr --only-values -n user.larder.passthrough mnt)" = "on, 0 files" ]'

# larder is asked for nothing while it is open
cat > reader.py <<'PY'
import mmap, os, signal, sys
larder = int(sys.argv[1])
names = "big", "other", "sparse"
files = {n: (os.open("mnt/" + n, os.O_RDONLY), open("tree/" + n, "rb").read()) for n in names}
direct = os.open("mnt/other", os.O_RDONLY | os.O_DIRECT)
os.kill(larder, signal.SIGSTOP)
signal.alarm(60)
try:
    for fd, right in files.values():
        assert os.pread(fd, 1 << 23, 0) == right
        assert os.pread(fd, 4096, len(right) - 7) == right[-7:]
        assert os.pread(fd, 4096, len(right) + 5) == b""
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as pages:
            assert pages[:] == right
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(fd, 100, 1000) == right[1000:1100]
    aligned = mmap.mmap(-1, 1 << 16)
    assert os.preadv(direct, [aligned], 1 << 20) == 1 << 16
    assert aligned[:] == files["other"][1][1 << 20:(1 << 20) + (1 << 16)]
finally:
    os.kill(larder, signal.SIGCONT)
for fd, right in files.values():
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0
    assert os.lseek(fd, 0, os.SEEK_HOLE) == len(right)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
PY
pid=$(getfattr --only-values -n user.larder.pid mnt)
python3 reader.py "$pid"

# the mount can go: a busy one lazily, and at a stroke
exec 6< mnt2/big
[ "$(state mnt2/big)" = passthrough ]
larder umount -l mnt2
cmp tree/big <&6
exec 6< mnt/big 7< mnt/other
larder status > said
grep "^$T/mnt " said | grep -q "   2 files passed through$" || fail "$(cat said)"
larder status --json > said
grep -q '"passthrough": "on, 2 files"' said || fail "$(cat said)"
pid=$(getfattr --only-values -n user.larder.pid mnt)
kill -KILL "$pid"
wait_for 20 lib_has_ended "$pid"
cmp tree/big <&6
larder mount -c larder.conf -o "cache=$T/cache,key=$T/test.key.pub" "$T/mirror#d" mnt
cmp tree/other <&7
passed mnt/other || fail "not passed through after a crash"
exec 8< mnt/big
kill -TERM "$(getfattr --only-values -n user.larder.pid mnt)"
cmp tree/big <&8
exec 6<&- 7<&- 8<&-
wait_for 20 eval '! mountpoint -q mnt'

mount_dataset "$T/mirror#d" mnt nopassthrough
[ "$(getfattr --only-values -n user.larder.passthrough mnt)" = "off: nopassthrough" ]
! passed mnt/big || fail "nopassthrough passes through"
diff -r tree mnt
umount_dataset mnt
