#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One byte of a pack is flipped on its way: right bytes after
# another try, or from the second mirror, or a clear error while other chunks
# stay readable. It is never seen and never in the cache.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root net python3 getfattr

size=$((6 << 20))
mkdir tree
stamped write 5 $size tree/file
# Stored as it is, so that a flipped byte of the pack is one of the file.
python3 -c '
import os
open("tree/raw", "wb").write(os.urandom(6 << 20))'
publish_tree tree mirror flip
cp -a mirror second
start_httpd second
second_url=$httpd_url
start_httpd mirror
flip='add=flip&path=/packs/*&n=3000000'

# One chunk, one request, flipped once.
mkdir single
head -c 200000 tree/raw > single/raw
publish_tree single mirror single
httpd_control "clear&add=flip&path=/packs/*&n=100000&times=1"
mount_dataset "$httpd_url#single" mnt
cmp single/raw mnt/raw || fail "not right after a second try"
[ "$(httpd_requests /packs/)" -eq 2 ] || fail "not asked a second time"
[ "$(httpd_log_sum 'r["cache_control"] == "no-cache"' /packs/)" = 1 ] ||
	fail "the second time not past caches"
umount_dataset mnt

rm -rf cache
httpd_control "clear&$flip"
cat > two.conf <<-CONF
	cache = $T/cache
	key = $T/test.key.pub
	[flip]
	mirror = $httpd_url
	mirror = $second_url
CONF
mkdir two
larder mount -c two.conf flip two
cmp tree/raw two/raw || fail "not right from the second mirror"
stamped check 5 $size two/file
umount_dataset two

rm -rf cache
mount_dataset "$httpd_url#flip" mnt timeout=4s
expect_errno "$EIO" cat mnt/raw mnt/file
{ larder_error mnt/raw || larder_error mnt/file; } > said
grep -qF "${httpd_url#http://}" said || fail "the error is '$(cat said)'"
grep -q 'wrong bytes' said || fail "the error is '$(cat said)'"
# What is sound of the files is readable: all but one chunk.
good=0
for ((at = 0; at < 6; at++)); do
	! dd if=mnt/raw bs=64K skip=$((at * 16)) count=1 status=none \
		2> /dev/null | cmp -s - <(dd if=tree/raw bs=64K \
		skip=$((at * 16)) count=1 status=none) || good=$((good + 1))
done
[ $good -ge 2 ] || fail "only $good of 6 parts are readable"
umount_dataset mnt

# The cache knows right bytes only: without a mirror, what it gives is right.
# (A read over the border of a bad page ends there, as of any disk.)
kill "$httpd_pid"
mount_dataset "$httpd_url#flip" mnt timeout=2s
python3 - <<'PYTHON'
import os
right, fd = open("tree/raw", "rb").read(), os.open("mnt/raw", os.O_RDONLY)
for at in range(0, len(right), 65536):
    try:
        seen = os.pread(fd, 65536, at)
        assert seen and seen == right[at:at + len(seen)], at
    except OSError:
        pass
PYTHON
