#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# A power cut: the cache lies on ext4 in a file on XFS, and that file is
# cloned at random instants while a mount fills the cache. On each clone, as
# after the cut, a mount starts and every byte is right, with the mirror and
# without: what is recorded and was not yet written is noticed, and what is
# marked complete is all there. POWER_CUTS: how many.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root loop python3 getfattr mkfs.xfs mkfs.ext4

cuts=${POWER_CUTS:-3}
mkdir -p tree/small xfs disk cut
random_file 30000000 tree/large
for i in $(seq 6); do random_file 1000000 tree/$i; done
for i in $(seq 60); do random_file 20000 tree/small/$i; done
publish_tree tree mirror data

truncate -s 600M xfs.img
mkfs.xfs -q -m reflink=1 xfs.img
mount -o loop xfs.img xfs
truncate -s 100M xfs/disk.img
mkfs.ext4 -q xfs/disk.img
mount -o loop,commit=1 xfs/disk.img disk
mkdir -m 700 disk/cache

# The large file bit by bit: once complete it is synced.
fill() {
	local at files
	mapfile -t files < <(cd tree && find . -type f ! -name large | shuf)
	for at in $(shuf -i 0-449 -n 200); do
		dd if=mnt/large of=/dev/null bs=65536 skip="$at" count=1 \
			status=none || return 1
		cat mnt/"${files[at % ${#files[@]}]}" > /dev/null || return 1
		sleep 0.01
	done
}

# Readers are answered before the cache is written.
is_cached() {
	local file
	for file in mnt/large mnt/[0-9] mnt/small/*; do
		[ "$(cached_bytes "$file")" -eq "$(stat -c %s "$file")" ] ||
			return 1
	done
}

# What a process saw before the cut is not needed to be there after it.
is_right_after() {
	local status=0
	mount -o loop "xfs/$1.img" cut
	# What it finds can be dropped; nothing is left.
	if [ $((RANDOM % 2)) -eq 0 ]; then
		larder verify --repair -o cache=cut/cache > verify.out 2>&1 ||
			status=$?
		[ $status -le 1 ] || fail "verify after $1: $(cat verify.out)"
	fi
	mount_dataset "$T/mirror#data" mnt cache=cut/cache
	compare_trees tree mnt || fail "not right after $1"
	wait_for 20 is_cached
	umount_dataset mnt
	umount cut
	# And once more what the first left, from the disk alone.
	mount -o loop "xfs/$1.img" cut
	mv mirror/packs mirror/away
	mount_dataset "$T/mirror#data" mnt cache=cut/cache,timeout=2s
	compare_trees tree mnt || fail "not right without the mirror: $1"
	mv mirror/away mirror/packs
	umount_dataset mnt
	umount cut
	rm "xfs/$1.img"
}

mount_dataset "$T/mirror#data" mnt cache=disk/cache
fill &
filler=$!
for ((i = 0; i < cuts; i++)); do
	sleep "$((RANDOM % 2)).$((RANDOM % 10))"
	cp --reflink=always xfs/disk.img "xfs/cut$i.img"
done
wait $filler
umount -l mnt
umount -l disk
for ((i = 0; i < cuts; i++)); do
	is_right_after "cut$i"
done
