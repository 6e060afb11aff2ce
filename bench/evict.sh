#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Readers go round a working set many times the cache's limit, for a while: what the
# cache takes on disk at worst against its limit, how long storing took during
# evictions, the memory of the process against its bound, and the speed against the
# same without any cache pressure (a limit beyond the working set, cold).
#
#   bench/evict.sh [WORKING_SET_MIB] [LIMIT_MIB] [READERS] [SECONDS]
. "$(dirname "$0")/lib.sh"
working=${1:-4096} most=${2:-256} readers=${3:-32} span=${4:-60}
buffer=256

mkdir -p "$work/www/tree" "$work/mnt"
for ((i = 0; i < working / 16; i++)); do
	head -c 16M /dev/zero | openssl enc -aes-128-ctr -nosalt -pass "pass:$i" \
		-pbkdf2 -iter 1 > "$work/www/tree/$i"
done
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n set -k "$work/key" "$work/www/tree" "$work/www/mirror" > /dev/null
rm -r "$work/www/tree"
start_nginx "$work/www"

reader() {
	local i end=$((SECONDS + span))
	while [ $SECONDS -lt $end ]; do
		i=$((RANDOM % (working / 16)))
		cat "$work/mnt/$i" > "$work/null" || touch "$work/failed"
	done
}
ln -s /dev/null "$work/null"

sample() {
	local disk memory
	while [ ! -e "$work/over" ]; do
		disk=$(du -s --block-size=1M "$work/cache/blobs" | cut -f1)
		memory=$(awk '/^Rss(Anon|Shmem):/ { sum += $2 } END { print int(sum / 1024) }' \
			"/proc/$1/status")
		echo "$disk $memory"
		sleep 0.2
	done
}

# run LIMIT_MIB: prints "WORST_DISK WORST_MEMORY READ_MIB" and the waits
run() {
	local pid readers_pids=()
	rm -rf "$work/cache" "$work/over"
	"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub,size=${1}M,buffer=${buffer}M" \
		-o nopassthrough "$url/mirror#set" "$work/mnt" > /dev/null
	pid=$(getfattr --absolute-names --only-values -n user.larder.pid "$work/mnt")
	sample "$pid" > "$work/samples" &
	for ((r = 0; r < readers; r++)); do
		reader &
		readers_pids+=($!)
	done
	wait "${readers_pids[@]}"
	touch "$work/over"
	[ ! -e "$work/failed" ] || { echo "a reader failed" >&2; exit 1; }
	getfattr --absolute-names --only-values -n user.larder.figures "$work/mnt" > "$work/figures"
	"$LARDER" umount "$work/mnt"
	awk -v read="$(sed -n 's/^read //p' "$work/figures")" '
		$1 > disk { disk = $1 } $2 > memory { memory = $2 }
		END { print disk, memory, int(read / 1048576) }' "$work/samples"
}

read -r disk memory pressed < <(run "$most")
waits=$(sed -n 's/^eviction-waits //p' "$work/figures")
evicted=$(sed -n 's/^evicted-blobs //p' "$work/figures")
refused=$(sed -n 's/^not-stored //p' "$work/figures")
read -r _ _ free < <(run $((2 * working)))
echo "limit $most MiB: at worst $disk MiB on disk; $evicted files evicted, $refused chunks not stored"
echo "storing during evictions, under 1, 10, 100, 1000 ms, longer: $waits"
echo "memory: at worst $memory MiB, bound $((buffer + 64)) MiB"
awk -v a="$pressed" -v b="$free" -v s="$span" 'BEGIN {
	printf "%.0f MiB/s with eviction, %.0f MiB/s without, ratio %.2f\n",
		a / s, b / s, a / b }'
