#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cache's disk is smaller than its limit, runs full, and out of inodes, while
# readers go on: right bytes, one warning a minute, the same process, and storing goes
# on by itself once there is room.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3

files=20
mkdir tree cache mnt
for ((i = 0; i < files; i++)); do stamped write $i 4000000 tree/$i; done
mkdir tree/many
for ((i = 0; i < 300; i++)); do stamped write $i 140000 tree/many/$i; done
publish_tree tree mirror d
rm -r tree

# small OPTIONS: a disk of 64 MiB, and larder on it in the foreground
small() {
	mount -t tmpfs -o "size=64M,mode=700$1" tmpfs cache
	test_key
	larder mount -f -c larder.conf \
		-o "cache=$T/cache,key=$T/test.key.pub,size=1G,min-free=2M,nopassthrough" \
		"$T/mirror#d" mnt > log 2>&1 &
	pid=$!
	wait_for 30 mountpoint -q mnt
}
large() {
	umount mnt
	wait $pid || fail "it ended with an error: $(cat log)"
	umount cache
}
read_files() {
	local i
	for i in $(shuf -i 0-$((files - 1))); do
		stamped check "$i" 4000000 mnt/$i || return 1
	done
}
readers() {
	local i pids=()
	for i in 1 2 3; do "$@" & pids+=($!); done
	for i in "${pids[@]}"; do wait "$i" || fail "a reader failed"; done
}
cached() { getfattr --only-values -n user.larder.cached "mnt/$1"; }
# the first of the files that is not kept
unkept() {
	local bytes=$1 file
	shift
	for file in "$@"; do
		[ "$(cached "$file")" = "$bytes" ] || { echo "$file"; return; }
	done
	fail "all of them are kept"
}
# whether a file is kept by the next time that it is read
keeps() {
	drop_caches
	cat "mnt/$2" > /dev/null
	[ "$(cached "$2")" = "$1" ]
}
large_files=({0..19})
small_files=(many/{0..299})

small ""
grep -q "warning: cache: limits brought down to what the disk has: dir=$T/cache size=6[0-9]\.[0-9] MiB" log ||
	fail "no word of the limit: $(cat log)"
readers read_files
[ "$(df --output=avail -B1 cache | tail -1)" -ge 1000000 ] || fail "no space was left"
wait_for 60 keeps 4000000 "$(unkept 4000000 "${large_files[@]}")"

# no bytes left at all
(read_files; read_files) & reader=$!
head -c 100M /dev/zero > cache/lost+found 2> /dev/null || true
readers read_files
wait $reader || fail "a reader failed when the disk ran full"
rm cache/lost+found
wait_for 60 keeps 4000000 "$(unkept 4000000 "${large_files[@]}")"
kill -0 $pid || fail "the process has gone"
[ "$(grep -c warning log)" -le 6 ] || fail "too many warnings: $(cat log)"
large

# no inodes left
# a directory for each of 256 beginnings of names, and less than 300 files
small ",nr_inodes=400"
read_many() {
	local i
	for i in $(shuf -i 0-299); do
		stamped check "$i" 140000 mnt/many/$i || return 1
	done
}
readers read_many
wait_for 60 keeps 140000 "$(unkept 140000 "${small_files[@]}")"
larder status --json -c larder.conf | python3 -c '
import json, sys
m, = [m for m in json.load(sys.stdin)["mounts"] if m["mountpoint"] == sys.argv[1]]
assert m["cache"]["evicted_blobs"] > 0, m' "$T/mnt"
[ "$(grep -c warning log)" -le 6 ] || fail "too many warnings: $(cat log)"
large
