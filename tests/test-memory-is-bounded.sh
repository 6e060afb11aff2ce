#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sixteen readers of cold files, together much larger than the buffer, without
# passthrough: the process never has more memory of its own than the buffer
# and 64 MiB, and status tells both.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3
case ${SANITIZERS:-no} in
no) ;;
*) skip "sanitizers have memory of their own" ;;
esac

buffer=$((32 << 20)) size=$((24 << 20)) files=16
mkdir tree
for ((i = 0; i < files; i++)); do stamped write $i $size tree/$i; done
publish_tree tree mirror d
rm -r tree
start_nginx mirror
mount_dataset "$nginx_url#d" mnt "buffer=$buffer,nopassthrough"
pid=$(getfattr --only-values -n user.larder.pid mnt)

own_bytes() {
	awk '/^Rss(Anon|Shmem):/ { sum += $2 } END { print sum * 1024 }' \
		"/proc/$pid/status"
}
sample() {
	local now most=0
	while [ ! -e over ]; do
		now=$(own_bytes)
		[ "$now" -le $most ] || { most=$now; echo $most > most; }
		sleep 0.02
	done
}
sample & sampler=$!
readers=()
for ((i = 0; i < files; i++)); do
	stamped check $i $size mnt/$i &
	readers+=($!)
done
for reader in "${readers[@]}"; do wait "$reader" || fail "a reader failed"; done
touch over
wait $sampler
[ "$(cat most)" -le $((buffer + (64 << 20))) ] ||
	fail "$(cat most) bytes, the buffer is $buffer"
# or nothing was buffered and nothing is tested
[ "$(cat most)" -ge $((4 << 20)) ] || fail "only $(cat most) bytes"
echo "most: $(cat most) of $((buffer + (64 << 20)))"

larder status --json -c larder.conf > json || fail "status: $(cat json)"
python3 -c '
import json, sys
m, = [m for m in json.load(open("json"))["mounts"] if m["mountpoint"] == sys.argv[1]]
assert m["memory"]["buffer_bytes"] == int(sys.argv[2]), m
assert 1 << 20 < m["memory"]["used_bytes"] <= int(sys.argv[2]) + (64 << 20), m
' "$T/mnt" $buffer || fail "$(cat json)"
