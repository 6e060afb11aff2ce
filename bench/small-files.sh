#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Cold `cp -r` of small files over nginx, against `cp -r` on the bare disk
# with a cold page cache and, where installed, `rclone mount` of the tree.
#
#   bench/small-files.sh [FILES] [PAIRS]
. "$(dirname "$0")/lib.sh"
files=${1:-10000} pairs=${2:-3}

mkdir -p "$work/www/tree" "$work/mnt"
python3 - "$work/www/tree" "$files" <<'P'
import os, random, sys
r = random.Random(3)
root, n = sys.argv[1], int(sys.argv[2])
words = ["".join(r.choices("etaoinshrdlucmfw", k=r.randint(2, 10))) for _ in range(5000)]
for i in range(n):
    d = os.path.join(root, "%03d" % (i // 100))
    os.makedirs(d, exist_ok=True)
    size = min(int(r.lognormvariate(8, 1.2)), 100000)
    data = (" ".join(r.choices(words, k=size // 6 + 1))).encode()[:size]
    open(os.path.join(d, "%06d.txt" % i), "wb").write(data)
P
"$LARDER" keygen "$work/key" > /dev/null
"$LARDER" publish -n small -k "$work/key" "$work/www/tree" "$work/www/mirror" > /dev/null
start_nginx "$work/www"

copy() { cp -r "$1" "$work/copy"; }
lard=() bare=() rclone=()
for ((i = 0; i < pairs; i++)); do
	rm -rf "$work/cache" "$work/copy"
	"$LARDER" mount -o "cache=$work/cache,key=$work/key.pub" \
		"$url/mirror#small" "$work/mnt" > /dev/null
	drop_caches
	lard+=("$(seconds copy "$work/mnt")")
	diff -r "$work/www/tree" "$work/copy" > /dev/null
	"$LARDER" umount "$work/mnt"
	rm -rf "$work/copy"
	drop_caches
	bare+=("$(seconds copy "$work/www/tree")")
	rm -rf "$work/copy"
done
row "cold cp -r $files files" "$(median "${lard[@]}")" "bare disk" "$(median "${bare[@]}")"
if command -v rclone > /dev/null; then
	rclone mount ":http:tree" "$work/mnt" --http-url "$url" --read-only \
		--daemon --config /dev/null
	rclone+=("$(seconds copy "$work/mnt")")
	fusermount3 -u "$work/mnt"
	row "cold cp -r $files files" "$(median "${lard[@]}")" "rclone mount" "${rclone[0]}"
fi
