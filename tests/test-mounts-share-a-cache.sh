#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two mounts of one cache read the same cold files at once: no byte of a pack is
# sent twice, both are right. Then one of them is killed in the middle: the
# other goes on and is right, and so is a new one.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

mkdir tree
for i in 1 2 3 4; do random_file 5000000 tree/$i; done
for i in $(seq 50); do random_file 30000 tree/small$i; done
publish_tree tree mirror shared
start_nginx mirror "limit_rate 1500k;"

# The process that serves a mount of this test.
server_of() {
	pgrep -f "larder.* $T/$1\$" || pgrep -f "larder.* $1\$"
}

mount_dataset "$nginx_url#shared" a
mount_dataset "$nginx_url#shared" b
compare_trees tree a &
one=$!
compare_trees tree b &
two=$!
wait $one || fail "the first mount is wrong"
wait $two || fail "the second mount is wrong"
nginx_sent_once
umount_dataset a
umount_dataset b

rm -rf cache
nginx_forget
mount_dataset "$nginx_url#shared" a
mount_dataset "$nginx_url#shared" b
victim=$(server_of a)
cat a/* > /dev/null 2>&1 &
one=$!
compare_trees tree b &
two=$!
sleep 1
kill -KILL $victim
wait $two || fail "the second mount is wrong after the first was killed"
! wait $one || fail "read to the end from a dead mount"
# On the dead mount, as after a crash.
larder mount -o "cache=$T/cache,key=$T/test.key.pub" "$nginx_url#shared" a
compare_trees tree a
[ "$(nginx_bytes packs/)" -le $((2 * $(bytes_of mirror/packs))) ] ||
	fail "$(nginx_bytes packs/) bytes"
