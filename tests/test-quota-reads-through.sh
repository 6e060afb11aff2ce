#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The quota of the cache's directory is used up although its disk has room:
# every byte is right, the mount goes on, the index is not lost, and when the quota
# is lifted all of it is kept.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root loop python3 getfattr btrfs mkfs.btrfs

mkdir tree disk
for i in $(seq 16); do random_file 2500000 tree/$i; done
publish_tree tree mirror data
truncate -s 300M disk.img
mkfs.btrfs -q disk.img > /dev/null
mount -o loop disk.img disk 2> /dev/null || skip "this kernel has no btrfs"
btrfs quota enable disk || skip "btrfs without quotas"
btrfs qgroup limit 20M disk
mkdir -m 700 disk/cache
mount_dataset "$T/mirror#data" mnt cache=disk/cache,size=200M,min-free=1M

compare_trees tree mnt || fail "not right at the quota"
drop_caches
compare_trees tree mnt || fail "not right a second time"
# What was recorded before is known at the quota, and after it.
for bad in disk/cache/index.bad-*; do
	[ ! -e "$bad" ] || fail "the index was lost at the quota"
done
used=$(du -s --block-size=1M disk/cache | cut -f1)
[ "$used" -le 24 ] || fail "$used MiB in spite of the quota"

# is_kept NAME: reads it again, too
is_kept() {
	drop_caches
	cmp "tree/$1" "mnt/$1" || fail "not right: $1"
	[ "$(cached_bytes "mnt/$1")" -eq 2500000 ]
}
mountpoint -q mnt || fail 'the mount died'
btrfs qgroup limit none disk
for i in $(seq 16); do wait_for 120 is_kept $i; done
compare_trees tree mnt
umount_dataset mnt
larder verify -o cache=disk/cache > said 2>&1 || fail "$(cat said)"
