#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two mounts of one cache, a third that reads here and there, and a command read
# the same cold files at once: no byte of a pack is sent twice, all are right.
# Then one of them is killed in the middle: the other goes on and is right, and
# so is a new one, which takes the dead mount's place.
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
mount_dataset "$nginx_url#shared" c
compare_trees tree a &
one=$!
compare_trees tree b &
two=$!
random_reads -n 100 tree/3 c/3 &
three=$!
larder cat -o "cache=$T/cache,key=$T/test.key.pub" "$nginx_url#shared:4" |
	cmp - tree/4 || fail "the command is wrong"
wait $one || fail "the first mount is wrong"
wait $two || fail "the second mount is wrong"
wait $three || fail "the third mount is wrong"
nginx_sent_once
umount_dataset a
umount_dataset b
umount_dataset c

rm -rf cache
nginx_forget
mount_dataset "$nginx_url#shared" a
mount_dataset "$nginx_url#shared" b
victim=$(server_of a)
(while cat a/* > /dev/null 2>&1; do :; done) &
one=$!
compare_trees tree b &
two=$!
sleep 1
kill -KILL $victim
wait $two || fail "the second mount is wrong after the first was killed"
wait $one # it ends
# On the dead mount, as after a crash.
larder mount -o "cache=$T/cache,key=$T/test.key.pub" "$nginx_url#shared" a
compare_trees tree a
[ "$(awk -v dir="$T/a" '$5 == dir' /proc/self/mountinfo | wc -l)" -eq 1 ] ||
	fail "the dead mount lies below the new one"
[ "$(nginx_bytes packs/)" -le $((2 * $(bytes_of mirror/packs))) ] ||
	fail "$(nginx_bytes packs/) bytes"
