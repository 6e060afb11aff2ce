#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# The disk of the cache hangs under two mounts: writes to it do not return. Cold
# reads of several readers go on and are right, from the mirror, also of
# more than there is memory; warm ones, listings and status answer, a mount ends
# when told to. The disk answers again: what is read is kept, without a restart.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root loop python3 mkfs.ext4 fsfreeze getfattr

mkdir -p tree/sub disk mnt other
for i in $(seq 12); do random_file 3000000 tree/$i; done
for i in $(seq 40); do random_file 5000 tree/sub/$i; done
truncate -s 2M tree/zeros
random_file 20000 tree/tail
cat tree/tail >> tree/zeros
random_file 80000000 tree/large
for i in $(seq 8); do random_file 5000000 tree/begun$i; done
publish_tree tree mirror d
truncate -s 300M disk.img
mkfs.ext4 -q disk.img
mount -o loop disk.img disk
mkdir -m 700 disk/cache
thaw() { fsfreeze -u "$T/disk" 2> /dev/null || true; }

mount_there() {
	larder mount -f -c larder.conf \
		-o "cache=disk/cache,key=$T/test.key.pub,buffer=32M" \
		"$T/mirror#d" "$1" 2> "$1.log" &
	wait_for 60 mountpoint -q "$1"
}
mount_there mnt
mount_there other
# The last to be run, and so before what is mounted here is let go.
cleanup_fn thaw

cmp tree/1 mnt/1
cmp tree/sub/1 mnt/sub/1
cached() { getfattr --only-values -n user.larder.cached "mnt/$1"; }
is_kept() {
	[ "$(cached "$1")" = "$(stat -c %s "tree/$1")" ]
}
wait_for 60 is_kept 1
# Files that are open in the cache: more writes to them hang than there are
# threads that check chunks.
begins() { head -c 4096 "mnt/$1" > /dev/null && [ "$(cached "$1")" != 0 ]; }
for i in $(seq 8); do wait_for 60 begins begun$i; done
sync

fsfreeze -f disk
says_hanging() {
	local status=0
	timeout 60 larder status > said 2>&1 || status=$?
	[ $status = 1 ] && grep -q 'disk does not answer' said
}
readers=()
for i in $(seq 8); do
	timeout 120 cmp tree/begun$i mnt/begun$i &
	readers+=($!)
done
wait_for 60 says_hanging
for at in mnt/2 mnt/3 mnt/4 mnt/5 other/2 other/6 mnt/zeros; do
	timeout 120 cmp "tree/${at#*/}" "$at" &
	readers+=($!)
done
for reader in "${readers[@]}"; do
	wait "$reader" || fail "a cold read while the disk hangs"
done
timeout 120 cmp tree/1 mnt/1 || fail "a warm read while the disk hangs"
timeout 120 cmp tree/1 other/1 || fail "a warm read of the other mount"
timeout 120 cmp tree/large mnt/large || fail "a large file"
timeout 120 cmp tree/sub/30 mnt/sub/30 || fail "a small file"
[ "$(timeout 60 ls -R mnt | wc -l)" = "$(ls -R tree | wc -l)" ] ||
	fail "the listing is not complete"

timeout 60 larder status --json > said || true
python3 -c 'import json; print([m["cache"]["state"] for m in
	json.load(open("said"))["mounts"]])' > states || fail "$(cat said)"
grep -q silent states || fail "status: $(cat said)"
grep -q "disk does not answer.*dir=$T/disk/cache" mnt.log ||
	fail "the log says nothing: $(cat mnt.log)"
timeout 120 larder umount other || fail "a mount does not end"
! mountpoint -q other || fail "the other is still there"

thaw
says_nothing() { larder status > said 2>&1 && ! grep -q 'not answer' said; }
wait_for 60 says_nothing
wait_for 60 grep -q 'disk answers again' mnt.log
# The kernel has what was read meanwhile.
keeps() { drop_caches; cmp "tree/$1" "mnt/$1" && is_kept "$1"; }
for i in 2 3 7 8 large; do wait_for 60 keeps $i; done
[ "$(grep -c 'does not answer' mnt.log)" = 1 ] || fail "said: $(cat mnt.log)"
umount_dataset mnt
wait_for 60 umount disk
mount -o loop disk.img disk
larder verify -o cache=disk/cache > said 2>&1 || fail "verify: $(cat said)"
