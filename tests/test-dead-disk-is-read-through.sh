#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# The disk of the cache dies under a mount: the file of its loop device is cut
# to half or to nothing, so that reads and writes fail, mapped pages vanish
# and the filesystem turns read-only. Every read goes on and is right, from
# the origin where it must be; no mount dies; a new one on the dead disk says
# why it cannot start, or starts.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root loop python3 mkfs.ext4 fsfreeze

mkdir -p tree/small box disk mnt other
for i in $(seq 6); do random_file 1500000 tree/$i; done
for i in $(seq 60); do random_file 5000 tree/small/$i; done
publish_tree tree mirror data

make_disk() {
	umount -l disk box 2> /dev/null || true
	mount -t tmpfs -o size=110M tmpfs box
	truncate -s 100M box/disk.img
	mkfs.ext4 -q box/disk.img
	mount -o "loop,$1" box/disk.img disk
	mkdir -m 700 disk/cache
}
# Nothing of it is there any more from this size on. What is around it is full:
# a write must not make it longer, or the rest would be zeros, not errors.
die() {
	fsfreeze -f disk
	truncate -s "$1" box/disk.img
	! cat /dev/zero > box/filler 2> /dev/null || fail "no end of the box"
	fsfreeze -u disk 2> /dev/null || true
}
still_mounted() {
	mountpoint -q mnt && ls mnt > /dev/null || fail "the mount died: $1"
}

for death in 60M 8M 0; do
	# What ext4 does when its journal cannot be written.
	make_disk errors=$([ $death = 8M ] && echo continue || echo remount-ro)
	mount_dataset "$T/mirror#data" mnt cache=disk/cache
	cat mnt/[123] mnt/small/1* > /dev/null
	die $death
	drop_caches
	cmp tree/4 mnt/4 || fail "a cold file is not right: $death"
	cmp tree/1 mnt/1 || fail "a warm file is not right: $death"
	compare_trees tree mnt || fail "not right: $death"
	drop_caches
	compare_trees tree mnt || fail "not right a second time: $death"
	still_mounted $death
	# Another one on what is left of it.
	if timeout 60 larder mount -o "cache=disk/cache,key=$T/test.key.pub" \
		"$T/mirror#data" other > other.out 2>&1; then
		compare_trees tree other || fail "the other is not right"
		umount -l other
	else
		grep -q 'cache' other.out || fail "said '$(cat other.out)'"
	fi
	still_mounted $death
	umount -l mnt
done

# Read-only while mounted, as after an error.
make_disk errors=remount-ro
mount_dataset "$T/mirror#data" mnt cache=disk/cache
cat mnt/[123] > /dev/null
mount -o remount,abort disk
compare_trees tree mnt || fail "not right on a read-only disk"
drop_caches
compare_trees tree mnt || fail "not right on a read-only disk"
still_mounted ro
