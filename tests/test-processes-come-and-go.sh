#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
#
# Mounts and commands on one cache directory, started, stopped for a moment
# and killed at random: every byte that any of them gives is right, a mount
# that is left alone reads on, and in the end `verify` finds nothing wrong.
# COME_AND_GO: how many.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3

rounds=${COME_AND_GO:-12}
options=cache=$T/cache,key=$T/test.key.pub
mkdir -p tree/small got
for i in $(seq 6); do random_file 1500000 tree/$i; done
for i in $(seq 40); do random_file 10000 tree/small/$i; done
publish_tree tree mirror data

# One process of any kind that uses the cache. What it gives of file N goes to
# got/ANYTHING.N: the first bytes of it, if an error or a signal ended it.
one() {
	local limit='' file=$((1 + RANDOM % 6))
	[ $((RANDOM % 3)) -ne 0 ] || limit=,size=5M,min-free=1
	case $((RANDOM % 6)) in
	0 | 1 | 2)
		mkdir -p "m$1"
		exec larder mount -f -o "$options$limit" "$T/mirror#data" \
			"m$1" > /dev/null 2>&1 ;;
	3 | 4)
		exec larder cat -o "$options$limit" "$T/mirror#data:$file" \
			> "got/$BASHPID.$file" 2> /dev/null ;;
	5)
		exec larder evict -y -o "$options" "$T/mirror#data" $file \
			> /dev/null 2>&1 < /dev/null ;;
	esac
}
read_mounts() {
	local dir file
	for dir in m[0-9]; do
		file=$((1 + RANDOM % 6))
		! mountpoint -q "$dir" || cat "$dir/$file" \
			> "got/$dir.$RANDOM$RANDOM.$file" 2> /dev/null &
		started+=($!)
	done
}
started=()
# A job that has ended has given its number back.
signal() {
	! jobs -p | grep -qx "$2" || kill "-$1" "$2" 2> /dev/null || true
}

# The one that is left alone, with readers of its own.
mount_dataset "$T/mirror#data" steady
{
	while [ ! -e over ]; do
		compare_trees tree steady || { echo wrong > wrong; break; }
		sleep 0.1
	done
} &
steady=$!

for ((i = 0; i < rounds; i++)); do
	(one $((i % 4))) &
	pid=$!
	started+=($pid)
	read_mounts
	sleep "0.$((RANDOM % 6))"
	case $((RANDOM % 3)) in
	0) signal KILL $pid ;;
	1)
		signal STOP $pid
		sleep 0.3
		signal CONT $pid ;;
	esac
	umount -l "m$(((i + 2) % 4))" 2> /dev/null || true
done
for i in m[0-9]; do umount -l "$i" 2> /dev/null || true; done
: > over
wait $steady
for pid in "${started[@]}"; do signal TERM "$pid"; done
[ ! -s wrong ] || fail "the mount that was left alone is not right"
wait "${started[@]}" || true
[ "$(find got -size +0 | wc -l)" -gt 0 ] || fail "nothing was read"
for i in got/*; do
	cmp -n "$(stat -c %s "$i")" "$i" "tree/${i##*.}" || fail "$i"
done
umount_dataset steady
larder verify -o "$options" > verify.out 2>&1 ||
	fail "verify: $(cat verify.out)"
