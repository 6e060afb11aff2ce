#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Thirty-two processes open, read and close three cold files in random order
# through a slow mirror: the bytes are right, no byte of a pack is
# sent twice, and a waiter that is killed does not cancel it for the others.
# Then with a limit that makes files come and go and an origin that trickles: the
# bytes are right. Both with threads of one mount and with two processes. CROWD_ROUNDS: how often.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3

size=2500000
mkdir tree
for i in 1 2 3; do stamped write $i $size tree/$i; random_file $size tree/r$i; done
publish_tree tree mirror crowd
start_nginx mirror "limit_rate 500k;"
mount_dataset "$nginx_url#crowd" mnt
mount_dataset "$nginx_url#crowd" second

# reader [DIR]
reader() {
	local i dir=${1:-mnt}
	for i in $(shuf -e 1 2 3); do
		stamped check -b 65537 $i $size $dir/$i || return 1
		cmp tree/r$i $dir/r$i || return 1
	done
}
pids=()
for i in $(seq 16); do
	reader mnt &
	pids+=($!)
	reader second &
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
umount_dataset mnt
umount_dataset second

start_httpd mirror --rule 'add=trickle&n=2097152&path=/packs/*'
mount_dataset "$httpd_url#crowd" mnt size=5M,min-free=1
mount_dataset "$httpd_url#crowd" second size=5M,min-free=1
crowd() {
	local round
	for ((round = 0; round < ${CROWD_ROUNDS:-2}; round++)); do
		reader "$1" || return 1
	done
}
pids=()
for i in $(seq 8); do
	crowd mnt &
	pids+=($!)
	crowd second &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a reader failed with a small limit"
done
