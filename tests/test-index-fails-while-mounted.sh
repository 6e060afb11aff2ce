#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The file of the index is cut or scribbled over while a mount uses them,
# and while the next one starts before the last has ended: every byte read is
# right, no mount dies, and a new index takes the damaged one's place.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root

mkdir -p tree/small
for i in 1 2 3; do random_file 3000000 tree/$i; done
for i in $(seq 100); do random_file 3000 tree/small/$i; done
publish_tree tree mirror data

# A thread that blocks SIGBUS (7) or SIGSEGV (11) would take the mount with it.
no_thread_blocks_faults() {
	local status blocked seen=0
	mount_dataset "$T/mirror#data" mnt
	for status in $(own_processes | sed 's,.*,/proc/&/task/*/status,'); do
		# It may have ended by now.
		blocked=$(awk '/^Name:.*larder/ { ours = 1 }
			ours && /^SigBlk/ { print "0x" $2 }' "$status" \
			2> /dev/null) || continue
		[ "$blocked" ] || continue
		seen=$((seen + 1))
		[ $((blocked & (1 << 6 | 1 << 10))) -eq 0 ] ||
			fail "a thread blocks faults: $blocked"
	done
	[ $seen -ge 5 ] || fail "saw $seen threads"
	umount -l mnt
}
no_thread_blocks_faults

half() { truncate -s $(($(stat -c %s "$1") / 2)) "$1"; }
scribble() {
	dd if=/dev/urandom of="$1" bs=4096 seek=2 conv=notrunc status=none \
		count=$(($(stat -c %s "$1") / 4096 - 2))
}

for damage in "half cache/index/data.mdb" "half cache/index/data.mdb" \
	"truncate -s 8192 cache/index/data.mdb" \
	"truncate -s 0 cache/index/data.mdb" \
	"scribble cache/index/data.mdb"; do
	rm -rf cache
	mount_dataset "$T/mirror#data" mnt
	cat mnt/1 mnt/small/* > /dev/null
	wait_for 60 test -s cache/index/data.mdb
	$damage
	cmp tree/2 mnt/2 || fail "not right after $damage"
	drop_caches
	cmp tree/1 mnt/1 || fail "not right from the cache after $damage"
	umount -l mnt
	mount_dataset "$T/mirror#data" mnt
	compare_trees tree mnt
	drop_caches
	compare_trees tree mnt
	umount -l mnt
done
