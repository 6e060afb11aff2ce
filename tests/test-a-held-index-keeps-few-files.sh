#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# While another process holds the index nothing is recorded, and each file of
# the cache that waits for that stays open. More files than there are
# descriptors are read meanwhile: all are right, and descriptors are left for
# connections and others; afterwards all of them are kept.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3 getfattr nginx

files=360 size=140001 # each a blob of its own
mkdir tree
random_file $((files * size)) all
split -a 3 -d -b $size all tree/
rm all
publish_tree tree mirror d
start_nginx .
mkdir mnt
(
	ulimit -n 256
	exec larder mount -f \
		-o "cache=$T/cache,key=$T/test.key.pub,nopassthrough" \
		"$nginx_url/mirror#d" mnt 2> mount.err
) &
larder_pid=$!
wait_for 60 mountpoint -q mnt
cmp tree/000 mnt/000

# The first byte is the writer's.
python3 -c '
import fcntl, sys, time
f = open("cache/locks/gate", "r+b")
fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)
open("held", "w").close()
time.sleep(600)' &
holder=$!
wait_for 30 test -e held
read_all() { # GLOB...: several at a time
	local readers=() name
	for name in "$@"; do
		timeout 120 cmp "$name" "mnt/${name#*/}" &
		readers+=($!)
		[ ${#readers[@]} -ge 4 ] || continue
		wait "${readers[0]}" || fail "a read while the index is held"
		readers=("${readers[@]:1}")
	done
	for name in "${readers[@]}"; do
		wait "$name" || fail "a read while the index is held"
	done
}
read_all tree/[012]*
kill -HUP "$nginx_pid" # which ends its connections
read_all tree/3*
held=$(printf '%s\n' "/proc/$larder_pid/fd/"* | wc -l)
[ "$held" -lt 200 ] || fail "$held of 256 descriptors are in use"
says_held() { larder status > said 2>&1 || true; grep -q 'holds the index' said; }
wait_for 60 says_held
kill $holder

keeps_all() {
	local name
	drop_caches
	for name in tree/*; do
		cmp "$name" "mnt/${name#*/}" || fail "$name afterwards"
		[ "$(getfattr --only-values -n user.larder.cached \
			"mnt/${name#*/}")" = $size ] || return 1
	done
}
wait_for 120 keeps_all
umount_dataset mnt
larder verify -o "cache=$T/cache" > said 2>&1 || fail "$(cat said)"
