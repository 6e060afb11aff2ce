#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mirror that is 20 ms away, through delay-proxy.c: a cold sequential read
# against the same proxy at 0 ms, from the second second on; and a cold `cp -r`
# of small files against `rclone mount`, where installed, over the same link.
#
#   bench/delay.sh [MIB] [FILES] [PAIRS]
. "$(dirname "$0")/lib.sh"
mib=${1:-2048} files=${2:-500} pairs=${3:-3}

mkdir -p "$work/big" "$work/mnt" "$work/www/tree"
head -c $((mib << 20)) /dev/urandom > "$work/big/file"
python3 - "$work/www/tree" "$files" <<'P'
import os, random, sys
r = random.Random(3)
for i in range(int(sys.argv[2])):
    d = os.path.join(sys.argv[1], "%02d" % (i // 50))
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "%04d.txt" % i), "wb") as f:
        f.write(r.randbytes(min(int(r.lognormvariate(8, 1.2)), 100000)))
P
"$LARDER" keygen "$work/key" > /dev/null
for set in big:"$work/big" small:"$work/www/tree"; do
	"$LARDER" publish -n "${set%%:*}" -k "$work/key" "${set#*:}" \
		"$work/www/mirror" > /dev/null 2>&1
done
start_nginx "$work/www"

begin() {
	rm -rf "$work/cache" "$work/copy"
	"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" \
		"$far_url/mirror#$1" "$work/mnt" > /dev/null
}
# Seconds for the bytes that come after the first second.
read_on() {
	python3 - "$work/mnt/file" <<'P'
import sys, time
with open(sys.argv[1], "rb", buffering=0) as f:
    start, begun, n = time.monotonic(), None, 0
    while True:
        part = f.read(1 << 20)
        now = time.monotonic()
        if not part:
            break
        if begun is None and now - start >= 1:
            begun = now
        elif begun:
            n += len(part)
    print("%.3f" % ((now - begun) * (256 << 20) / n if n else now - start))
P
}
near=() far=()
warm_memory $((3 * mib))
for ((i = 0; i < pairs; i++)); do
	for ms in 0 20; do
		start_proxy $ms
		begin big
		time=$(read_on)
		"$LARDER" umount "$work/mnt"
		if [ $ms = 0 ]; then near+=("$time"); else far+=("$time"); fi
	done
done
row "256 MiB of a read, 20 ms away" "$(median "${far[@]}")" "0 ms away" "$(median "${near[@]}")"

copy() { cp -r "$work/mnt" "$work/copy"; }
lard=() other=()
start_proxy 20
for ((i = 0; i < pairs; i++)); do
	begin small
	lard+=("$(seconds copy)")
	diff -r "$work/www/tree" "$work/copy" > /dev/null
	"$LARDER" umount "$work/mnt"
done
if command -v rclone > /dev/null; then
	rm -rf "$work/copy"
	rclone mount ":http:tree" "$work/mnt" --http-url "$far_url" --read-only \
		--daemon --config /dev/null
	other+=("$(seconds copy)")
	fusermount3 -u "$work/mnt"
	row "cp -r of $files files, 20 ms" "$(median "${lard[@]}")" "rclone mount" "${other[0]}"
fi
