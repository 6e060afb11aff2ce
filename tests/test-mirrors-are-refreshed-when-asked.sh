#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# larder refresh on a mount of a mirror: a new snapshot is seen at once, however
# often somebody asks and while several do, and however the mirror was a moment
# ago; then all goes on, and the mount ends when it is told to.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root getfattr curl python3

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

# A mirror that has failed again and again is not asked by readers for a while,
# and each who asks for a look has one.
start_httpd mirror
mount_dataset "$httpd_url#d" mnt refresh=1d,timeout=3s
[ "$(cat mnt/file)" = 5 ]
httpd_control "add=status&n=503&path=*"
httpd_forget
for i in 1 2 3 4 5; do
	expect_fail '503' larder refresh mnt
	[ "$(httpd_requests /heads/)" -ge $i ] || fail "look $i was none"
done
httpd_control clear
echo 6 > tree/file
publish_tree tree mirror d
larder refresh mnt > said || fail "it is back: $(cat said)"
[ "$(cat mnt/file)" = 6 ]
umount_dataset mnt

# The same where there is nothing to fall back on.
httpd_control "add=status&n=503&path=*"
cat > two.conf <<CONF
cache = $T/none
key = $T/test.key.pub
timeout = 3
[d]
mirror = $httpd_url
CONF
larder mount -c two.conf mnt
expect_fail 'Input/output error' cat mnt/d/file
httpd_control clear
larder refresh mnt/d > said || fail "it is back: $(cat said)"
[ "$(cat mnt/d/file)" = 6 ]
umount_dataset mnt
