#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A cached file through the mount, against the bare file: sequential with
# the page caches cold and with the cache file warm, random 4 KiB, and 16
# threads on one descriptor. Needs fio.
#
#   bench/warm-read.sh [MIB]
. "$(dirname "$0")/lib.sh"
mib=${1:-1024}

mkdir -p "$work/tree" "$work/mnt"
head -c "${mib}M" /dev/urandom > "$work/tree/data"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n data -k "$work/key" "$work/tree" "$work/mirror" > /dev/null
"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" "$work/mirror#data" "$work/mnt" > /dev/null
cat "$work/mnt/data" > /dev/null
rm -rf "$work/mirror"
blob=$(find "$work/cache/blobs" -type f -size +"$((mib / 2))"M | head -n 1)
: "${blob:?no blob file in the cache}"
rm "$work/tree/data"

# speed FILE FIO-OPTIONS...: MiB/s
speed() {
	local file=$1
	shift
	fio --name=x --filename="$file" --readonly --output-format=json "$@" |
		python3 -c 'import json,sys; print("%.1f" % (json.load(sys.stdin)["jobs"][0]["read"]["bw_bytes"] / 2**20))'
}
compare() { # NAME PREPARE-COMMAND FIO-OPTIONS...
	local name=$1 prepare=$2 bare=() lard=()
	shift 2
	for _ in 1 2 3; do
		$prepare "$blob"; bare+=("$(speed "$blob" "$@")")
		$prepare "$work/mnt/data"; lard+=("$(speed "$work/mnt/data" "$@")")
	done
	awk -v n="$name" -v l="$(median "${lard[@]}")" -v b="$(median "${bare[@]}")" \
		'BEGIN { printf "%-36s larder %8.1f MiB/s   bare file %8.1f MiB/s   ratio %.3f\n", n, l, b, l / b }'
}
cold() { drop_caches; }
warm_below() { drop_caches; cat "$blob" > /dev/null; }
warm() { cat "$1" > /dev/null; }

compare "sequential, both caches cold" cold --rw=read --bs=1M --invalidate=0
compare "sequential, cache file warm" warm_below --rw=read --bs=1M --invalidate=0
compare "sequential, all warm" warm --rw=read --bs=1M --invalidate=0
compare "random 4 KiB, cold" cold --rw=randread --bs=4k --invalidate=0 --runtime=5 --time_based
compare "16 threads, one file, cold" cold --rw=randread --bs=128k --invalidate=0 --numjobs=16 --thread --group_reporting --size="$((mib / 16))M" --offset_increment="$((mib / 16))M"
