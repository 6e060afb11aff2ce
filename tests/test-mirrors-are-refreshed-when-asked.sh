#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder refresh on a mount of a mirror: a new snapshot is seen at once, however
# often somebody asks and while several do; then all goes on, and the mount ends
# when it is told to.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root getfattr

mkdir tree
echo 0 > tree/file
publish_tree tree mirror d
mount_dataset "$T/mirror#d" mnt refresh=1d
[ "$(cat mnt/file)" = 0 ]
for i in 1 2 3 4 5; do
	echo $i > tree/file
	publish_tree tree mirror d
	[ "$(cat mnt/file)" = $((i - 1)) ] || fail "seen unasked"
	larder refresh mnt > said
	grep -q ': 1 of 1 dataset changed' said || fail "$(cat said)"
	[ "$(cat mnt/file)" = $i ] || fail "not seen after $i"
	larder refresh mnt | grep -q ': 0 of 1 dataset changed'
done
asking=()
for i in $(seq 8); do
	larder refresh mnt > /dev/null &
	asking+=($!)
done
wait "${asking[@]}"
[ "$(cat mnt/file)" = 5 ]
pid=$(getfattr --only-values -n user.larder.pid mnt)
umount_dataset mnt
wait_for 20 lib_has_ended "$pid"
