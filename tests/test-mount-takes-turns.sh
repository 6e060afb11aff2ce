#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Several mounts at the same time at one place: one is made, the others are told, and none
# lies on top of another; also where a dead mount is in the way, and in the foreground.
. "${top_srcdir:-.}/tests/lib.sh"
requires fuse root getfattr flock

mkdir tree mnt
echo data > tree/file
publish_tree tree mirror d
try() {
	timeout 60 larder mount -c larder.conf \
		-o "cache=$T/cache,key=$T/test.key.pub" "$@" "$T/mirror#d" mnt
}
mounts() {
	grep -c " $T/mnt " /proc/self/mountinfo || true
}
race() {
	local i pids=() good=0
	for i in 1 2 3 4 5 6; do
		try > /dev/null 2> "said.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		! wait "$i" || good=$((good + 1))
	done
	[ $good = 1 ] || fail "$good succeeded: $(cat said.*)"
	[ "$(mounts)" = 1 ] || fail "$(mounts) mounts"
	[ "$(grep -l "already mounted at '$T/mnt'" said.* | wc -l)" = 5 ] ||
		fail "$(cat said.*)"
	[ "$(cat mnt/file)" = data ]
}
race
kill -9 "$(getfattr --only-values -n user.larder.pid mnt)"
wait_for 60 eval '! cat mnt/file 2> /dev/null'
race
larder umount mnt

try -f > said 2>&1 &
wait_for 20 grep -q " $T/mnt$" said
expect_fail "already mounted at" try
larder umount mnt
# the serving process does not keep the lock
try > /dev/null
larder umount mnt
timeout 5 flock -n mnt true || fail "the lock stays"
