#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Readers of two mounts go round a working set much larger than the cache's limit: the
# bytes are right, the disk never holds much more than the limit, nobody waits for an
# eviction, and things are evicted rather than not stored at all.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root python3

# readers: of each mount. seconds: they go on until then.
most=$((32 << 20)) files=48 readers=4 seconds=0
if [ -n "${LARDER_TEST_FULL-}" ]; then
	most=$((256 << 20)) files=1024 readers=16 seconds=60
fi
size=$((4 << 20))
mkdir tree
for ((i = 0; i < files; i++)); do stamped write $i $size tree/$i; done
publish_tree tree mirror d
rm -r tree
for m in one two; do
	mount_dataset "$T/mirror#d" $m "size=$most,min-free=1M,nopassthrough"
done

worst=0
sample() {
	local now
	while [ ! -e over ]; do
		now=$(du -s --block-size=1 cache/blobs 2> /dev/null | cut -f1) || true
		[ "${now:-0}" -le "$worst" ] || { worst=$now; echo "$worst" > worst; }
		sleep 0.2
	done
}
until=0
reader() {
	local i
	for i in $(shuf -i 0-$((files - 1))); do
		stamped check "$i" $size "$1/$i" || return 1
		[ $until -eq 0 ] || [ $SECONDS -lt $until ] || break
	done
}
[ $seconds -eq 0 ] || until=$((SECONDS + seconds))
sample & sampler=$!
pids=()
for ((r = 0; r < readers; r++)); do
	for m in one two; do
		reader $m &
		pids+=($!)
	done
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a reader failed"
done
touch over
wait $sampler
bound=$((most + most / 4 + (8 << 20)))
[ "$(cat worst)" -le $bound ] || fail "$(cat worst) bytes on disk, limit $most"
[ "$(cat worst)" -ge $((most / 2)) ] || fail "only $(cat worst) bytes were ever kept"

figures() {
	larder status --json -c larder.conf > json || true
	python3 -c '
import json, sys
ours = [m for m in json.load(open("json"))["mounts"] if m["mountpoint"].startswith(sys.argv[2])]
assert len(ours) == 2
print(eval(sys.argv[1]))' "$1" "$T/"
}
is_within() { [ "$(figures 'ours[0]["cache"]["used_bytes"]')" -le $most ]; }
wait_for 20 is_within
[ "$(figures 'sum(m["cache"]["eviction_waits"]["longer"] for m in ours)')" = 0 ] ||
	fail "somebody waited for an eviction: $(cat json)"
evicted=$(figures 'sum(m["cache"]["evicted_blobs"] for m in ours)')
[ "$evicted" -ge $((files / 4)) ] || fail "only $evicted blobs were evicted"
echo "limit $most worst $(cat worst) evicted $evicted blobs," \
	"not stored $(figures '[m["cache"]["not_stored_units"] for m in ours]')," \
	"waits $(figures '[m["cache"]["eviction_waits"] for m in ours]')"
