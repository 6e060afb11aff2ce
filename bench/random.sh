#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cold reads of 100 KiB at random places of one large file, over a link of 20
# ms: the plain bytes of the chunks that were fetched against those that were
# read, the bytes on the wire apart, what was fetched beyond the chunks that
# were read, and how long a read takes in round trips; and the same
# reads through `rclone mount`, where installed.
#
#   bench/random.sh [MIB] [READS]
. "$(dirname "$0")/lib.sh"
mib=${1:-10240} reads=${2:-200} round_trip=20

mkdir -p "$work/www/tree" "$work/mnt"
# Letters that shrink by a quarter.
(set +o pipefail
	openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2> /dev/null |
		base64 -w 0 | head -c $((mib << 20))) > "$work/www/tree/file"
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n set -k "$work/key" "$work/www/tree" "$work/www/mirror" > /dev/null
start_nginx "$work/www"
start_proxy $round_trip

# read_at_random NAME: seconds in all; milliseconds of the median and the slowest
# read. A byte in each GiB comes before that, for the list of chunks. No byte is
# asked for by itself: the kernel would take the rest for a sequential reader.
read_at_random() {
	python3 - "$work/mnt/$1" "$work/www/tree/file" "$reads" <<'P'
import os, random, statistics, sys, time
r = random.Random(5)
f, good = (os.open(path, os.O_RDONLY) for path in sys.argv[1:3])
size = os.fstat(f).st_size
for at in range(0, size, 1 << 30):
    os.pread(f, 1, at)
times, begun = [], time.monotonic()
for _ in range(int(sys.argv[3])):
    at = r.randrange(0, size - 102400)
    start = time.monotonic()
    part = os.pread(f, 102400, at)
    times.append((time.monotonic() - start) * 1000)
    assert part == os.pread(good, 102400, at)
print("%.3f %.1f %.1f" % (time.monotonic() - begun, statistics.median(times), max(times)))
P
}
cached() { getfattr --absolute-names --only-values -n user.larder.cached "$work/mnt/file"; }
wire() {
	"$LARDER" status --json -o "cache=$work/cache" |
		python3 -c 'import json, sys
print(*(m["reads"]["wire_bytes"] for m in json.load(sys.stdin)["mounts"] if m["mountpoint"] == sys.argv[1]))' \
			"$(realpath "$work/mnt")"
}

"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" "$far_url/mirror#set" "$work/mnt" > /dev/null
read -r lard median slowest < <(read_at_random file)
# What was asked for ahead would still come.
sleep 1
awk -v plain="$(cached)" -v wire="$(wire)" -v read=$((reads * 102400)) -v n="$reads" \
	-v m="$median" -v s="$slowest" -v rtt="$round_trip" 'BEGIN {
	printf "%d reads of 100 KiB: plain bytes of fetched chunks %.1f times those read, on the wire %.1f times\n",
		n, plain / read, wire / read
	printf "a read: median %.1f ms = %.1f round trips, slowest %.1f ms\n", m, m / rtt, s }'
"$LARDER" umount "$work/mnt"
if command -v rclone > /dev/null; then
	rclone mount ":http:tree" "$work/mnt" --http-url "$far_url" --read-only \
		--daemon --config /dev/null
	read -r other _ < <(read_at_random file)
	fusermount3 -uz "$work/mnt"
	row "$reads random reads, 20 ms" "$lard" "rclone mount" "$other"
fi
