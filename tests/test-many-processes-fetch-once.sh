#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Thirty-two processes open, read and close three cold files in random order
# (CASES C-14) through a slow mirror: the bytes are right, no byte of a pack is
# sent twice, and a waiter that is killed does not cancel it for the others.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

size=2500000
mkdir tree
for i in 1 2 3; do stamped write $i $size tree/$i; random_file $size tree/r$i; done
publish_tree tree mirror crowd
start_nginx mirror "limit_rate 500k;"
mount_dataset "$nginx_url#crowd" mnt

reader() {
	local i
	for i in $(shuf -e 1 2 3); do
		stamped check -b 65537 $i $size mnt/$i || return 1
		cmp tree/r$i mnt/r$i || return 1
	done
}
pids=()
for i in $(seq 32); do
	reader &
	pids+=($!)
done
# The first ones to ask are the first victims.
cat mnt/r1 > /dev/null & victim1=$!
cat mnt/r2 > /dev/null & victim2=$!
sleep 0.3
kill -KILL $victim1 $victim2
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a reader failed"
done
nginx_sent_once
nginx_forget
drop_caches
pids=()
for i in $(seq 8); do reader & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done
[ "$(nginx_requests packs/)" -eq 0 ] || fail "asked again"
